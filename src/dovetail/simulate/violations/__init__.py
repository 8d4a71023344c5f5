"""A watchdog over a running simulation: it sees every stored change and says which promises were broken.

It only reads, shares no code with the controllers it watches, and judges each change against the state just
before it, as the API server held it.

mirror    what the watchdog knows of the cluster
pods      where pods are bound, how they are made to leave
machines  nodes, claims and instances
pools     limits and budgets
shared    limits that pools share
shares    how many pods of a controller stay off spot
ending    what must have come right some time after the last fault
audit     what the controllers ask for, beside what comes of it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE
from dovetail.cloud.provider import Instance
from dovetail.kube.memory import store
from dovetail.simulate.violations.ending import PATIENCE, Ending, left_over
from dovetail.simulate.violations.machines import (
    Pairing,
    abandoned,
    emptied,
    finalized,
    launched_twice,
    registered,
    terminated,
)
from dovetail.simulate.violations.mirror import Change, Mirror, read_change
from dovetail.simulate.violations.pods import (
    bound,
    deleted,
    evicted,
    gang_stopped,
    in_turn,
    lost,
    overcommitted,
    tainted,
)
from dovetail.simulate.violations.pools import within_budget, within_limits
from dovetail.simulate.violations.shared import Shared
from dovetail.simulate.violations.shares import passed
from dovetail.verify import Violation

__all__ = ["Shared", "Violation", "Watchdog"]

Rule = Callable[[Mirror, Change], Iterator[Violation]]
_BEFORE: Mapping[type[Object], tuple[Rule, ...]] = {
    Pod: (bound, evicted, in_turn, tainted, gang_stopped),
    Node: (finalized, abandoned, registered),
    NodeClaim: (within_budget, abandoned, emptied, terminated),
}
_AFTER: Mapping[type[Object], tuple[Rule, ...]] = {Pod: (overcommitted, passed), NodeClaim: (within_limits,)}


class Watchdog:
    """Feed it every change and, now and then, the provider's instances; ask for the verdict at the end.

    `checks` counts how often a rule was held against a change, a request or the state at the end.
    """

    def __init__(
        self,
        clock_now: Callable[[], int],
        *,
        pairing: int = 10 * MINUTE,
        waiting: int = 6 * MINUTE,
        patience: int = PATIENCE,
        quiet_from: int = 0,
        several: Callable[[], bool] = lambda: False,
        gangs: bool = True,
        shared: Shared | None = None,
    ) -> None:
        """`pairing`: how long (ns) claim and instance may be without each other; longer than any collection
        takes. `waiting`: how long (ns) a pod may wait beside a node that would take it. `patience`: how long
        (ns) what must come right may take. `quiet_from`: the instant from which nothing is made to go wrong
        any more. `gangs`: whether nodes are bought for all of a gang or for none, so that none waits beside
        nodes for some of it. `shared`: limits over several pools. `several`: True while an old leader still
        acts beside the new one.
        """
        self.checks = 0
        self._mirror = Mirror(clock_now, several)
        self._pairing = Pairing(pairing)
        self._waiting = waiting
        self._patience = patience
        self._quiet_from = quiet_from
        self._gangs = gangs
        self._hopeless: set[str] = set()  # pods that the last plan with them found no place for
        self._found: list[Violation] = []
        self._after = dict(_AFTER)
        if shared is not None and shared.limits:
            self._after[NodeClaim] = (*_AFTER[NodeClaim], shared.within)

    @property
    def found(self) -> tuple[Violation, ...]:
        """What was found so far, in order of time."""
        return tuple(self._found)

    def change(self, stored: store.Change[Any]) -> tuple[Violation, ...]:
        """One stored change. Answers what it broke."""
        change = read_change(stored, self._mirror.clock_now())
        return self.see(change) if change is not None else ()

    def see(self, change: Change) -> tuple[Violation, ...]:
        """One change of an object. Answers what it broke."""
        mirror, kind = self._mirror, type(change.about)
        before, after = _BEFORE.get(kind, ()), self._after.get(kind, ())
        broken = [item for rule in before for item in rule(mirror, change)]
        mirror.apply(change)
        broken += [item for rule in after for item in rule(mirror, change)]
        return self._keep(broken, len(before) + len(after))

    def pod_deletion(self, key: str, uid: str = "") -> tuple[Violation, ...]:
        """The controllers are about to delete a pod (with that uid, if given) past its budgets; answers what
        that breaks.
        """
        return self._keep(deleted(self._mirror, key, uid, self._mirror.clock_now()))

    def launch(self, claim: str, instances: Sequence[Instance]) -> tuple[Violation, ...]:
        """A launch for the claim of that name is asked for; answers what that breaks."""
        return self._keep(launched_twice(claim, instances))

    def ended(self, provider_id: str) -> None:
        """The instance is gone."""
        self._mirror.ended.add(provider_id)

    def planned(self, pods: Iterable[str], unschedulable: Iterable[str]) -> None:
        """A plan was made for pods (keys); for some it found no place. Not every plan is for all pods."""
        self._hopeless.difference_update(pods)
        self._hopeless.update(unschedulable)

    def instances(self, instances: Sequence[Instance]) -> tuple[Violation, ...]:
        """What the provider runs at this moment; answers what has had no claim for too long."""
        return self._keep(self._pairing.look(self._mirror, instances, self._mirror.clock_now()))

    def finish(self) -> tuple[Violation, ...]:
        """Everything that was found, with the pods that are lost at the end."""
        now = self._mirror.clock_now()
        self._keep(lost(self._mirror, self._waiting, now))
        self._keep(
            left_over(
                self._mirror, Ending(now, self._quiet_from, self._hopeless, self._patience, self._gangs)
            )
        )
        return self.found

    def _keep(self, broken: Iterable[Violation], checks: int = 1) -> tuple[Violation, ...]:
        found = tuple(broken)
        self._found += found
        self.checks += checks
        return found
