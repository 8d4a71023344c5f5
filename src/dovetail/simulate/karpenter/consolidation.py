"""Which nodes go: a binary search over the first hundred together, then one node after the other.

Emptiness and drift come before it and are the same for both policies; what is done about a command, its
budgets and its wait of 15 s are too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from dovetail.disrupt.consolidation.judge import scored
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import (
    FILTERED,
    NO_CHEAPER,
    SPOT_DISABLED,
    TOO_FEW_SPOT,
    Refused,
    worst_price,
)
from dovetail.disrupt.consolidation.question import MULTI, SINGLE, Candidate, Finding, Move, Question, Refusal
from dovetail.disrupt.consolidation.search import Asking
from dovetail.disrupt.obstacles import obstacle
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import WORK_PER_SECOND, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.simulate.karpenter.nodes import offered
from dovetail.solve.budget import SolveBudget

MOST_TOGETHER = 100
SPOT_TYPES = 15  # cheaper ones that a spot node alone must leave to its spot replacement
_MULTI_TIME = 60 * WORK_PER_SECOND
_SINGLE_TIME = 180 * WORK_PER_SECOND
_TOO_MANY = "Can't remove without creating {} candidates"


def search(question: Question, memory: Memory, work: SolveBudget, now: int) -> Asking:  # noqa: ARG001 - the strategy's
    """The first move that the original would make; its own time limits bound it, not `work`."""
    known = memory.recall(question, now)
    if known is not None:
        return known
    finding = yield from _Search(question).run()
    memory.keep(finding)
    return finding


class _Search:
    def __init__(self, question: Question) -> None:
        self._question = question
        self._candidates = sorted(question.candidates, key=lambda candidate: candidate.rank)
        self._stay: dict[str, str] = {}
        self._tried = 0
        self._used = 0

    def run(self) -> Asking:
        move = yield from self._together(self._within_budgets()[: MOST_TOGETHER + 1])
        cut = ""
        if move is None:
            self._used = 0
            for candidate in self._one_by_one():
                if self._used > _SINGLE_TIME:
                    cut = SINGLE
                    break
                move = yield from self._move((candidate,))
                if move is not None:
                    break
        elif self._used > _MULTI_TIME:
            cut = MULTI
        refusals = tuple(Refusal(name, text) for name, text in sorted(self._stay.items()))
        hourly = sum(candidate.price for candidate in self._candidates)
        return Finding(move, refusals, 0, hourly, (), self._tried, cut if move is None else "")

    def _within_budgets(self) -> list[Candidate]:
        left = dict(self._question.allowed)
        found = []
        for candidate in self._candidates:
            if left.get(candidate.pool, 0) > 0:
                left[candidate.pool] -= 1
                found.append(candidate)
        return found

    def _one_by_one(self) -> Iterable[Candidate]:
        """The best of each pool in turn, then the second best of each."""
        pools: dict[str, list[Candidate]] = {}
        for candidate in self._candidates:
            if self._question.allowed.get(candidate.pool, 0) > 0:
                pools.setdefault(candidate.pool, []).append(candidate)
        return (
            candidate for row in zip_longest(*pools.values()) for candidate in row if candidate is not None
        )

    def _together(self, candidates: Sequence[Candidate]) -> Generator[Problem, Plan, Move | None]:
        """The longest beginning of the list that can go at once, as far as halving finds it."""
        best: Move | None = None
        least, most = 1, min(MOST_TOGETHER, len(candidates) - 1)
        while least <= most and self._used <= _MULTI_TIME:
            middle = (least + most) // 2
            move = yield from self._move(candidates[: middle + 1])
            if move is None:
                most = middle - 1
            else:
                best, least = move, middle + 1
        return best

    def _move(self, candidates: Sequence[Candidate]) -> Generator[Problem, Plan, Move | None]:
        problem = self._question.without(candidates, quiet=True)
        plan = yield problem
        self._tried += 1
        self._used += plan.work
        try:
            return judged(self._question, candidates, problem, plan)
        except Refused as refused:
            if len(candidates) == 1:
                self._stay[candidates[0].name] = str(refused)
            return None


def judged(question: Question, candidates: Sequence[Candidate], problem: Problem, plan: Plan) -> Move:
    """The move that the plan stands for: nothing bought, or one cheaper node. Raises Refused."""
    moved = {pod.key for candidate in candidates for pod in candidate.pods}
    found = obstacle(problem, plan, moved)
    if found:
        raise Refused(found)
    if len(plan.claims) > 1:
        raise Refused(_TOO_MANY.format(len(plan.claims)))
    bought = tuple(_cheaper(question, candidates, claim) for claim in plan.claims)
    return scored(question, candidates, plan, bought)


def _cheaper(question: Question, candidates: Sequence[Candidate], claim: PlannedClaim) -> PlannedClaim:
    """The claim with those types only that cost less than the nodes, whatever the cloud picks."""
    pools = {pool.name: pool for pool in question.problem.pools}
    kinds = {kind.name: kind for kind in pools[claim.pool].instance_types}
    prices = {candidate.name: _instance_price(question, candidate) for candidate in candidates}
    spot = labels.SPOT in claim.requirements.get(labels.CAPACITY_TYPE).values
    from_spot = spot and all(candidate.spot for candidate in candidates)
    if from_spot:
        if not question.spot_to_spot:
            raise Refused(SPOT_DISABLED)
        claim = _with(claim, labels.CAPACITY_TYPE, [labels.SPOT])
    listed = [kinds[name] for name in claim.instance_types]
    listed = _below(listed, claim.requirements, sum(prices.values()))
    if len(candidates) > 1:
        listed = _below(listed, claim.requirements, _same_type(candidates, prices, listed))
    if not listed:
        raise Refused(NO_CHEAPER)
    if from_spot and len(candidates) == 1:
        if len(listed) < SPOT_TYPES:
            raise Refused(TOO_FEW_SPOT.format(len(listed)))
        listed = listed[: max(SPOT_TYPES, _needed(claim.requirements, listed))]
    if spot and not from_spot:
        # Types were compared by their price on the spot market: on demand they might cost more than before.
        claim = _with(claim, labels.CAPACITY_TYPE, [labels.SPOT])
    return _listing(claim, listed)


def _instance_price(question: Question, candidate: Candidate) -> int:
    """Nano-dollars per hour of the instance alone: volumes do not count here."""
    pool = next((item for item in question.problem.pools if item.name == candidate.pool), None)
    return candidate.price - (question.problem.extra(pool) if pool else 0)


def _below(kinds: Iterable[InstanceType], wanted: Requirements, price: int | None) -> list[InstanceType]:
    found = [
        kind
        for kind in kinds
        if (worst := worst_price(kind, wanted)) is not None and (price is None or worst < price)
    ]
    for item in wanted:
        if item.min_values is not None and found and _distinct(item.key, found) < item.min_values:
            raise Refused(FILTERED.format(item.key))
    return found


def _same_type(
    candidates: Sequence[Candidate], prices: Mapping[str, int], kinds: Iterable[InstanceType]
) -> int | None:
    """What the new node must cost less than where it might be of a type that goes: that one could stay."""
    names = {kind.name for kind in kinds}
    return min(
        (prices[candidate.name] for candidate in candidates if candidate.offer[0] in names), default=None
    )


def _distinct(key: str, kinds: Iterable[InstanceType]) -> int:
    return len({value for kind in kinds for value in kind.requirements.get(key).values})


def _needed(wanted: Requirements, kinds: Sequence[InstanceType]) -> int:
    """How many of the types, cheapest first, minimums of different values take."""
    minimums = [item for item in wanted if item.min_values is not None]
    return next(
        (
            count
            for count in range(len(kinds) + 1)
            if all(_distinct(item.key, kinds[:count]) >= (item.min_values or 0) for item in minimums)
        ),
        len(kinds),
    )


def _listing(claim: PlannedClaim, kinds: Sequence[InstanceType]) -> PlannedClaim:
    """The claim with these types, of which it lists the cheapest first."""
    named = _with(claim, labels.INSTANCE_TYPE, [kind.name for kind in kinds])
    offers = {kind.name: list(offered(kind, named.requirements)) for kind in kinds}
    least = {name: min(item.price for item in each) for name, each in offers.items() if each}
    names = sorted(least, key=lambda name: (least[name], name))
    best = min(offers[names[0]], key=lambda item: (item.price, item.zone, item.capacity_type))
    extra = claim.volumes + claim.surcharge
    return replace(
        named,
        instance_types=tuple(names),
        instance_type=names[0],
        zone=best.zone,
        capacity_type=best.capacity_type,
        price=best.price + extra,
        worst=max(item.price for each in offers.values() for item in each) + extra,
        price_estimated=best.estimated,
    )


def _with(claim: PlannedClaim, key: str, values: Sequence[str]) -> PlannedClaim:
    named = Requirement.new(key, "In", sorted(values), claim.requirements.get(key).min_values)
    return replace(claim, requirements=Requirements({**claim.requirements.by_key, key: named}))
