"""The solver's door: Problem and a budget of counted work in, Plan out."""

from __future__ import annotations

from dovetail.solve.plan import Plan
from dovetail.solve.problem import Budget, Problem


def solve(problem: Problem, budget: Budget | None = None) -> Plan:
    """A correct plan for the problem, as cheap as the budget allows. Pure: same input, same plan."""
    raise NotImplementedError
