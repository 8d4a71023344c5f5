"""Nodes whose pods all fit into room that other nodes have free, by resources, labels and taints."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge

import numpy as np

from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.solve.budget import SolveBudget

_ROWS_PER_UNIT = 200  # nodes looked at in one unit of work


def deletable(
    question: Question, appraisal: Appraisal, candidates: Sequence[Candidate], work: SolveBudget
) -> tuple[Candidate, ...]:
    """As many of the candidates as can go together, in their order, within the budgets. Greedy.

    Pods go to nodes that stay in any case, then to the candidates that are last in order. Rules between pods
    are not looked at: the solver has the last word.
    """
    room = Room(question, appraisal, candidates, question.closed | question.restless)
    move_budget = question.move_budget()
    gone: list[Candidate] = []
    for candidate in candidates:
        if not work.left:
            break
        shapes = [appraisal.pod_class[pod.key] for pod in candidate.pods]
        if move_budget.holds(candidate.pool, candidate.workloads) and room.move(shapes, candidate):
            move_budget.take(candidate.pool, candidate.workloads)
            gone.append(candidate)
        work.spend(1 + len(candidate.pods) * len(room.names) // _ROWS_PER_UNIT)
    return tuple(gone)


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
        self._filled: dict[int, None] = {}  # nodes that took pods: they stay
        # Shapes that fit nowhere any more, whatever was tried: room that stays taken only shrinks.
        self._hopeless: dict[int, None] = {}
        # Per shape, the first node that takes such a pod: none in front of it does any more, likewise.
        self._start: dict[int, int] = {}
        self._needs = appraisal.vectors.tolist()
        self._sizes = [(-max(need), shape) for shape, need in enumerate(self._needs)]

    def move(self, shapes: Sequence[int], candidate: Candidate) -> bool:
        """Move these pods off the node; False, and nothing moved, if they do not all fit elsewhere."""
        own = self.names[candidate.name]
        if own in self._filled or any(shape in self._hopeless for shape in shapes):
            return False
        taken: list[tuple[int, int]] = []
        for shape in self._largest_first(shapes):
            host = self._take(shape, own, tried=bool(taken))
            if host < 0:
                self._give_back(taken)
                return False
            taken.append((host, shape))
        self._open[own] = False
        self._filled.update((host, None) for host, _ in taken)
        return True

    def homeless(self, shapes: Sequence[int], candidate: Candidate) -> list[int]:
        """Which of these pods of the node find no room elsewhere, the largest first. Nothing moves."""
        own = self.names[candidate.name]
        taken: list[tuple[int, int]] = []
        left = []
        for shape in self._largest_first(shapes):
            host = -1 if shape in self._hopeless else self._take(shape, own, tried=bool(taken))
            if host < 0:
                left.append(shape)
            else:
                taken.append((host, shape))
        self._give_back(taken)
        return left

    def _largest_first(self, shapes: Sequence[int]) -> list[int]:
        return sorted(shapes, key=self._sizes.__getitem__)

    def _give_back(self, taken: Sequence[tuple[int, int]]) -> None:
        for host, shape in taken:
            self._free[:, host] += self._vectors[shape]

    def _take(self, shape: int, own: int, *, tried: bool) -> int:
        """Take room for such a pod elsewhere than on its own node; the node that it is on, or -1.

        `tried`: room is taken that may be given back.
        """
        host = self._start.get(shape, -1)
        if host < 0 or host == own or not self._fits(shape, host):
            host = self._host(shape, own, tried=tried)
        if host >= 0:
            self._free[:, host] -= self._vectors[shape]
        return host

    def _fits(self, shape: int, host: int) -> bool:
        """True iff such a pod fits there as it is now."""
        if not (self._open[host] and self._hosts[shape, host]):
            return False
        return all(map(ge, self._free[:, host].tolist(), self._needs[shape]))

    def _host(self, shape: int, own: int, *, tried: bool) -> int:
        """The first node that takes such a pod, other than its own; -1 if there is none."""
        start = self._start.get(shape, 0)
        fits = self._hosts[shape, start:] & self._open[start:]
        for free, need in zip(self._free, self._needs[shape], strict=True):
            fits &= free[start:] >= need
        host = int(fits.argmax())
        if not fits[host]:
            if not tried:
                self._hopeless[shape] = None
            return -1
        if not tried:
            self._start[shape] = start + host
        if start + host == own:
            fits[host] = False
            host = int(fits.argmax())
        return start + host if fits[host] else -1
