"""An asyncio event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

It differs from asyncio's own loops where those would make a run depend on the machine: timers of one instant
run first in, first out; there are no threads and no sockets; a task that fails while nothing waits for it
fails the whole run at once, not whenever the garbage collector finds it.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context
from types import TracebackType
from typing import Any, NoReturn, TypeVar, cast

from dovetail.base.clock import SECOND

T = TypeVar("T")
_COMPACT_ABOVE = 1_000  # cancelled timers that may lie in the heap before it is cleaned


class Deadlock(RuntimeError):
    """Nothing is scheduled any more, and the main task has not finished."""


# Typed as Any, because asyncio declares every socket, process and signal method abstract: here they stay the
# inherited ones, which raise NotImplementedError.
_AbstractEventLoop: Any = asyncio.AbstractEventLoop


class VirtualLoop(_AbstractEventLoop):  # type: ignore[misc]  # see above
    """Runs callbacks in order of (nanosecond, sequence). Use as a context manager, which closes it."""

    def __init__(self, start: int = 0) -> None:
        self.start = start  # the instant at which `time()` is 0.0
        self._now = start
        self._ready: deque[Handle] = deque()  # all due at `_now`, in order of scheduling
        # Timers strictly after `_now`; the sequence number makes equal instants first in, first out.
        self._timers: list[tuple[int, int, TimerHandle]] = []
        self._sequence = 0
        self._cancelled = 0  # timers in the heap that were cancelled (an upper bound)
        self._tasks: dict[asyncio.Task[Any], None] = {}  # not done yet, in order of creation
        self._task_number = 0
        self._generators: dict[int, AsyncGenerator[Any, Any]] = {}
        self._failure: BaseException | None = None  # the first unhandled error; ends the run
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._running = False
        self._stopping = False
        self._closed = False

    def __enter__(self) -> VirtualLoop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Time ---------------------------------------------------------------------------------------------

    def nanoseconds(self) -> int:
        """The present instant, exactly."""
        return self._now

    def time(self) -> float:
        """Seconds since the start; exact to the nanosecond for 100 days."""
        return (self._now - self.start) / SECOND

    # Scheduling ---------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("a virtual loop has one thread: use call_soon")

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self.call_at_nanosecond(self._now + round(delay * SECOND), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self.call_at_nanosecond(self.start + round(when * SECOND), callback, *args, context=context)

    def call_at_nanosecond(
        self, instant: int, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Call at an exact instant; one that is not in the future goes to the end of the present one."""
        handle = TimerHandle((instant - self.start) / SECOND, callback, args, self, context)
        if instant <= self._now:
            self._ready.append(handle)
        else:
            self._sequence += 1
            heapq.heappush(self._timers, (instant, self._sequence, handle))
            handle._scheduled = True  # type: ignore[attr-defined]  # asks for _timer_handle_cancelled
        return handle

    def _timer_handle_cancelled(self, _: TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    # Tasks --------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """Start a task; unnamed ones are numbered per loop, not per process."""
        self._task_number += 1
        title = name if name is not None else f"task {self._task_number}"
        task: asyncio.Task[T] = asyncio.Task(
            cast("Coroutine[Any, Any, T]", coro), loop=self, name=title, **options
        )
        if not task.done():
            self._tasks[task] = None
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or not task._log_traceback or self._has_waiters(task):
            return
        error = task.exception()
        if error is not None:
            error.add_note(f"in the task {task.get_name()!r}, at {self.time():.9f} s")
        self.call_exception_handler({"message": "a task failed and nothing waits for it", "exception": error})

    def _has_waiters(self, task: asyncio.Task[Any]) -> bool:
        """True iff other callbacks of the task are queued: `_finished` always runs first."""
        return any(handle._args == (task,) for handle in self._ready)

    # Errors -------------------------------------------------------------------------------------------

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Remember the first error; the run raises it before the next callback."""
        if self._failure is None:
            self._failure = context.get("exception") or RuntimeError(str(context.get("message")))

    # Running ------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
        """Run until the main coroutine is done, and return its result.

        Raises its exception, the exception of any task that failed while nothing waited for it, or Deadlock.
        """
        main: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)
        self._stopping = False
        self._run(main)
        if not main.done():
            raise RuntimeError("the loop was stopped before its main task was done")
        return main.result()

    def run_forever(self) -> None:
        """Run until `stop()`; Deadlock when nothing is scheduled before that."""
        self._stopping = False
        self._run(None)

    def _run(self, main: asyncio.Future[Any] | None) -> None:
        if self._closed or self._running:
            raise RuntimeError("the loop is closed" if self._closed else "the loop is running already")
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_dropped)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not (self._stopping or (main is not None and main.done())):
                if not self._ready and not self._advance():
                    raise Deadlock(self._waiting())
                handle = self._ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self._failure is not None:
                    error, self._failure = self._failure, None
                    raise error
        finally:
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _advance(self) -> bool:
        """Jump to the next instant that has a timer and make all of its timers ready; False without any."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._cancelled -= 1
        if not timers:
            return False
        self._now = timers[0][0]
        while timers and timers[0][0] == self._now:
            handle = heapq.heappop(timers)[2]
            handle._scheduled = False  # type: ignore[attr-defined]  # out of the heap: no call when cancelled
            self._ready.append(handle)
        return True

    def _waiting(self) -> str:
        names = ", ".join(task.get_name() for task in self._tasks)
        return f"nothing is scheduled any more, but these tasks still wait: {names or 'none'}"

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Cancel what is left, in order of creation, and let it clean up; virtual time stands still."""
        if self._closed:
            return
        self._timers.clear()
        self._failure = None
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left or self._generators:
            gathered = self._close_all(left)
            self._stopping = False
            self._run(self.create_task(gathered, name="close"))
        self._closed = True
        self._ready.clear()

    async def _close_all(self, tasks: list[asyncio.Task[Any]]) -> None:
        await asyncio.gather(*tasks, return_exceptions=True)
        for generator in list(self._generators.values()):
            await generator.aclose()

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.pop(id(generator), None)
        if not self._closed:
            self.create_task(generator.aclose(), name="close a generator")

    async def shutdown_asyncgens(self) -> None:
        await self._close_all([])

    # What a virtual loop has not -----------------------------------------------------------------------

    def run_in_executor(self, *_: object) -> NoReturn:
        raise RuntimeError("a virtual loop has no threads: what they do would not follow its clock")

    async def shutdown_default_executor(self, _: float | None = None) -> None:
        """There is none."""

    get_debug = bool  # Answers False, at no cost: every handle, future and task asks.

    def set_debug(self, enabled: bool) -> None:
        """Debug mode would measure wall time; it stays off."""
