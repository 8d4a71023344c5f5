"""`--savings-plan`: how much of a Compute Savings Plan machines on demand use, by its discount alone.

`dovetail cost --commitments` counts several, reserved instances and rates by type.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.base.errors import InputError


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
    from dovetail.model.offering import parse_dollars

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
