"""Nodes whose pods all fit into room that other nodes have free, by resources, labels, taints and domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import ge

import numpy as np

from dovetail.api.core import Pod
from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.demand import demand
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.model.arrays import UNLIMITED, Mask
from dovetail.model.plan import Plan
from dovetail.solve.budget import SolveBudget

_ROWS_PER_UNIT = 200  # nodes looked at in one unit of work
# One of so many nodes whose pods find no room stays at least: of 99 that were found by resources alone
# (10,000 pods, half of them spread) two were left after nine what-ifs.
_EACH_TIME = 3
_Wanted = tuple[int, str, str]  # a pod class, and the label that its pod must find with its value, or ""


def deletable(
    question: Question,
    appraisal: Appraisal,
    candidates: Sequence[Candidate],
    work: SolveBudget,
    *,
    spread: bool = False,
    most: int = UNLIMITED,
    stays: Callable[[Candidate], bool] = lambda _: False,
) -> tuple[Candidate, ...]:
    """As many of the candidates as can go together, `most` at most, in order, within the budgets. Greedy.

    Pods go to nodes that stay in any case, then to the candidates that are last in order. Rules between pods
    are not looked at, the solver has the last word; but if `spread`, pods that are spread over domains stay
    in theirs: nearly always no other one may take them. `stays` is asked of those whose pods have room
    alone: of all nodes it took 12.6 % of the CPU as the traffic of 5,000 pods fell, the look at room 2.4.
    """
    room = Room(question, appraisal, candidates, question.closed | question.restless)
    move_budget = question.move_budget(alone=True)
    gone: list[Candidate] = []
    for candidate in candidates:
        if not work.left or len(gone) == most:
            break
        shapes = [appraisal.pod_class[pod.key] for pod in candidate.pods]
        keys = candidate.spread_keys if spread else ()
        if move_budget.holds(candidate.pool, candidate.workloads) and room.move(shapes, candidate, keys):
            if stays(candidate):
                room.undo()
            else:
                move_budget.take(candidate.pool, candidate.workloads)
                gone.append(candidate)
        work.spend(1 + len(candidate.pods) * len(room.names) // _ROWS_PER_UNIT)
    return tuple(gone)


def given_up(question: Question, chosen: Sequence[Candidate], plan: Plan) -> frozenset[str]:
    """Of the nodes with pods that no node has room for as it is, those that the others should go without.

    What stays keeps its pods, so that the places that the plan has for these are free, and has room of its
    own: the nodes that lack most for what they cost stay, until the others' pods may find room there.
    """
    left = {one.pod for one in plan.unschedulable}.union(*(claim.pods for claim in plan.claims))
    lacks = {}
    for candidate in chosen:
        if out := [pod for pod in candidate.pods if pod.key in left]:
            lacks[candidate.name] = candidate, _asked(out)
    missing = Counter[str]()
    for _, asked in lacks.values():
        missing.update(asked)

    def worst_first(name: str) -> tuple[float, str]:
        candidate, asked = lacks[name]
        return -max(amount / max(1, missing[key]) for key, amount in asked.items()) / max(
            1, candidate.price
        ), name

    there = {node.name: node for node in question.problem.nodes if node.name in lacks}
    stay: list[str] = []
    for name in sorted(lacks, key=worst_first):
        if len(stay) * _EACH_TIME >= len(lacks) and max(missing.values()) <= 0:
            break
        stay.append(name)
        node = there[name]
        free = {key: node.allocatable.get(key, 0) - node.occupancy.requests.get(key, 0) for key in missing}
        missing.subtract({key: max(0, amount) for key, amount in free.items()})
        missing.subtract(_asked(lacks[name][0].pods))
    return frozenset(stay)


def _asked(pods: Iterable[Pod]) -> Counter[str]:
    """What these pods ask for together."""
    found = Counter[str]()
    for pod in pods:
        found.update(dict(demand(pod).asked))
    return found


class Room:
    """What is free on N nodes, those in front that are filled first. `shut` ones take no pods."""

    def __init__(
        self,
        question: Question,
        appraisal: Appraisal,
        candidates: Sequence[Candidate],
        shut: frozenset[str] = frozenset(),
    ) -> None:
        place = {candidate.name: len(candidates) - index for index, candidate in enumerate(candidates)}
        nodes = question.problem.nodes
        order = sorted(range(len(nodes)), key=lambda row: (place.get(nodes[row].name, 0), row))
        self.names = {nodes[row].name: index for index, row in enumerate(order)}
        self._vectors = appraisal.vectors
        self._free = np.ascontiguousarray(appraisal.capacity[order].T)  # (R, N)
        self._hosts = appraisal.hosts[:, order]
        open_ = [nodes[row].initialized and nodes[row].name not in shut for row in order]
        self._open = np.array(open_, dtype=np.bool_)
        self._labels = [nodes[row].labels for row in order]
        self._filled: dict[int, None] = {}  # nodes that took pods: they stay
        # Which node went last, which nodes took its pods, and which of them took none before.
        self._last: tuple[int, list[tuple[int, int]], list[int]] = -1, [], []
        # What fits nowhere any more, whatever was tried: room that stays taken only shrinks.
        self._hopeless: dict[_Wanted, None] = {}
        # The first node that takes such a pod: none in front of it does any more, likewise.
        self._start: dict[_Wanted, int] = {}
        self._within: dict[_Wanted, Mask] = {}  # nodes of that domain whose labels and taints suit
        self._domains: dict[tuple[str, str], Mask] = {}
        self._needs = appraisal.vectors.tolist()
        self._sizes = [(-max(need), shape) for shape, need in enumerate(self._needs)]

    def move(self, shapes: Sequence[int], candidate: Candidate, keys: Sequence[str] = ()) -> bool:
        """Move these pods off the node; False, and nothing moved, if they do not all fit elsewhere.

        `keys`: for each the label whose value must be the same there, or "" where there is none.
        """
        own = self.names[candidate.name]
        here = self._labels[own]
        wanted = [
            (shape, key, here.get(key, ""))
            for shape, key in zip(shapes, keys or ("",) * len(shapes), strict=True)
        ]
        if own in self._filled or any(one in self._hopeless for one in wanted):
            return False
        taken: list[tuple[int, int]] = []
        for one in self._largest_first(wanted):
            host = self._take(one, own, tried=bool(taken))
            if host < 0:
                self._give_back(taken)
                return False
            taken.append((host, one[0]))
        self._open[own] = False
        filled = [host for host, _ in taken if host not in self._filled]
        self._filled.update(dict.fromkeys(filled))
        self._last = own, taken, filled
        return True

    def undo(self) -> None:
        """The last move, right after it."""
        own, taken, filled = self._last
        self._open[own] = True
        self._give_back(taken)
        for host in filled:
            self._filled.pop(host, None)

    def homeless(self, shapes: Sequence[int], candidate: Candidate) -> list[int]:
        """Which of these pods of the node find no room elsewhere, the largest first. Nothing moves."""
        own = self.names[candidate.name]
        taken: list[tuple[int, int]] = []
        left = []
        for one in self._largest_first([(shape, "", "") for shape in shapes]):
            host = -1 if one in self._hopeless else self._take(one, own, tried=bool(taken))
            if host < 0:
                left.append(one[0])
            else:
                taken.append((host, one[0]))
        self._give_back(taken)
        return left

    def _largest_first(self, wanted: Sequence[_Wanted]) -> list[_Wanted]:
        return sorted(wanted, key=lambda one: self._sizes[one[0]])

    def _give_back(self, taken: Sequence[tuple[int, int]]) -> None:
        for host, shape in taken:
            self._free[:, host] += self._vectors[shape]

    def _take(self, wanted: _Wanted, own: int, *, tried: bool) -> int:
        """Take room for such a pod elsewhere than on its own node; the node that it is on, or -1.

        `tried`: room is taken that may be given back.
        """
        host = self._start.get(wanted, -1)
        if host < 0 or host == own or not self._fits(wanted[0], host):
            host = self._host(wanted, own, tried=tried)
        if host >= 0:
            self._free[:, host] -= self._vectors[wanted[0]]
        return host

    def _fits(self, shape: int, host: int) -> bool:
        """True iff such a pod fits there as it is now."""
        if not (self._open[host] and self._hosts[shape, host]):
            return False
        return all(map(ge, self._free[:, host].tolist(), self._needs[shape]))

    def _host(self, wanted: _Wanted, own: int, *, tried: bool) -> int:
        """The first node that takes such a pod, other than its own; -1 if there is none."""
        start = self._start.get(wanted, 0)
        fits = self._suiting(wanted)[start:] & self._open[start:]
        for free, need in zip(self._free, self._needs[wanted[0]], strict=True):
            fits &= free[start:] >= need
        host = int(fits.argmax())
        if not fits[host]:
            if not tried:
                self._hopeless[wanted] = None
            return -1
        if not tried:
            self._start[wanted] = start + host
        if start + host == own:
            fits[host] = False
            host = int(fits.argmax())
        return start + host if fits[host] else -1

    def _suiting(self, wanted: _Wanted) -> Mask:
        """Nodes with that value of the label whose labels and taints suit, (N,)."""
        known = self._within.get(wanted)
        if known is None:
            shape, key, value = wanted
            known = self._hosts[shape]
            if key:
                known = known & self._domain(key, value)
            self._within[wanted] = known
        return known

    def _domain(self, key: str, value: str) -> Mask:
        """Nodes with that value of the label, (N,)."""
        known = self._domains.get((key, value))
        if known is None:
            same = [labels.get(key, "") == value for labels in self._labels]
            known = self._domains[key, value] = np.array(same, dtype=np.bool_)
        return known
