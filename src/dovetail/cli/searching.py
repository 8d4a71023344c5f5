"""How long a plan is looked for, and what is said of one that more time might have made cheaper."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from dovetail.base.beside import beside
from dovetail.base.clock import SECOND
from dovetail.base.errors import DovetailError, InputError
from dovetail.controllers.provisioning.important import LITTLE, by_priority
from dovetail.model.plan import Plan, Step
from dovetail.model.problem import Budget, Problem
from dovetail.solve.budget import Deadline, SolveBudget, Stop, never
from dovetail.solve.solver import Trace, solve, untraced
from dovetail.units.duration import format_duration
from dovetail.units.money import dollars

if TYPE_CHECKING:
    from dovetail.verify import Violation

GOOD_ENOUGH = 0.01  # gap at which the search ends by itself, unless its length was given
_STEPS = (SECOND, 3 * SECOND, 6 * SECOND)  # one search after the other: the first answers most questions
# Of their sum, what all questions about a cluster have for their answers; the rest is for checking and
# writing them. The answer about 20,000 objects was there after 9.9 s with all of it, after 9.5 s with this.
_SHARED = 0.9
_MANY = 5_000  # pods: the first search would not even come to a first plan
_WHAT_IFS = 10  # a series of what-ifs has so many times the seconds or the work that a single one has
_FURTHER = 3  # times as long is what is proposed to who wants more
_SPENT = 0.9  # of its budget: a search that took less had nothing more to look at
_MAX_SHOWN_FAULTS = 5
_WORTH_A_COPY = 500  # pods: fewer are checked in the time that it takes to copy the process


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, the seconds it took, and whether the search ended before it was done."""

    plan: Plan
    elapsed: float
    cut_short: bool

    @property
    def hope(self) -> int:
        """Nano-dollars per hour by which a longer search may make the plan cheaper, at most."""
        return self.plan.cost.hourly - self.plan.cost.lower_bound if self.cut_short else 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long something is looked at: nanoseconds, or `work` units and no clock.

    `among`: the nanoseconds of all questions, if this one has what is left of them.
    """

    nanoseconds: int
    work: int | None = None
    among: int | None = None

    def budget(self) -> SolveBudget:
        """So much to spend, from now on."""
        if self.work is not None:
            return SolveBudget(Budget(self.work))
        until = time.monotonic_ns() + self.nanoseconds
        return SolveBudget(Budget(sys.maxsize), stop=Deadline(until, time.monotonic_ns))

    def __str__(self) -> str:
        if self.work is not None:
            return f"{self.work:,} units of work"
        seconds = (self.among or self.nanoseconds) / SECOND
        return f"{seconds:g} s"


@dataclass(frozen=True, slots=True)
class Search:
    """`deadline` in nanoseconds, as work and as a clock at once; None: until proven within 1 %, or 10 s.

    `work`: so many units instead, and no clock: the same plan on every machine. `tracing` is asked for
    a trace of each solve. `until`: of a `shared` search, the time of the monotonic clock at its end.
    """

    deadline: int | None = None
    work: int | None = None
    tracing: Callable[[], Trace] = field(default=lambda: untraced)
    until: int | None = None

    @property
    def longest(self) -> int:
        """Nanoseconds that a single search may take."""
        return self.deadline or SECOND

    def explaining(self, *, alone: bool = False) -> Callable[[], bool]:
        """Says when the time for explaining a plan is over, which begins now.

        It has as long as the plan, and a second at least: a short deadline is no reason for a short answer.
        Without an end that was given only the process's own time counts: beside other programs what takes
        0.15 s was not there after a second.
        `alone`: the explanation is all that was asked for, so it has the patience of a whole search.
        """
        within = self.patience.nanoseconds if alone and self.work is None else self.longest
        clock = time.process_time_ns if self.deadline is None and self.until is None else time.monotonic_ns
        until = clock() + max(SECOND, within)
        if self.until is not None:
            until = min(until, self.until)
        return lambda: clock() > until

    def shared(self) -> Search:
        """For an answer to several questions: where no length is given, they have 10 s in all.

        What the process has computed so far is part of it, and what it waited for is not.
        """
        if self.deadline is not None or self.work is not None:
            return self
        return replace(
            self, until=time.monotonic_ns() + round(_SHARED * sum(_STEPS)) - time.process_time_ns()
        )

    def part(self, share: float) -> Search:
        """For one of the questions: that share of the time that is left to them."""
        if self.until is None:
            return self
        now = time.monotonic_ns()
        return replace(self, until=now + round(share * max(0, self.until - now)))

    @property
    def single(self) -> Search:
        """A search without patience, for questions that are asked many times over."""
        return self if self.work is not None else Search(self.longest)

    @property
    def patience(self) -> Patience:
        """With one question."""
        return Patience(self.deadline or sum(_STEPS), self.work)

    @property
    def seconds(self) -> float:
        """What is left of a shared search; infinite for any other."""
        return float("inf") if self.until is None else (self.until - time.monotonic_ns()) / SECOND

    @property
    def what_ifs(self) -> Patience:
        """With a series of `single` questions."""
        if self.work is not None:
            return Patience(0, _WHAT_IFS * self.work)
        if self.until is not None:
            return Patience(round(max(0.0, self.seconds) * SECOND), among=sum(_STEPS))
        return Patience(max(_WHAT_IFS * SECOND, self.longest))

    @staticmethod
    def quick(problem: Problem, within: SolveBudget) -> Plan:
        """A plan as production makes it for a what-if, checked; the clock of `within` may cut it short."""
        from dovetail.disrupt.consolidation.search import QUICK

        stop: Stop = never
        if within.seconds < float("inf"):
            stop = Deadline(time.monotonic_ns() + round(within.seconds * SECOND), time.monotonic_ns)
        plan = solve(problem, Budget.within(QUICK), stop=stop)
        _refuse(_faults(problem, plan))
        return plan

    @property
    def further(self) -> str:
        """The option that has all of it look further."""
        if self.work is not None:
            return f"--work {_FURTHER * self.work}"
        return f"--deadline {format_duration(_FURTHER * max(_WHAT_IFS * SECOND, self.longest))}"

    def answer(self, problem: Problem) -> Answer:
        """Raises DovetailError for a plan that breaks a rule: the checker shares no code with the solver."""
        found = self.unchecked(problem)
        _refuse(_faults(problem, found.plan))
        return found

    def unchecked(self, problem: Problem) -> Answer:
        """An answer to be shown only once it is `checked`."""
        start = time.monotonic_ns()
        plan, cut_short = self._best(problem)
        questions = by_priority(problem, plan)
        try:
            question = next(questions)
            while True:
                if question.thorough:
                    plan, cut_short = self._best(question.problem)
                else:
                    plan = solve(question.problem, Budget.within(LITTLE))
                question = questions.send(plan)
        except StopIteration as end:
            plan = end.value
        return Answer(plan, (time.monotonic_ns() - start) / SECOND, cut_short)

    def _best(self, problem: Problem) -> tuple[Plan, bool]:
        if self.work is not None:
            plan = solve(problem, Budget(self.work), trace=self.tracing())
            return plan, _cut(plan, self.work)
        if self.deadline is not None:
            return _within(problem, self.deadline, self.tracing())
        start = time.monotonic_ns()
        first, *others = _STEPS if len(problem.pods) <= _MANY else _STEPS[1:]
        hurried = self._at_most(first) < first  # by the other questions
        best, cut_short = _within(problem, max(_STEPS[0], self._at_most(first)), self.tracing())
        for step in others:
            # A search that ended by itself was done with its share of the work: with more it looks farther.
            if not best.left and best.cost.gap <= GOOD_ENOUGH:
                break
            if not best.untried:  # else there is no answer yet: the other questions have to wait
                whole, step = step, self._at_most(step)
                hurried = hurried or step < whole
            if time.monotonic_ns() - start >= step:
                continue  # so many pods that a first plan alone takes as long: there is no time to do better
            _report(best, step)
            start = time.monotonic_ns()
            other, cut_short = _within(problem, step, self.tracing())
            best = min(best, other, key=lambda one: (len(one.left), one.cost.hourly, -one.cost.lower_bound))
        return best, (cut_short or hurried) and (bool(best.left) or best.cost.gap > GOOD_ENOUGH)

    def _at_most(self, step: int) -> int:
        return step if self.until is None else min(step, self.until - time.monotonic_ns())


@contextmanager
def checked(problem: Problem, plan: Plan) -> Iterator[None]:
    """The plan is checked while more is worked out about it, which must not be shown before the end.

    Raises DovetailError if it breaks a rule, whatever else went wrong with it.
    """
    with beside(lambda: _faults(problem, plan), worth=len(problem.pods) >= _WORTH_A_COPY) as faults:
        try:
            yield
        except Exception:
            _refuse(faults())
            raise
        _refuse(faults())


def _within(problem: Problem, nanoseconds: int, trace: Trace) -> tuple[Plan, bool]:
    start, budget = time.monotonic_ns(), Budget.within(nanoseconds)
    clock = Deadline(start + nanoseconds, time.monotonic_ns)
    plan = solve(problem, budget, stop=clock, trace=trace)
    over = clock.cut or time.monotonic_ns() - start >= _SPENT * nanoseconds
    return plan, _cut(plan, budget.work, over=over)


@contextmanager
def traced(path: Path | None, *, timed: bool = True) -> Iterator[Traces]:
    """What is given to Search.tracing; written to the file of --trace as well, if there is one.

    Raises InputError where it cannot be written.
    """
    if path is None:
        yield Traces(None, timed=timed)
        return
    try:
        file = path.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InputError(
            error.strerror or str(error),
            source=f"--trace {path}",
            remedy="name a file in a folder that is there",
        ) from None
    with file:
        yield Traces(file, timed=timed)


class Traces:
    """What each phase of the solves of a command did, as lines of JSON values; `timed`: with seconds."""

    def __init__(self, file: TextIO | None, *, timed: bool) -> None:
        self.lines: list[dict[str, Any]] = []
        self._file = file
        self._timed = timed
        self._solves = 0

    def one(self) -> Trace:
        """What writes down the next solve; its time begins now."""
        self._solves += 1
        number, begun = self._solves, time.monotonic_ns()

        def write(step: Step) -> None:
            seconds = {"seconds": round((time.monotonic_ns() - begun) / SECOND, 4)}
            line = {
                "solve": number,
                "phase": step.phase,
                **(seconds if self._timed else {}),
                "work": step.work,
                "incumbent": dollars(step.cost),
                "bound": dollars(step.bound),
                "nodes": step.nodes,
                "left": step.left,
                "columns": step.columns,
                "moves": step.moves,
                "givenUp": step.given_up,
            }
            self.lines.append(line)
            if self._file is not None:
                print(json.dumps(line), file=self._file)

        return write


def _cut(plan: Plan, work: int, *, over: bool = False) -> bool:
    """True iff the plan might be better, and the search ended for want of work or time."""
    better = bool(plan.untried) or (plan.cost.gap > 0 and bool(plan.claims))
    return better and (over or plan.work >= _SPENT * work)


def progress(doing: str, nanoseconds: int) -> None:
    """Say what takes longer than a deadline of a second would let it, to a terminal only."""
    if sys.stderr.isatty():
        text = f"{doing} for up to {nanoseconds // SECOND} s more (--deadline 1s does not)"
        Console(stderr=True, highlight=False).print(text, style="dim")


def _report(best: Plan, step: int) -> None:
    cost = f"${dollars(best.cost.hourly):,.4f}/h, proven within {best.cost.gap:.1%}"
    progress(f"{cost}; searching", step)


def _faults(problem: Problem, plan: Plan) -> tuple[Violation, ...]:
    """The checker is loaded where it runs, which is on another core for a large plan."""
    from dovetail.verify import verify

    return verify(problem, plan)


def _refuse(faults: Sequence[Violation]) -> None:
    """A plan that breaks a rule is never shown."""
    if faults:
        shown = "\n  ".join(
            f"{item.rule}: {item.subject}: {item.message}" for item in faults[:_MAX_SHOWN_FAULTS]
        )
        raise DovetailError(f"the plan breaks {len(faults)} rules, so it is not shown:\n  {shown}")
