"""One problem, several budgets: solved anew several times, timed, then checked."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from benchmarks.solve.check import checked
from dovetail.model.plan import Plan
from dovetail.model.problem import WORK_PER_SECOND, Budget, Problem
from dovetail.solve.budget import Deadline
from dovetail.solve.solver import solve

FIRST = 0.0  # the budget that asks for the first plan only
_ONCE = 5.0  # seconds; longer budgets are run once, since they take what they are given


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure."""

    repeat: int = 5
    check: bool = True
    counted: bool = False  # the budget is counted work alone: the same plan on every machine
    budgets: tuple[float, ...] = ()  # seconds, instead of the cases' own


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reached; None for what is not asked."""

    seconds: float | None = None
    over_bound: float | None = None  # cost / proven bound
    over_floor: float | None = None  # cost / resource relaxation
    mib: float | None = None

    def __str__(self) -> str:
        parts = [
            "" if self.seconds is None else f"{self.seconds:g} s",
            "" if self.over_bound is None else f"{self.over_bound:.4g} x bound",
            "" if self.over_floor is None else f"{self.over_floor:.4g} x z0",
            "" if self.mib is None else f"{self.mib:g} MiB",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Row:
    """What one case gave under one budget. Money in dollars per hour, times in seconds, one per run."""

    case: str
    budget: float | None
    pods: int
    nodes: int
    left: int
    hourly: float
    over_bound: float | None
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    over_floor: float | None = None
    violations: int | None = None  # None: not checked
    work: int = 0
    peak_mib: float | None = None
    note: str = ""
    rival: str = ""
    target: Target = field(default_factory=Target)

    @property
    def seconds(self) -> float:
        """Median over the runs of the lesser of wall and CPU time.

        Other programs on the machine lengthen the one, waiting threads of a library the other.
        """
        return statistics.median(map(min, self.wall, self.cpu))

    @property
    def met(self) -> bool | None:
        """Whether all that is asked is reached; None where nothing is."""
        pairs = (
            (self.seconds, self.target.seconds),
            (self.over_bound, self.target.over_bound),
            (self.over_floor, self.target.over_floor),
            (self.peak_mib, self.target.mib),
        )
        asked = [reached is not None and reached <= most for reached, most in pairs if most is not None]
        return all(asked) and not self.left and not self.violations if asked else None


class Case(Protocol):
    """Something that can be measured by name."""

    @property
    def name(self) -> str: ...

    def run(self, settings: Settings) -> list[Row]: ...


@dataclass(frozen=True)
class SolveCase:
    """A problem, made anew for every run so that nothing is remembered from one to the next."""

    name: str
    make: Callable[[], Problem]
    budgets: tuple[float, ...] = (FIRST, 1.0)  # seconds
    targets: Mapping[float, Target] = field(default_factory=dict)  # by budget
    rival: str = ""
    floor: Callable[[], float] | None = None  # the resource relaxation in dollars per hour

    def run(self, settings: Settings) -> list[Row]:
        return [self._row(budget, settings) for budget in settings.budgets or self.budgets]

    @cached_property
    def least(self) -> float | None:
        return self.floor() if self.floor else None

    def _row(self, budget: float, settings: Settings) -> Row:
        wall, cpu = [], []
        for _ in range(1 if budget > _ONCE else settings.repeat):
            problem = self.make()
            gc.collect()
            started, used = time.perf_counter(), time.process_time()
            plan = planned(problem, budget, counted=settings.counted)
            wall.append(time.perf_counter() - started)
            cpu.append(time.process_time() - used)
        broken, how = checked(self.name, problem, plan) if settings.check else (None, "")
        hourly, bound = plan.cost.hourly / 1e9, plan.cost.lower_bound / 1e9
        return Row(
            case=self.name,
            budget=budget,
            pods=len(problem.pods),
            nodes=len(plan.claims),
            left=len(plan.unschedulable),
            hourly=hourly,
            over_bound=hourly / bound if bound else None,
            over_floor=hourly / self.least if self.least else None,
            wall=tuple(wall),
            cpu=tuple(cpu),
            work=plan.work,
            violations=broken,
            note=how,
            rival=self.rival,
            target=self.targets.get(budget, Target()),
        )


def planned(problem: Problem, seconds: float, *, counted: bool) -> Plan:
    """Solve within the seconds (the lesser of wall and CPU time), or the counted work they stand for.

    As in production, the plan is to be there when the seconds are over.
    """
    budget = Budget(work=max(1, int(seconds * WORK_PER_SECOND)))
    if counted or seconds == FIRST:
        return solve(problem, budget)
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()

    def now() -> int:
        return min(time.perf_counter_ns() - wall, time.process_time_ns() - cpu)

    return solve(problem, budget, stop=Deadline(int(seconds * 1e9), now))
