"""The solver's door: Problem and a budget of counted work in, Plan out.

A first plan comes first, the same whatever the budget. Then the phases of the table look for a better one and
for a better proof, stage by stage, as long as there is budget and the gap is worth it. What counts is the
best plan so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dovetail.devices.demand import solved_with_devices
from dovetail.gangs import whole_gangs
from dovetail.model.left_out import all_left_out
from dovetail.model.plan import OUT_OF_TIME, Plan, Step, Unschedulable
from dovetail.model.problem import Budget, Problem
from dovetail.solve.assign.strategies import Strategy, fuller
from dovetail.solve.assign.topology_rules import matters
from dovetail.solve.budget import LITTLE, Late, SolveBudget, Stop, never
from dovetail.solve.build.opened_domains import merged
from dovetail.solve.build.write import by_pod
from dovetail.solve.instance.shared_quotas import overdrawn
from dovetail.solve.neighbourhood import followed, rearranged
from dovetail.solve.search import Search
from dovetail.solve.search_state import Answer, SolveContext
from dovetail.solve.tolerances import CLOSE, GAP, PASSES

# Pods. Where less time is left than a first plan of so many took, phases gain nothing: their patterns do not
# come to an end (8 crowds of 5,000 to 20,000 pods of 150 to 700 classes, first plans after half the time).
_CROWD = 5_000
_CHEAP = 100_000  # units: so much is spent in any case before pods are left out that had a place alone


Trace = Callable[[Step], None]


def untraced(_: Step) -> None:
    """No follower."""


def solve(
    problem: Problem, budget: Budget | None = None, *, stop: Stop = never, trace: Trace = untraced
) -> Plan:
    """A correct plan for the problem, as cheap as the budget allows. Pure: same input, same plan.

    Once `stop` returns True the best plan so far is returned; if it raises, the solve is given up. `trace` is
    called after each phase.
    """
    units = (budget or Budget()).work

    def ask(asked: Problem, units: int) -> Plan:
        return solve(asked, Budget(units), stop=stop, trace=trace)

    if problem.gangs and problem.buys and problem.places:
        return whole_gangs(problem, units, ask)
    if problem.claims_devices:
        return solved_with_devices(problem, units, ask)
    if broken := all_left_out(problem.pods, problem.volumes):
        plan = ask(replace(problem, pods=tuple(pod for pod in problem.pods if pod.key not in broken)), units)
        hopeless = [Unschedulable(pod, reason) for pod, reason in broken.items()]
        return replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *hopeless), key=by_pod)))
    work = SolveBudget(Budget(units), stop)
    if not problem.places:
        return replace(Search(SolveContext(problem, work), {}, Strategy()).bounded(), work=work.used)
    plan, context = _best(SolveContext(problem, work), trace)
    if context.instance.left_out:
        pools = {pool.name: OUT_OF_TIME for pool in problem.pools}
        waiting = [Unschedulable(pod, OUT_OF_TIME, pools) for pod in context.instance.left_out]
        plan = replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *waiting), key=by_pod)))
    return replace(plan, work=work.used)


class _Overdrawn(Exception):
    """A plan takes too much of what pools draw on together, of which the instance did not keep count; or it
    leaves pods over that might have a place if limits were not taken for endless."""


class _Solve:
    """The best answer so far, and what phases tell each other."""

    def __init__(self, context: SolveContext) -> None:
        self.context = context
        self.work = context.instance.work
        self.strategy = Strategy()  # the best way to pick domains so far
        with self.work.frugally():
            self.best = _settled(context, self.strategy)
        self.hurried = self.work.time_over  # True iff a clock cut that short
        if self.overdraws(self.best):
            raise _Overdrawn
        self.work.safe()

    def overdraws(self, answer: Answer) -> bool:
        instance = self.context.instance
        return not instance.commons.all and overdrawn(instance.problem, answer.plan.claims)

    @property
    def worthwhile(self) -> bool:
        """True iff there may be a better plan, and budget to look for it."""
        return self.work.left and self.best.plan.cost.gap >= GAP

    @property
    def done(self) -> bool:
        """True iff nothing is known that a search could make better."""
        surprises, _, given_up, *_ = self.best.rank
        return self.best.plan.cost.gap < GAP and not (surprises or given_up or self.stranded)

    @property
    def stranded(self) -> tuple[int, ...]:
        """Classes with pods that are left over although they had a place if they were alone."""
        return self.context.stranded(self.best.plan.left)

    def offer(self, other: Answer | None) -> None:
        """Take it if it is better, or as good and no less is proven, with what is proven of it."""
        if other is None:
            return
        # What is as good may be the same plan: `_found` took it before anything was proven of it.
        if (other.rank, self.best.proven and not other.proven) < (self.best.rank, True):
            if self.overdraws(other):
                raise _Overdrawn
            self.best = other
            self.best = other.proved()

    def _found(self, other: Answer) -> None:
        """Take it if it is better: a proof follows, if there is budget for it."""
        if other.rank < self.best.rank and not self.overdraws(other):
            self.best = other

    def _welcome(self, left: int, hourly: int) -> bool:
        return (left, hourly) < (len(self.best.plan.unschedulable), self.best.plan.cost.hourly)

    def once_more(self) -> None:
        """A stage begins: there is more work for each packing and each proof than there was."""
        self.context.again()
        self.best = replace(self.best, proven=False)

    def settle(self, strategy: Strategy) -> None:
        """The best plan with domains picked in one way is offered."""
        self.offer(_settled(self.context, strategy))

    def step(self, phase: str, *, given_up: bool = False) -> Step:
        """What is known now."""
        plan, work = self.best.plan, self.work
        known = plan.cost.hourly, plan.cost.lower_bound, len(plan.claims), len(plan.unschedulable)
        return Step(phase, work.used, *known, work.tally["columns"], work.tally["moves"], given_up)

    def begin(self) -> None:
        """A first plan in as little time as can be: the way to pick domains that places most pods.

        What a clock cut short is made anew where there is time enough after all.
        """
        with self.work.frugally():
            if self.hurried and not self.work.time_over:
                self.settle(self.strategy)
            each, left = self.work.used, self.stranded if self.work.another else ()
            enough = self.work.used + _CHEAP
            for other in fuller(self.context.instance, left) if left else ():
                if not self.work.another or self.work.used + each > enough:
                    break
                answer = _settled(self.context, other)
                if answer.rank < self.best.rank:
                    self.best, self.strategy = answer, other
                if not self.stranded:
                    break
            self.best = self.best if self.work.time_over else rearranged(self.context, self.best)
        wronged = self.stranded and self.context.instance.loose & self.best.case.refusing
        if wronged or self.overdraws(self.best):
            raise _Overdrawn
        self.context.found, self.context.welcome = self._found, self._welcome


def _best(context: SolveContext, trace: Trace) -> tuple[Plan, SolveContext]:
    """The best plan that keeps to what pools draw on together, and what it was made with."""
    state: _Solve | None = None
    try:
        state = _Solve(context)
        return _searched(state, trace).plan, context
    except _Overdrawn:
        context.instance.work.unsafe()
    strict = SolveContext(context.instance.problem, context.instance.work, strict=True)
    best = _searched(_Solve(strict), trace)
    if state is not None and not state.overdraws(state.best) and state.best.rank < best.rank:
        return state.best.plan, context  # what was there before one was overdrawn
    return best.plan, strict


def _searched(state: _Solve, trace: Trace) -> Answer:
    """The first plan, and whatever is better and comes in time."""
    current = FIRST_PLAN
    if not state.context.instance.problem.buys:
        return state.best
    try:
        state.begin()
        trace(state.step(current))
        clock, pods = state.work.clock, state.context.instance.problem.pods
        clock.cut = not state.done and (not state.work.left or (len(pods) >= _CROWD and clock.halfway))
        if clock.cut or state.done:
            return state.best.proved_quickly()
        for number, _ in enumerate(state.work.stages()):
            if number and state.best.plan.cost.gap < GAP:
                break
            if number:
                state.once_more()
            for name, phase in PHASES:
                current = name
                phase(state)
                trace(state.step(current))
                if state.done:
                    return state.best
        return state.best.proved()
    except Late:
        trace(state.step(current, given_up=True))
    state.work.unsafe()
    return state.best.proved()


def _at_once(state: _Solve) -> None:
    """Where few patterns of nodes matter under rules between pods, the best choice of them."""
    if state.best.plan.cost.hourly:  # nothing else is to be proven, and there may be nothing for sale
        state.best = state.best.proved_deeper(first=True)
    _as_answered(state)
    state.context.stale = set(state.context.proofs)
    state.best = replace(state.best, proven=False)


def _again(state: _Solve) -> None:
    """Nodes anew by column generation and local search, with domains picked as for the first plan."""
    state.context.appraise()
    state.settle(replace(state.strategy, targets=state.context.topology_bound.shares))
    if state.stranded:
        state.offer(rearranged(state.context, state.best))
    state.best = state.best.proved()


def _as_answered(state: _Solve) -> None:
    """Plans that follow what the program with rules between pods answered last.

    An answer that is known to cost less is followed though the program used up the work.
    """
    bound, work = state.context.topology_bound, state.work
    for number, target_nodes in enumerate(bound.answers):
        cheaper = not number and bound.cost < state.best.plan.cost.hourly * CLOSE
        if not (state.worthwhile or (cheaper and not work.time_over)):
            break
        state.offer(followed(state.context, target_nodes, state.best))


def _at_targets(state: _Solve) -> None:
    """Domains as that program shares pods out to them; once more if a packing was cut short for its sake."""
    if state.context.topology_bound.targets and state.worthwhile:
        state.settle(replace(state.strategy, targets=state.context.topology_bound.targets))
    if state.context.slice_over and state.worthwhile:
        state.settle(state.strategy)


def _deepened(state: _Solve) -> None:
    """Answers of programs in which more and more nodes are looked at one by one."""
    for _ in range(PASSES):
        if not state.worthwhile:
            break
        known = state.context.topology_bound.answers
        state.best = state.best.proved_deeper()
        if state.context.topology_bound.answers == known:
            break
        _as_answered(state)


def _as_seen(state: _Solve) -> None:
    """Domains where spreads look at nodes that are there alone, if pods run on some."""
    if matters(state.context.instance) and state.worthwhile:
        with state.work.sparing(LITTLE):
            state.settle(Strategy(seen=True))


def _moved(state: _Solve) -> None:
    """The pods of one or two nodes look for other places."""
    with state.work.sparing(LITTLE):
        state.offer(rearranged(state.context, state.best))


FIRST_PLAN = "first plan"  # the phase before those of the table
PHASES: tuple[tuple[str, Callable[[_Solve], None]], ...] = (
    ("few patterns", _at_once),
    ("column generation", _again),
    ("follow the bound", _as_answered),
    ("domains of the bound", _at_targets),
    ("deeper bound", _deepened),
    ("domains with nodes", _as_seen),
    ("moves", _moved),
)


def _settled(context: SolveContext, strategy: Strategy) -> Answer:
    """The best plan with domains picked in one way."""
    search = Search(context, {}, strategy)
    best = answer = search.run()
    for _ in range(PASSES - 1):
        if not answer.surprises:
            break
        # Nodes for other pods open domains that a spread must then count: plan again, knowing of them.
        search = Search(context, merged(search.opened, answer.surprises), strategy)
        answer = search.run()
        best = min(best, answer, key=lambda one: one.rank)
    return best
