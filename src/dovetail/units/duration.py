"""Lengths of time as text: Go's notation ("1h30m", "500ms") in objects, integer nanoseconds in code.

The longest is Go's, 292 years. What is longer, such as the 99999999h that a NodePool may say, is as long as
that: an instant that far away can still be written, and means never.
"""

from __future__ import annotations

import re
from functools import lru_cache

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NEVER = "Never"
LONGEST = 2**63 - 1
_PLACES = 19  # digits of LONGEST; a fraction of an hour has fewer that matter
_SHORT = 64  # characters of what is remembered: a cache of longer ones could be made to fill the memory
_SHOWN = 100  # characters of a text in a complaint


def parse_duration(text: str) -> int:
    """Nanoseconds; raises ValueError with what would be valid. Days are no unit of Kubernetes."""
    return _remembered(text) if len(text) <= _SHORT else _parse(text)


def _parse(text: str) -> int:
    body = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if body == "0":
        return 0
    total, at = 0, 0
    while at < len(body):
        match = _TERM.match(body, at)
        if match is None or not (match[1] or match[2]):
            raise ValueError(_complaint(text))
        unit, whole, part = _UNITS[match[3]], match[1].lstrip("0"), (match[2] or "")[:_PLACES]
        total += LONGEST if len(whole) > _PLACES else int(whole or 0) * unit
        total += int(part or 0) * unit // 10 ** len(part)
        at = match.end()
    if not body:
        raise ValueError(_complaint(text))
    return max(-LONGEST - 1, -total) if text.startswith("-") else min(LONGEST, total)


_remembered = lru_cache(maxsize=4096)(_parse)


def parse_nillable(text: str) -> int | None:
    """Nanoseconds, or None for "Never" (the feature is off); raises ValueError with what would be valid."""
    if text == _NEVER:
        return None
    if text.lower() == _NEVER.lower():
        raise ValueError(f"{text!r} is not a duration; did you mean {_NEVER!r}?")
    return parse_duration(text)


def format_duration(nanoseconds: int) -> str:
    """The text that Go prints for it: "2m0s", "1h0m0.5s", "100ms"; parses back to the same number."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest == 0:
        return "0s"
    if rest < _UNITS["s"]:
        unit = next(name for name in ("ms", "µs", "ns") if rest >= _UNITS[name])
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    hours, rest = divmod(rest, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    seconds = f"{_decimal(rest, _UNITS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def format_age(nanoseconds: int) -> str:
    """As kubectl shows ages: two units at most, fewer the longer it is ("119s", "3m5s", "60m", "2d7h")."""
    seconds = nanoseconds // _UNITS["s"]
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if seconds < 120:
        return f"{max(0, seconds)}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"


def _decimal(amount: int, unit: int) -> str:
    """amount / unit without trailing zeros; `unit` is a power of ten."""
    whole, part = divmod(amount, unit)
    digits = str(part).zfill(len(str(unit)) - 1).rstrip("0") if part else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _complaint(text: str) -> str:
    hint = ""
    days = re.fullmatch(r"([0-9]{1,6})d", text)
    if days:
        hint = f"; did you mean {int(days[1]) * 24}h?"
    elif re.fullmatch(r"[0-9]{1,9}", text):
        hint = f"; did you mean {text}s?"
    shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
    return f"{shown} is not a duration; valid are numbers with a unit, such as 30s, 5m, 1h30m or 500ms{hint}"
