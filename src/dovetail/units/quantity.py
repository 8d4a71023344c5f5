"""Exact Kubernetes quantities ("100m", "1.5Gi", "1e3").

A quantity is a whole number of nano-units; anything finer is rounded away from zero, as the API server does.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NANO = 1_000_000_000
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?"
)
_LARGEST_EXPONENT = 100


class Quantity:
    """An exact amount; equal amounts are equal however they are spelt ("1000m" == "1").

    Immutable by convention. Not a dataclass, because msgspec would read those as JSON objects.
    """

    __slots__ = ("nanos", "style")

    def __init__(self, nanos: int, style: str = "decimal") -> None:
        self.nanos = nanos
        # How the amount is written out: "binary" (Ki, Mi), "decimal" (m, k, M) or "exponent" (e3).
        self.style = style

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __repr__(self) -> str:
        return f"Quantity({self})"

    def milli(self) -> int:
        """The amount in thousandths, rounded up."""
        return -(-self.nanos // 1_000_000)

    def value(self) -> int:
        """The amount in whole units, rounded up."""
        return -(-self.nanos // _NANO)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.style if self.nanos else other.style)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.style if self.nanos else other.style)

    def __str__(self) -> str:
        if self.style == "binary" and abs(self.nanos) >= 1024 * _NANO:
            units = -(-abs(self.nanos) // _NANO)  # suffixes of 1024 have no fractions: rounded away from zero
            return _binary_text(units if self.nanos > 0 else -units)
        if self.style == "exponent":
            return _decimal_text(self.nanos, exponent=True)
        return _decimal_text(self.nanos, exponent=False)


def _binary_text(units: int) -> str:
    suffix = ""
    for name in _BINARY:
        if units == 0 or units % 1024:
            break
        units //= 1024
        suffix = name
    return f"{units}{suffix}"


def _decimal_text(nanos: int, *, exponent: bool) -> str:
    if nanos == 0:
        return "0"
    power = -9
    while nanos % 1000 == 0 and power < 18:
        nanos //= 1000
        power += 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    suffix = next(name for name, value in _DECIMAL.items() if value == power)
    return f"{nanos}{suffix}"


# Typed, because True == 1 and a boolean is no quantity.
@lru_cache(maxsize=65_536, typed=True)
def parse_quantity(text: str | int | float) -> Quantity:
    """Read a quantity as the API server does; raises ValueError with what would be valid."""
    if isinstance(text, bool):
        raise ValueError(_complaint(text))
    if isinstance(text, int):
        return Quantity(text * _NANO)
    match = _PATTERN.fullmatch(str(text))
    if match is None or not (match["whole"] or match["part"]):
        raise ValueError(_complaint(text))
    part = match["part"] or ""
    digits = int((match["whole"] or "0") + part)
    style, numerator, power = "decimal", digits, -len(part)
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        style, numerator = "binary", digits * 1024 ** _BINARY[suffix]
    elif match["exponent"] is not None:
        style, power = "exponent", power + _exponent(match["exponent"], text)
    else:
        power += _DECIMAL[suffix]
    power += 9
    nanos = numerator * 10**power if power >= 0 else -(-numerator // 10**-power)
    return Quantity(-nanos if match["sign"] == "-" else nanos, style)


def _exponent(digits: str, text: str | float) -> int:
    value = int(digits)
    if abs(value) > _LARGEST_EXPONENT:
        raise ValueError(_complaint(text))
    return value


def _complaint(text: object) -> str:
    return (
        f"{text!r} is not a quantity; valid are numbers with an optional suffix, "
        "such as 2, 500m, 1.5, 64Mi, 10Gi or 1e3"
    )
