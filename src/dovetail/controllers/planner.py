"""The solver's port: how controllers ask for a plan without knowing where it is made."""

from __future__ import annotations

from typing import Protocol

from dovetail.model.plan import Plan
from dovetail.model.problem import Problem


class Planner(Protocol):
    """Makes plans. Twins: inline for simulations and tests, a worker process for production."""

    async def plan(self, problem: Problem, deadline: int) -> Plan:
        """A correct plan, as cheap as can be found within `deadline` nanoseconds.

        The deadline maps to the solver's counted work; in production the clock ends it as well. Plans are
        made one at a time, in the order in which they were asked for. The caller may be cancelled while it
        waits: nothing then goes on on its behalf, and the next plan is as good as any. Raises PlannerFailed
        when no plan can be had; asking again is fine.
        """
