"""The worker process: reads questions from standard input, writes plans to standard output.

Frames are a length (8 bytes, big-endian) and that many bytes, see `wire`. The process ends when its input
does, also in the middle of a solve: whoever started it is gone or does not want the answer any more.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from typing import BinaryIO

from dovetail.base.collector import collect_if_due, collect_seldom
from dovetail.model.problem import Budget, Problem
from dovetail.runtime.planning import wire
from dovetail.solve.solver import solve
from dovetail.solve.work import Deadline

LENGTH = 8
# Nanoseconds for each pod, until who asks has read the plan: measured, 1.4 to 7 microseconds.
_WAY_BACK = 3_000


def main() -> None:
    """Answer questions for ever."""
    collect_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    # What anything prints goes to standard error: one stray byte would spoil the frames.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, frames), daemon=True).start()
    hearing = wire.Hearing()
    while True:
        asked = hearing.take(wire.unpack(frames.get()))
        if asked is not None:
            _write(answers, _answer(*asked))
            if frames.empty():
                collect_if_due()


def _answer(problem: Problem, question: wire.Question) -> Iterable[bytes]:
    try:
        until = question.until - _WAY_BACK * len(problem.pods)
        stop = Deadline(until, time.monotonic_ns)
        return wire.answer(solve(problem, Budget.within(question.deadline), stop=stop))
    except Exception:
        return [wire.pack(wire.Fault(f"the solver failed:\n{traceback.format_exc()}"))]


def _read(source: BinaryIO, frames: queue.SimpleQueue[bytes]) -> None:
    """Frames as they come. A thread of its own, so that the end of the input is seen at any time."""
    while True:
        head = source.read(LENGTH)
        body = source.read(int.from_bytes(head)) if len(head) == LENGTH else b""
        if not body:
            os._exit(0)
        frames.put(body)


def _write(target: BinaryIO, parts: Iterable[bytes]) -> None:
    for part in parts:
        target.write(len(part).to_bytes(LENGTH))
        target.write(part)
    target.flush()


if __name__ == "__main__":
    main()
