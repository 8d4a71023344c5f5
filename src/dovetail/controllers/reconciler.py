"""A keyed work queue: each key is reconciled by one task at a time, again when asked to or after a while."""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import ApiError, CloudError, Conflict, TooManyRequests
from dovetail.base.eventlog import EventLog
from dovetail.controllers.panics import FIRST_PAUSE, LONGEST_PAUSE

# Seconds; those of the libraries that Karpenter is made with, so that dashboards show the same.
TURN = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
WORK = tuple(10.0**power for power in range(-8, 4))
SUCCESS, LATER, ERROR = "success", "requeue_after", "error"


class Durations:
    """How many were at most as long as each bound, in seconds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one: longer than every bound
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Tally:
    """Of one queue, since the process began."""

    added: int = 0
    retried: int = 0  # added for later
    results: dict[str, int] = field(default_factory=lambda: dict.fromkeys((SUCCESS, LATER, ERROR), 0))
    waited: Durations = field(default_factory=lambda: Durations(WORK))
    worked: Durations = field(default_factory=lambda: Durations(WORK))
    turns: Durations = field(default_factory=lambda: Durations(TURN))

    def ended(self, result: str, seconds: float) -> None:
        """A turn is over."""
        self.results[result] += 1
        self.worked.observe(seconds)
        self.turns.observe(seconds)


FIRST_BACKOFF = 5_000_000
LONGEST_BACKOFF = MINUTE
_COMPACT_ABOVE = 64  # instants in the heap that were given up, beyond as many as are planned

# Reconciles the object of a key; answers after how many nanoseconds to come back, or None.
Reconcile = Callable[[str], Awaitable[int | None]]
# What `Reconcile` would answer for the key, having done nothing; None iff there may be something to do.
Rest = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A reconcile that raised, for whoever logs it."""

    controller: str
    key: str
    error: Exception


class Reconciler:
    """Runs `reconcile` for every key that was added, with back-off after errors.

    A key that is added while its reconcile runs is reconciled once more afterwards. A conflict or another
    error of the API server or the cloud is retried after 5 ms, doubling up to a minute, or when the
    server says so. Other errors are bugs: `on_panic` gets them and they are retried after a second,
    doubling up to five minutes; without it, or if it raises, they end `run`.

    A reconcile forgets what was planned for its key: what it answers takes its place. Where `rests` knows
    that answer, and that there is nothing to do, the turn is over with it.

    Invariant: a key is in `_ready` at most once, and `_due[key]` is its earliest future instant, if any. The
    heap has every (instant, number, key) of `_due`, and some that were given up. At most one task waits for
    time to pass, whatever the number of keys.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        reconcile: Reconcile,
        *,
        concurrency: int = 10,
        on_failure: Callable[[Failure], None] | None = None,
        on_panic: Callable[[str, Exception], None] | None = None,
        rests: Rest | None = None,
    ) -> None:
        self.name = name
        self.concurrency = concurrency
        self.tally = Tally()
        self._clock = clock
        self._reconcile = reconcile
        self._on_failure = on_failure
        self._on_panic = on_panic
        self._rests = rests
        self._ready: deque[str] = deque()
        self._queued: dict[str, int] = {}  # -> since when
        self._running: dict[str, asyncio.Task[None]] = {}
        self._began: dict[str, int] = {}  # of those
        self._again: set[str] = set()
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._number = 0  # of the last one: first in, first out where instants are equal
        self._alarm: tuple[int, asyncio.Task[None]] | None = None  # the instant that it waits for
        self._failures: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # in which it runs
        self._context: Context | None = None  # of `run`: turns are its own, whatever added their keys
        self._woken = False  # whether that will look at what is ready
        self._ended: asyncio.Future[None] | None = None  # gets the error that ends it
        self._error: Exception | None = None

    def add(self, key: str) -> None:
        """Reconcile the key as soon as possible."""
        self.tally.added += 1
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._queued[key] = self._clock.monotonic()
            self._ready.append(key)
            self._wake()

    def add_after(self, key: str, nanoseconds: int) -> None:
        """Reconcile the key in a while, unless an earlier instant is planned for it already."""
        if nanoseconds <= 0:
            self.add(key)
            return
        self.tally.retried += 1
        due = self._clock.monotonic() + nanoseconds
        if due >= self._due.get(key, due + 1):
            return
        self._due[key] = due
        if len(self._heap) > 2 * len(self._due) + _COMPACT_ABOVE:
            self._heap = [one for one in self._heap if self._due.get(one[2]) == one[0] and one[2] != key]
            heapq.heapify(self._heap)
        self._number += 1
        heapq.heappush(self._heap, (due, self._number, key))
        self._set_alarm()

    def forget(self, key: str) -> None:
        """The object of the key is gone: nothing is planned for it any more. What waits or runs goes on."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Work for ever; raises what a reconcile raised if it is a bug. Nothing goes on once it ended."""
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._ended = self._loop.create_future()
        try:
            self._begin()
            await self._ended
        finally:
            self._loop = None
            for task in self._running.values():
                task.cancel()
            if self._alarm is not None:
                self._alarm[1].cancel()
                self._alarm = None

    @property
    def depth(self) -> int:
        """Keys that wait for their turn."""
        return len(self._ready)

    def running(self) -> list[float]:
        """For how many seconds each key is being worked on."""
        now = self._clock.monotonic()
        return [(now - began) / SECOND for began in self._began.values()]

    def _wake(self) -> None:
        """Look at what is ready, after what is under way; not before it runs."""
        if self._loop is not None and not self._woken:
            self._woken = True
            self._loop.call_soon(self._begin, context=self._context)

    def _begin(self) -> None:
        """Begin the turns of keys that are ready, as many at a time as there may be."""
        self._woken, loop, ended = False, self._loop, self._ended
        if loop is None or ended is None or ended.done():
            return
        if self._error is not None:
            ended.set_exception(self._error)
            return
        while self._ready and len(self._running) < self.concurrency:
            key = self._ready.popleft()
            self._take(self._queued.pop(key), key)
            self._running[key] = loop.create_task(self._once(key))

    def _resting(self, key: str) -> int | None:
        """When to come back to a key with nothing to do; None for one that cannot be judged."""
        if self._rests is None or key in self._failures:
            return None
        try:
            return self._rests(key)
        except Exception:
            return None  # what is wrong with it shows in its turn

    def _take(self, since: int, key: str) -> None:
        now = self._began[key] = self._clock.monotonic()
        self.tally.waited.observe((now - since) / SECOND)

    def _set_alarm(self) -> None:
        """Let the earliest instant be waited for."""
        due = self._heap[0][0]
        if self._alarm is not None:
            if self._alarm[0] <= due:
                return
            self._alarm[1].cancel()
        self._alarm = due, asyncio.get_running_loop().create_task(self._ring(due))

    async def _ring(self, due: int) -> None:
        await self._clock.sleep(due - self._clock.monotonic())
        self._alarm = None
        now = max(due, self._clock.monotonic())
        while self._heap:
            instant, _, key = self._heap[0]
            if self._due.get(key) != instant:
                heapq.heappop(self._heap)  # given up, or done already
            elif instant <= now:
                heapq.heappop(self._heap)
                del self._due[key]
                self.add(key)
            else:
                self._set_alarm()
                return

    async def _once(self, key: str) -> None:
        self._due.pop(key, None)
        again: int | None = None
        result = ERROR
        try:
            again = self._resting(key)
            if again is None:
                again = await self._reconcile(key)
            self._failures.pop(key, None)
            result = SUCCESS if again is None else LATER
        except (ApiError, CloudError) as error:
            asked = error.retry_after if isinstance(error, TooManyRequests) else 0
            again = max(self._backoff(key), asked)
            self._report(key, error)
        except Exception as error:
            again = self._panicked(key, error)
        finally:
            del self._running[key]
            self.tally.ended(result, (self._clock.monotonic() - self._began.pop(key)) / SECOND)
            self._wake()
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        if again is not None:
            self.add_after(key, again)

    def _backoff(self, key: str, first: int = FIRST_BACKOFF, longest: int = LONGEST_BACKOFF) -> int:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        return min(longest, first << min(count, 20))

    def _panicked(self, key: str, error: Exception) -> int | None:
        """After how long to try again; None if that is the end."""
        if self._on_panic is None:
            self._error = error
            return None
        try:
            self._on_panic(key, error)
        except Exception as raised:
            self._error = raised
            return None
        return self._backoff(key, FIRST_PAUSE, LONGEST_PAUSE)

    def _report(self, key: str, error: Exception) -> None:
        if self._on_failure is not None:
            self._on_failure(Failure(self.name, key, error))


def failure_log(log: EventLog) -> Callable[[Failure], None]:
    """Writes failures into the event log; a conflict is none: another client was faster."""

    def record(failure: Failure) -> None:
        if not isinstance(failure.error, Conflict):
            log.record(
                "reconcile.failed",
                controller=failure.controller,
                key=failure.key,
                message=str(failure.error),
            )

    return record


async def every(clock: Clock, period: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` now and every `period` nanoseconds after it ended; an API error only skips one turn."""
    while True:
        try:
            await work()
        except (ApiError, CloudError):
            await clock.sleep(SECOND)
            continue
        await clock.sleep(period)
