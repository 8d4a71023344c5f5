"""The texts that OpenCost takes for a window of time, with the same answers and the same errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dovetail.base.clock import DAY, HOUR, MINUTE, SECOND

WEEK = 7 * DAY
_UNITS = {"m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK}
_DURATION = re.compile(r"([0-9]+)([mhdw])")
_OFFSET = re.compile(r"([0-9]+)([mhdw]) offset ([0-9]+)([mhdw])")
_SECONDS = re.compile(r"([0-9]+)[,|-]([0-9]+)")
_INSTANT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_INSTANTS = re.compile(rf"({_INSTANT}),({_INSTANT})")
# OpenCost multiplies an offset in weeks by 24 once more; who asks it and us shall get the same.
_OFFSET_WEEK = 24 * WEEK
_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` up to `end`, in nanoseconds since the epoch."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Nanoseconds; not above 0 for a window that is empty or the wrong way round."""
        return self.end - self.start

    def steps(self, step: int) -> list[Window]:
        """It in pieces of `step`; the last one may reach beyond the end, as OpenCost's does."""
        return [Window(start, start + step) for start in range(self.start, self.end, step)]


def parse_window(text: str, now: int) -> Window:
    """The window of a text; `now` in nanoseconds since the epoch, days and weeks are those of UTC.

    Raises ValueError in OpenCost's words ("illegal window: ...").
    """
    named = _named(text, now)
    if named is not None:
        return named
    if found := _DURATION.fullmatch(text):
        return _recent(int(found[1]), found[2], now, text)
    if found := _OFFSET.fullmatch(text):
        unit = _OFFSET_WEEK if found[4] == "w" else _UNITS[found[4]]
        end = now - int(found[3]) * unit
        return _within(end - int(found[1]) * _UNITS[found[2]], end, text)
    if found := _SECONDS.fullmatch(text):
        return _within(int(found[1]) * SECOND, int(found[2]) * SECOND, text)
    if found := _INSTANTS.search(text):
        try:
            start, end = (_instant(part) for part in found.groups())
        except ValueError:
            raise _illegal(text) from None
        return Window(start, end)
    raise _illegal(text)


def _named(text: str, now: int) -> Window | None:
    today = now - now % DAY
    sunday = today - (_date(today).weekday() + 1) % 7 * DAY
    first = today - (_date(today).day - 1) * DAY
    match text:
        case "today":
            return Window(today, today + DAY)
        case "yesterday":
            return Window(today - DAY, today)
        case "week":
            return Window(sunday, now)
        case "lastweek":
            return Window(sunday - WEEK, sunday)
        case "month":
            return Window(first, now)
        case "lastmonth":
            return Window(first - _date(first - DAY).day * DAY, first)
    return None


def _recent(count: int, letter: str, now: int, text: str) -> Window:
    """The last so many units, up to the end of the present one; weeks end with the present day."""
    unit = _UNITS[letter]
    whole = DAY if letter == "w" else unit
    end = now - now % whole + whole
    return _within(end - count * unit, end, text)


def _within(start: int, end: int, text: str) -> Window:
    """Beyond the years 1 to 9999 no instant can be written: such a window is refused."""
    if start < -62_135_596_800 * SECOND or end > int(_LAST.timestamp()) * SECOND:
        raise _illegal(text)
    return Window(start, end)


def _illegal(text: str) -> ValueError:
    return ValueError(f"illegal window: {text}")


def _instant(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * SECOND


def _date(at: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=at // SECOND)
