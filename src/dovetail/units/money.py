"""Money: integer nano-dollars (mostly an hour) in code, dollars in texts and documents.

Integers, so that ties and sums are exact.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

NANO_DOLLARS = 1_000_000_000
DEAREST = 1_000_000  # dollars per hour; the dearest machine for sale costs about 400
HOURS_A_MONTH = 730  # as AWS's own calculator counts


def parse_dollars(text: str) -> int:
    """Nano-dollars of an amount such as 0.35 or $2, rounded down. Raises ValueError."""
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise ValueError(f"{text!r} is not an amount of dollars such as 0.35 or $2")
    if amount < 0:
        raise ValueError(f"{text!r} is below zero")
    if amount > DEAREST:
        raise ValueError(f"{text!r} is more than ${DEAREST:,}")
    return int(amount * NANO_DOLLARS)


def dollars(nanos: int) -> float:
    """Nano-dollars as dollars, unrounded."""
    return nanos / NANO_DOLLARS


def monthly(nanos: int) -> float:
    """Nano-dollars per hour as dollars per month of 730 hours, unrounded."""
    return nanos * HOURS_A_MONTH / NANO_DOLLARS
