"""How long the cloud takes, drawn per entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dovetail.base.clock import SECOND
from dovetail.base.streams import stream


class Delay(Protocol):
    """A random length of time, in nanoseconds."""

    def draw(self, seed: int, entity: str, purpose: str) -> int:
        """The same for the same arguments."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Anything from `low` to `high` nanoseconds, in whole milliseconds."""

    low: int
    high: int

    def draw(self, seed: int, entity: str, purpose: str) -> int:
        """The same for the same arguments."""
        millisecond = SECOND // 1000
        drawn = stream(seed, entity, purpose).randint(self.low // millisecond, self.high // millisecond)
        return drawn * millisecond
