"""Nodes that can go one after the other without others in their place, chosen together.

Where budgets let one node go at a time, the first to go decides which others can: its pods take their room,
and what takes them goes no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

import numpy as np

from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.churn import MoveBudget
from dovetail.disrupt.consolidation.judge import scored
from dovetail.disrupt.consolidation.question import Candidate, Move, Question
from dovetail.model.plan import Plan
from dovetail.model.problem import ExistingNode
from dovetail.verify import verify

# Nodes that may go: of more there are too many sets, and the more nodes there are in all, the less it matters
# which go. Of seven 14 to 19 plans without purchases were made, of 2.6 ms each. With up to 18 nodes in all,
# 500 pods on 22 nodes end at 1.076 of their bound after a drift and a loss, with ten pods moved twice, not at
# 1.065 with none; those that gained had up to nine nodes.
FEW = 9
MOST_NODES = 12
_CPU = ("cpu",)


def sets(question: Question, appraisal: Appraisal, nodes: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Sets of these nodes that may go by the limit on moves, the dearest first.

    Of those only whose pods have room on what stays, were it all in one piece.
    """
    spare = _Spare(question, appraisal)
    some = chain.from_iterable(combinations(nodes, size) for size in range(1, len(nodes) + 1))
    for each in sorted(some, key=_dearest):
        if spare.holds(each) and _movable(question, each):
            yield list(each)


def _dearest(nodes: Sequence[Candidate]) -> tuple[float, float, list[str]]:
    return -sum(one.price for one in nodes), sum(one.cost for one in nodes), [one.name for one in nodes]


def _movable(question: Question, nodes: Sequence[Candidate]) -> bool:
    budget = MoveBudget({one.pool: len(nodes) for one in nodes}, question.moves.deleting)
    for one in nodes:
        if not budget.holds(one.pool, one.workloads):
            return False
        budget.take(one.pool, one.workloads)
    return True


class _Spare:
    """What is free on nodes that take pods, as if it were in one piece."""

    def __init__(self, question: Question, appraisal: Appraisal) -> None:
        nodes = question.problem.nodes
        open_ = np.array([node.initialized and node.name not in question.closed for node in nodes])
        self._free = np.maximum(appraisal.capacity, 0) * (open_ & appraisal.hosts.any(axis=0))[:, None]
        self._row = {node.name: row for row, node in enumerate(nodes)}
        self._appraisal = appraisal

    def holds(self, leaving: Sequence[Candidate]) -> bool:
        """True iff pods of these nodes ask for no more than is free on the others."""
        known = self._appraisal.pod_class
        need = self._appraisal.vectors[[known[pod.key] for one in leaving for pod in one.pods]].sum(axis=0)
        gone = [self._row[one.name] for one in leaving]
        return bool((need <= self._free.sum(axis=0) - self._free[gone].sum(axis=0)).all())


def orders(nodes: tuple[ExistingNode, ...]) -> Iterator[tuple[ExistingNode, ...]]:
    """In which nodes may be filled by a plan that buys nothing: it is the first that comes to mind."""
    yield nodes
    yield nodes[::-1]
    yield tuple(sorted(nodes, key=lambda node: node.free(_CPU)))


def first(question: Question, joint: Move, free: Collection[str]) -> Move | None:
    """Of a move that budgets do not allow at once what they do, the dearest first, to the very places.

    `free` names nodes that may go. None goes before the nodes that take its pods are quiet.
    """
    budget = question.move_budget()
    going: list[Candidate] = []
    places: dict[str, tuple[str, ...]] = {}
    for one in sorted(joint.candidates, key=lambda one: (-one.price, one.rank)):
        if one.name not in free or not budget.holds(one.pool, one.workloads):
            continue
        to = dict(_places(joint, one))
        if question.restless.isdisjoint(to):
            budget.take(one.pool, one.workloads)
            going.append(one)
            places = {name: (*places.get(name, ()), *to.get(name, ())) for name in (places | to)}
    return Move(tuple(going), (), places, kept=True) if going else None


def still(
    question: Question, leaving: Sequence[Candidate], places: Mapping[str, tuple[str, ...]]
) -> Move | None:
    """The move of all their pods to these very places, if it is right still and nothing else needs one."""
    pods = tuple(pod for one in leaving for pod in one.pods)
    same = {pod.key for pod in pods} == {key for keys in places.values() for key in keys}
    if not same or question.problem.pods or not question.restless.isdisjoint(places):
        return None
    plan = Plan(existing=places)
    if verify(replace(question.without(leaving, quiet=True), pods=pods), plan):
        return None
    return replace(scored(question, leaving, plan, ()), kept=True)


def _places(joint: Move, one: Candidate) -> Iterable[tuple[str, tuple[str, ...]]]:
    keys = {pod.key for pod in one.pods}
    for name, pods in joint.places.items():
        mine = tuple(pod for pod in pods if pod in keys)
        if mine:
            yield name, mine
