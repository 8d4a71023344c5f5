"""Exact Kubernetes quantities ("100m", "1.5Gi", "1e3").

A quantity is a whole number of nano-units; anything finer is rounded away from zero, as the API server does.
It admits amounts of any size ("1e1000", 5,000 digits). Here they end at 2^63-1 units with a suffix of 1024,
as there, and at 10^30 units else: more than any machine has, cheap to reckon with, and a float can hold it.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NANO = 1_000_000_000
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_MOST = 10**30 * _NANO
_MOST_BINARY = (2**63 - 1) * _NANO
_PLACES = 40  # decimal places of nano-units: those of _MOST and one more
_DIGITS = 80  # that can matter: those places, 19 of a factor of 1024^6, and enough to know which way to round
_SHORT = 64  # characters of what is remembered: a cache of longer ones could be made to fill the memory
_REMEMBERED = 8_192  # 0.3 KiB each
_SHOWN = 100  # characters of a text in a complaint


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


_SPOKEN = re.compile(r"\s*([+]?\d+(?:[.,]\d+)?)\s*([A-Za-z]+)\s*")
# What suffixes and units people write, in small letters, and how Kubernetes has it.
_MEANT = dict.fromkeys(("vcpu", "vcpus", "cpu", "cpus", "core", "cores"), "")
_MEANT |= {"millicores": "m", "mcpu": "m"}
_MEANT |= {"b": "", "byte": "", "bytes": "", "k": "k", "kb": "k"}
_MEANT |= {f"{letter}{end}".lower(): f"{letter}i" for letter in "KMGTPE" for end in ("i", "ib")}
_MEANT |= {f"{letter}{end}".lower(): letter for letter in "MGTPE" for end in ("b", "")}


def meant_quantity(text: str) -> str:
    """What a text with a slip in its suffix stands for, such as 4Gi for 4GiB; "" for any other."""
    found = _SPOKEN.fullmatch(text)
    suffix = _MEANT.get(found[2].lower()) if found else None
    if found is None or suffix is None:
        return ""
    return found[1].replace(",", ".") + ("m" if found[2] == "m" else suffix)


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


def parse_quantity(text: str | int | float) -> Quantity:
    """Read a quantity as the API server does; raises ValueError with what would be valid."""
    if isinstance(text, str) and len(text) > _SHORT:
        return _parse(text)
    return _remembered(text)


def nanos_if_any(text: object) -> int | None:
    """The nano-units of what may be a quantity; None for what is none."""
    try:
        return parse_quantity(text).nanos if isinstance(text, str | int | float) else None
    except ValueError:
        return None


def _parse(text: str | int | float) -> Quantity:
    if isinstance(text, bool):
        raise ValueError(_complaint(text))
    if isinstance(text, int):
        return Quantity(max(-_MOST, min(_MOST, text * _NANO)))
    match = _PATTERN.fullmatch(str(text).strip())
    if match is None or not (match["whole"] or match["part"]):
        raise ValueError(_complaint(text))
    part, suffix = match["part"] or "", match["suffix"] or ""
    digits = (match["whole"] + part).lstrip("0")
    style, factor, most, power = "decimal", 1, _MOST, 9 - len(part)
    if suffix in _BINARY:
        style, factor, most = "binary", 1024 ** _BINARY[suffix], _MOST_BINARY
    elif match["exponent"] is not None:
        style, power = "exponent", power + _exponent(match["exponent"])
    else:
        power += _DECIMAL[suffix]
    nanos = min(most, _scaled(digits, factor, power))
    return Quantity(-nanos if match["sign"] == "-" else nanos, style)


# Typed, because True == 1 and a boolean is no quantity.
_remembered = lru_cache(maxsize=_REMEMBERED, typed=True)(_parse)


def _scaled(digits: str, factor: int, power: int) -> int:
    """digits * factor * 10^power, rounded up; what is beyond every limit is only beyond it."""
    if not digits:
        return 0
    if len(digits) + power > _PLACES:
        return _MOST
    if len(digits) + power < -_PLACES:
        return 1
    if len(digits) > _DIGITS:
        power += len(digits) - _DIGITS - 1
        digits = digits[:_DIGITS] + ("1" if digits[_DIGITS:].strip("0") else "0")
    numerator = int(digits) * factor
    scale: int = 10 ** abs(power)
    return numerator * scale if power >= 0 else -(-numerator // scale)


def _exponent(text: str) -> int:
    """As large as it matters: a text has fewer digits than 10^9."""
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-").lstrip("0")
    return sign * (int(digits or "0") if len(digits) < 10 else 10**9)


def _complaint(text: object) -> str:
    shown = repr(text) if len(str(text)) <= _SHOWN else f"{str(text)[:_SHOWN]!r}..."
    return (
        f"{shown} is not a quantity; valid are numbers with an optional suffix, "
        "such as 2, 500m, 1.5, 64Mi, 10Gi or 1e3"
    )
