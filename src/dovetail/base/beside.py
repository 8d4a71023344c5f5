"""Work in a copy of this process, on another core, while this one goes on."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

Result = TypeVar("Result")

_TASKS = Path("/proc/self/task")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def beside(work: Callable[[], Result], *, worth: bool = True) -> Iterator[Callable[[], Result]]:
    """Begin `work`; what it comes to is waited for when it is asked for. Unless `worth`, it is done then.

    The copy is a fork: whatever `work` looks at is there, and only its result is sent, as a pickle. `work`
    may be done twice: where the copy cannot be made or does not come to an end, it is done here, and raises
    what it raises. So it is a pure function, and none that solves with HiGHS, which does not survive forks.
    A copy whose result is not needed after all is killed.
    """
    copy = _Copy.of(work) if worth and _may_fork() else None
    if copy is None:
        yield work
        return
    try:
        yield lambda: copy.result(work)
    finally:
        copy.end()


def _may_fork() -> bool:
    """True iff there is a core for the copy, and no other thread, whose locks it would have for ever.

    Elsewhere than on Linux, libraries have threads of their own, or forks are no copies.
    """
    if sys.platform != "linux" or cores() < 2:
        return False
    try:
        return len(list(_TASKS.iterdir())) == 1
    except OSError:
        return False


class _Copy(Generic[Result]):
    """A child and what comes of it."""

    def __init__(self, pid: int, source: int) -> None:
        self._pid = pid
        self._source = source

    @classmethod
    def of(cls, work: Callable[[], Result]) -> _Copy[Result] | None:
        """None where the machine has no room for it."""
        try:
            source, target = os.pipe()
        except OSError:
            return None
        try:
            pid = os.fork()
        except OSError:
            os.close(source)
            os.close(target)
            return None
        if pid == 0:
            os.close(source)
            _do(work, target)
        os.close(target)
        return cls(pid, source)

    def result(self, work: Callable[[], Result]) -> Result:
        with open(self._source, "rb", closefd=False) as stream:
            sent = stream.read()
        try:
            found: Result = pickle.loads(sent)
        except (EOFError, pickle.UnpicklingError):  # it was killed, for memory it may be, or raised something
            return work()
        return found

    def end(self) -> None:
        """Leaves no process behind."""
        os.close(self._source)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # where this process's parent had it ignore how children end
            os.waitpid(self._pid, 0)


def _do(work: Callable[[], object], target: int) -> NoReturn:
    """All of the child, which must not go on as if it were its parent."""
    try:
        gc.disable()  # what it looks at would be written to, and so copied
        sent = pickle.dumps(work())
        with open(target, "wb") as stream:
            stream.write(sent)
    finally:
        os._exit(0)
