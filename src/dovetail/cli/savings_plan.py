"""`--savings-plan`: how much of a Compute Savings Plan machines on demand use, by its discount alone.

Of what is played it is short for the scenario's section `commitments`, which has several, reserved instances
and rates by type; `dovetail cost --commitments` counts these for any past.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.base.errors import InputError
from dovetail.cli.tables import hourly, signed_hourly
from dovetail.units.money import dollars, parse_dollars


@dataclass(frozen=True, slots=True)
class Commitment:
    """A Savings Plan: nano-dollars an hour, at prices `discount` (0 to 1) below those on demand."""

    hourly: int
    discount: float

    def used(self, on_demand: int) -> int:
        """What machines on demand, at list prices, use of it. Spot and volumes use nothing."""
        return min(self.hourly, round(on_demand * (1 - self.discount)))

    def saved(self, on_demand: int) -> int:
        """What an hour costs less for having it; negative where it is paid for in vain."""
        return round(self.used(on_demand) / (1 - self.discount)) - self.hourly


def savings_plan_of(hourly: str, discount: str) -> Commitment | None:
    """Of both flags; None without a plan. Raises InputError."""
    try:
        share = float(discount.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InputError(
            f"{discount!r} is no discount", source="--savings-plan-discount", remedy="such as 28%"
        )
    if not hourly:
        return None
    try:
        return Commitment(parse_dollars(hourly.removeprefix("$")), share)
    except ValueError as error:
        raise InputError(str(error), source="--savings-plan", remedy="dollars an hour, such as 18") from None


def as_field(hourly: str, discount: str) -> str:
    """The plan as a field of a scenario, PATH=VALUE; "" without one. Raises InputError."""
    from dovetail.base.yaml_writing import inline

    plan = savings_plan_of(hourly, discount)
    if plan is None:
        return ""
    given = {"name": "savings plan", "hourly": dollars(plan.hourly), "discount": f"{plan.discount:.4%}"}
    return f"commitments.savingsPlans={inline([given])}"


def in_words(plan: Commitment, before: int, after: int, then: str) -> str:
    """What nodes on demand use of it, that come to so much at list prices before and after."""
    used = [plan.used(listed) for listed in (before, after)]
    return (
        f"Of a Savings Plan of {hourly(plan.hourly)} at {plan.discount:.0%} below list prices, "
        f"{hourly(used[0])} is used now and {hourly(used[1])} {then}: "
        f"{hourly(plan.hourly - used[1])} would be paid for nothing. To the sums above it adds "
        f"{signed_hourly(-plan.saved(before))} now and {signed_hourly(-plan.saved(after))} then."
    )


def as_document(plan: Commitment, before: int, after: int) -> dict[str, float]:
    """The same in dollars an hour."""
    return {
        "hourly": dollars(plan.hourly),
        "discount": plan.discount,
        "usedBefore": dollars(plan.used(before)),
        "usedAfter": dollars(plan.used(after)),
        "savedBefore": dollars(plan.saved(before)),
        "savedAfter": dollars(plan.saved(after)),
    }
