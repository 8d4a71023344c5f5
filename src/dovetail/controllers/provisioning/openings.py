"""In which order nodes open to the scheduler where nothing is nominated. Pure.

The scheduler tries the pods in the order of its queue and fills what is open by its scores. While one node
after the other opens there is little to score: each is filled with the pods whose turn comes first and that
fit. So what becomes of a plan hangs on the order of the openings, and can be played. crossed-151 was expected
to cost 1.23 of its plan where all nodes open together, and 1.03 in the best of 60 orders; eleven bursts 1.21
and 1.10 in the mean. Of few pods none open together: each node is opened by a request of its own, and a real
scheduler fills it in the 15 ms until the next one is open (20 pods in 5 ms). Of many pods that matters less:
ten plans for 263 to 530 pods were expected at 1.02 and 1.01 of the same with 4 and 20 pods in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeVar

from dovetail.api.core import Pod, Taint
from dovetail.base.streams import stream
from dovetail.controllers.nodeclaim.register import OPENING
from dovetail.controllers.provisioning.exchange import owner_of
from dovetail.controllers.provisioning.passing import BYTES
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import Placement
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.model.scores import Occupancy, best_node
from dovetail.model.volumes import VolumeIndex

# What is played: a burst of 154 pods on nine nodes takes 4 ms a play, 530 on 26 about 50. With more than the
# few pods most nodes open at once where that costs less (see `refit`).
FEW_PODS = 200
MOST_PODS, MOST_NODES = 700, 90
# What is played where most nodes open at once, which takes a play or two for a plan. With more of either they
# open as they come, and together where pods must be spread.
MOST_AT_ONCE, MOST_NODES_AT_ONCE = 2_500, 400
# Nodes and pods of a cluster beside which openings are played: the view of all of them takes 30 ms.
MOST_BESIDE = 2_000
PLAYS = 90  # of different orders, at most: 100 at random and 150 of this search came to 1.10 alike
STEPS = 150_000  # of a search, of about 5 us each: 1,100 of them are a play of 154 pods on nine nodes
# Orders at random to begin with, beside the given one: 24 bursts of up to 50 pods came to $24.17 an hour,
# without any and with twelve to 24.24 and 24.27.
_SHUFFLED = 6

SLICE = 10_000  # steps without a stop: 1,600 pods on 250 nodes take 400,000

Answer = TypeVar("Answer")
Groups = tuple[tuple[str, ...], ...]  # names of nodes that open together, in the order in which these do


@dataclass(frozen=True, slots=True)
class Filled:
    """What becomes of pods when nodes open in this order: where each is in the end, what is left, and after
    which openings none got a place before the next one.
    """

    groups: Groups
    at: Mapping[str, str]  # pod key -> node
    left: tuple[Pod, ...]
    idle: frozenset[str] = frozenset()

    @property
    def turns(self) -> tuple[str, ...]:
        return tuple(name for names in self.groups for name in names)

    @property
    def weight(self) -> int:
        """What the pods without room ask for, in thousandths of CPUs and as much memory as goes with them."""
        return sum(map(_weight, self.left))

    @property
    def order(self) -> Groups:
        """The nodes in that order; those that would open first with no pod for them open with the next."""
        idle = len(list(takewhile(self.idle.issuperset, self.groups)))
        first = tuple(name for names in self.groups[: idle + 1] for name in names)
        return (first, *self.groups[idle + 1 :])


def _weight(pod: Pod) -> int:
    wanted = pod_requests(pod)
    return wanted.get(CPU, 0) + wanted.get(MEMORY, 0) // BYTES


class Openings:
    """Plays orders in which the closed nodes of a view open. The view is left as it was after each."""

    def __init__(self, view: ClusterView, pods: Sequence[Pod], closed: Iterable[str]) -> None:
        """`pods` wait, in the order of the scheduler's queue; `closed` names nodes of the view."""
        self._view = view
        self.waiting = sorted(pods, key=lambda pod: -pod.spec.priority)  # as the scheduler tries them
        self._kinds = {pod.key: _kind(pod) for pod in pods}
        self._wakes = self._lookers({self._kinds[pod.key]: pod for pod in pods})
        self._wanted = {
            pod.key: [(name, amount) for name, amount in pod_requests(pod).items() if amount > 0]
            for pod in pods
        }
        self.closed = tuple(closed)
        for name in self.closed:
            node = view.nodes[name]
            if OPENING not in node.taints:
                view.set_node(replace(node, taints=(*node.taints, OPENING)))
        self._occupancy = Occupancy(view)
        self.steps = 0  # nodes that were looked at for a pod, those that scores chose among three times
        shut = set(self.closed)
        self.opened = [name for name in view.nodes if name not in shut]

    def _lookers(self, kinds: Mapping[object, Pod]) -> dict[object, frozenset[object]]:
        """By kind whose place hangs on where others are: the kinds of which one that is bound wakes it."""
        found = {}
        for kind, pod in kinds.items():
            facts = self._view.facts(pod)
            if not facts.spread and not facts.affinity.affinity:
                continue
            counted = (
                other
                for other, one in kinds.items()
                if any(rule.counts(one.metadata.namespace, one.metadata.labels) for rule in facts.spread)
                or any(
                    rule.matches(one.metadata.namespace, one.metadata.labels, self._view.namespaces)
                    for rule in facts.affinity.affinity
                )
            )
            found[kind] = frozenset(counted)
        return found

    def play(self, groups: Groups) -> Filled:
        """Open one group after the other; after each the scheduler tries all pods until none fits."""
        return _ended(self.playing(groups))

    def playing(self, groups: Groups) -> Generator[None, None, Filled]:
        """The same, with a stop after each SLICE of steps, at which others may have their turn."""
        taints = {name: self._view.nodes[name].taints for name in self.closed}
        at: dict[str, str] = {}
        idle: list[str] = []
        there, waiting = list(self.opened), list(self.waiting)
        for names in groups:
            for name in names:
                self._open(name)
            there += names
            before = len(at)
            waiting = yield from self._filling(waiting, names, there, at)
            idle += names if len(at) == before else ()
        self.take_back({pod.key: pod for pod in self.waiting if pod.key in at}, at)
        for name, kept in taints.items():
            self._set_taints(name, kept)
        return Filled(groups, at, tuple(waiting), frozenset(idle))

    def _open(self, name: str) -> None:
        taints = self._view.nodes[name].taints
        self._set_taints(name, tuple(one for one in taints if one != OPENING))

    def _set_taints(self, name: str, taints: tuple[Taint, ...]) -> None:
        self._view.set_node(replace(self._view.nodes[name], taints=taints))

    def take_back(self, pods: Mapping[str, Pod], at: Mapping[str, str]) -> None:
        """These pods, by key, are on no node any more."""
        for key, pod in pods.items():
            self._view.remove_pod(key)
            self._occupancy.count(pod, at[key], -1)

    def add(self, node: NodeView, daemons: Iterable[Pod]) -> None:
        """One more node, that is open, with its daemons."""
        self._view.set_node(node)
        for pod in daemons:
            self._view.add_pod(pod, node.name)
            self._occupancy.count(pod, node.name, 1)

    def remove(self, name: str) -> None:
        """The node, and what is on it, is not there any more."""
        there = {key: facts.pod for key, facts in self._view.nodes[name].pods.items()}
        self.take_back(there, dict.fromkeys(there, name))
        self._view.remove_node(name)

    def fill(
        self, waiting: Sequence[Pod], fresh: Sequence[str], there: Sequence[str], at: dict[str, str]
    ) -> list[Pod]:
        """The pods that find no room, in the order in which they were tried last. `there` are all nodes that
        are open, and `at` learns where pods went.

        What found none before fits on the `fresh` nodes at most, unless its place hangs on where others are:
        one that is bound may have made way for those, which are tried again after all others.
        """
        return _ended(self._filling(waiting, fresh, there, at))

    def _filling(
        self, waiting: Sequence[Pod], fresh: Sequence[str], there: Sequence[str], at: dict[str, str]
    ) -> Generator[None, None, list[Pod]]:
        # By kind, how many had a place when one was refused, and whether a rule about others had refused it.
        refused: dict[object, tuple[int, bool]] = {}
        left: dict[str, Pod] = {}
        looking: dict[str, object] = {}  # by key the kind of each of them that such a rule refused
        turns, until = waiting, self.steps + SLICE
        while turns:
            again: list[Pod] = []
            for pod in turns:
                if self.steps >= until:
                    until = self.steps + SLICE
                    yield
                kind = self._kinds[pod.key]
                looks = kind in self._wakes
                state, known = len(at) if looks else 0, refused.get(kind)
                if known is None or known[0] != state:
                    found, ruled_out = self._fitting(pod, there if looks else fresh)
                    if found:
                        self._bind(pod, best_node(pod, found, self._occupancy, 0, "openings").name, at)
                        woken = [key for key, other in looking.items() if kind in self._wakes[other]]
                        again += map(left.pop, woken)
                        for key in woken:
                            del looking[key]
                        continue
                    known = refused[kind] = state, ruled_out
                left[pod.key] = pod
                if looks and known[1]:
                    looking[pod.key] = kind
            turns = again
        return list(left.values())

    def _bind(self, pod: Pod, name: str, at: dict[str, str]) -> None:
        self._view.add_pod(pod, name)
        self._occupancy.count(pod, name, 1)
        at[pod.key] = name

    def _fitting(self, pod: Pod, names: Iterable[str]) -> tuple[list[NodeView], bool]:
        """Of these nodes those that the pod fits on, and whether a rule about others keeps it from one."""
        wanted, nodes = self._wanted[pod.key], [self._view.nodes[name] for name in names]
        self.steps += 1 + len(nodes)
        roomy = [node for node in nodes if _has_room(node, wanted)]
        if not roomy:
            return roomy, False
        placement = Placement(pod, self._view)
        open_to_it = [node for node in roomy if not placement.alone(node)]
        found = [node for node in open_to_it if not placement.together(node)]
        self.steps += 2 * len(found) if len(found) > 1 else 0
        return found, len(found) < len(open_to_it)

    def search(self, given: Sequence[str] = (), plays: int = PLAYS, steps: int = STEPS) -> Iterator[Filled]:
        """The best order so far, after each that was played: first the given one, then some at random, then
        what differs a little from the best. Ends once no pod is left, or after so many plays or steps.

        Each step takes a play; the caller may let others have their turn between.
        """
        draw = stream(0, "openings", "order")
        first = self._first(given, draw)
        most = self.steps + steps
        best = self.play(one_by_one(next(first)))
        yield best
        for number in range(1, plays):
            if not best.left or self.steps >= most:
                return
            found = self.play(one_by_one(next(first, ()) or _varied(best.turns, draw)))
            if found.weight < best.weight or (number > _SHUFFLED + 2 and found.weight == best.weight):
                best = found  # one that is as good may lead further
            yield best

    def _first(self, given: Sequence[str], draw: random.Random) -> Iterator[Sequence[str]]:
        kept = tuple(name for name in given if name in self.closed)
        yield (*kept, *(name for name in self.closed if name not in kept))
        yield self.closed
        for _ in range(_SHUFFLED):
            yield draw.sample(self.closed, len(self.closed))


def one_by_one(names: Iterable[str]) -> Groups:
    return tuple((name,) for name in names)


def planned_first(turns: Mapping[str, int]) -> tuple[str, ...]:
    """Names of those that were planned to open before all others, by when each was; 0: that is not known."""
    first = min(filter(None, turns.values()), default=0)
    return tuple(name for name, turn in turns.items() if first and turn == first)


def in_queue(pods: Iterable[Pod]) -> list[Pod]:
    """In the order in which the scheduler tries them, as far as it shows.

    It writes to each pod why that fits nowhere whenever this changed, which it does with each node that comes
    or opens, and what was tried last is tried last again. A pass that a change of a node cuts short goes on
    with those after it: by age, 102 pods were found to be tried in another order, and 23 were left over.
    """
    return sorted(pods, key=lambda pod: (int(pod.metadata.resource_version or 0), pod.key))


def _ended(work: Generator[None, None, Answer]) -> Answer:
    """What it comes to, without a stop."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def _kind(pod: Pod) -> object:
    """Pods of one kind fit on the same nodes; those with volumes are each of their own."""
    owner = owner_of(pod)
    if not owner or pod.spec.volumes:
        return pod.key
    return owner, tuple(sorted(pod_requests(pod).items()))


def _has_room(node: NodeView, wanted: Sequence[tuple[str, int]]) -> bool:
    """As one of the filters; asked first, it spares the others on nodes that are full."""
    whole, used = node.allocatable, node.used
    return all(used.get(name, 0) + amount <= whole.get(name, 0) for name, amount in wanted)


def resolver() -> Callable[[Pod, VolumeIndex], PodFacts]:
    """For the view: remembers what follows from pods, as neither these nor volumes change between plays."""
    known: dict[str, PodFacts] = {}

    def resolve(pod: Pod, volumes: VolumeIndex) -> PodFacts:
        found = known.get(pod.key)
        if found is None:
            found = known[pod.key] = PodFacts.of(pod, volumes)
        return found

    return resolve


def _varied(turns: Sequence[str], draw: random.Random) -> Sequence[str]:
    """A slightly different order: two nodes change places, or one moves."""
    found = list(turns)
    i, j = draw.randrange(len(found)), draw.randrange(len(found))
    if draw.random() < 0.5:
        found[i], found[j] = found[j], found[i]
    else:
        found.insert(j, found.pop(i))
    return found
