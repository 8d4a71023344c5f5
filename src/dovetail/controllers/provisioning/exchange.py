"""Who gets the place of a pod that went elsewhere: those whose room it took there.

Nominated as before, they would be more than their node holds. Each would then keep the next one out, until
one is refused while no room is free, and a node is bought for it. Yet as much is left free as was taken: the
pod's own place, which is given to another at once, as the scheduler does not wait. Where that is of no use,
they change places with pods of any other machine, or pass them on over several: what is not mended while many
wait cannot be later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import chain, product

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.cluster.nodes import Machine, is_ephemeral
from dovetail.cluster.state import State
from dovetail.controllers.provisioning.causes import leans
from dovetail.controllers.provisioning.passing import BYTES, Candidate, Crowd, passed_on
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, affinity_rules, required_anti_affinity
from dovetail.model.resources import CPU, MEMORY, Resources, add, pod_requests, subtract, total
from dovetail.model.selector import node_rule
from dovetail.model.taints import PREFER_NO_SCHEDULE, tolerates

FEW = 32  # pods of a machine that are looked at: each may be compared with each of another one
# Machines that places are passed on over, beside those that lack room: those with the most. Of 42 moves in
# bursts of 43 and 57 nodes 3 went beyond the first 24, and with all of the 43 the same ways were found.
ROOMY = 32
# Machines on which pods had places that they left, or took. Of 43 nodes one was of use whose last place had
# been left before those of 32 others.
REMEMBERED = 128
# With places: a look at those that lack room takes as long as there are machines, so for each so many further
# ones one more binding goes by before the next. Of 1,100 machines 40 looks a second were half of all CPU.
OFTEN = 256
# Of the time since a look at machines that lack room ended, as many times as it took no other begins: on a
# control plane one took up to 55 ms, for each of 54 and 62 pods that were seen to be bound meanwhile, so that
# nothing was nominated for 1.6 and 2 s.
REST = 3


class Moment:
    """Which pods wait where, and what room is left, as it is now: of each machine worked out once, when it is
    asked for. Void as soon as a place changes hands.

    `before`: what was free of machines of which nothing has changed since.
    """

    def __init__(self, state: State, before: dict[str, Resources]) -> None:
        self._state = state
        self._before = before
        self._waiting: dict[str, list[Pod]] = {}
        self._free: dict[str, Resources] = {}
        self._apart: dict[str, tuple[AffinityRule, ...]] = {}

    @cached_property
    def machines(self) -> list[Machine]:
        """Those with places."""
        return list(self._state.promised_machines())

    def waiting(self, machine: Machine) -> list[Pod]:
        """The pods that wait and have a place on the machine which holds, in the order they got theirs."""
        found = self._waiting.get(machine.name)
        if found is None:
            found = self._waiting[machine.name] = _waiting(self._state, machine)
        return found

    def free(self, machine: Machine) -> Resources:
        """What the machine has beside the pods that run there and those that wait; below 0 where it lacks."""
        found = self._free.get(machine.name)
        if found is None:
            asked = total(map(pod_requests, self.waiting(machine)))
            found = self._free[machine.name] = subtract(self._state.room_left(machine), asked)
            self._before[machine.name] = found
        return found

    def takes(self, pod: Pod, machine: Machine) -> bool:
        """True iff the machine suits the pod, and nothing that runs there or waits keeps it away. Of 130 pods
        of a burst one was given a place on the node of eight that must not be beside it: for these a node was
        bought.
        """
        rules = self._apart.get(machine.name)
        if rules is None:
            there = (*self._state.standing(machine.name), *self.waiting(machine))
            kinds = {owner_of(one) or one.key: one for one in there if required_anti_affinity(one)}
            found = (rule for one in kinds.values() for rule in affinity_rules(one).anti_affinity)
            rules = self._apart[machine.name] = tuple(found)
        return suits(pod, machine) and not any(rule.may_mean(pod) for rule in rules)

    def about(self, machine: Machine) -> Resources:
        """The same, but for places that time alone ended: their pods get others soon, which shows."""
        found = self._before.get(machine.name)
        return found if found is not None else self.free(machine)


class Exchange:
    """Gives the places that pods left to others, when one is bound elsewhere than planned, and when one that
    its node has no room for lost its nomination: others may wait by then that it can change places with.
    """

    def __init__(self, state: State, monotonic: Callable[[], int]) -> None:
        self._state = state
        self._monotonic = monotonic
        self._resting = 0  # until then no other look begins: looks take no virtual time, so none rests there
        self._owed = False  # a look was put off
        self._crowded: dict[str, None] = {}  # names of machines that lacked room, as there was no way
        self._had: dict[str, None] = {}  # of those with places that pods left or took, the latest last
        self._vain: list[object] = []  # what was asked last, where there was no way
        # True iff pods were given places, or lost theirs, since the crowded machines were looked at.
        self._changed = False
        self._missed = 0  # bindings after which they would have been looked at, since they were
        # What is free of machines, but for those of which something changed since: there may be thousands.
        self._free: dict[str, Resources] = {}
        self._news = state.follow()
        state.on_bound(self._bound)
        state.on_promise(self._placed)
        state.subscribe(self._notice, Node, NodeClaim)

    def _placed(self, _: str) -> None:
        self._changed = True

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._free.pop(old.metadata.name, None)
            self._news.pop(old.metadata.name, None)

    def _now(self) -> Moment:
        for name in self._news:
            self._free.pop(name, None)
        self._news.clear()
        return Moment(self._state, self._free)

    def lost(self, pod: Pod) -> None:
        """The pod, which waits, lost its nomination."""
        place = self._state.promised(pod)
        if place is None or place.node is None:
            return
        now = self._now()
        if enough(now.free(place)) or not any(map(movable, now.waiting(place))):
            return
        if not self._relieved(place, now, self._near(place)):
            self._changed |= place.name not in self._crowded  # places were not passed on for it yet
            self._crowded[place.name] = None
        if self._owed:
            self._look()

    def _bound(self, pod: Pod, place: str) -> None:
        node, left = self._state.get(Node, pod.spec.node_name), self._state.staying(place)
        if left is not None:
            self._remember(left)
        came = node is not None and left is not None and node.metadata.name == left.name
        if node is not None and left is not None and not came:
            self._replaced(pod, node, left)
        # One that came to its own place leaves all as it was, and one fewer to change places with: of 1,291
        # looks in a burst of 1,500 pods 1,227 came after such a one and no other change, and found no way.
        if self._crowded and (self._changed or self._owed or not came):
            self._missed += 1
            if self._owed or self._missed > self._state.machines_promised() // OFTEN:
                self._look()

    def _look(self) -> None:
        """Look at the crowded machines again; where that took much of the time of late, once it rested."""
        begun = self._monotonic()
        self._owed = begun < self._resting
        if not self._owed:
            self._look_again()
            ended = self._monotonic()
            self._resting = ended + REST * (ended - begun)

    def _replaced(self, pod: Pod, node: Node, left: Machine) -> None:
        """The pod went to that node instead of the machine with its place."""
        there = Machine(node, self._state.claim_of(node))
        if owner_of(pod) and not _has_claims(pod):
            # To any rule they are the same, so the other has the place; where it had its own, room is left.
            other = self._like(pod, there, left)
            if other is not None:
                before = self._state.promised(other)
                self._state.promise(other, left.name)
                if before is None:
                    return
                self._remember(before)
                left = before
        if left.name != there.name:
            machines = chain((left,), self._near(there))
            if not self._relieved(there, self._now(), machines):
                self._crowded[there.name] = None

    def _remember(self, machine: Machine) -> None:
        """There may be room when no pod has a place there any more."""
        self._had.pop(machine.name, None)
        self._had[machine.name] = None
        if len(self._had) > REMEMBERED:
            del self._had[next(iter(self._had))]

    def _near(self, machine: Machine) -> Iterator[Machine]:
        """The machines that have places now, first those in the zone: what else a zone has room for is kept.

        Looked up as they are asked for: there may be thousands, of which one of the first will do.
        """
        return in_zone_first(self._state.promised_machines(), zone_of(machine))

    def _look_again(self) -> None:
        """At machines that lacked room: others wait now, or others are nominated."""
        self._changed, self._missed, now = False, 0, self._now()
        for name in tuple(self._crowded):
            machine = self._state.staying(name)
            if machine is not None:
                if not self._relieved(machine, now, in_zone_first(now.machines, zone_of(machine))):
                    continue
                now = self._now()
            del self._crowded[name]
        if self._crowded:
            self._pass_on(now)
        else:
            self._vain.clear()

    def _pass_on(self, now: Moment) -> None:
        """Pass places on over several machines: if it can be, of pods that are not nominated now, as the
        room of others is open until they are again, and in their own zones, as there may be none left for
        those that must stay in one.
        """
        machines, vain = self._machines(now), list[object]()
        candidates = self._candidates(machines, now)
        for idle, stay in product((True, False), repeat=2):
            crowds = [
                Crowd(machine.name, zone_of(machine), now.free(machine), _asked(able, idle=idle, stay=stay))
                for machine, able in zip(machines, candidates, strict=True)
            ]
            asked = [one.question for one in crowds]
            moves = [] if asked in (*vain, *self._vain) else passed_on(crowds)
            if moves:
                break
            vain.append(asked)
        self._vain = vain
        for pod, name in moves:
            self._state.promise(pod, name)

    def _machines(self, now: Moment) -> list[Machine]:
        """Those that lack room, and those with the most room of others with places, or which had any."""
        known = {machine.name: machine for machine in now.machines}
        for name in (*self._had, *self._crowded):
            machine = self._state.staying(name)
            if machine is None:
                self._had.pop(name, None)
            else:
                known[machine.name] = machine
        free = {name: now.about(machine) for name, machine in known.items()}
        lacking = [name for name in known if not enough(free[name])]
        roomy = nlargest(ROOMY, known.keys() - lacking, key=lambda name: (_room(free[name]), name))
        return [known[name] for name in (*lacking, *roomy)]

    def _candidates(self, machines: Sequence[Machine], now: Moment) -> list[list[Candidate]]:
        """By machine, the pods there that may have another place, first those not nominated now."""
        suit: dict[str, frozenset[int]] = {}
        found = []
        for machine in machines:
            able = sorted(filter(movable, now.waiting(machine)), key=lambda pod: (_nominated(pod), pod.key))
            candidates = []
            for pod in able:
                kind = f"{owner_of(pod) or pod.key} {sorted(pod_requests(pod).items())}"
                if kind not in suit:
                    suit[kind] = frozenset(n for n, other in enumerate(machines) if now.takes(pod, other))
                candidates.append(Candidate(pod, kind, suit[kind], leans(pod)))
            found.append(candidates)
        return found

    def _like(self, pod: Pod, there: Machine, left: Machine) -> Pod | None:
        """One that is alike and waits, with a place on the machine, or else in its zone if that was left."""
        elsewhere = (
            self._state.promised_to(owner_of(pod)) if leans(pod) and zone_of(there) != zone_of(left) else ()
        )
        for machine in chain((there,), (one for one in elsewhere if zone_of(one) == zone_of(there))):
            alike = _waiting(self._state, machine, owner_of(pod))
            if alike:
                return min(alike, key=_nominated)
        return None

    def _relieved(self, crowded: Machine, now: Moment, others: Iterable[Machine]) -> bool:
        """True iff the machine has room for all that wait, or one of the others relieved it."""
        if enough(now.free(crowded)):
            return True
        return any(other.name != crowded.name and self._relieve(crowded, now, other) for other in others)

    def _relieve(self, crowded: Machine, now: Moment, other: Machine) -> bool:
        """Where more pods wait for the first machine than it has room for, one goes to the other: the
        smallest that will do, in exchange for some that wait there if it must be. True iff none has to.
        """
        free = now.free(crowded)
        if not enough(add(free, now.about(other))):
            return False  # whatever changes hands, what both lack together stays
        room = now.free(other)
        going = self._able(now, crowded, other)
        if not going:
            return False
        able = self._able(now, other, crowded)
        for pod in going:
            wanted = pod_requests(pod)
            left, needed = add(free, wanted), subtract(room, wanted)
            back: list[Pod] = []
            for one in able:
                if enough(needed):
                    break
                given = pod_requests(one)
                if enough(subtract(left, given)):
                    left, needed = subtract(left, given), add(needed, given)
                    back.append(one)
            if enough(left) and enough(needed):
                self._state.promise(pod, other.name)
                for one in back:
                    self._state.promise(one, crowded.name)
                return True
        return False

    def _able(self, now: Moment, source: Machine, target: Machine) -> list[Pod]:
        """Those that wait for the source and may as well go to the target, the smallest first, and first
        those not nominated now.
        """
        same = zone_of(source) == zone_of(target)
        able = (pod for pod in now.waiting(source) if movable(pod) and (same or not leans(pod)))
        found = (pod for pod in able if now.takes(pod, target))
        return sorted(found, key=lambda pod: (_nominated(pod), size(pod)))[:FEW]


def _waiting(state: State, machine: Machine, owner: str | None = None) -> list[Pod]:
    """The pods (of that owner) that wait and have a place on the machine which holds."""
    pods = (state.get(Pod, key) for key in state.promised_on(machine))
    found = state.places(
        pod for pod in pods if pod is not None and not pod.spec.node_name and owner in (None, owner_of(pod))
    )
    return [pod for pod, place in found if place.name == machine.name]


def movable(pod: Pod) -> bool:
    """True iff nothing but zones, labels, taints and room decides where the pod may run."""
    apart = any(
        rule.when_unsatisfiable == "DoNotSchedule" and rule.topology_key != labels.ZONE
        for rule in pod.spec.topology_spread_constraints
    )
    near = affinity_rules(pod)
    return not (apart or near.affinity or near.anti_affinity or _has_claims(pod))


def _has_claims(pod: Pod) -> bool:
    """True iff the pod has volumes of its own, which may be in a zone."""
    volumes = pod.spec.volumes
    return any(one.persistent_volume_claim is not None or one.ephemeral is not None for one in volumes)


def owner_of(pod: Pod) -> str:
    """The UID of what made the pod, "" for none: pods of one owner are the same to any rule."""
    owner = pod.metadata.controller()
    return owner.uid if owner is not None else ""


def enough(room: Resources) -> bool:
    return all(amount >= 0 for amount in room.values())


def zone_of(machine: Machine) -> str:
    return machine.subject.metadata.labels.get(labels.ZONE, "")


def in_zone_first(machines: Iterable[Machine], zone: str) -> Iterator[Machine]:
    """The machines in the same order, but for those that are not in the zone, which come last."""
    others = []
    for machine in machines:
        if zone_of(machine) == zone:
            yield machine
        else:
            others.append(machine)
    yield from others


def _room(free: Resources) -> int:
    """How much CPU and memory there is, in thousandths of CPUs."""
    return free.get(CPU, 0) + free.get(MEMORY, 0) // BYTES


def _asked(able: Sequence[Candidate], *, idle: bool, stay: bool) -> tuple[Candidate, ...]:
    """Those that may have another place; `idle`: only if not nominated now; `stay`: in their own zones."""
    some = (one for one in able if not (idle and _nominated(one.pod)))
    if not stay:
        return tuple(some)
    return tuple(one if one.stays else Candidate(one.pod, one.kind, one.machines, stays=True) for one in some)


def _nominated(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name)


def size(pod: Pod) -> tuple[int, int]:
    wanted = pod_requests(pod)
    return wanted.get(CPU, 0), wanted.get(MEMORY, 0)


def suits(pod: Pod, machine: Machine) -> bool:
    """True iff neither the machine's labels nor a taint that stays keep the pod off it."""
    found = machine.subject
    return node_rule(pod).matches(machine.name, found.metadata.labels) and all(
        taint.effect == PREFER_NO_SCHEDULE
        or is_ephemeral(taint)
        or any(tolerates(one, taint) for one in pod.spec.tolerations)
        for taint in found.spec.taints
    )
