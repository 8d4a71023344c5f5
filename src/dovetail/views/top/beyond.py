"""What eks-node-viewer does not show: claims without a node, pods that wait, why nodes stay, what comes next.

Pure functions of a board and an instant (nanoseconds since the epoch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import Budget, NodePool
from dovetail.api.meta import Object, condition, is_true
from dovetail.base.clock import HOUR
from dovetail.base.words import number_of
from dovetail.disrupt.allowance import allowances
from dovetail.disrupt.budgets import is_active, zone_of
from dovetail.disrupt.candidates import NodeView, blockers
from dovetail.disrupt.expiry import expires
from dovetail.disrupt.standing import REASONS, unconsolidatable
from dovetail.model import labels
from dovetail.model.resources import pod_quantities
from dovetail.units.cron import NEVER, Cron
from dovetail.units.duration import format_age
from dovetail.units.money import dollars
from dovetail.units.timestamp import parse_rfc3339
from dovetail.views.top.board import ABSENT, Board, Row

_STAGES = ("Launched", "Registered", "Initialized")
_SOON = 24 * HOUR  # what expires within so long comes next
_MOST = 10  # nodes that are named of those that expire or drifted


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that has no node. `since` is when it came (ns)."""

    pod: Pod
    since: int


@dataclass(frozen=True, slots=True)
class Coming:
    """A claim without a node: what it waits for, and since when."""

    claim: NodeClaim
    since: int
    stage: str
    message: str
    row: Row | None  # once it has an instance


@dataclass(frozen=True, slots=True)
class Next:
    """Something that is about to happen, or that may: `at` is when (ns), None for now."""

    what: str
    about: str
    text: str
    at: int | None = None


def stays(board: Board, row: Row, now: int) -> tuple[str, ...]:
    """Why nothing takes the node away now, what is asked first in front; nothing where it may go."""
    if board.partial:
        return ("a log does not say",)
    view = board.view(row)
    if view is None:
        return ("No NodeClaim: Dovetail never disrupts it",)
    try:
        found = (*blockers(view, board.budgets, now), *unconsolidatable(view))
    except ValueError as error:  # something about it cannot be read, and then it is left alone
        return (str(error),)
    return tuple(dict.fromkeys(found))


def mark(board: Board, row: Row, now: int) -> str:
    """Why it stays, in a few words: the first reason, and how many more there are."""
    found = stays(board, row, now)
    if not found:
        return "may go, if that saves"
    return found[0] + (f" (+{len(found) - 1})" if len(found) > 1 else "")


def waiting(board: Board) -> tuple[Waiting, ...]:
    """Pods without a node, the oldest first."""
    found = [Waiting(pod, created(pod)) for pod in board.unbound.values()]
    return tuple(sorted(found, key=lambda item: (item.since, item.pod.key)))


def created(obj: Object) -> int:
    """When it was made (ns); 0 where it does not say."""
    created = obj.metadata.creation_timestamp
    return parse_rfc3339(created) if created else 0


def requests(pod: Pod) -> str:
    """What it asks for."""
    return ", ".join(f"{name} {amount}" for name, amount in sorted(pod_quantities(pod).items())) or "nothing"


def why(board: Board, pod: Pod) -> str:
    """Why a pod has no node: its gates, what Dovetail said of it, or what the scheduler says."""
    if pod.spec.scheduling_gates:
        return "scheduling gates: " + ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if pod.status.nominated_node_name:
        return f"has a place on {pod.status.nominated_node_name}"
    notes = board.notes((("Pod", pod.key),))
    if notes:
        return notes[-1].text
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return (scheduled.message or scheduled.reason) if scheduled is not None else "not looked at yet"


def coming(board: Board) -> tuple[Coming, ...]:
    """Claims whose node has not joined, the oldest first."""
    found = []
    for claim in board.claims.values():
        if claim.deleting and is_true(claim.status.conditions, "Registered"):
            continue
        row = board.find(claim.metadata.name)
        if row is None or row.node is None:
            found.append(_coming(claim, row))
    return tuple(sorted(found, key=lambda item: (item.since, item.claim.metadata.name)))


def _coming(claim: NodeClaim, row: Row | None) -> Coming:
    since = created(claim)
    if claim.deleting:
        return Coming(claim, since, "Deleting", "", row)
    for stage in _STAGES:
        found = condition(claim.status.conditions, stage)
        if found is None or found.status != "True":
            detail = (found.message or found.reason) if found is not None else ""
            return Coming(claim, since, f"not {stage}", detail, row)
    return Coming(claim, since, "its Node is gone", "", row)


def upcoming(board: Board, now: int) -> tuple[Next, ...]:
    """What the controllers may do next, and what they must: drift, age, emptiness, and the pools' budgets."""
    rows = board.rows(now)
    views = [view for row in rows if (view := board.view(row)) is not None]
    return (
        *_leaving(views),
        *_drifted(views),
        *_consolidatable(views),
        *_expiring(views, now),
        *_budgets(board, views, now),
    )


def _leaving(views: list[NodeView]) -> Iterator[Next]:
    for view in views:
        if view.going:
            state = condition(view.claim.status.conditions, "DisruptionReason")
            reason = state.reason if state is not None and state.status == "True" else ""
            pods = number_of(len(view.pods), "pod")
            yield Next("leaves", view.name, f"{reason or 'deleted'}; {pods} there")


def _drifted(views: list[NodeView]) -> Iterator[Next]:
    found = [view for view in views if is_true(view.claim.status.conditions, "Drifted")]
    for view in found[:_MOST]:
        state = condition(view.claim.status.conditions, "Drifted")
        yield Next("drift", view.name, state.reason if state is not None else "")
    if len(found) > _MOST:
        yield Next("drift", f"{len(found) - _MOST} more", "")


def _consolidatable(views: list[NodeView]) -> Iterator[Next]:
    quiet = [view for view in views if is_true(view.claim.status.conditions, "Consolidatable")]
    counted = Counter(view.pool_name for view in quiet)
    empty = Counter(view.pool_name for view in quiet if view.empty)
    for pool in sorted(counted):
        one = counted[pool] == 1
        text = f"{counted[pool]} {'node is' if one else 'nodes are'} quiet and looked at, {empty[pool]} empty"
        yield Next("consolidation", pool, text)


def _expiring(views: list[NodeView], now: int) -> Iterator[Next]:
    ends = []
    for view in views:
        try:
            end = expires(view.claim)
        except ValueError:  # an age that cannot be read is none
            continue
        if end is not None and not view.going:
            ends.append((end, view.name))
    ends.sort()
    soon = [item for item in ends if item[0] <= now + _SOON] or ends[:1]
    for end, name in soon[:_MOST]:
        yield Next("expiry", name, "reached its age" if end <= now else f"in {format_age(end - now)}", end)
    if len(soon) > _MOST:
        yield Next("expiry", f"{len(soon) - _MOST} more", "within a day")


def _budgets(board: Board, views: list[NodeView], now: int) -> Iterator[Next]:
    pools = tuple(board.pools[name] for name in sorted(board.pools))
    by_reason = {reason: allowances(pools, views, reason, now) for reason in REASONS}
    for pool in pools:
        name = pool.metadata.name
        allowed = ", ".join(f"{reason} {_count(by_reason[reason][name])}" for reason in REASONS)
        yield Next("budget", name, f"may go now: {allowed}")
        for budget in pool.spec.disruption.budgets:
            yield from _window(pool, budget, now)


def _window(pool: NodePool, budget: Budget, now: int) -> Iterator[Next]:
    if budget.schedule is None:
        return
    zone = zone_of(pool)
    try:
        start = Cron.parse(budget.schedule, zone).next_after(now)
        active = is_active(budget, now, zone)
    except ValueError as error:
        yield Next("budget", pool.metadata.name, str(error))
        return
    reasons = f" for {', '.join(budget.reasons)}" if budget.reasons else ""
    noun = "node" if budget.nodes == "1" else "nodes"
    limit = f"{budget.nodes} {noun}{reasons} for {budget.duration} from {budget.schedule!r} ({zone})"
    if active:
        yield Next("budget", pool.metadata.name, f"holds now: {limit}")
    elif start != NEVER:
        yield Next("budget", pool.metadata.name, f"in {format_age(start - now)}: {limit}", start)


def _count(allowed: int) -> str:
    return "any" if allowed >= 2**31 - 1 else str(allowed)


def gap(board: Board) -> str:
    """What the nodes cost beside the least that their pods could cost, as far as it is proven."""
    if board.least is None:
        return "least: not known"
    cost, least = board.least
    share = f"{100 * (cost - least) / cost:.1f}%" if cost else "0.0%"
    return f"least ${dollars(least):,.3f}/hour proven, gap {share} of ${dollars(cost):,.3f}/hour"


def owner(pod: Pod) -> str:
    """The workload that it is a part of, or `-`."""
    found = pod.metadata.controller()
    return f"{found.kind}/{found.name}" if found is not None else ABSENT


def claim_type(claim: NodeClaim) -> str:
    """The instance type that it got, or `-`."""
    return claim.metadata.labels.get(labels.INSTANCE_TYPE, ABSENT)


def pool(claim: NodeClaim) -> str:
    """The NodePool that it is of, or `-`."""
    return claim.metadata.labels.get(labels.NODEPOOL, ABSENT)
