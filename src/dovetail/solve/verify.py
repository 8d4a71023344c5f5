"""A slow, obvious checker of plans, written from the scheduling rules alone."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.solve.plan import Plan
from dovetail.solve.problem import Problem


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: which rule, on what, and why in a sentence."""

    rule: str
    subject: str
    message: str


def verify(problem: Problem, plan: Plan) -> tuple[Violation, ...]:
    """Every rule that the plan breaks; empty for a correct plan."""
    raise NotImplementedError
