"""Who gets the place of a pod that went elsewhere: those whose room it took there.

Nominated as before, they would be more than their node holds. Each would then keep the next one out, until
one is refused while no room is free, and a node is bought for it. Yet as much is left free as was taken: the
pod's own place, which is given to another at once, as the scheduler does not wait. Where it suits none of
them, places are passed on over several machines: what is not mended while many wait cannot be later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.cluster.nodes import Machine, is_ephemeral
from dovetail.cluster.state import State
from dovetail.controllers.provisioning.causes import leans
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.affinity import affinity_rules
from dovetail.model.resources import CPU, MEMORY, Resources, fits, pod_requests, subtract, total
from dovetail.model.selector import node_rule
from dovetail.model.taints import PREFER_NO_SCHEDULE, tolerates

# In two bursts of 500 pods these found a way wherever an exact search needed no more moves; all searches of
# one took 0.3 s of CPU. Between the two machines alone, one pod for some, none was found where one move to a
# third was enough, with 361 pods waiting; with 103 there was none at all.
MOVES = 6  # that places are passed on at most, until none lacks room
BEST = 12  # of the ways after each move that are followed further
FEW = 32  # machines that are looked at, those with the most room
BYTES = 2**32 // 1_000  # of memory that weigh as much as a thousandth of a CPU: types have 2 to 8 GiB to one
_WEIGHTS = {CPU: 1.0, MEMORY: 1.0 / BYTES}

Amounts = NDArray[np.int64]  # a row of resources by machine, or by kind of pods
Weights = NDArray[np.float64]
Moves = tuple[tuple[Pod, str], ...]  # pods, and the machines on which they are to have their places
_Move = tuple[int, int, int]  # a pod of that kind, from a machine to another, all by number


@dataclass(frozen=True, slots=True)
class Crowd:
    """A machine, what is free there beside all that run or have a place there, below 0 where it lacks that,
    and those with a place there that may have another.
    """

    machine: Machine
    free: Resources
    waiting: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """Places that pods would have instead of their own; what would be free then on each machine, and how much
    would be lacking on those that moves concern.
    """

    moves: tuple[_Move, ...]
    free: Amounts
    lacks: Weights


def rearranged(crowds: Mapping[str, Crowd], crowded: str) -> Moves:
    """Who has a place on which machine instead, so that the crowded one lacks nothing, nor does another that
    did not before: by the fewest moves that are found. Empty if there is no way. Pure.

    One pod is moved after the other from where most is lacking, and the ways that lack least are followed.
    If it can be, only pods move that are not nominated now: the room of others is open until they are again.
    """
    idle = {
        name: replace(crowd, waiting=tuple(pod for pod in crowd.waiting if not _nominated(pod)))
        for name, crowd in crowds.items()
    }
    return _searched(idle, crowded) or _searched(crowds, crowded)


def _searched(crowds: Mapping[str, Crowd], crowded: str) -> Moves:
    search = _Search(crowds)
    ways = [search.begun(crowded)]
    if not ways[0].lacks.any():
        return ()  # what is lacking is asked for by pods alone that stay
    for _ in range(MOVES):
        ways = search.further(ways)
        if ways and not ways[0].lacks.any():
            return search.written(ways[0])
    return ()


class _Search:
    """The crowds as arrays. Pods of one owner that ask for the same are of one kind."""

    def __init__(self, crowds: Mapping[str, Crowd]) -> None:
        self._crowds = list(crowds.values())
        self._number = {name: number for number, name in enumerate(crowds)}
        self._pods: dict[tuple[int, int], list[Pod]] = {}  # by machine and kind
        kinds: dict[tuple[object, ...], int] = {}
        examples: list[Pod] = []
        for number, crowd in enumerate(self._crowds):
            for pod in crowd.waiting:
                mark = (owner_of(pod) or pod.key, *sorted(pod_requests(pod).items()))
                kind = kinds.setdefault(mark, len(kinds))
                if kind == len(examples):
                    examples.append(pod)
                self._pods.setdefault((number, kind), []).append(pod)
        names = sorted({name for pod in examples for name in pod_requests(pod)})
        self._weights = np.array([_WEIGHTS.get(name, 1_000.0) for name in names])
        self._asked = _table([pod_requests(pod) for pod in examples], names)
        self._free = _table([crowd.free for crowd in self._crowds], names)
        self._suits = np.array(
            [[suits(pod, crowd.machine) for crowd in self._crowds] for pod in examples], bool
        ).reshape(len(examples), len(crowds))
        self._leans = [leans(pod) for pod in examples]
        self._zones = np.array([zone_of(crowd.machine) for crowd in self._crowds])

    def begun(self, crowded: str) -> _Way:
        """No pod is moved yet; no place is given on machines that lack room besides this one."""
        lacks = self._lack(self._free)
        number = self._number[crowded]
        self._suits &= (lacks == 0) | (np.arange(len(lacks)) == number)
        return _Way((), self._free, np.where(np.arange(len(lacks)) == number, lacks, 0.0))

    def _lack(self, free: Amounts) -> Weights:
        """How much is lacking, in thousandths of CPUs; one of what is neither CPU nor memory weighs as much
        as a CPU.
        """
        lacking: Weights = np.minimum(free, 0) @ self._weights
        return -lacking

    def further(self, ways: Sequence[_Way]) -> list[_Way]:
        """The best of those that one more move makes of them, each once."""
        found: dict[tuple[_Move, ...], tuple[float, _Way, _Move]] = {}
        for way in ways:
            source = int(np.argmax(way.lacks))
            kinds = [kind for kind in range(len(self._asked)) if self._next(way, source, kind) is not None]
            if not kinds:
                continue
            asked = self._asked[kinds]
            left = self._lack(way.free[source] + asked) - way.lacks[source]
            there = self._lack(way.free - asked[:, None]) - way.lacks
            lacking = way.lacks.sum() + left[:, None] + there
            lacking[:, source] = np.inf
            for row, kind in enumerate(kinds):
                lacking[row, ~self._suits[kind]] = np.inf
                if self._leans[kind]:
                    lacking[row, self._zones != self._zones[source]] = np.inf
            for place in np.argsort(lacking, axis=None, kind="stable")[:BEST]:
                row, target = divmod(int(place), len(self._crowds))
                if lacking[row, target] == np.inf:
                    break
                move = kinds[row], source, target
                found.setdefault(tuple(sorted((*way.moves, move))), (float(lacking[row, target]), way, move))
        best = sorted(found.values(), key=lambda item: (round(item[0], 3), self._price(item[1], item[2])))
        return [self._after(way, move) for _, way, move in best[:BEST]]

    def _next(self, way: _Way, machine: int, kind: int) -> Pod | None:
        """The pod of that kind which has a place there and would move next."""
        gone = sum(move[:2] == (kind, machine) for move in way.moves)
        pods = self._pods.get((machine, kind), ())
        return pods[gone] if gone < len(pods) else None

    def _price(self, way: _Way, move: _Move) -> tuple[bool, tuple[int, int]]:
        """Those that are not nominated now go first, then the smallest."""
        pod = self._next(way, move[1], move[0])
        assert pod is not None
        return _nominated(pod), size(pod)

    def _after(self, way: _Way, move: _Move) -> _Way:
        kind, source, target = move
        free = way.free.copy()
        free[source] += self._asked[kind]
        free[target] -= self._asked[kind]
        lacks = way.lacks.copy()
        lacks[[source, target]] = self._lack(free[[source, target]])
        return _Way((*way.moves, move), free, lacks)

    def written(self, way: _Way) -> Moves:
        """The moves, by the pods and the machines' names."""
        taken = Counter[tuple[int, int]]()
        found = []
        for kind, source, target in way.moves:
            found.append((self._pods[source, kind][taken[source, kind]], self._crowds[target].machine.name))
            taken[source, kind] += 1
        return tuple(found)


def _table(rows: Sequence[Resources], names: Sequence[str]) -> Amounts:
    found = [[row.get(name, 0) for name in names] for row in rows]
    return np.array(found, np.int64).reshape(len(rows), len(names))


class Exchange:
    """Gives the places that pods left to others, when one is bound elsewhere than planned, and when one that
    its node has no room for lost its nomination: others may wait by then that it can change places with.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._left: dict[str, None] = {}  # machines whose places pods left last, the latest last
        self._vain: set[str] = set()  # machines for which there was no way, while no place changed since
        state.on_bound(self._bound)
        state.on_promise(self._placed)
        state.subscribe(self._notice, Node, NodeClaim)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._left.pop(old.metadata.name, None)
            self._vain.discard(old.metadata.name)

    def _placed(self, _: str) -> None:
        self._vain.clear()

    def lost(self, pod: Pod) -> None:
        """The pod, which waits, lost its nomination."""
        place = self._state.promised(pod)
        if place is not None and place.node is not None and place.name not in self._vain:
            self._relieve(place)

    def _bound(self, pod: Pod, place: str) -> None:
        self._vain.clear()
        node, left = self._state.get(Node, pod.spec.node_name), self._state.staying(place)
        if node is None or left is None or node.metadata.name == left.name:
            return
        there = Machine(node, self._state.claim_of(node))
        if owner_of(pod) and not _has_claims(pod):
            # To any rule they are the same, so the other has the place; where it had its own, room is left.
            other = self._like(pod, there, left)
            if other is not None:
                before = self._state.promised(other)
                self._state.promise(other, place)
                left = before
        if left is not None and left.name != there.name:
            self._left.pop(left.name, None)
            self._left[left.name] = None
            if len(self._left) > FEW:
                del self._left[next(iter(self._left))]
            self._relieve(there)

    def _like(self, pod: Pod, there: Machine, left: Machine) -> Pod | None:
        """One that is alike and waits, with a place on the machine, or else in its zone if that was left."""
        elsewhere = (
            self._state.promised_to(owner_of(pod)) if leans(pod) and zone_of(there) != zone_of(left) else ()
        )
        for machine in chain((there,), (one for one in elsewhere if zone_of(one) == zone_of(there))):
            alike = self._waiting(machine, owner_of(pod))
            if alike:
                return min(alike, key=_nominated)
        return None

    def _waiting(self, machine: Machine, owner: str | None = None) -> list[Pod]:
        """The pods (of that owner) that wait and have a place on the machine which holds."""
        pods = (self._state.get(Pod, key) for key in self._state.promised_on(machine))
        found = self._state.places(
            pod
            for pod in pods
            if pod is not None and not pod.spec.node_name and owner in (None, owner_of(pod))
        )
        return [pod for pod, place in found if place.name == machine.name]

    def _relieve(self, crowded: Machine) -> None:
        """Where more pods wait for the machine than it has room for, some change places with others that wait
        elsewhere, or take what is left there.
        """
        waits = self._waiting(crowded)
        if fits(total(map(pod_requests, waits)), self._state.room_left(crowded)):
            return
        waiting: dict[str, list[Pod]] = {}
        for pod, machine in self._state.places(self._state.pods_on("")):
            waiting.setdefault(machine.name, []).append(pod)
        crowds = {
            machine.name: Crowd(
                machine,
                self._free(machine, waiting.get(machine.name, ())),
                tuple(sorted(filter(movable, waiting.get(machine.name, ())), key=_nominated)),
            )
            for machine in (crowded, *self._others())
        }
        roomy = nlargest(FEW, crowds, key=lambda name: _room(crowds[name].free))
        chosen = {name: crowds[name] for name in crowds if name == crowded.name or name in roomy}
        moves = rearranged(chosen, crowded.name)
        if not moves:
            self._vain.add(crowded.name)
        for pod, name in moves:
            self._state.promise(pod, name)

    def _others(self) -> list[Machine]:
        """Machines on which pods have places, or had."""
        left = [machine for name in self._left if (machine := self._state.staying(name)) is not None]
        return [*self._state.promised_machines(), *left]

    def _free(self, machine: Machine, waiting: Iterable[Pod]) -> Resources:
        """What the machine has beside the pods that run there and those that wait; below 0 where it lacks."""
        return subtract(self._state.room_left(machine), total(map(pod_requests, waiting)))


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


def zone_of(machine: Machine) -> str:
    return machine.subject.metadata.labels.get(labels.ZONE, "")


def _room(free: Resources) -> int:
    """How much CPU and memory there is, in thousandths of CPUs."""
    return free.get(CPU, 0) + free.get(MEMORY, 0) // BYTES


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
