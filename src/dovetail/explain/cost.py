"""What rules cost: each is lifted alone, and the two plans and their bounds are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.explain.rules import Rule, rules_of
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem

# How a plan is made: the same way for all, so that only the rule makes the difference.
Solve = Callable[[Problem], Plan]


@dataclass(frozen=True, slots=True)
class RulePrice:
    """What lifting one rule saves, in nano-dollars per hour."""

    rule: Rule
    saved: int  # the difference of the two plans; negative where the search was less lucky without the rule
    least: int  # proven: the cheapest plans with and without it differ by that much, 0 or more
    most: int  # proven: they differ by no more than that
    nodes: int  # how many nodes fewer the plan without it has


@dataclass(frozen=True, slots=True)
class Comparison:
    """What there is to compare with: a plan for exactly the pods that have a place."""

    problem: Problem
    plan: Plan
    rules: tuple[Rule, ...]  # the dearest at stake first


def comparison(problem: Problem, plan: Plan, solve: Solve) -> Comparison:
    """Pods that are left over are taken out, so that all plans place the same pods.

    A plan in a hurry may leave others over than the one before did.
    """
    while left := {item.pod for item in plan.unschedulable}:
        problem = replace(problem, pods=tuple(pod for pod in problem.pods if pod.key not in left))
        plan = solve(problem)
    return Comparison(problem, plan, rules_of(problem, plan))


def most_possible(base: Comparison, rule: Rule) -> int:
    """No lifting of the rule saves more, in nano-dollars per hour.

    Pods under fewer rules cost no less than no pods, and the dual values of a proof still prove what the
    others cost when pods are taken away. Rules that may concern any pod can save everything.
    """
    cost = base.plan.cost
    if rule.pods is None:
        return cost.hourly
    worth = sum(item.each * sum(pod in rule.pods for pod in item.pods) for item in base.plan.proof.worth)
    proven = base.plan.proof.bound - worth
    return min(cost.hourly, cost.hourly - proven)


def price_of(base: Comparison, rule: Rule, solve: Solve) -> RulePrice | None:
    """What the rule costs; None when the plan without it leaves pods over: nothing can be compared."""
    without = solve(rule.lift(base.problem))
    if without.unschedulable:
        return None
    before, after = base.plan.cost, without.cost
    return RulePrice(
        rule=rule,
        saved=before.hourly - after.hourly,
        least=max(0, before.lower_bound - after.hourly),
        most=min(most_possible(base, rule), before.hourly - after.lower_bound),
        nodes=len(base.plan.claims) - len(without.claims),
    )


@dataclass(frozen=True, slots=True)
class CostStory:
    """What all rules cost that were tried."""

    base: Comparison
    prices: tuple[RulePrice, ...]  # the dearest first
    unclear: tuple[Rule, ...] = ()  # without them pods were left over
    untried: tuple[Rule, ...] = ()


def cost_story(base: Comparison, tries: int, solve: Solve, step: Callable[[Rule], None]) -> CostStory:
    """Lift up to so many rules, one at a time; `step` is called with each before its turn."""
    prices, unclear = [], []
    worth_trying = [rule for rule in base.rules if most_possible(base, rule) > 0]
    for rule in worth_trying[:tries]:
        step(rule)
        price = price_of(base, rule, solve)
        if price is None:
            unclear.append(rule)
        else:
            prices.append(price)
    prices.sort(key=lambda item: (-item.saved, item.rule.who, item.rule.what))
    return CostStory(base, tuple(prices), tuple(unclear), tuple(worth_trying[tries:]))
