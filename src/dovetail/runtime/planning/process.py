"""The planner of production: solves in a process of its own, so that leases and watches never wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from dovetail.base.clock import SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.base.eventlog import EventLog
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.planning import wire
from dovetail.runtime.planning.worker import LENGTH, NO_MEMORY

# A fresh interpreter, not a fork: nothing of this process's threads and connections leaks into it. -P keeps
# the working directory out of its module path.
_COMMAND = (sys.executable, "-P", "-m", "dovetail.runtime.planning.worker")
# A worker that works on past its deadline without an answer is taken for hung after so much of its own time
# of the processor: the largest of these. An honest one is 0.4 s late at worst at a deadline of 1 s
# (benchmarks of deadlines), and the least plan for 20,000 pods of 3,000 kinds takes 22 microseconds a pod.
_PATIENCE = 10 * SECOND
_DEADLINES = 5  # of the question's
_PER_POD = SECOND // 5_000  # ten times those 22 microseconds
_THROTTLED = 10  # by the wall clock, so many times that: a container may have a tenth of a core
# Seconds past its deadline in which a worker that uses no time of the processor at all is taken for stopped:
# one that works has some within each second, however busy the machine is.
_SILENCE = 5
# Between two starts where workers do not come up, doubling: the first one after a failure is started at once.
_PAUSE = SECOND // 10
_LONGEST_PAUSE = 10 * SECOND
_CAUSES = 64  # remembered, so that the stack of each is in the log once


class Restarts:
    """When the next worker may be started; a machine without room is not asked for one with every question.

    `now` is a monotonic clock in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._pause = self._until = 0
        self._cause = ""

    def check(self) -> None:
        """Raises PlannerFailed with the cause of the last failure where it is too early."""
        if self._now() < self._until:
            raise PlannerFailed(self._cause)

    def failed(self, cause: str) -> None:
        """A worker could not be started, or ended before it was ready."""
        self._until = self._now() + self._pause
        self._pause = min(self._pause * 2 or _PAUSE, _LONGEST_PAUSE)
        self._cause = cause

    def came_up(self) -> None:
        """A worker was ready."""
        self._pause = self._until = 0


class ProcessPlanner:
    """A Planner; use it as an asynchronous context manager, which leaves no process behind.

    Deadlines are work and the clock, from the moment at which it is the question's turn. A question that is
    given up, or that the worker does not answer, costs the worker: it is killed and the next question starts
    another one, which takes a fraction of a second. That is safe whatever it was doing: it holds nothing.
    Where workers do not come up, there are pauses between their starts, and questions fail meanwhile.

    `log` gets the stack of each exception of the solver, once.

    Invariant: `_worker` is idle or at work for the one caller that has the turn.
    """

    failing = ""  # why the last question had no answer; "" if it had one

    def __init__(self, log: EventLog | None = None, *, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._log = log
        self._logged: dict[str, None] = {}  # causes whose stack is in the log
        self._restarts = Restarts(now)
        self._turn = asyncio.Lock()
        self._worker: _Worker | None = None
        self._closed = False
        self._ended: dict[asyncio.Task[int], None] = {}  # each waits for a killed process

    async def __aenter__(self) -> ProcessPlanner:
        self._worker = await _Worker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._drop()
        await asyncio.gather(*self._ended)

    @property
    def pid(self) -> int | None:
        """The worker's process, if there is one at the moment."""
        return self._worker.process.pid if self._worker is not None else None

    async def plan(self, problem: Problem, deadline: int) -> Plan:
        """See Planner."""
        try:
            plan = await self._asked(problem, deadline)
        except PlannerFailed as error:
            self.failing = str(error)
            raise
        self.failing = ""
        return plan

    async def _asked(self, problem: Problem, deadline: int) -> Plan:
        async with self._turn:
            until = time.monotonic_ns() + deadline
            worker = await self._ready()
            plan: Plan | None = None
            patience = max(_PATIENCE, _DEADLINES * deadline, _PER_POD * len(problem.pods))
            watching = asyncio.get_running_loop().create_task(worker.watch(deadline, patience))
            try:
                async with asyncio.timeout((deadline + _THROTTLED * patience) / SECOND):
                    plan = await worker.ask(problem, deadline, until)
            except TimeoutError:
                raise PlannerFailed("the solver did not come to an end and was killed") from None
            except (ConnectionError, asyncio.IncompleteReadError):
                cause = worker.killed or _how(await worker.process.wait())
                if not worker.ready and not worker.killed:
                    self._restarts.failed(cause)
                raise PlannerFailed(cause) from None
            except PlannerFailed as error:
                self._report(error)
                raise
            finally:
                watching.cancel()
                if worker.ready:
                    self._restarts.came_up()
                if plan is None:
                    self._drop()
            return plan

    def _report(self, error: PlannerFailed) -> None:
        """Log where an exception of the solver came from, unless the same one was logged already."""
        cause = str(error)
        if self._log is None or not error.stack or cause in self._logged:
            return
        if len(self._logged) >= _CAUSES:
            self._logged.clear()
        self._logged[cause] = None
        self._log.record("solver.raised", message=cause, stack=error.stack)

    async def _ready(self) -> _Worker:
        """The worker, or another one if it ended while it was not needed."""
        if self._closed:
            raise PlannerFailed("the planner is closed")
        if self._worker is not None and self._worker.process.returncode is not None:
            self._drop()
        if self._worker is None:
            self._restarts.check()
            try:
                self._worker = await _Worker.start()
            except PlannerFailed as error:
                self._restarts.failed(str(error))
                raise
        return self._worker

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                worker.process.kill()
            ended = asyncio.get_running_loop().create_task(worker.process.wait())
            self._ended[ended] = None
            ended.add_done_callback(self._ended.pop)


class _Worker:
    """One process and what it knows."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.ready = False  # True iff it said that it has started
        self.killed = ""  # why, if it was killed past its deadline
        self._asking = wire.Asking()

    @classmethod
    async def start(cls) -> _Worker:
        """Raises PlannerFailed where the machine has no room for another process."""
        try:
            return cls(await asyncio.create_subprocess_exec(*_COMMAND, stdin=PIPE, stdout=PIPE))
        except OSError as error:
            raise PlannerFailed(f"the solver's process cannot be started: {error.strerror}") from error
        except RuntimeError as error:  # the thread that waits for its end
            raise PlannerFailed(f"the solver's process cannot be started: {error}") from error

    async def watch(self, deadline: int, patience: int) -> None:
        """Kill it once it has used so much time after the deadline, or did nothing for _SILENCE seconds.

        Both are nanoseconds, the deadline's from now. Where it is unknown what it used, the clock does.
        """
        await asyncio.sleep(deadline / SECOND)
        known = _used(self.process.pid)
        spent = silent = 0
        while spent < patience and silent < _SILENCE:
            await asyncio.sleep(1)
            used = _used(self.process.pid)
            worked = SECOND if used is None or known is None else used - known
            known, spent, silent = used, spent + worked, 0 if worked else silent + 1
        self.killed = (
            f"the solver's process did nothing for {_SILENCE} s past its deadline and was killed"
            if silent
            else f"the solver's process used {spent // SECOND} s of the processor past its deadline without "
            "an answer and was killed"
        )
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def ask(self, problem: Problem, deadline: int, until: int) -> Plan:
        """Send the question, wait for the plan. Other tasks have their turn between any two pieces."""
        target, source = self.process.stdin, self.process.stdout
        assert target is not None
        assert source is not None
        for part in self._asking.parts(problem, deadline, until):
            target.write(len(part).to_bytes(LENGTH))
            target.write(part)
            await target.drain()
            await asyncio.sleep(0)
        answering = wire.Answering()
        while True:
            size = int.from_bytes(await source.readexactly(LENGTH))
            sent = wire.unpack(await source.readexactly(size))
            if isinstance(sent, wire.Ready):
                self.ready = True
                continue
            plan = answering.take(sent)
            if plan is not None:
                return plan
            await asyncio.sleep(0)


def _used(pid: int) -> int | None:
    """Processor time of a process in nanoseconds, by 10 ms; None where it is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) * SECOND // os.sysconf("SC_CLK_TCK")


def _how(code: int) -> str:
    """How a process ended, for people."""
    if code < 0:
        return f"the solver's process was killed by {signal.Signals(-code).name}; is there enough memory?"
    if code == NO_MEMORY:
        return "MemoryError: the question does not fit the memory that the solver's process may take"
    return f"the solver's process ended with exit code {code}; what it wrote on standard error says why"
