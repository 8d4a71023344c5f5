"""Surge: another pod is up elsewhere before one goes whose node goes, by a restart of its Deployment. Pure.

A Deployment whose strategy takes no pod away before another is ready is restarted, as `kubectl rollout
restart` does it, while the node that goes takes no new pods. All instants are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from dovetail.api.core import PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition, is_true
from dovetail.api.workloads import Deployment
from dovetail.base.clock import HOUR, MINUTE
from dovetail.model import labels
from dovetail.model.podtemplate import rolling_limits
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

# How long a node waits for a surge: as long as a Deployment waits for its own rollout before it calls that
# failed (progressDeadlineSeconds, 600 by default).
PATIENCE = 10 * MINUTE
# The same where the cloud takes the machine away: half of the two minutes between a spot notice and the end,
# so that a pod that has to be evicted after all has its 30 s of grace.
HURRY = MINUTE
# A node stays for so long after its pod's Deployment was restarted for another one, if budgets keep it there:
# one that has to go in the end, and one that goes to save money, which moves a pod once a day as well.
REST, LONG_REST = HOUR, 24 * HOUR
# After a restart that came to nothing: each costs a node that is bought in vain, so four a day at most.
FAILED_REST = 6 * HOUR
_WATCH_LAG = MINUTE  # watches are begun anew long before, where they fail
_AHEAD = MINUTE  # clocks may differ by so much; what lies further ahead was written by someone else


class Step(Enum):
    """What to do about a pod whose node goes."""

    EVICT = auto()  # as ever
    WAIT = auto()  # a rollout is on its way, and takes it away
    RESTART = auto()  # its Deployment
    GIVE_UP = auto()  # the restart came to nothing in time: take it back, and evict as ever


@dataclass(frozen=True, slots=True)
class Past:
    """When the Deployment was restarted for a node last, and when such a restart came to nothing."""

    restarted: int | None = None
    failed: int | None = None
    generation: int = 0  # what is older does not show the restart yet


@dataclass(frozen=True, slots=True)
class Case:
    """A pod whose node goes, and what matters of its owner; `deployment` is None where that is none."""

    pod: Pod
    deployment: Deployment | None
    past: Past = Past()
    blocked: bool = False  # budgets do not allow its eviction now
    alone: bool = False  # no pod of its Deployment is ready on a node that stays
    tied: str = ""  # the volume claim that keeps a second pod from running on another node


@dataclass(frozen=True, slots=True)
class Answer:
    """The step, and why there is no surge where one is wanted."""

    step: Step
    why: str = ""


def opted_in(deployment: Deployment | None, pool: NodePool | None) -> bool:
    """True iff the Deployment says so, or the pool of the node and the Deployment does not say otherwise."""
    said = deployment.metadata.annotations.get(labels.SURGE, "") if deployment is not None else ""
    if said in ("true", "false"):
        return said == "true"
    return pool is not None and pool.metadata.annotations.get(labels.SURGE) == "true"


def past_of(deployment: Deployment, remembered: Past, now: int) -> Past:
    """What the object says of it, or what this process remembers if that is later.

    Whoever may write to the Deployment may change what it says: an instant in the future counts for nothing.
    The generation only bridges the lag of a watch: one that was made anew, or restored, counts from 1 again.
    """
    marks = deployment.metadata.annotations
    latest = _later(remembered.restarted, remembered.failed)
    lags = latest is not None and now - latest < _WATCH_LAG
    return Past(
        _later(_instant(marks.get(labels.SURGE_RESTARTED, ""), now), remembered.restarted),
        _later(_instant(marks.get(labels.SURGE_FAILED, ""), now), remembered.failed),
        remembered.generation if lags else 0,
    )


def _later(one: int | None, other: int | None) -> int | None:
    return max((instant for instant in (one, other) if instant is not None), default=None)


def _instant(text: str, now: int) -> int | None:
    try:
        found = parse_rfc3339(text) if text else None
    except ValueError:
        return None
    return None if found is None or found > now + _AHEAD else found


def decide(case: Case, now: int, begun: int, *, hurried: bool = False) -> Answer:
    """What to do about the pod of a node that goes since `begun`; `hurried`: its machine will be gone soon.

    A pod that is evicted in a hurry ends sooner than the new one is ready, which goes on coming up.

    A Deployment is restarted once at most for each node that goes: a pod that came back to the node in spite
    of its taint is evicted.
    """
    pod, deployment, past = case.pod, case.deployment, case.past
    # Once a restart has begun, all its old pods leave in their turn: others of them may be up elsewhere.
    leaving = deployment is not None and replaced(pod, deployment, past)
    if not case.blocked and not case.alone and not leaving:
        return Answer(Step.EVICT)
    if deployment is None or (why := obstacle(case)):
        return Answer(Step.EVICT, owner_fault(pod) if deployment is None else why)
    if past.failed is not None and now - past.failed < FAILED_REST and not _newer(past):
        why = f"no new pod was ready in time when it was tried ({to_rfc3339(past.failed)})"
        return Answer(Step.EVICT, why)
    going = rollout(deployment, past)
    if going is Rollout.FAILED:
        return _over(deployment, past, "its rollout fails")
    if hurried and now - begun >= HURRY:
        return Answer(Step.EVICT, "the cloud takes the machine away")
    if now - begun >= PATIENCE:
        return _over(deployment, past, "no new pod was ready in time")
    if going is Rollout.RUNNING or leaving:
        return Answer(Step.WAIT)
    if past.restarted is not None and past.restarted >= begun:
        return Answer(Step.EVICT, "its new pod came to the same node")
    return Answer(Step.RESTART)


def _newer(past: Past) -> bool:
    """True iff it was restarted since it failed."""
    return past.restarted is not None and past.failed is not None and past.restarted > past.failed


def _over(deployment: Deployment, past: Past, why: str) -> Answer:
    """Only a restart of ours is taken back: a rollout that others began goes on."""
    ours = restart_of(deployment) and rollout(deployment, past) is not Rollout.COMPLETE
    return Answer(Step.GIVE_UP if ours else Step.EVICT, why)


def spares(case: Case, now: int, rest: int) -> bool:
    """True iff the budgets need not keep the pod's node from being disrupted: a surge would replace the pod.

    Not within `rest` of the last restart, so that several nodes do not restart it one after the other.
    """
    deployment, past = case.deployment, case.past
    if deployment is None or obstacle(case) or rollout(deployment, past) is not Rollout.COMPLETE:
        return False
    rested = past.restarted is None or now - past.restarted >= rest
    return rested and (past.failed is None or now - past.failed >= FAILED_REST)


class Rollout(Enum):
    """How far a Deployment has come with its newest template."""

    COMPLETE = auto()  # all pods are of it, and available
    RUNNING = auto()
    FAILED = auto()  # it makes no progress, or its pods are refused


def rollout(deployment: Deployment, past: Past = Past()) -> Rollout:
    """As `kubectl rollout status` tells it."""
    status, replicas = deployment.status, deployment.spec.replicas
    if max(deployment.metadata.generation, past.generation) > status.observed_generation:
        return Rollout.RUNNING
    progressing = condition(status.conditions, "Progressing")
    stuck = progressing is not None and progressing.status == "False"
    if stuck or is_true(status.conditions, "ReplicaFailure"):
        return Rollout.FAILED
    updated = status.updated_replicas >= replicas and status.replicas <= status.updated_replicas
    return Rollout.COMPLETE if updated and status.available_replicas >= replicas else Rollout.RUNNING


def obstacle(case: Case) -> str:
    """Why a restart would not bring another pod up first, whatever the moment; "" where it would."""
    deployment = case.deployment
    if deployment is None:
        return owner_fault(case.pod)
    spec = deployment.spec
    if deployment.deleting:
        return "its Deployment is being deleted"
    if spec.paused:
        return "rollouts of its Deployment are paused (spec.paused)"
    if spec.strategy.type != "RollingUpdate":
        return f"its Deployment has the strategy {spec.strategy.type}"
    try:
        surge, unavailable = rolling_limits(spec.strategy, spec.replicas)
    except ValueError:
        return "the strategy of its Deployment cannot be read"
    if unavailable or not surge:
        return (
            f"the strategy of its Deployment lets {unavailable} of {spec.replicas} pods be missing"
            " (maxUnavailable), or makes none first (maxSurge)"
        )
    if spec.template.spec.node_name:
        return "its Deployment names a node"
    if case.tied:
        return f"volume claim {case.tied} can be used on one node only"
    return ""


def owner_fault(pod: Pod) -> str:
    """Why no Deployment brings up another pod in its place."""
    owner = pod.metadata.controller()
    if owner is None:
        return "nothing makes another pod in its place"
    if owner.kind == "StatefulSet":
        return "a StatefulSet makes a pod anew only once the old one is gone"
    if owner.kind == "ReplicaSet":
        return "its ReplicaSet is of no Deployment"
    return f"it is a pod of a {owner.kind}, not of a Deployment"


def restart_of(deployment: Deployment) -> str:
    """When its newest template was made by a restart for a node, as written; "" for any other template."""
    stamp = deployment.metadata.annotations.get(labels.SURGE_RESTARTED, "")
    return stamp if stamp == deployment.spec.template.metadata.annotations.get(labels.RESTARTED_AT) else ""


def replaced(pod: Pod, deployment: Deployment, past: Past) -> bool:
    """True iff a restart for a node is replacing the pod: its successor is there, or comes first."""
    if past.restarted is None or not restart_of(deployment):
        return False
    return _created(pod) < past.restarted


def _created(pod: Pod) -> int:
    try:
        return parse_rfc3339(pod.metadata.creation_timestamp)
    except ValueError:
        return 0


def one_node_only(pod: Pod, claims: Iterable[PersistentVolumeClaim]) -> str:
    """The first of its volume claims that no pod on another node can use as well; "" for none."""
    named = {claim.metadata.name: claim for claim in claims}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        claim = named.get(volume.persistent_volume_claim.claim_name)
        if claim is not None and not {"ReadWriteMany", "ReadOnlyMany"} & set(claim.spec.access_modes):
            return claim.metadata.name
    return ""


def restart_patch(deployment: Deployment, now: int) -> dict[str, object]:
    """The merge patch that restarts it, and says so on it; only as long as it is as it was seen."""
    stamp = to_rfc3339(now)
    before = deployment.spec.template.metadata.annotations.get(labels.RESTARTED_AT, "")
    marks = {labels.SURGE_RESTARTED: stamp, labels.SURGE_BEFORE: before, labels.SURGE_FAILED: None}
    return _patch(deployment, marks, stamp)


def undo_patch(deployment: Deployment, now: int, *, back: bool) -> dict[str, object]:
    """The merge patch that says that the restart came to nothing; `back`: with the template as before."""
    marks: dict[str, str | None] = {labels.SURGE_FAILED: to_rfc3339(now)}
    if not back:
        return {"metadata": {"resourceVersion": deployment.metadata.resource_version, "annotations": marks}}
    return _patch(deployment, marks, deployment.metadata.annotations.get(labels.SURGE_BEFORE, "") or None)


def _patch(deployment: Deployment, marks: dict[str, str | None], at: str | None) -> dict[str, object]:
    return {
        "metadata": {"resourceVersion": deployment.metadata.resource_version, "annotations": marks},
        "spec": {"template": {"metadata": {"annotations": {labels.RESTARTED_AT: at}}}},
    }
