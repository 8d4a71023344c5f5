"""The planner of simulations and tests: solves at once, and charges counted work as time."""

from __future__ import annotations

import asyncio

from dovetail.base.clock import SECOND, Clock
from dovetail.model.plan import Plan
from dovetail.model.problem import WORK_PER_SECOND, Budget, Problem
from dovetail.solve.solver import solve


class InlinePlanner:
    """A Planner that knows no clock but the one given: plans and how long they take never differ.

    `work_per_second` is how fast the simulated machine is.
    """

    def __init__(self, clock: Clock, work_per_second: int = WORK_PER_SECOND) -> None:
        self._clock = clock
        self._rate = work_per_second
        self._turn = asyncio.Lock()

    async def plan(self, problem: Problem, deadline: int) -> Plan:
        """See Planner."""
        async with self._turn:
            plan = solve(problem, Budget.within(deadline, self._rate))
            await self._clock.sleep(plan.work * SECOND // self._rate)
            return plan
