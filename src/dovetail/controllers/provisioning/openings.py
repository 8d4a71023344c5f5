"""In which order nodes open to the scheduler where nothing is nominated. Pure.

The scheduler tries the pods in the order of its queue and fills what is open by its scores. While one node
after the other opens there is nothing to score: each is filled with the pods whose turn comes first and that
fit. Where several open together its scores decide, and a draw where these are equal. So what becomes of a
plan hangs on the order of the openings, and can be played with filters and scores. crossed-151 was expected
to cost 1.23 of its plan where all nodes open together, and 1.03 in the best of 60 orders; eleven bursts 1.21
and 1.10 in the mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.api.core import Pod, Taint
from dovetail.base.streams import stream
from dovetail.controllers.nodeclaim.register import OPENING
from dovetail.controllers.provisioning.causes import leans
from dovetail.controllers.provisioning.exchange import owner_of
from dovetail.controllers.provisioning.passing import BYTES
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import Placement
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.model.scores import Occupancy, best_node
from dovetail.model.volumes import VolumeIndex

# What is played: a burst of 137 pods on 12 nodes takes 13 ms a play. With more of either the nodes open as
# they come, and together where pods must be spread.
MOST_PODS, MOST_NODES = 200, 24
# Nodes and pods of a cluster beside which openings are played: the view of all of them takes 30 ms.
MOST_BESIDE = 2_000
PLAYS = 90  # of different orders, at most: 100 at random and 150 of this search came to 1.10 alike
# Orders at random to begin with, beside the given one and all together: 24 bursts of up to 50 pods came to
# $24.17 an hour, without any and with twelve to 24.24 and 24.27.
_SHUFFLED = 6
# Pods that are tried from the opening of one node of a group to that of the next: on a control plane 4 of 48
# and 16 of 154. With both, plans for zones-33 cost 1.40 $/h instead of 1.24.
PACE = 4
ALONE = 30  # plays for an order in which fewer nodes open together, once no pod is left

Groups = tuple[tuple[str, ...], ...]  # names of nodes that open together, in the order in which these do


@dataclass(frozen=True, slots=True)
class Filled:
    """What becomes of pods when nodes open in these groups: where each is in the end, and what is left."""

    groups: Groups
    at: Mapping[str, str]  # pod key -> node
    left: tuple[Pod, ...]

    @property
    def weight(self) -> int:
        """What the pods without room ask for, in thousandths of CPUs and as much memory as goes with them."""
        return sum(map(_weight, self.left))

    @property
    def rank(self) -> tuple[int, int]:
        """The lower the better: nodes that open by themselves leave nothing to the scheduler's scores."""
        return self.weight, _together(self.groups)

    @property
    def order(self) -> Groups:
        """The groups; nodes that would open first with no pod for them yet open with the next."""
        order, used = self.groups, set(self.at.values())
        while len(order) > 1 and used.isdisjoint(order[0]):
            order = (order[0] + order[1], *order[2:])
        return order


def _together(groups: Groups) -> int:
    """How many nodes open with others."""
    return sum(len(names) for names in groups if len(names) > 1)


def _weight(pod: Pod) -> int:
    wanted = pod_requests(pod)
    return wanted.get(CPU, 0) + wanted.get(MEMORY, 0) // BYTES


class Openings:
    """Plays orders in which the closed nodes of a view open. The view is left as it was after each."""

    def __init__(self, view: ClusterView, pods: Sequence[Pod], closed: Iterable[str]) -> None:
        """`pods` wait, in the order of the scheduler's queue; `closed` names nodes of the view."""
        self._view = view
        self._pods = sorted(pods, key=lambda pod: -pod.spec.priority)
        self._leaning = {pod.key for pod in pods if leans(pod)}
        self._kinds = {pod.key: _kind(pod) for pod in pods}
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
        shut = set(self.closed)
        self._open = [name for name in view.nodes if name not in shut]

    def play(self, groups: Groups, limit: tuple[int, int] | None = None) -> Filled:
        """Open the groups one after the other; after each the scheduler tries all pods until none fits.

        Those of a group are opened by a request each, and the scheduler is at work meanwhile: of what becomes
        of them at once and at that PACE the worse counts, or the first if it is over the limit.
        """
        found = self._played(groups, 0)
        if not _together(groups) or (limit is not None and found.rank > limit):
            return found
        return max(found, self._played(groups, PACE), key=lambda one: one.weight)

    def _played(self, groups: Groups, pace: int) -> Filled:
        """Nodes of a group open after so many more pods each."""
        taints = {name: self._view.nodes[name].taints for name in self.closed}
        at: dict[str, str] = {}
        there, waiting = list(self._open), list(self._pods)
        for names in groups:
            steps = [names] if pace == 0 else [(name,) for name in names]
            for number, some in enumerate(steps, 1):
                for name in some:
                    self._set_taints(name, tuple(one for one in taints[name] if one != OPENING))
                there += some
                fresh = some if len(names) == 1 else there
                tried = pace if number < len(steps) else len(waiting)
                # What was tried is tried again after those whose turn has not come yet.
                rest = self._fill(waiting[:tried], fresh, there, at)
                waiting = [*waiting[tried:], *rest]
            waiting = self._fill(waiting, there, there, at) if len(steps) > 1 else waiting
        for pod in self._pods:
            if pod.key in at:
                self._view.remove_pod(pod.key)
                self._occupancy.count(pod, at[pod.key], -1)
        for name, before in taints.items():
            self._set_taints(name, before)
        return Filled(groups, at, tuple(waiting))

    def _set_taints(self, name: str, taints: tuple[Taint, ...]) -> None:
        self._view.set_node(replace(self._view.nodes[name], taints=taints))

    def _fill(
        self,
        waiting: list[Pod],
        fresh: Sequence[str],
        there: Sequence[str],
        at: dict[str, str],
    ) -> list[Pod]:
        """The pods that find no room. What found none before fits on a `fresh` node at most, unless it leans
        on others: each that is bound may have made way for those.
        """
        refused: dict[object, int] = {}  # kind -> how many had a place then
        before = -1
        while before < len(at) and waiting:
            before, rest = len(at), []
            for pod in waiting:
                leaning, kind = pod.key in self._leaning, self._kinds[pod.key]
                if refused.get(kind) == (len(at) if leaning else 0):
                    rest.append(pod)
                    continue
                nodes = (self._view.nodes[name] for name in (there if leaning else fresh))
                found = self._fitting(pod, nodes)
                if found:
                    node = best_node(pod, found, self._occupancy, 0, "openings")
                    self._view.add_pod(pod, node.name)
                    self._occupancy.count(pod, node.name, 1)
                    at[pod.key] = node.name
                else:
                    rest.append(pod)
                    refused[kind] = len(at) if leaning else 0
            waiting = rest
            if not any(pod.key in self._leaning for pod in waiting):
                break
        return waiting

    def _fitting(self, pod: Pod, nodes: Iterable[NodeView]) -> list[NodeView]:
        wanted = self._wanted[pod.key]
        roomy = [node for node in nodes if _has_room(node, wanted)]
        if not roomy:
            return roomy
        placement = Placement(pod, self._view)
        return [node for node in roomy if not placement.examine(node)]

    def search(self, given: Groups = (), plays: int = PLAYS) -> Iterator[Filled]:
        """The best order so far, after each that was played: first the given one, then one by one, together
        and at random, then what differs a little from the best. Ends once no pod is left, or after so many.

        Each step takes a play; the caller may let others have their turn between.
        """
        draw = stream(0, "openings", "order")
        first = self._first(given, draw)
        best = self.play(next(first))
        yield best
        for number in range(1, plays):
            if best.rank == (0, 0) or (not best.left and number > ALONE):
                return
            found = self.play(next(first, ()) or _varied(best.groups, draw), best.rank)
            if found.rank < best.rank or (number > _SHUFFLED + 2 and found.rank == best.rank):
                best = found  # one that is as good may lead further
            yield best

    def _first(self, given: Groups, draw: random.Random) -> Iterator[Groups]:
        known = set(self.closed)
        kept = tuple(tuple(name for name in names if name in known) for names in given)
        kept = tuple(names for names in kept if names)
        named = {name for names in kept for name in names}
        rest = tuple((name,) for name in self.closed if name not in named)
        yield (*kept, *rest)
        yield tuple((name,) for name in self.closed)
        yield (self.closed,)
        for _ in range(_SHUFFLED):
            yield tuple((name,) for name in draw.sample(self.closed, len(self.closed)))


def in_queue(pods: Iterable[Pod]) -> list[Pod]:
    """In the order in which the scheduler tries them, as far as it shows.

    It writes to each pod why that fits nowhere whenever this changed, which it does with each node that comes
    or opens, and what was tried last is tried last again. A pass that a change of a node cuts short goes on
    with those after it: by age, 102 pods were found to be tried in another order, and 23 were left over.
    """
    return sorted(pods, key=lambda pod: (int(pod.metadata.resource_version or 0), pod.key))


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


def _varied(groups: Groups, draw: random.Random) -> Groups:
    """The same nodes in a slightly different order: two change places, one moves, groups join or part."""
    found = [list(names) for names in groups]
    step = draw.random()
    if step < 0.35:
        (i, a), (j, b) = _one(found, draw), _one(found, draw)
        found[i][a], found[j][b] = found[j][b], found[i][a]
    elif step < 0.7:
        i, a = _one(found, draw)
        name = found[i].pop(a)
        found = [names for names in found if names]
        if not found or draw.random() < 0.5:
            found.insert(draw.randint(0, len(found)), [name])
        else:
            found[draw.randrange(len(found))].append(name)
    elif step < 0.85 and len(found) > 1:
        i = draw.randrange(len(found) - 1)
        found[i] += found.pop(i + 1)
    else:
        i = draw.randrange(len(found))
        if len(found[i]) > 1:
            draw.shuffle(found[i])
            cut = draw.randint(1, len(found[i]) - 1)
            found[i : i + 1] = [found[i][:cut], found[i][cut:]]
    return tuple(map(tuple, found))


def _one(groups: Sequence[Sequence[str]], draw: random.Random) -> tuple[int, int]:
    """A node at random: the number of its group and its own in it."""
    group = draw.randrange(len(groups))
    return group, draw.randrange(len(groups[group]))
