"""What nothing foresaw: an unexpected exception costs the object that it is about, and nothing else.

Errors of the API server and of the cloud are foreseen, and belong to whoever asked; everything else is a bug,
set off by one object more often than not. It is caught where that object is handled, logged, counted, tried
again later, so that all other objects go on. In tests the first one ends the run: a bug must not hide there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import ApiError, CloudError, in_one_line
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metric, Metrics
from dovetail.kube.recorder import Recorder

PANICS = Metric(
    "controller_runtime_reconcile_panics_total",
    "counter",
    "Unexpected errors, which cost the object that was handled its turn.",
    ("controller",),
)
EVENT = "UnexpectedError"
FIRST_PAUSE, LONGEST_PAUSE = SECOND, 5 * MINUTE  # before the same thing is tried again, doubled each time
_REMEMBERED = 1_000  # errors that were reported, and objects whose event waits to be written
_FRAMES = 20  # of a stack, the innermost ones: a recursion has a thousand


class Panics:
    """Catches, reports once per controller, key and kind of error, and counts.

    `strict` raises everything again, which ends whatever runs.
    """

    def __init__(self, log: EventLog, metrics: Metrics, recorder: Recorder, *, strict: bool = False) -> None:
        self._log = log
        self._metrics = metrics
        self._recorder = recorder
        self._strict = strict
        self._reported: dict[tuple[str, str, str], None] = {}
        self._events: dict[str, tuple[Object, str, str]] = {}  # by UID, waiting to be written
        self._news = asyncio.Event()

    def caught(self, controller: str, key: str, error: Exception, about: Object | None = None) -> None:
        """An unexpected exception in a controller's turn for that key; `about` is the object, if it exists.

        Raises the error if that is the policy.
        """
        if self._strict:
            raise error
        self._metrics.add(PANICS, controller=controller)
        stack = _stack(error.__traceback__)
        text = in_one_line(error)
        kind = f"{type(error).__name__} {stack[-1] if stack else ''}"
        if about is not None:
            self.warn(about, EVENT, f"{controller} failed, and tries again later: {text}")
        if (controller, key, kind) in self._reported:
            return
        self._reported[controller, key, kind] = None
        if len(self._reported) > _REMEMBERED:
            del self._reported[next(iter(self._reported))]
        self._log.record(
            "reconcile.panicked",
            controller=controller,
            key=key,
            object=f"{about.KIND} {about.key}" if about is not None else "",
            message=text,
            stack=stack,
        )

    def warn(self, about: Object, reason: str, message: str) -> None:
        """Let an event be written, unless too many wait already."""
        if len(self._events) < _REMEMBERED:
            self._events[about.metadata.uid] = about, reason, message
            self._news.set()

    def expect(self, controller: str) -> None:
        """Count from 0, not from the first error on: Prometheus' `increase` cannot see a counter begin."""
        self._metrics.add(PANICS, 0, controller=controller)

    @contextmanager
    def alone(self, controller: str, key: str = "", about: Object | None = None) -> Iterator[None]:
        """What goes wrong within ends the block and nothing else; errors that are foreseen pass."""
        try:
            yield
        except (ApiError, CloudError):
            raise
        except Exception as error:
            self.caught(controller, key, error, about)

    async def keep(self, name: str, clock: Clock, run: Callable[[], Awaitable[None]]) -> None:
        """A controller's loop, begun anew whenever it ends with an error, ever more slowly."""
        self.expect(name)
        pause = FIRST_PAUSE
        while True:
            began = clock.now()
            try:
                return await run()
            except Exception as error:
                self.caught(name, "", error)
            if clock.now() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            await clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def run(self) -> None:
        """Write the events, for ever. Apart from `caught`, which is called where nothing may wait."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._events:
                about, reason, message = self._events.pop(next(iter(self._events)))
                await self._recorder.publish(about, "Warning", reason, message)


def _stack(trace: TracebackType | None) -> list[str]:
    """Where it was raised, innermost last: "reconciler.py:141 _once"."""
    found = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return found[-_FRAMES:]
