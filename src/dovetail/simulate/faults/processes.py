"""The controllers' processes: one after another, or two at once while the leader changes."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Protocol

from dovetail.base.clock import SECOND, Clock
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch
from dovetail.simulate.faults.plan import occurrences

_RESTART = 10 * SECOND  # after the process ended by itself
_STEPS = 300  # within how many calls of the process a crash comes, once it is due
_FRAMES = 3  # lines of a traceback


class Process(Protocol):
    """Something that runs until it ends with an error."""

    async def run(self) -> None:
        """For ever."""


# Called when a process ended with an error of its own; the text says which.
Ended = Callable[[str], None]


class Processes:
    """Keeps a process of the controllers running; each begins with an empty memory.

    Invariant: `_leader` is the epoch that was started last; others act only for the rest of their time.
    """

    def __init__(self, make: Callable[[Epoch], Process], dice: Dice, clock: Clock, ended: Ended) -> None:
        self._make = make
        self._dice = dice
        self._clock = clock
        self._ended = ended
        self._number = 0
        self._leader = Epoch(0)
        self._overlaps = 0  # leases of old leaders that have not run out

    @property
    def several(self) -> bool:
        """True iff an old leader still acts beside the new one."""
        return self._overlaps > 0

    async def run(self) -> None:
        """Run for ever."""
        faults, seed = self._dice.faults, self._dice.seed
        crashes = [(*item, self._crash) for item in occurrences(faults, kinds.CRASH, seed)]
        changes = [(*item, self._change) for item in occurrences(faults, kinds.LEADER_CHANGE, seed)]
        async with asyncio.TaskGroup() as tasks:
            self._start(tasks)
            for instant, fault, act in sorted((*crashes, *changes), key=lambda item: item[0]):
                await self._clock.sleep(instant - self._clock.now())
                act(tasks, fault.lasts)

    def _start(self, tasks: asyncio.TaskGroup) -> None:
        self._number += 1
        self._leader = Epoch(self._number)
        tasks.create_task(self._live(self._leader, tasks), name=f"process {self._number}")

    def _crash(self, _: asyncio.TaskGroup, down: int) -> None:
        """The leader dies at one of its next calls."""
        steps = self._dice.stream(kinds.CRASH, "steps").randrange(_STEPS)
        self._leader.crash_after(steps, down)

    def _change(self, tasks: asyncio.TaskGroup, overlap: int) -> None:
        """Another process takes over; the old leader does not know for a while, and goes on."""
        old = self._leader
        if old.over.is_set():
            return
        self._dice.happened(kinds.LEADER_CHANGE, f"process {old.number}")
        self._start(tasks)
        tasks.create_task(self._expire(old, overlap), name=f"lease of process {old.number}")

    async def _expire(self, epoch: Epoch, lasts: int) -> None:
        self._overlaps += 1
        await self._clock.sleep(lasts)
        epoch.kill()
        self._overlaps -= 1

    async def _live(self, epoch: Epoch, tasks: asyncio.TaskGroup) -> None:
        """Run one process until it dies, of a fault or of an error of its own; then start the next."""
        loop = asyncio.get_running_loop()
        running = loop.create_task(self._make(epoch).run(), name=f"operator {epoch.number}")
        death = loop.create_task(epoch.over.wait())
        try:
            await asyncio.wait((running, death), return_when=asyncio.FIRST_COMPLETED)
        finally:
            epoch_died = epoch.over.is_set()
            epoch.kill()
            running.cancel()
            death.cancel()
        await asyncio.wait((running,))
        error = None if running.cancelled() else running.exception()
        if error is not None and not epoch_died:
            self._ended(_described(error))
        if epoch is not self._leader:
            return
        if epoch.crashed:
            self._dice.happened(kinds.CRASH, f"process {epoch.number}")
        await self._clock.sleep(_RESTART if epoch.down is None else epoch.down)
        self._start(tasks)


def _described(error: BaseException) -> str:
    """The first error inside, and where it was raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = " > ".join(f"{frame.name}" for frame in frames)
    return f"{type(error).__name__}: {error} (in {places})"
