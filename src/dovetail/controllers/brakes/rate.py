"""At most so many of something per interval."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from dovetail.units.duration import format_duration, parse_duration


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` per `interval` nanoseconds, written as `50/10m`."""

    count: int
    interval: int

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Raises ValueError for what is no rate."""
        count, slash, interval = text.partition("/")
        if not slash or not count.isascii() or not count.isdigit() or int(count) < 1:
            raise ValueError(f"{text!r} is not a number of at least 1 and a duration, such as 50/10m")
        length = parse_duration(interval)
        if length <= 0:
            raise ValueError(f"{text!r} has no interval above 0; valid is 50/10m")
        return cls(int(count), length)

    def __str__(self) -> str:
        return f"{self.count} per {format_duration(self.interval)}"


class Window:
    """What happened within the last interval. Without a rate everything may happen."""

    def __init__(self, rate: Rate | None) -> None:
        self.rate = rate
        self._taken: deque[tuple[int, int]] = deque()  # (instant, how many)

    def allows(self, wanted: int, now: int) -> bool:
        """True iff `wanted` more may happen now. What is more than the rate may happen alone."""
        if self.rate is None or wanted <= 0:
            return True
        while self._taken and self._taken[0][0] + self.rate.interval <= now:
            self._taken.popleft()
        return not self._taken or sum(count for _, count in self._taken) + wanted <= self.rate.count

    def take(self, count: int, now: int) -> None:
        """It happens."""
        if self.rate is not None and count > 0:
            self._taken.append((now, count))

    def give_back(self, count: int) -> None:
        """So much of what was taken last did not happen."""
        while count > 0 and self._taken:
            instant, there = self._taken.pop()
            if there > count:
                self._taken.append((instant, there - count))
            count -= there
