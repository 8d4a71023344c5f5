"""The solver's door: Problem and a budget of counted work in, Plan out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.model.left_out import left_out
from dovetail.model.plan import OUT_OF_TIME, Plan, Unschedulable
from dovetail.model.problem import Budget, Problem
from dovetail.solve.assign.items import Item
from dovetail.solve.assign.strategies import Strategy, fuller, others
from dovetail.solve.budget import SolveBudget, Stop, never
from dovetail.solve.build.opened_domains import merged
from dovetail.solve.build.write import by_pod
from dovetail.solve.instance.shared_quotas import overdrawn
from dovetail.solve.neighbourhood import followed, rearranged
from dovetail.solve.search import Search
from dovetail.solve.search_state import Answer, SolveContext

_NEAR = 0.001  # gap that is not worth another way to pick domains
_AFFORDABLE = 12  # the budget's rest must allow so many more, or none is tried
_CHEAP = 100_000  # units: so much is spent in any case before pods are left out that had a place alone
_LAST = 0.2  # of the work that is left before the last ways: for a last proof
_DEEPER = 4  # times that the program with rules between pods is made larger
_PASSES = 3  # a plan is made anew where its nodes open domains that break a spread


def solve(problem: Problem, budget: Budget | None = None, *, stop: Stop = never) -> Plan:
    """A correct plan for the problem, as cheap as the budget allows. Pure: same input, same plan.

    Once `stop` returns True the best plan so far is returned; if it raises, the solve is given up.
    """
    broken = {pod.key: reason for pod in problem.pods if (reason := left_out(pod, problem.volumes))}
    if broken:
        usable = tuple(pod for pod in problem.pods if pod.key not in broken)
        plan = solve(replace(problem, pods=usable), budget, stop=stop)
        hopeless = [Unschedulable(pod, reason) for pod, reason in broken.items()]
        return replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *hopeless), key=by_pod)))
    work = SolveBudget(budget or Budget(), stop)
    context = SolveContext(problem, work)
    plan = _best(context)
    if not context.instance.commons.all and overdrawn(problem, plan.claims):
        context = SolveContext(problem, work, strict=True)
        plan = _best(context)
    if context.instance.left_out:
        pools = {pool.name: OUT_OF_TIME for pool in problem.pools}
        waiting = [Unschedulable(pod, OUT_OF_TIME, pools) for pod in context.instance.left_out]
        plan = replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *waiting), key=by_pod)))
    return replace(plan, work=work.used)


def _best(context: SolveContext) -> Plan:
    """The best plan of several ways to pick domains, which share one budget."""
    work = context.instance.work
    strategy = Strategy()
    best, items = _settled(context, strategy)
    each = work.used - context.topology_bound.spent
    left = context.stranded(best.plan.left)
    enough = work.used + max(_CHEAP, work.rest // 2)
    for other in fuller(context.instance, left) if left else ():
        if not work.another or work.used + each > enough:
            break
        answer, _ = _settled(context, other)
        if answer.rank < best.rank:
            best, strategy = answer, other
        if not context.stranded(best.plan.left):
            break
    if context.stranded(best.plan.left):
        best = rearranged(context, best)
    best = best.proved()
    best = _as_answered(context, best)
    if context.topology_bound.targets and best.plan.cost.gap >= _NEAR and work.left:
        best = _better(best, _settled(context, replace(strategy, targets=context.topology_bound.targets))[0])
    if context.slice_over and best.plan.cost.gap >= _NEAR and work.left:
        best = _better(best, _settled(context, strategy)[0])
    best = _deepened(context, best)
    with work.sparing(_LAST):
        best = _varied(context, best, others(context.instance, items), each)
    return (best.proved_apart() if best.plan.cost.gap >= _NEAR else best).plan


def _varied(context: SolveContext, best: Answer, ways: Iterator[Strategy], each: int) -> Answer:
    """The best of plans that pick domains in other ways, and of moves; a way takes about so much work."""
    work = context.instance.work
    for strategy in ways:
        if best.plan.cost.gap < _NEAR or each * _AFFORDABLE > work.rest or not work.left:
            break
        best = _better(best, _settled(context, strategy)[0])
    return rearranged(context, best)


def _deepened(context: SolveContext, best: Answer) -> Answer:
    """The best of answers of programs in which more and more nodes are looked at one by one."""
    for _ in range(_DEEPER):
        if best.plan.cost.gap < _NEAR or not context.instance.work.left:
            break
        known = context.topology_bound.answers
        best = best.proved_deeper()
        if context.topology_bound.answers == known:
            break
        best = _as_answered(context, best)
    return best


def _as_answered(context: SolveContext, best: Answer) -> Answer:
    """The best of plans that follow what programs with rules between pods answered last."""
    for target_nodes in context.topology_bound.answers:
        if best.plan.cost.gap < _NEAR or not context.instance.work.left:
            break
        best = _better(best, followed(context, target_nodes, best))
    return best


def _better(best: Answer, other: Answer | None) -> Answer:
    """The better one, with what is proven of it."""
    return other.proved() if other is not None and other.rank < best.rank else best


def _settled(context: SolveContext, strategy: Strategy) -> tuple[Answer, list[Item]]:
    """The best plan with domains picked in one way, and the items that nodes were bought for."""
    search = Search(context, {}, strategy)
    best = answer = search.run()
    for _ in range(_PASSES - 1):
        if not answer.surprises:
            break
        # Nodes for other pods open domains that a spread must then count: plan again, knowing of them.
        search = Search(context, merged(search.opened, answer.surprises), strategy)
        answer = search.run()
        best = min(best, answer, key=lambda one: one.rank)
    return best, search.items
