"""The worker process: reads questions from standard input, writes plans to standard output.

Frames are a length (8 bytes, big-endian) and that many bytes, see `wire`. The process ends when its input
does, also in the middle of a solve: its parent is gone or does not want the answer any more.

Its memory is bounded (on Linux; elsewhere nothing is), so that a monstrous question ends it and not the
controller. A container's kernel may end all its processes once one is over the limit of the whole
(memory.oom.group): so the worker has a limit of its own, below that.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np
import numpy.ma  # numpy.unique loads it when first called, within a question: 8 to 15 ms

from dovetail.base.collector import collect_between, collect_if_due
from dovetail.model.problem import Budget, Problem
from dovetail.runtime.planning import wire
from dovetail.solve.budget import Deadline
from dovetail.solve.solver import solve

# Of all that the container or the machine has. The rest is for the controller: under 300 MiB for 1,000 nodes.
_SHARE = (2, 3)
_KEENER = 500  # oom_score_adj on top of the controller's: of the two, the kernel ends the worker
_MOST_ADJ = 1000  # the kernel's own bound


def bound_memory() -> None:
    """Bound this process. What it cannot bound it leaves as it is."""
    if sys.platform != "linux":
        return
    import resource  # not there on every platform

    # OpenBLAS takes 32 MiB when it first multiplies matrices that are not small (64 x 64 are, 128 x 128 are
    # not), and ends the process where it gets none: no plan was made, and nothing said that memory was short.
    large = np.ones((128, 128))
    np.matmul(large, large)
    with contextlib.suppress(OSError, ValueError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + _KEENER, _MOST_ADJ)))
    with contextlib.suppress(OSError, ValueError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most = limit_of(Path("/"), total) * _SHARE[0] // _SHARE[1]
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        # Not RLIMIT_AS: that counts what libraries reserve for their threads and never touch, which is more
        # than a small container has.
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def limit_of(root: Path, total: int) -> int:
    """Bytes that the control groups of this process leave it, in version 1 or 2, `total` at most."""
    least = total
    for base, name, group in _groups(root):
        place = base
        for part in ("", *Path(group).parts[1:]):
            place = place / part
            with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                least = min(least, int((place / name).read_text()))
    return least


def _groups(root: Path) -> list[tuple[Path, str, str]]:
    """Where the groups of this process are: the mount, the name of the file with the limit, and the group."""
    found = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, group = rest.partition(":")
        if not kinds:
            found.append((root / "sys/fs/cgroup", "memory.max", group))
        elif "memory" in kinds.split(","):
            found.append((root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", group))
    return found


LENGTH = 8
NO_MEMORY = 12  # exit code where there was no memory even for the question, or to report a failure; ENOMEM
_MESSAGE = 200  # characters of an exception's own words: they may quote what a tenant wrote
_FRAMES = 30  # of its stack, the innermost
# Nanoseconds for each pod, until the caller has read the plan: measured on a busy machine, 1.5 to 2.2
# microseconds of crowds with many nodes, and with most pods left over.
_WAY_BACK = 2_500


def main() -> None:
    """Answer questions for ever, or until one fails: the caller starts another process after that."""
    try:
        _run()
    except Exception as error:  # there is no memory to report a failure
        if not _lacks_memory(error):
            traceback.print_exc()
        # Python's own end may need memory, and is fatal while the other thread reads.
        os._exit(NO_MEMORY if _lacks_memory(error) else 1)


def _run() -> NoReturn:
    bound_memory()
    collect_between()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    # What anything prints goes to standard error: one stray byte would spoil the frames.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, frames), daemon=True).start()
    _write(answers, [wire.pack(wire.Ready())])
    try:
        _serve(frames, answers)
    except Exception as error:
        # The frames of the stack hold the problem: without them there is memory again to report it.
        traceback.clear_frames(error.__traceback__)
        fault = fault_of(error)
    _write(answers, [wire.pack(fault)])
    while True:  # the rest of the question is taken, so that the caller comes to read the answer
        frames.get()


def _serve(frames: queue.SimpleQueue[bytes], answers: BinaryIO) -> NoReturn:
    hearing = wire.Hearing()
    while True:
        asked = hearing.take(wire.unpack(frames.get()))
        if asked is not None:
            _write(answers, _answer(*asked))
            del asked  # with all that the question holds
            collect_if_due(idle=frames.empty())


def _answer(problem: Problem, question: wire.Question) -> Iterator[bytes]:
    until = question.until - _WAY_BACK * len(problem.pods)
    stop = Deadline(until, time.monotonic_ns)
    return wire.answer(solve(problem, Budget.within(question.deadline), stop=stop))


def fault_of(error: Exception) -> wire.Fault:
    """An exception in a message: its kind, a little of its words, and the place in the code."""
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    message = (str(error).splitlines() or [""])[0][:_MESSAGE]
    kind = type(error).__name__
    if _lacks_memory(error):  # whose own words are about the array that was the last straw
        kind = MemoryError.__name__
        message = "the problem does not fit the memory of the solver's process; give the controller more"
    # Where memory ends there may be none for a frame either.
    where = "".join(f" ({each.name}, {Path(each.filename).name}:{each.lineno})" for each in frames[-1:])
    described = f"{kind}: {message}" if message else kind
    stack = "".join(traceback.StackSummary.from_list(frames[-_FRAMES:]).format())
    return wire.Fault(described + where, stack)


def _lacks_memory(error: Exception) -> bool:
    # Where there is none even for a frame of the stack, Python may lose the MemoryError on its way, and says
    # "error return without exception set" or "... returned NULL without setting an exception" instead.
    return isinstance(error, MemoryError) or (isinstance(error, SystemError) and " without " in str(error))


def _read(source: BinaryIO, frames: queue.SimpleQueue[bytes]) -> None:
    """Frames as they come. A thread of its own, so that the end of the input is seen at any time."""
    while True:
        try:
            head = source.read(LENGTH)
            body = source.read(int.from_bytes(head)) if len(head) == LENGTH else b""
        except (MemoryError, SystemError):  # the second as in `_lacks_memory`
            os._exit(NO_MEMORY)
        if not body:
            os._exit(0)
        frames.put(body)


def _write(target: BinaryIO, parts: Iterable[bytes]) -> None:
    try:
        for part in parts:
            target.write(len(part).to_bytes(LENGTH))
            target.write(part)
        target.flush()
    except BrokenPipeError:  # the process that asked was killed
        os._exit(0)


if __name__ == "__main__":
    main()
