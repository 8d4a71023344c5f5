"""KEDA's cron trigger, daylight saving included: when its window is open, and for how many replicas.

The rules are those of KEDA's cron scaler on its parser of schedules (robfig/cron v3): five fields and no
names such as @daily; a time of day that a zone skips in spring does not occur, one that comes twice in autumn
occurs twice; the search for the next occurrence goes through months, days, hours and minutes in this order,
each step in the zone's own time. `units.cron` reads the schedules of Kubernetes, which differ in all of
these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from dovetail.base.clock import SECOND

_YEARS = 5  # KEDA's parser looks no farther ahead for an occurrence
_HOUR, _MINUTE = 3600, 60
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: i + 1 for i, name in enumerate(_MONTH_NAMES)}
_DAYS = {name: i for i, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
# Of each field the lowest and highest value, and the names that it knows.
_FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the trigger says at an instant; instants are nanoseconds since 1970."""

    active: bool
    value: int  # the metric; its target is 1 a pod
    start: int | None  # the next one, None where there is none
    end: int | None


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """A cron trigger whose metadata KEDA accepts."""

    zone: str
    start: Schedule
    end: Schedule
    replicas: int

    @staticmethod
    def parse(metadata: Mapping[str, str]) -> CronTrigger:
        """Read a trigger's metadata; raises ValueError in KEDA's words, but for the zone: see `observe`."""
        for name in ("timezone", "start", "end", "desiredReplicas"):
            if name not in metadata:
                raise ValueError(f'missing required parameter "{name}" in [triggerMetadata]')
        schedules = {}
        for name in ("start", "end"):
            try:
                schedules[name] = Schedule.parse(metadata[name])
            except ValueError as error:
                raise ValueError(f"error parsing {name} schedule: {error}") from None
        if metadata["start"] == metadata["end"]:
            raise ValueError("start and end can not have exactly same time input")
        replicas = _atoi(metadata["desiredReplicas"])
        if replicas == 0:
            raise ValueError("no desiredReplicas specified")
        return CronTrigger(metadata["timezone"], schedules["start"], schedules["end"], replicas)

    def observe(self, now: int) -> Observation:
        """Whether the window is open at `now`; raises ValueError for an unknown zone.

        It is open exactly when the next start is not before the next end. A start that never comes counts as
        past, an end that never comes as the first of all instants.
        """
        zone = _zone(self.zone)
        start, end = self.start.next_after(now, zone), self.end.next_after(now, zone)
        active = start is None or (end is not None and start >= end)
        return Observation(active, self.replicas if active else 0, start, end)


def metric_name(metadata: Mapping[str, str], index: int) -> str:
    """The name under which KEDA's HPA sees the trigger that is number `index` of its object."""
    start, end = _symbols(metadata["start"]), _symbols(metadata["end"])
    return re.sub(r"[/.:%()]", "-", f"s{index}-cron-{metadata['timezone']}-{start}-{end}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five fields as sets of the values that match; `zone` is the one that the text itself names, if any."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # either day field is open (`*`, `?`), so that a date has to match both; else one is enough
    zone: str | None = None

    @staticmethod
    def parse(text: str) -> Schedule:
        """Raises ValueError in the words of KEDA's parser."""
        if not text:
            raise ValueError("empty spec string")
        zone = None
        if text.startswith(("TZ=", "CRON_TZ=")):
            head, space, text = text.partition(" ")
            zone = head.partition("=")[2]
            if not space:
                raise ValueError(f"expected a schedule after the time zone: {head}")
            try:
                _zone(zone)
            except ValueError:
                raise ValueError(f"provided bad location {zone}: unknown time zone {zone}") from None
            text = text.strip()
        if text.startswith("@"):
            raise ValueError(f"parser does not accept descriptors: {text}")
        fields = text.split()
        if len(fields) != len(_FIELDS):
            raise ValueError(
                f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
            )
        read = [_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
        minutes, hours, days, months, weekdays = (found for found, _ in read)
        any_day = read[2][1] or read[4][1]
        return Schedule(minutes, hours, days, months, weekdays, any_day, zone)

    def next_after(self, now: int, zone: ZoneInfo) -> int | None:
        """The first occurrence strictly after `now`; None for a date that does not exist, such as 30
        February.
        """
        found = _search(self, now // SECOND + 1, zone if self.zone is None else _zone(self.zone))
        return None if found is None else found * SECOND

    def matches_day(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.any_day else of_month or of_week


def _field(text: str, low: int, high: int, names: Mapping[str, int]) -> tuple[frozenset[int], bool]:
    """The values that match, and whether the field is open to all."""
    values: set[int] = set()
    is_open = False
    for item in filter(None, text.split(",")):
        found, item_open = _item(item, low, high, names)
        values.update(found)
        is_open |= item_open
    return frozenset(values), is_open


def _item(text: str, low: int, high: int, names: Mapping[str, int]) -> tuple[range, bool]:
    body, *steps = text.split("/")
    first, *rest = body.split("-")
    is_open = first in ("*", "?")
    if is_open:
        begin, end = low, high
    else:
        begin = end = _value(first, names)
        if len(rest) == 1:
            end = _value(rest[0], names)
        elif rest:
            raise ValueError(f"too many hyphens: {text}")
    step = 1
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    if steps:
        step = _value(steps[0], {})
        if not rest:  # "5/15" counts from 5 to the end of the field
            end = high
        is_open = is_open and step <= 1
    if begin < low:
        raise ValueError(f"beginning of range ({begin}) below minimum ({low}): {text}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {text}")
    if begin > end:
        raise ValueError(f"beginning of range ({begin}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(begin, end + 1, step), is_open


def _value(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    try:
        number = _atoi(text)
    except ValueError as error:
        raise ValueError(f"failed to parse int from {text}: {error}") from None
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def _atoi(text: str) -> int:
    """A 64-bit integer in decimal digits, with Go's words for what is none."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f'strconv.Atoi: parsing "{text}": value out of range')
    return int(text)


def _symbols(schedule: str) -> str:
    text = re.sub(r"\s", "", schedule)
    for symbol, word in (("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")):
        text = text.replace(symbol, word)
    return text


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise ValueError(f"unable to load timezone: unknown time zone {name}") from None


class _Instant:
    """Seconds since 1970, and their wall clock in a zone."""

    __slots__ = ("second", "wall", "zone")

    def __init__(self, second: int, zone: ZoneInfo) -> None:
        self.second = second
        self.zone = zone
        self.wall = datetime.fromtimestamp(second, zone)

    def later(self, seconds: int) -> _Instant:
        return _Instant(self.second + seconds, self.zone)

    def at(self, year: int, month: int, day: int, hour: int = 0) -> _Instant:
        """The instant of a wall time, found as Go's time.Date does where a gap swallows it or it comes twice.

        Its offset is the one in force at the wall time less the offset at the wall time taken as UTC.
        """
        wall = int(datetime(year, month, day, hour, tzinfo=UTC).timestamp())
        offset = _offset(wall, self.zone)
        if offset:
            offset = _offset(wall - offset, self.zone)
        return _Instant(wall - offset, self.zone)


def _offset(second: int, zone: ZoneInfo) -> int:
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


@lru_cache(maxsize=1024)
def _search(schedule: Schedule, second: int, zone: ZoneInfo) -> int | None:
    """The first matching second from `second` on; None within the years that are looked at.

    The first step to another month, day, hour or minute goes to its beginning (`aligned`), later ones keep
    what is smaller: around clock changes this decides which occurrence is found.
    """
    try:
        return _walk(schedule, _Instant(second, zone))
    except (OverflowError, ValueError):  # beyond the years that dates have
        return None


def _walk(schedule: Schedule, now: _Instant) -> int | None:
    last = now.wall.year + _YEARS
    aligned = False
    while now.wall.year <= last:
        now, aligned, again = _to_day(schedule, now, aligned)
        if not again:
            now, aligned, again = _to_minute(schedule, now, aligned)
        if again:
            continue
        if now.wall.second == 0:
            return now.second
        now, aligned = now.later(_MINUTE - now.wall.second), True
    return None


def _to_day(schedule: Schedule, now: _Instant, aligned: bool) -> tuple[_Instant, bool, bool]:
    """On to the month and day; the last is True when a larger field changed: all is looked at again."""
    while now.wall.month not in schedule.months:
        wall = now.wall
        month = wall.year * 12 + wall.month  # counted from 0, the next one
        now, aligned = now.at(month // 12, month % 12 + 1, 1, 0), True
        if now.wall.month == 1:
            return now, aligned, True
    while not schedule.matches_day(now.wall.date()):
        following = now.wall.date() + timedelta(days=1)
        now, aligned = now.at(following.year, following.month, following.day), True
        hour = now.wall.hour
        if hour:  # midnight is skipped that day, or comes twice
            now = now.later((24 - hour if hour > 12 else -hour) * _HOUR)
        if now.wall.day == 1:
            return now, aligned, True
    return now, aligned, False


def _to_minute(schedule: Schedule, now: _Instant, aligned: bool) -> tuple[_Instant, bool, bool]:
    while now.wall.hour not in schedule.hours:
        wall = now.wall
        if not aligned:
            now, aligned = now.at(wall.year, wall.month, wall.day, wall.hour), True
        now = now.later(_HOUR)
        if now.wall.hour == 0:
            return now, aligned, True
    while now.wall.minute not in schedule.minutes:
        if not aligned:
            now, aligned = now.later(-now.wall.second), True
        now = now.later(_MINUTE)
        if now.wall.minute == 0:
            return now, aligned, True
    return now, aligned, False
