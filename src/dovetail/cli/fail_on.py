"""`--fail-on`: what of a plan ends the command with an exit code of its own, for pipelines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.base.errors import InputError
from dovetail.model.offering import NANO_DOLLARS
from dovetail.model.plan import Plan

FAILED = 3  # the exit code
_VALID = "valid: unschedulable, cost>DOLLARS (an hour), gap>PERCENT, such as cost>12.5 or gap>5"
_LIMIT = re.compile(r"(cost|gap)\s*>\s*\$?(\d+(?:\.\d+)?)\s*%?")


@dataclass(frozen=True, slots=True)
class Condition:
    """`limit` is dollars per hour for cost, per cent for gap."""

    text: str
    what: str
    limit: float = 0.0

    def broken(self, plan: Plan) -> str:
        """Why the plan fails, in one line; "" if it does not."""
        if self.what == "unschedulable":
            count = len(plan.unschedulable)
            some = f" ({len(plan.untried)} of them not looked at in the time)" if plan.untried else ""
            return f"{count} pod{'' if count == 1 else 's'} left over{some}" if count else ""
        if self.what == "cost":
            dollars = plan.cost.hourly / NANO_DOLLARS
            return f"${dollars:.4f}/h is more than ${self.limit:g}/h" if dollars > self.limit else ""
        percent = 100 * plan.cost.gap
        return f"a gap of {percent:.2f} % is more than {self.limit:g} %" if percent > self.limit else ""


def conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Several may be in one text, with commas between them. Raises InputError."""
    return tuple(_read(part.strip()) for text in texts for part in text.split(","))


def _read(text: str) -> Condition:
    if text == "unschedulable":
        return Condition(text, text)
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no condition", source="--fail-on", remedy=_VALID)
    return Condition(text, match[1], float(match[2]))
