"""HorizontalPodAutoscaler on CPU utilisation: the arithmetic of the real controller, in whole numbers.

Of its metrics CPU `Utilization` and external `AverageValue` are read. Behaviour rules left out get the real
defaults: up by 4 pods or 100 % per 15 s, whichever is more; down by anything, to the highest recommendation
of the last 300 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.api.workloads import HorizontalPodAutoscalerSpec, ScalingPolicy, ScalingRules
from dovetail.base.clock import SECOND
from dovetail.base.memo import by_identity

SYNC_PERIOD = 15 * SECOND
_TOLERANCE = 10  # one tenth of the target
_UP = (
    ScalingPolicy(type="Pods", value=4, period_seconds=15),
    ScalingPolicy(type="Percent", value=100, period_seconds=15),
)
_DOWN = (ScalingPolicy(type="Percent", value=100, period_seconds=15),)
_UP_WINDOW, _DOWN_WINDOW = 0, 300


def recommend(current: int, usages: Sequence[int], request: int, *, unready: int, target: int) -> int:
    """Replicas that bring utilisation to `target` percent; `current` when within the tolerance.

    `usages` are milli-CPU of the ready pods, `request` what each asks for. Pods that are not ready count as
    idle when scaling up, so that pods on their way are not asked for twice.
    """
    if not usages or request <= 0:
        return current
    utilisation = 100 * sum(usages) // (request * len(usages))
    if utilisation <= target or not unready:
        if abs(utilisation - target) * _TOLERANCE <= target:
            return current
        return _ceil(utilisation * len(usages), target)
    count = len(usages) + unready
    damped = 100 * sum(usages) // (request * count)
    if damped < target or (damped - target) * _TOLERANCE <= target:
        return current
    return max(current, _ceil(damped * count, target))


def recommend_by_value(current: int, value: int, per_pod: int) -> int:
    """Replicas of which each has `per_pod` of a value; `current` when within the tolerance."""
    if current and abs(value - per_pod * current) * _TOLERANCE <= per_pod * current:
        return current
    return _ceil(value, per_pod)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True, slots=True)
class History:
    """What earlier syncs recommended and did: (instant, replicas) each, oldest first."""

    recommendations: tuple[tuple[int, int], ...] = ()
    ups: tuple[tuple[int, int], ...] = ()
    downs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """`desired` replicas; `reason` and `limited` as in the ScalingLimited condition."""

    desired: int
    limited: bool
    reason: str
    stabilised: bool  # AbleToScale has the reason ScaleDownStabilized
    history: History


def decide(
    spec: HorizontalPodAutoscalerSpec, current: int, recommended: int, now: int, history: History
) -> Decision:
    """Stabilise the recommendation, hold it to the policies and to the bounds."""
    up, down = _rules(spec)
    remembered = history.recommendations or ((now, current),)
    wanted = _stabilise(current, recommended, now, remembered, (_window(up), _window(down)))
    desired, reason = _bounded(spec, current, wanted, now, history)
    window = max(_window(up), _window(down), 1)
    kept = tuple(item for item in remembered if item[0] > now - window * SECOND)
    return Decision(
        desired=desired,
        limited=reason != "DesiredWithinRange",
        reason=reason,
        stabilised=wanted > recommended,
        history=_remember(history, (*kept, (now, recommended)), desired - current, now),
    )


@by_identity(1024)
def _rules(spec: HorizontalPodAutoscalerSpec) -> tuple[ScalingRules, ScalingRules]:
    """(up, down), with what is left out filled in."""
    behaviour = spec.behavior
    up = behaviour.scale_up if behaviour is not None else None
    down = behaviour.scale_down if behaviour is not None else None
    return _filled(up, _UP, _UP_WINDOW), _filled(down, _DOWN, _DOWN_WINDOW)


def _filled(rules: ScalingRules | None, policies: tuple[ScalingPolicy, ...], window: int) -> ScalingRules:
    if rules is None:
        return ScalingRules(stabilization_window_seconds=window, policies=policies)
    given = rules.stabilization_window_seconds
    return ScalingRules(
        stabilization_window_seconds=window if given is None else given,
        select_policy=rules.select_policy,
        policies=rules.policies or policies,
    )


def _window(rules: ScalingRules) -> int:
    return rules.stabilization_window_seconds or 0


def _stabilise(
    current: int, recommended: int, now: int, remembered: Sequence[tuple[int, int]], windows: tuple[int, int]
) -> int:
    """No higher than the lowest of the up window allows, no lower than the highest of the down window."""
    lately, long = (
        [value for at, value in remembered if at > now - window * SECOND] if window else []
        for window in windows
    )
    return min(max(current, min([recommended, *lately])), max([recommended, *long]))


def _bounded(
    spec: HorizontalPodAutoscalerSpec, current: int, wanted: int, now: int, history: History
) -> tuple[int, str]:
    up, down = _rules(spec)
    if wanted > current:
        fastest = max(current, _limit(up, current, now, history, 1))
        most = min(spec.max_replicas, fastest)
        if wanted > most:
            return most, "TooManyReplicas" if spec.max_replicas <= fastest else "ScaleUpLimit"
    if wanted < current:
        fastest = min(current, _limit(down, current, now, history, -1))
        least = max(spec.min_replicas, fastest)
        if wanted < least:
            return least, "TooFewReplicas" if spec.min_replicas >= fastest else "ScaleDownLimit"
    return wanted, "DesiredWithinRange"


def _limit(rules: ScalingRules, current: int, now: int, history: History, direction: int) -> int:
    """Where the policies let the number of replicas go now, counted from the start of their periods."""
    if rules.select_policy == "Disabled":
        return current
    limits = []
    for policy in rules.policies:
        since = now - policy.period_seconds * SECOND
        added = sum(change for at, change in history.ups if at > since)
        removed = sum(change for at, change in history.downs if at > since)
        start = current - added + removed
        if policy.type == "Pods":
            limits.append(start + direction * policy.value)
        elif direction > 0:
            limits.append(_ceil(start * (100 + policy.value), 100))
        else:
            limits.append(start * (100 - policy.value) // 100)
    furthest = (rules.select_policy == "Min") != (direction > 0)
    return max(limits) if furthest else min(limits)


def _remember(
    history: History, recommendations: tuple[tuple[int, int], ...], change: int, now: int
) -> History:
    horizon = now - 1800 * SECOND  # the longest period that a policy may have
    ups = tuple(item for item in history.ups if item[0] > horizon)
    downs = tuple(item for item in history.downs if item[0] > horizon)
    return History(
        recommendations=recommendations,
        ups=(*ups, (now, change)) if change > 0 else ups,
        downs=(*downs, (now, -change)) if change < 0 else downs,
    )
