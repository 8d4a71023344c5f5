"""The plan of a what-if as a move, if it saves enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from dovetail.disrupt.consolidation.balanced import Score
from dovetail.disrupt.consolidation.price import CROWDED, AtMinimum, Refused, affordable
from dovetail.disrupt.consolidation.question import Candidate, Move, Question
from dovetail.disrupt.obstacles import obstacle
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem


def judged(question: Question, candidates: Sequence[Candidate], problem: Problem, plan: Plan) -> Move:
    """The move that the plan stands for; raises Refused, with the reason, if there is none."""
    moved = _moved(candidates)
    found = obstacle(problem, plan, moved)
    if found:
        raise Refused(found)
    if crowds_out(question, candidates, plan):
        raise Refused(CROWDED)
    claims = [claim for claim in plan.claims if not moved.isdisjoint(claim.pods)]
    bought = affordable(question, candidates, claims) if claims else ()
    return scored(question, candidates, plan, bought)


def scored(
    question: Question, candidates: Sequence[Candidate], plan: Plan, bought: tuple[PlannedClaim, ...]
) -> Move:
    """The move of their pods to where the plan has them; Refused if a pool's policy does not allow it."""
    _keeps_enough(question, candidates, bought)
    moved = _moved(candidates)
    places = {
        name: tuple(pod for pod in pods if pod in moved)
        for name, pods in plan.existing.items()
        if not moved.isdisjoint(pods)
    }
    move = Move(tuple(candidates), bought, places)
    scores = question.scores(candidates, move.saving)
    check(scores)
    return replace(move, scores=scores)


def _keeps_enough(
    question: Question, candidates: Sequence[Candidate], bought: Sequence[PlannedClaim]
) -> None:
    """Raises AtMinimum where a pool would have fewer nodes than it is to keep."""
    for pool, left in question.spare.items():
        going = [one for one in candidates if one.pool == pool]
        excess = len(going) - sum(claim.pool == pool for claim in bought) - left
        if excess > 0:
            raise AtMinimum(going[-excess:])


def crowds_out(question: Question, candidates: Sequence[Candidate], plan: Plan) -> bool:
    """True iff pods that are moving already would lose their places to those of these nodes.

    Another node would be bought for them then, or they would have none. (In the burst zones-wished-1236 the
    second of two commands took room that the first had counted on, and saved $0.25 of $0.52 that this cost.)
    """
    if not question.settled:
        return False
    moved = _moved(candidates)
    alone = (claim.pods for claim in plan.claims if moved.isdisjoint(claim.pods))
    without = chain((left.pod for left in plan.unschedulable), *alone)
    return not question.settled.isdisjoint(without)


def mixed(candidates: Sequence[Candidate], plan: Plan) -> bool:
    """True iff a node would be bought for pods of these nodes and for others that need a place anyway."""
    moved = _moved(candidates)
    return any(not moved.isdisjoint(claim.pods) and not moved.issuperset(claim.pods) for claim in plan.claims)


def check(scores: Sequence[Score]) -> None:
    """Raises Refused if the policy of a pool does not allow a move with these scores."""
    for score in scores:
        if score.refused:
            raise Refused(str(score))


def _moved(candidates: Sequence[Candidate]) -> frozenset[str]:
    return frozenset(pod.key for candidate in candidates for pod in candidate.pods)
