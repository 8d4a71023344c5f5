"""Of plans for the same pods, the one that costs least with what is lost of it. Pure.

A plan that is not proven to be near the least is asked for once more, with more time.

Pods that must be spread over zones take each other's places when the scheduler comes to them, and only ever
between nodes: forecasts of four bursts of 112 to 453 pods lost 0.25 % of the plan's cost for each node that
such pods are on. So where these are many, a second question leaves small instance types out, and its answer
is weighed with that price.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.controllers.provisioning.causes import leans
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Cost, Plan
from dovetail.model.problem import Pool, Problem
from dovetail.model.resources import CPU

# A plan that is more than so many percent above what is proven is asked for once more, with so many times the
# deadline. Of eleven bursts of 33 to 137 pods whose plans were more than 2 % above, four cost 0.8 to 2.1 %
# less then, all of them of the eight above 3 %.
FAR = 3
LONGER = 3
# Not for more pods than this. Of nine larger bursts that were far above, plans for 132, 378, 678 and 974 pods
# cost 0.4 to 2.0 % less then; of three for 1,235 to 2,000 pods none was taken, after 9 to 14 s of CPU each.
CROWD = 1_000
# Plans on fewer nodes with such pods are left as they are. Among the nodes of three zones less was lost.
FEW = 6
RISK = 400  # a node with such pods costs one part in so many of the plan
# Milli-CPUs that a type needs to stay in the second question. Of 4,000, 8,000 and 16,000 this one gave the
# plans that were expected to cost least.
SMALL = 8_000


def may_cost_less(problem: Problem, plan: Plan) -> bool:
    """True iff more time may well find a plan that is cheaper by more than the wait costs."""
    if len(problem.pods) > CROWD:
        return False
    return 0 < plan.cost.lower_bound * (100 + FAR) < plan.cost.hourly * 100


def second_question(problem: Problem, plan: Plan) -> Problem | None:
    """The problem without small instance types; None where it is not worth asking.

    Nor where the pools exclude small ones themselves: it would be the same question, with the same answer.
    """
    if _exposed(problem, plan) <= FEW or not any(map(_buys_small, problem.pools)):
        return None
    pools = []
    for pool in problem.pools:
        types = tuple(one for one in pool.instance_types if not _small(one))
        pools.append(replace(pool, instance_types=types))
    return replace(problem, pools=tuple(pool for pool in pools if pool.instance_types))


def _small(one: InstanceType) -> bool:
    return one.capacity.get(CPU, 0) < SMALL


def _buys_small(pool: Pool) -> bool:
    return any(_small(one) and pool.requirements.overlaps(one.requirements) for one in pool.instance_types)


def cheaper(problem: Problem, plan: Plan, longer: Plan) -> Plan:
    """The plan, or the one that took longer if `sturdier` takes it: what either proved holds for it."""
    found = sturdier(problem, plan, longer)
    if found is plan or longer.cost.lower_bound <= found.cost.lower_bound:
        return found
    return replace(found, cost=longer.cost, proof=longer.proof)


def sturdier(problem: Problem, plan: Plan, other: Plan) -> Plan:
    """The plan, or the other one of the second question if it places as much in the same pools for less, the
    risk priced. The bound that was proven of the first holds for both.
    """
    left = {one.pod for one in plan.unschedulable}
    given_up = sum(map(len, other.relaxed.values())) > sum(map(len, plan.relaxed.values()))
    if given_up or any(one.pod not in left for one in other.unschedulable):
        return plan
    if not {claim.pool for claim in other.claims} <= {claim.pool for claim in plan.claims}:
        return plan
    if _priced(problem, other) >= _priced(problem, plan):
        return plan
    bound = min(plan.cost.lower_bound, other.cost.hourly)
    return replace(other, cost=Cost(other.cost.hourly, bound), proof=plan.proof, work=plan.work + other.work)


def _priced(problem: Problem, plan: Plan) -> int:
    return plan.cost.hourly * (RISK + _exposed(problem, plan))


def _exposed(problem: Problem, plan: Plan) -> int:
    """New nodes with pods that lean on other nodes."""
    leaning = {pod.key for pod in problem.pods if leans(pod)}
    return sum(not leaning.isdisjoint(claim.pods) for claim in plan.claims)
