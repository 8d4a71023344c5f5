"""Nodes as candidates for disruption, and what blocks them, in the words of the events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Protocol

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.disrupt.pause import pause_of
from dovetail.disrupt.pods import (
    Budgets,
    Eviction,
    budget_allows,
    do_not_disrupt,
    evictable,
    eviction,
    eviction_by_own_cost,
    eviction_cost,
    reschedulable,
    unbound,
)
from dovetail.disrupt.surge import LONG_REST, REST
from dovetail.model import labels
from dovetail.model.gangs import marked
from dovetail.units.duration import parse_nillable
from dovetail.units.timestamp import parse_rfc3339


class Surging(Protocol):
    """What surges do for pods of a node that goes (disrupt/surge.py)."""

    def spares(self, pod: Pod, rest: int) -> bool:
        """True iff another pod comes first, whatever budgets allow; not within `rest` of the last time."""

    def rests(self, pod: Pod) -> bool:
        """True iff that was done for its workload within a day."""


class Ganging(Protocol):
    """Which pods need each other."""

    def stopped_without(self, pod: Pod) -> str:
        """Why its eviction would stop a gang that runs; "" where it would not."""


@dataclass(frozen=True)
class NodeView:
    """One managed machine at one moment. `price` is what it costs now (nano-dollars/h), None if unknown.

    What follows from its pods alone is worked out once: views of machines that did not change are the same.
    """

    claim: NodeClaim
    node: Node | None
    pool: NodePool | None
    pods: tuple[Pod, ...] = ()
    nominated: bool = False
    going: bool = False  # deleting, or marked for deletion
    queued: bool = False  # a command disrupts it already
    price: int | None = None
    # Virtual pods of CapacityBuffers that have their place there: none runs, none is evicted.
    reserved: tuple[Pod, ...] = ()
    costs_written: bool = False  # the deletion costs of its pods are the controller's, and say nothing here
    shifted: bool = False  # the cluster is shifted away from its zone, where nothing can be ended
    surges: Surging | None = None
    gangs: Ganging | None = None  # None: each pod is on its own

    def like(self, before: NodeView) -> NodeView:
        """Itself, knowing what was worked out of the very same pods before."""
        for name in _OF_PODS & before.__dict__.keys():
            self.__dict__[name] = before.__dict__[name]
        return self

    @cached_property
    def name(self) -> str:
        """The node's name, or the claim's while there is no node."""
        return self.node.metadata.name if self.node else self.claim.metadata.name

    @cached_property
    def pool_name(self) -> str:
        return self.claim.metadata.labels.get(labels.NODEPOOL, "")

    @cached_property
    def initialized(self) -> bool:
        return self.node is not None and self.node.metadata.labels.get(labels.INITIALIZED) == "true"

    @property
    def registered(self) -> bool:
        return self.node is not None and labels.REGISTERED in self.node.metadata.labels

    @property
    def rebooting(self) -> bool:
        return is_true(self.claim.status.conditions, "Rebooting")

    @property
    def ready(self) -> bool:
        return self.node is not None and is_true(self.node.status.conditions, "Ready")

    @cached_property
    def _evictions(self) -> tuple[Eviction, ...]:
        return tuple(map(eviction_by_own_cost if self.costs_written else eviction, self.pods))

    @cached_property
    def moving(self) -> tuple[Pod, ...]:
        """Its pods that come back elsewhere when it goes."""
        return tuple(compress(self.pods, [one.moves for one in self._evictions]))

    @cached_property
    def leaving(self) -> tuple[Pod, ...]:
        """As those that come in their place: bound to no node yet."""
        return tuple(map(unbound, self.moving))

    @cached_property
    def protected(self) -> tuple[Pod, ...]:
        """Its pods with an annotation that may keep the node from being disrupted."""
        return tuple(compress(self.pods, [one.protected for one in self._evictions]))

    @cached_property
    def grouped(self) -> tuple[Pod, ...]:
        """Those that move and say that they are of a group."""
        return tuple(filter(marked, self.moving))

    @cached_property
    def empty(self) -> bool:
        """True iff no pod that would have to go elsewhere has a positive eviction cost."""
        return not any(one.moves and one.cost > 0 for one in self._evictions)

    @cached_property
    def lasting_blockers(self) -> tuple[str, ...]:
        """What keeps it from being disrupted, its pods aside: nothing of it changes with time alone."""
        return (*_machine_blockers(self), *_pool_blockers(self))

    @cached_property
    def counts(self) -> bool:
        """True iff budgets count it."""
        there = self.initialized or self.rebooting
        return there and not is_true(self.claim.status.conditions, "InstanceTerminating")

    @cached_property
    def leaves(self) -> bool:
        """True iff it is on its way out, if only to come back.

        One that another process has begun to disrupt does too: it may go on with it. What it left behind is
        undone before each decision (controllers/disruption/execute.py), so that does not count for long.
        """
        begun = is_true(self.claim.status.conditions, "DisruptionReason")
        return self.going or self.queued or begun or self.rebooting

    @cached_property
    def uses_budget(self) -> bool:
        """True iff it uses budgets up, of those that count: for unhealthy nodes those that leave alone do."""
        return self.leaves or not self.ready

    def disruption_cost(self) -> float:
        """What evicting its pods costs, at least 0."""
        return self._cost

    @cached_property
    def _cost(self) -> float:
        return sum(max(0.0, one.cost) for one in self._evictions if one.moves)

    def rank(self) -> tuple[float, str]:
        """Sorts what saves most per disrupted pod first."""
        return (-(self.price or 0) / (1 + self.disruption_cost()), self.name)


# What follows from a node's pods alone.
_OF_PODS = frozenset(("_evictions", "moving", "leaving", "protected", "grouped", "empty", "_cost"))


def judge_alone(view: NodeView, now: int) -> None:
    """Ask everything about one node that every decision asks; raises what is raised by something about it."""
    for _ in blockers(view, Budgets(()), now):
        pass
    for pod in view.pods:
        eviction_cost(pod)
        reschedulable(pod)
        evictable(pod)
    view.rank()
    parse_nillable(view.claim.spec.expire_after)
    if view.pool is not None:
        parse_nillable(view.pool.spec.disruption.consolidate_after)
    parse_rfc3339(view.claim.metadata.creation_timestamp)
    for found in view.claim.status.conditions:
        if found.last_transition_time:
            parse_rfc3339(found.last_transition_time)


def blocker(view: NodeView, budgets: Budgets, now: int, *, must_go: bool = False) -> str:
    """The first of `blockers`; "" when nothing stands against disrupting the node."""
    of_gangs = view.gangs is not None and view.grouped
    if not (view.lasting_blockers or view.protected or budgets or view.surges or of_gangs):
        return ""  # as of nearly every node at every look
    return next(blockers(view, budgets, now, must_go=must_go), "")


def blockers(view: NodeView, budgets: Budgets, now: int, *, must_go: bool = False) -> Iterator[str]:
    """All that keeps the node from being disrupted voluntarily at `now` (ns), what is asked first in front.

    `must_go`: the node has to go in the end, so pods do not block it where they would be deleted once its
    terminationGracePeriod is over.
    """
    yield from view.lasting_blockers
    if not must_go or view.claim.spec.termination_grace_period is None:
        yield from _pod_blockers(view, budgets, now, must_go=must_go)
        yield from _gang_blockers(view)


def repair_blocker(view: NodeView, budgets: Budgets, now: int, *, bounded: bool) -> str:
    """Why an unhealthy node stays, "" if nothing keeps it. Nodes need not be initialized, only registered.

    `bounded`: its pods have a limit of time to leave, so that they cannot hold it up.
    """
    if not view.pool_name:
        return "Repair requires a NodePool to construct and budget a safe replacement"
    marks = (view.claim.metadata.annotations, view.node.metadata.annotations if view.node else {})
    if any(one.get(labels.DO_NOT_REPAIR) == "true" for one in marks):
        return f'Repair is blocked through the "{labels.DO_NOT_REPAIR}" annotation'
    found = next(chain(_presence_blockers(view, up=view.registered), _pool_blockers(view)), "")
    if found:
        return found
    if not bounded and any(_pod_blockers(view, budgets, now)):
        return "Repair requires a termination grace period to bypass blocking pods"
    return ""


def _machine_blockers(view: NodeView) -> Iterator[str]:
    yield from _presence_blockers(view, up=view.initialized)
    if view.node is None:
        return
    marks = (view.node.metadata.annotations, view.claim.metadata.annotations)
    if any(one.get(labels.DO_NOT_DISRUPT) == "true" for one in marks):
        yield f'Disruption is blocked through the "{labels.DO_NOT_DISRUPT}" annotation'


def _presence_blockers(view: NodeView, *, up: bool) -> Iterator[str]:
    if view.node is None:
        yield "Nodeclaim does not have an associated node"
        return
    if view.going or view.queued:
        yield "Node is deleting or marked for deletion"
    if view.rebooting:
        yield "Node is rebooting"
    if view.shifted:
        zone = view.claim.metadata.labels.get(labels.ZONE, "")
        yield f"The cluster is shifted away from the node's zone (Zone={zone})"
    if not up:
        yield "Node isn't initialized nor registered"
    if view.nominated:
        yield "Node is nominated for a pending pod"


def _pool_blockers(view: NodeView) -> Iterator[str]:
    if not view.pool_name:
        yield f'Node does not have label "{labels.NODEPOOL}"'
    elif view.pool is None:
        yield f"NodePool not found (NodePool={view.pool_name})"
    elif pause_of(view.pool).disruption:
        yield f"Disruption of the NodePool is paused (NodePool={view.pool_name})"


def _gang_blockers(view: NodeView) -> Iterator[str]:
    """Repair goes without: on an unhealthy node a gang hardly runs."""
    gangs = view.gangs
    if gangs is not None:
        yield from filter(None, map(gangs.stopped_without, view.grouped))


def _pod_blockers(view: NodeView, budgets: Budgets, now: int, *, must_go: bool = True) -> Iterator[str]:
    surges = view.surges
    for pod in view.protected:
        if do_not_disrupt(pod, now):
            yield f'Pod has "{labels.DO_NOT_DISRUPT}" annotation (Pod={pod.key})'
    for pod in view.pods if budgets else ():
        found = budgets.of(pod)
        if not found or not evictable(pod):
            continue
        several = len(found) > 1
        if not several and budget_allows(found[0], pod):
            continue
        if surges is not None and surges.spares(pod, REST if must_go else LONG_REST):
            continue
        names = " ".join(sorted(budget.key for budget in found))
        if several:
            yield f"Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])"
        else:
            yield f"Pdb prevents pod evictions (PodDisruptionBudget=[{names}])"
    for pod in view.pods if surges is not None and not must_go else ():
        if labels.RESTARTED_AT in pod.metadata.annotations and surges is not None and surges.rests(pod):
            yield f"Deployment was restarted for another node less than a day ago (Pod={pod.key})"
