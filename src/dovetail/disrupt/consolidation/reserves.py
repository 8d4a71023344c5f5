"""Where the scheduler puts the pods of nodes that go, and what that leaves of the room of CapacityBuffers.

The scheduler knows of no virtual pods: it fills their room like any other, then they are placed anew.
With a plan in which all had a place, two of 21 commands of an evening left buffers short of room that no new
pod had taken: a node was bought 24 s after one had gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.consolidation.rescheduling import UNITS_PER_POD, Rescheduling
from dovetail.model.problem import ExistingNode
from dovetail.solve.budget import SolveBudget


class Reserves:
    """Rescheduling, and whether the virtual pods find room after it. Without any it is the former alone.

    `_asked` is the last question with virtual pods, `_seen` that question as the scheduler knows it and
    `_after` as it is once pods that need a place anyway are bound. `_bare` are its nodes, with and
    without virtual pods.
    """

    def __init__(self) -> None:
        self._scheduler = Rescheduling()
        self._all = Rescheduling()
        self._asked: Question | None = None
        self._seen: Question | None = None
        self._after: Question | None = None
        self._bare: dict[str, tuple[ExistingNode, ExistingNode]] = {}

    def left_over(
        self, question: Question, leaving: Sequence[Candidate], work: SolveBudget
    ) -> frozenset[str]:
        """Names of those of these nodes of which a pod finds no room elsewhere once its turn comes.

        Where only virtual pods find none, whichever node they are on, it is the second half of these nodes.
        """
        seen, going = self._as_seen(question, leaving)
        lost = self._scheduler.left_over(seen, going, work)
        if lost or self._room_left(question, leaving, work):
            return lost
        return frozenset(one.name for one in leaving[len(leaving) // 2 :])

    def together(
        self, question: Question, candidates: Sequence[Candidate], work: SolveBudget
    ) -> tuple[Candidate, ...]:
        """As many of these nodes as can go together without a pod left over, in order. Greedy."""
        seen, going = self._as_seen(question, candidates)
        names = {one.name for one in self._scheduler.together(seen, going, work)}
        gone = tuple(one for one in candidates if one.name in names)
        while gone and not self._room_left(question, gone, work):
            gone = gone[: len(gone) // 2]
        return gone

    def places(
        self, question: Question, leaving: Sequence[Candidate]
    ) -> Mapping[str, tuple[str, ...]] | None:
        """Which nodes take which pods of these, by key; None where one is left over."""
        if not self._room_left(question, leaving):
            return None
        return self._scheduler.places(*self._as_seen(question, leaving))

    def _room_left(
        self, question: Question, leaving: Sequence[Candidate], work: SolveBudget | None = None
    ) -> bool:
        """True iff virtual pods find room once the scheduler has placed the pods of these nodes."""
        if not question.reserved:
            return True
        if work is not None:
            work.spend(2 * UNITS_PER_POD * sum(len(one.pods) for one in leaving))
        seen, going = self._as_seen(question, leaving)
        bound = self._scheduler.bound(seen, going)
        assert self._after is not None
        return bound is not None and self._all.leaves_room(self._after, leaving, bound)

    def _as_seen(
        self, question: Question, leaving: Sequence[Candidate]
    ) -> tuple[Question, Sequence[Candidate]]:
        """The question and these nodes without virtual pods."""
        if not question.reserved:
            return question, leaving
        if question is not self._asked or self._seen is None:
            problem = question.problem
            self._bare = {node.name: (node, self._without(node, question)) for node in problem.nodes}
            nodes = tuple(bare for _, bare in self._bare.values())
            self._asked = question
            self._seen = replace(question, problem=replace(problem, nodes=nodes))
            self._after = replace(question, problem=replace(problem, pods=()))
        return self._seen, [_without(one, question) for one in leaving]

    def _without(self, node: ExistingNode, question: Question) -> ExistingNode:
        """The very same as for the last question if the node is the very same."""
        known = self._bare.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        pods = tuple(pod for pod in node.pods if pod.metadata.uid not in question.reserved)
        return node if len(pods) == len(node.pods) else replace(node, pods=pods)


def _without(candidate: Candidate, question: Question) -> Candidate:
    pods = tuple(pod for pod in candidate.pods if pod.metadata.uid not in question.reserved)
    return candidate if len(pods) == len(candidate.pods) else replace(candidate, pods=pods)
