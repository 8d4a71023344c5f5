"""Cron schedules as Kubernetes reads them: five fields or a name such as @daily."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dovetail.base.clock import SECOND
from dovetail.units.duration import parse_duration

# Later than any instant that matters: the answer for a date that does not exist (30 February).
NEVER = 2**63 - 1

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_EVERY = re.compile(r"@every +(\S+)")
_ZONES = ("TZ=", "CRON_TZ=")
_ITEM = re.compile(r"(?:[*?]|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values from `low` on

    def normalise(self, text: str) -> str:
        """`*`, or all values by number; `*` is kept because it decides how days combine."""
        values: set[int] = set()
        star = False
        for item in text.split(","):
            low, high, step, is_star = self._range(item)
            values.update(range(low, high + 1, step))
            star = star or (is_star and step == 1)
        return "*" if star else ",".join(str(value) for value in sorted(values))

    def _range(self, item: str) -> tuple[int, int, int, bool]:
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not valid in the {self.name} field")
        step = int(match["step"] or 1)
        if step == 0:
            raise ValueError(f"the step of {item!r} in the {self.name} field is 0")
        if match["low"] is None:
            return self.low, self.high, step, True
        low = self._value(match["low"])
        # "5/15" counts from 5 to the end of the field.
        high = self._value(match["high"]) if match["high"] else self.high if match["step"] else low
        if low > high:
            raise ValueError(f"{item!r} in the {self.name} field ends before it begins")
        return low, high, step, False

    def _value(self, text: str) -> int:
        if text.lower() in self.names:
            return self.low + self.names.index(text.lower())
        value = int(text) if text.isdecimal() and len(text) < 10 else -1
        if not self.low <= value <= self.high:
            raise ValueError(f"{text!r} in the {self.name} field is not within {self.low}-{self.high}")
        return value


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day-of-week", 0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule in one time zone. `fields` is normalised: every field is `*` or a list of numbers."""

    text: str
    fields: str
    zone: str

    @staticmethod
    def parse(text: str, zone: str = "UTC") -> Cron:
        """Read a schedule; raises ValueError with what would be valid."""
        _zone(zone)
        body = _NAMED.get(text.strip(), text).split()
        if len(body) != len(_FIELDS):
            raise ValueError(_complaint(text, f"it has {len(body)} fields"))
        try:
            fields = " ".join(field.normalise(part) for field, part in zip(_FIELDS, body, strict=True))
        except ValueError as error:
            raise ValueError(_complaint(text, str(error))) from None
        return Cron(text, fields, zone)

    def next_after(self, nanoseconds: int) -> int:
        """The first hit strictly after the instant; NEVER where no such date exists.

        An hour that the zone skips in spring is made up for right after the gap.
        """
        return _next(self.fields, self.zone, nanoseconds // SECOND)


@dataclass(frozen=True, slots=True)
class Every:
    """A schedule of a fixed distance, counted from the hit before: `@every 1h30m`."""

    seconds: int

    def next_after(self, nanoseconds: int) -> int:
        return (nanoseconds // SECOND + self.seconds) * SECOND


def schedule_of_jobs(text: str, zone: str = "UTC") -> Cron | Every:
    """The schedule of a CronJob; raises ValueError with what would be valid."""
    if text.startswith(_ZONES):
        named, _, rest = text.partition(" ")
        raise ValueError(
            f"{text!r} names a time zone, for which there is a field: write timeZone: "
            f"{named.partition('=')[2]} and schedule: {rest.strip()!r}"
        )
    distance = _EVERY.fullmatch(text.strip())
    if distance is None:
        return Cron.parse(text, zone)
    _zone(zone)
    try:
        return Every(max(parse_duration(distance[1]) // SECOND, 1))
    except ValueError as error:
        raise ValueError(_complaint(text, str(error))) from None


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; valid are names such as Asia/Seoul") from None


@lru_cache(maxsize=4096)
def _next(fields: str, zone: str, second: int) -> int:
    try:
        hit = next(CronSim(fields, datetime.fromtimestamp(second, _zone(zone))))
    except (StopIteration, CronSimError, OverflowError, OSError):  # none, or beyond the years that dates have
        return NEVER
    return int(hit.timestamp()) * SECOND


def _complaint(text: str, why: str) -> str:
    return (
        f"{text!r} is not a cron schedule: {why}; valid are five fields (minute hour day-of-month month "
        f"day-of-week), such as '0 9 * * 1-5', or one of {', '.join(_NAMED)}"
    )
