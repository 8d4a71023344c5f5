"""Nodes that can go one after the other, with or without some bought in their place, chosen together.

Where budgets let one node go at a time, the first to go decides which others can: its pods take their room,
and what takes them goes no more, or moves them a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations

import numpy as np

from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.churn import MoveBudget
from dovetail.disrupt.consolidation.deletes import Room
from dovetail.disrupt.consolidation.judge import scored
from dovetail.disrupt.consolidation.price import Refused, affordable
from dovetail.disrupt.consolidation.question import Candidate, Move, Question
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Cost, Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Problem
from dovetail.verify import verify

# Nodes that may go: of more there are too many sets, and the more nodes there are in all, the less it matters
# which go. Of seven 14 to 19 plans without purchases were made, of 2.6 ms each. With up to 18 nodes in all,
# 500 pods on 22 nodes end at 1.076 of their bound after a drift and a loss, with ten pods moved twice, not at
# 1.065 with none; those that gained had up to nine nodes.
FEW = 9
MOST_NODES = 12
# Of the sets with a purchase so many are planned at most, at some 40 ms each, of so many that are looked at
# more closely. Where sets were planned that by this look save no more than without a purchase, nine plays
# ended at 1.058 of their bounds instead of 1.043, with 97 evictions instead of 88.
_PURCHASES, _LOOKED_AT = 6, 60
WORTH_THE_REST = 0.25  # of a node's price: replacing it is worth moves that are kept for deletions
# Of so many pods of the node that goes first one at least comes to what is bought: where it was one of 15,
# the scheduler sent it elsewhere, and the new node went as empty as it came.
_SHARE = 4
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


def purchases(
    question: Question, appraisal: Appraisal, nodes: Sequence[Candidate], over: int
) -> list[list[Candidate]]:
    """Sets of several of these nodes that should save more than `over` if one is bought, the best first.

    By what a node costs at least which holds those of their pods that find no room as it is.
    """
    spare = _Spare(question, appraisal)
    some = chain.from_iterable(combinations(nodes, size) for size in range(2, len(nodes) + 1))
    hopes = [(each, spare.saving(each)) for each in some if _movable(question, each)]
    hopes.sort(key=lambda hope: (-hope[1], _dearest(hope[0])))
    found = []
    for each, most in hopes[:_LOOKED_AT]:
        if most <= over:
            break
        room = Room(question, appraisal, (), question.closed | {one.name for one in each})
        left = room.homeless([appraisal.pod_class[pod.key] for one in each for pod in one.pods], each[0])
        least = appraisal.least(left) if left else None
        if least is not None and least < max(one.price for one in each):
            found.append((_price(each) - least, each))
    found.sort(key=lambda one: (-one[0], _dearest(one[1])))
    return [list(each) for saving, each in found[:_PURCHASES] if saving > over]


def cheaper(problem: Problem, price: int) -> Problem:
    """The same where only types are for sale of which some cost less (nano-dollars per hour)."""

    def sold(kind: InstanceType) -> bool:
        return any(offering.launchable and offering.price < price for offering in kind.offerings)

    pools = (replace(pool, instance_types=tuple(filter(sold, pool.instance_types))) for pool in problem.pools)
    return replace(problem, pools=tuple(pool for pool in pools if pool.instance_types))


def pays(move: Move, other: Move | None) -> bool:
    """True iff it saves so much more than the other that replacing what else goes is worth it.

    More is enough where no more pods move for it.
    """
    if other is None or (move.cost <= other.cost and move.saving > other.saving):
        return True
    more = _price(move.candidates) - _price(other.candidates)
    return move.saving - other.saving > WORTH_THE_REST * max(0, more)


def _dearest(nodes: Sequence[Candidate]) -> tuple[float, float, list[str]]:
    return -_price(nodes), sum(one.cost for one in nodes), [one.name for one in nodes]


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

    def saving(self, leaving: Sequence[Candidate]) -> float:
        """Nano-dollars per hour that are saved at most with one bought that is cheaper than one of these."""
        known = self._appraisal
        kinds = [known.pod_class[pod.key] for one in leaving for pod in one.pods]
        gone = [self._row[one.name] for one in leaving]
        lacks = known.vectors[kinds].sum(axis=0) - (self._free.sum(axis=0) - self._free[gone].sum(axis=0))
        fits = known.feasible[np.unique(kinds)].any(axis=0) & (known.column_room >= lacks).all(axis=1)
        sold = known.price[fits & (known.price < max(one.price for one in leaving))]
        return _price(leaving) - float(sold.min()) if sold.size else float("-inf")


def orders(nodes: tuple[ExistingNode, ...]) -> Iterator[tuple[ExistingNode, ...]]:
    """In which nodes may be filled by a plan that buys nothing: it is the first that comes to mind."""
    yield nodes
    yield nodes[::-1]
    yield tuple(sorted(nodes, key=lambda node: node.free(_CPU)))


def first(question: Question, joint: Move, free: Collection[str]) -> Move | None:
    """Of a move that budgets do not allow at once what they do, the dearest first, to the very places.

    `free` names nodes that may go. None goes before the nodes that take its pods are quiet, or are there.
    """
    budget = question.move_budget(alone=True)
    bought = {key for claim in joint.claims for key in claim.pods}
    going: list[Candidate] = []
    places: dict[str, tuple[str, ...]] = {}
    for one in sorted(joint.candidates, key=lambda one: (-one.price, one.rank)):
        if one.name not in free or not budget.holds(one.pool, one.workloads):
            continue
        to = dict(_places(joint, one))
        if bought.isdisjoint(pod.key for pod in one.pods) and question.restless.isdisjoint(to):
            budget.take(one.pool, one.workloads)
            going.append(one)
            places = {name: (*places.get(name, ()), *to.get(name, ())) for name in (places | to)}
    return Move(tuple(going), (), places, kept=True) if going else None


def bought_first(question: Question, joint: Move, free: Collection[str]) -> Move | None:
    """Of a move that buys nodes a part that does, in place of the node most of whose pods come to new ones.

    Those that it buys hold pods of others as well, and are cheaper than that node alone; none comes up empty.
    `free` as in `first`.
    """
    bought = {key for claim in joint.claims for key in claim.pods}
    budget = question.move_budget(replacing=joint.saving < WORTH_THE_REST * _price(joint.candidates))
    coming = {one.name: sum(pod.key in bought for pod in one.pods) for one in joint.candidates}
    for one in sorted(joint.candidates, key=lambda one: (-coming[one.name], -one.price, one.rank)):
        if one.name not in free or not budget.holds(one.pool, one.workloads):
            continue
        if coming[one.name] == 0 or len(one.pods) > _SHARE * coming[one.name]:
            continue
        mine = {pod.key for pod in one.pods}
        claims = tuple(claim for claim in joint.claims if not mine.isdisjoint(claim.pods))
        new = {claim.name: tuple(key for key in claim.pods if key in mine) for claim in claims}
        with suppress(Refused):
            move = still(question, (one,), dict(_places(joint, one)) | new, claims)
            if move is not None:
                return move
    return None


def still(
    question: Question,
    leaving: Sequence[Candidate],
    places: Mapping[str, tuple[str, ...]],
    claims: Sequence[PlannedClaim] = (),
) -> Move | None:
    """The move of all their pods to these very places, if it is right still and nothing else needs one.

    Raises Refused if the claims do not save enough any more.
    """
    pods = tuple(pod for one in leaving for pod in one.pods)
    same = {pod.key for pod in pods} == {key for keys in places.values() for key in keys}
    if not same or question.problem.pods or not question.restless.isdisjoint(places):
        return None
    bought = affordable(question, leaving, claims) if claims else ()
    coming = tuple(replace(claim, pods=places.get(claim.name, ())) for claim in bought)
    names = {claim.name for claim in bought}
    there = {name: keys for name, keys in places.items() if name not in names}
    plan = Plan(coming, there, cost=Cost(sum(claim.price for claim in bought), 0))
    if verify(replace(question.without(leaving, quiet=True), pods=pods), plan):
        return None
    return replace(scored(question, leaving, plan, bought), places=places, kept=True)


def _price(nodes: Sequence[Candidate]) -> int:
    return sum(one.price for one in nodes)


def _places(joint: Move, one: Candidate) -> Iterable[tuple[str, tuple[str, ...]]]:
    keys = {pod.key for pod in one.pods}
    for name, pods in joint.places.items():
        mine = tuple(pod for pod in pods if pod in keys)
        if mine:
            yield name, mine
