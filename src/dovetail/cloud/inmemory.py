"""What clouds in memory share, whichever port they answer through: delays, shortages, a queue, events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import SECOND, Clock, within
from dovetail.base.streams import stream
from dovetail.cloud.choice import Pool
from dovetail.cloud.interruption import BATCH, LONG_POLL, VISIBILITY, Letter
from dovetail.cloud.provider import Instance


class Delay(Protocol):
    """A random length of time, in nanoseconds."""

    def draw(self, seed: int, entity: str, purpose: str) -> int:
        """Equal arguments give equal times."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Anything from `low` to `high` nanoseconds, in whole milliseconds."""

    low: int
    high: int

    def draw(self, seed: int, entity: str, purpose: str) -> int:
        """Equal arguments give equal times."""
        millisecond = SECOND // 1000
        drawn = stream(seed, entity, purpose).randint(self.low // millisecond, self.high // millisecond)
        return drawn * millisecond


@dataclass(frozen=True, slots=True)
class Limit:
    """While it lasts, each pool it names holds at most `capacity` instances of the cluster.

    Instances that run already stay. `since` and `until` are nanoseconds since the epoch, `until` exclusive;
    empty lists mean all.
    """

    capacity: int = 0
    since: int = 0
    until: int | None = None
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()

    def concerns(self, pool: Pool, now: int) -> bool:
        """True iff the limit is in force for the pool."""
        capacity_type, instance_type, zone = pool
        return (
            self.since <= now
            and (self.until is None or now < self.until)
            and (not self.instance_types or instance_type in self.instance_types)
            and (not self.zones or zone in self.zones)
            and (not self.capacity_types or capacity_type in self.capacity_types)
        )


class MemoryQueue:
    """Implements `cloud.interruption.InterruptionQueue` in the time of the clock it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._letters: dict[str, tuple[Letter, int]] = {}  # receipt -> letter, hidden until
        self._sent = 0
        self._news = asyncio.Event()

    def send(self, body: str) -> None:
        """Put a message into the queue."""
        self._sent += 1
        receipt, now = f"letter-{self._sent}", self._clock.now()
        self._letters[receipt] = (Letter(receipt, body, now), now)
        self._news.set()

    async def receive(self) -> Sequence[Letter]:
        """See the port."""
        end = self._clock.now() + LONG_POLL
        while not (found := self._visible()) and self._clock.now() < end:
            await self._wait(end)
        hidden = self._clock.now() + VISIBILITY
        for letter in found:
            self._letters[letter.receipt] = (letter, hidden)
        return found

    async def delete(self, letter: Letter) -> None:
        """See the port."""
        self._letters.pop(letter.receipt, None)

    def _visible(self) -> tuple[Letter, ...]:
        now = self._clock.now()
        return tuple(letter for letter, hidden in self._letters.values() if hidden <= now)[:BATCH]

    async def _wait(self, end: int) -> None:
        """Until a letter comes, or one comes back, or the time is over."""
        self._news.clear()
        until = min((hidden for _, hidden in self._letters.values()), default=end)
        await within(self._clock, self._news, min(until, end) - self._clock.now())


__all__ = ["Delay", "Limit", "MemoryQueue", "Uniform"]


class InstanceEvents:
    """What becomes of the instances of a simulated cloud, for those that have to know."""

    def __init__(self) -> None:
        self._asked: list[Callable[[str, Sequence[Instance]], object]] = []
        self._started: list[Callable[[Instance, NodeClaim], None]] = []
        self._terminated: list[Callable[[Instance], None]] = []
        self._rebooted: list[Callable[[str], None]] = []

    def on_asked(self, callback: Callable[[str, Sequence[Instance]], object]) -> None:
        """Called with the claim's name and all instances that there are when a launch is asked for."""
        self._asked.append(callback)

    def on_started(self, callback: Callable[[Instance, NodeClaim], None]) -> None:
        """Called right after an instance came into being, before `create` returns."""
        self._started.append(callback)

    def on_terminated(self, callback: Callable[[Instance], None]) -> None:
        """Called once an instance is gone."""
        self._terminated.append(callback)

    def on_rebooted(self, callback: Callable[[str], None]) -> None:
        """Called with the provider id of an instance that reboots."""
        self._rebooted.append(callback)
