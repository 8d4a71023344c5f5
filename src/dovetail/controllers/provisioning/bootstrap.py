"""Pods that must be near each other: where the first of them is bound, all of them must go.

Until then the scheduler lets it go to any zone, and nodes open as they come up. Of 118 such pods of a burst
the first went to room that the plan had left in another zone, all others had to follow, and for 30 of them a
node was bought. So a node with places for them opens first: until one of them is bound, no other opens that
has room for it in another zone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.base.clock import SECOND
from dovetail.cluster.nodes import Machine
from dovetail.cluster.state import State
from dovetail.controllers.provisioning.exchange import owner_of, suits
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.resources import Resources, fits, pod_requests, subtract, total

# Until the first is bound once a node with its place is open: the scheduler comes to it within a second.
LONGEST = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Group:
    """Pods alike of which none is bound: one of them, the machine with the most places for them of those that
    are held and up, if any is, and in which domains of their rules all those machines are.
    """

    pod: Pod
    best: Machine | None
    domains: frozenset[tuple[str, str]]  # key of a label, and its value

    def elsewhere(self, machine: Machine, free: Resources) -> bool:
        """True iff the first may go to the machine, of which so much is free, where no other could follow."""
        inside = _domains(affinity_rules(self.pod).affinity, machine) <= self.domains
        return not inside and fits(pod_requests(self.pod), free) and suits(self.pod, machine)


class Bootstrap:
    """The groups that wait for their first pod, by the UID of what made them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting: dict[str, Pod] = {}  # one of them
        self._open: dict[str, int] = {}  # since when a node with a place for them is open
        self._placed: dict[str, Pod] = {}  # one of those that were given places since the last look
        self._groups: dict[str, Group] = {}  # as of the last look
        self._kept: dict[str, tuple[str, ...]] = {}  # by name of a machine, the groups that keep it, if known
        self._keeping: set[str] = set()  # groups that keep any

    def placed(self, pod: Pod) -> None:
        """The pod was given a place."""
        owner = owner_of(pod)
        if owner and owner not in self._waiting and near_itself(pod):
            self._placed[owner] = pod

    def bound(self, pod: Pod) -> bool:
        """The pod is bound; True iff that ends the waiting of a group."""
        ended = [owner for owner, one in self._waiting.items() if _meant(affinity_rules(one).affinity, pod)]
        for owner in ended:
            self._forget(owner)
        return bool(ended)

    def _forget(self, owner: str) -> None:
        self._waiting.pop(owner, None)
        self._open.pop(owner, None)

    def look(self, held: Collection[str], closed: Collection[str], now: int) -> None:
        """Which groups wait now, where the nodes of those names are held, and the `closed` ones not up."""
        for owner, pod in self._placed.items():
            rules = affinity_rules(pod).affinity
            if not any(one.spec.node_name and _meant(rules, one) for one in self._state.all(Pod)):
                self._waiting[owner] = pod
        self._placed.clear()
        before, self._groups = self._groups, {}
        for owner in tuple(self._waiting):
            if (group := self._group(owner, held, closed, now)) is not None:
                self._groups[owner] = group
        domains = [{owner: one.domains for owner, one in some.items()} for some in (before, self._groups)]
        if domains[0] != domains[1]:
            self._kept.clear()
        self._keeping.clear()

    def _group(self, owner: str, held: Collection[str], closed: Collection[str], now: int) -> Group | None:
        """None for one that waits no longer."""
        pod, machines = self._waiting[owner], self._state.promised_to(owner)
        if not machines:
            self._forget(owner)
            return None
        there = [machine for machine in machines if machine.node is not None]
        best: Machine | None = None
        if any(machine.name not in held for machine in there):
            if now - self._open.setdefault(owner, now) >= LONGEST:
                return None
        else:
            able = (machine for machine in there if machine.name not in closed)
            best = max(able, key=lambda machine: (self._share(owner, machine), machine.name), default=None)
        rules = affinity_rules(pod).affinity
        return Group(pod, best, frozenset(one for machine in machines for one in _domains(rules, machine)))

    def _share(self, owner: str, machine: Machine) -> int:
        """How many pods of that owner have a place there."""
        return sum(owner_of(pod) == owner for pod in self._with_places(machine))

    def changed(self, name: str) -> None:
        """Something of the machine changed."""
        self._kept.pop(name, None)

    def keeps(self, machine: Machine) -> bool:
        """True iff the machine, which would open, is not to, as the first of a group may go there instead of
        to its place.
        """
        if not self._groups:
            return False
        if machine.name not in self._kept:
            self._kept[machine.name] = self._kept_by(machine)
        self._keeping.update(self._kept[machine.name])
        return bool(self._kept[machine.name])

    def _kept_by(self, machine: Machine) -> tuple[str, ...]:
        taken = total(map(pod_requests, self._with_places(machine)))
        free = subtract(self._state.room_left(machine), taken)
        return tuple(owner for owner, group in self._groups.items() if group.elsewhere(machine, free))

    def first(self) -> frozenset[str]:
        """Names of held nodes that open now, before those that are kept: for each group that keeps any, one.

        None opens in vain: pods there that must be near others are refused while these have no place yet.
        Where the first of another group may go to one of them, that one's opens with it.
        """
        found, left = set[str](), list(self._keeping)
        while left:
            best = self._groups[left.pop()].best
            if best is None or best.name in found:
                continue
            others = self._kept_by(best)
            if all(self._groups[owner].best is not None for owner in others):
                found.add(best.name)
                left += others
        return frozenset(found)

    def _with_places(self, machine: Machine) -> Iterator[Pod]:
        for key in self._state.promised_on(machine):
            pod = self._state.get(Pod, key)
            if pod is not None and not pod.spec.node_name:
                yield pod


def near_itself(pod: Pod) -> bool:
    """True iff the pod must be near pods like it, so that the first of them may go anywhere. Pure."""
    rules = affinity_rules(pod).affinity
    return bool(rules) and _meant(rules, pod)


def _meant(rules: Sequence[AffinityRule], pod: Pod) -> bool:
    """True iff each rule may mean the pod."""
    return all(rule.may_mean(pod) for rule in rules)


def _domains(rules: Sequence[AffinityRule], machine: Machine) -> frozenset[tuple[str, str]]:
    """Where the machine is, by the keys of the rules."""
    tags = {labels.HOSTNAME: machine.name, **machine.subject.metadata.labels}
    return frozenset((rule.key, tags.get(rule.key, "")) for rule in rules)
