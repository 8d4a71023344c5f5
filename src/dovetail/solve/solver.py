"""The solver's door: Problem and a budget of counted work in, Plan out."""

from __future__ import annotations

from dataclasses import replace

from dovetail.model.problem import Budget, Problem
from dovetail.model.volumes import ignored_reason
from dovetail.solve.desk import Desk
from dovetail.solve.openings import merged
from dovetail.solve.placing.items import Item
from dovetail.solve.placing.policy import Policy, fuller, others
from dovetail.solve.plan import Plan, Unschedulable
from dovetail.solve.search import Answer, Search, by_pod
from dovetail.solve.work import Stop, Work, never

_NEAR = 0.001  # gap that is not worth another way to pick domains
_AFFORDABLE = 12  # the budget's rest must allow so many more, or none is tried
_CHEAP = 100_000  # units: so much is spent in any case before pods are left out that had a place alone
_PASSES = 3  # a plan is made anew where its nodes open domains that break a spread


def solve(problem: Problem, budget: Budget | None = None, *, stop: Stop = never) -> Plan:
    """A correct plan for the problem, as cheap as the budget allows. Pure: same input, same plan.

    Once `stop` returns True the best plan so far is returned; if it raises, the solve is given up.
    """
    broken = {
        pod.key: reason
        for pod in problem.pods
        if pod.spec.volumes and (reason := ignored_reason(pod, problem.volumes))
    }
    if broken:
        usable = tuple(pod for pod in problem.pods if pod.key not in broken)
        plan = solve(replace(problem, pods=usable), budget, stop=stop)
        hopeless = [Unschedulable(pod, reason) for pod, reason in broken.items()]
        return replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *hopeless), key=by_pod)))
    work = Work(budget or Budget(), stop)
    return replace(_best(Desk(problem, work)), work=work.used)


def _best(desk: Desk) -> Plan:
    """The best plan of several ways to pick domains, which share one budget."""
    work = desk.world.work
    best, items = _settled(desk, Policy())
    each = work.used - desk.between.spent
    left = desk.stranded(best.plan.unschedulable)
    enough = work.used + max(_CHEAP, work.rest // 2)
    for policy in fuller(desk.world, left) if left else ():
        if work.late or work.used + each > enough:
            break
        answer, _ = _settled(desk, policy)
        best = min(best, answer, key=lambda one: one.rank)
        if not desk.stranded(best.plan.unschedulable):
            break
    if desk.between.berths and best.plan.cost.gap >= _NEAR and work.left:
        followed = Search(desk, {}, Policy()).follow(desk.between.berths)
        best = min(best, followed or best, key=lambda one: one.rank)
    if desk.between.targets and best.plan.cost.gap >= _NEAR and work.left:
        answer, _ = _settled(desk, Policy(targets=desk.between.targets))
        best = min(best, answer, key=lambda one: one.rank)
    for policy in others(desk.world, items):
        if best.plan.cost.gap < _NEAR or each * _AFFORDABLE > work.rest or not work.left:
            break
        answer, _ = _settled(desk, policy)
        best = min(best, answer, key=lambda one: one.rank)
    return best.plan


def _settled(desk: Desk, policy: Policy) -> tuple[Answer, list[Item]]:
    """The best plan with domains picked in one way, and the items that nodes were bought for."""
    search = Search(desk, {}, policy)
    best = answer = search.run()
    for _ in range(_PASSES - 1):
        if not answer.surprises:
            break
        # Nodes for other pods open domains that a spread must then count: plan again, knowing of them.
        search = Search(desk, merged(search.opened, answer.surprises), policy)
        answer = search.run()
        best = min(best, answer, key=lambda one: one.rank)
    return best, search.items
