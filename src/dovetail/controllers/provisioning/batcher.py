"""Batching: pods that become unschedulable together are planned together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.base.clock import Clock


@dataclass(frozen=True, slots=True)
class Window:
    """One batching window; instants in nanoseconds."""

    opened: int
    closed: int
    triggers: Mapping[str, int] = field(default_factory=dict)  # UID -> when it triggered first


class Batcher:
    """The first trigger opens a window; it closes `idle` after the last new UID, at most after `maximum`.

    A UID that the window has seen already does not extend it. What comes in while nobody waits (a plan is
    being made) opens the next window as soon as somebody does.
    """

    def __init__(self, clock: Clock, idle: int, maximum: int) -> None:
        self._clock = clock
        self._idle = idle
        self._maximum = maximum
        self._seen: dict[str, int] = {}
        self._latest = 0  # when a new UID came last, by the monotonic clock
        self._triggered = asyncio.Event()

    def trigger(self, uid: str) -> None:
        """Something wants a plan: a pod, or a node that is going away."""
        if uid not in self._seen:
            self._seen[uid], self._latest = self._clock.now(), self._clock.monotonic()
        self._triggered.set()

    async def wait(self) -> Window:
        """Wait for a trigger, then until the window closes."""
        await self._triggered.wait()
        opened, began = self._clock.now(), self._clock.monotonic()
        while True:
            closes = min(max(began, self._latest) + self._idle, began + self._maximum)
            left = closes - self._clock.monotonic()
            if left <= 0:
                break
            await self._clock.sleep(left)
        triggers, self._seen = self._seen, {}
        self._triggered.clear()
        return Window(opened, self._clock.now(), triggers)
