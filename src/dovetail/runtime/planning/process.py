"""The planner of production: solves in a process of its own, so that leases and watches never wait."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType

from dovetail.base.clock import SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.model.problem import Problem
from dovetail.runtime.planning import wire
from dovetail.runtime.planning.worker import LENGTH
from dovetail.solve.plan import Plan

# A fresh interpreter, not a fork: nothing of this process's threads and connections leaks into it. -P keeps
# the working directory out of its module path.
_COMMAND = (sys.executable, "-P", "-m", "dovetail.runtime.planning.worker")
_PATIENCE = 300 * SECOND  # past its deadline, a solve that works on without an answer is taken for hung
# Seconds past its deadline in which a worker that uses no time of the processor at all is taken for stopped:
# one that works has some within each second, however busy the machine is.
_SILENCE = 5


class ProcessPlanner:
    """A Planner; use it as an asynchronous context manager, which leaves no process behind.

    Deadlines are work and the clock, from the moment at which it is the question's turn. A question that is
    given up, or that the worker does not answer, costs the worker: it is killed and the next question starts
    another one, which takes a fraction of a second. That is safe whatever it was doing: it holds nothing.

    Invariant: `_worker` is idle or at work for the one caller that has the turn.
    """

    def __init__(self) -> None:
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
        async with self._turn:
            until = time.monotonic_ns() + deadline
            worker = await self._ready()
            plan: Plan | None = None
            watching = asyncio.get_running_loop().create_task(worker.watch(deadline))
            try:
                async with asyncio.timeout((deadline + _PATIENCE) / SECOND):
                    plan = await worker.ask(problem, deadline, until)
            except TimeoutError:
                raise PlannerFailed("the solver did not come to an end and was killed") from None
            except (ConnectionError, asyncio.IncompleteReadError):
                if worker.stopped:
                    raise PlannerFailed(
                        f"the solver's process did nothing for {_SILENCE} s past its deadline and was killed"
                    ) from None
                raise PlannerFailed(_how(await worker.process.wait())) from None
            finally:
                watching.cancel()
                if plan is None:
                    self._drop()
            return plan

    async def _ready(self) -> _Worker:
        """The worker, or another one if it ended while nobody needed it."""
        if self._closed:
            raise PlannerFailed("the planner is closed")
        if self._worker is not None and self._worker.process.returncode is not None:
            self._drop()
        if self._worker is None:
            self._worker = await _Worker.start()
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
        self.stopped = False  # True iff it was killed because it did nothing
        self._asking = wire.Asking()

    @classmethod
    async def start(cls) -> _Worker:
        """Raises PlannerFailed where the machine has no room for another process."""
        try:
            return cls(await asyncio.create_subprocess_exec(*_COMMAND, stdin=PIPE, stdout=PIPE))
        except OSError as error:
            raise PlannerFailed(f"the solver's process cannot be started: {error.strerror}") from error

    async def watch(self, deadline: int) -> None:
        """Kill it once it does nothing for _SILENCE seconds after the deadline, in nanoseconds from now."""
        await asyncio.sleep(deadline / SECOND)
        known: int | None = None
        silent = 0
        while silent < _SILENCE:
            await asyncio.sleep(1)
            used = _used(self.process.pid)
            known, silent = used, silent + 1 if used is not None and used == known else 0
        self.stopped = True
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
            plan = answering.take(wire.unpack(await source.readexactly(size)))
            if plan is not None:
                return plan
            await asyncio.sleep(0)


def _used(pid: int) -> int | None:
    """Processor time of a process in the kernel's ticks, 10 ms; None where nothing tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    user, system = fields.split()[11:13]
    return int(user) + int(system)


def _how(code: int) -> str:
    """How a process ended, for people."""
    if code < 0:
        return f"the solver's process was killed by {signal.Signals(-code).name}; is there enough memory?"
    return f"the solver's process ended with exit code {code}; what it wrote on standard error says why"
