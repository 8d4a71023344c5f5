"""How long a solve keeps the event loop of the controller waiting: leases and watches live on it.

A task wakes up every 5 ms while plans are made one after the other, in the worker process and, for
comparison, on the loop itself. A gap is the time between two of its turns; 100 ms is the most allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import facts
from benchmarks.solve.mix import diverse
from dovetail.base.clock import SECOND
from dovetail.cli.main import readers_may_leave
from dovetail.controllers.planner import Planner
from dovetail.model.problem import Problem
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.planning.process import ProcessPlanner

_BEAT = 0.005
_ALLOWED = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """What one planner did to the loop; times in seconds."""

    planner: str
    pods: int
    plans: int
    seconds: float
    beats: int
    median: float
    p99: float
    worst: float


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heartbeat", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long plans are made (default: 60)")
    parser.add_argument("--pods", type=int, default=20_000, help="in every plan (default: 20000)")
    parser.add_argument("--inline", action="store_true", help="on the loop itself as well: one plan")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    problem = diverse(arguments.pods)
    rows = [asyncio.run(_measured("worker process", ProcessPlanner(), problem, arguments.seconds))]
    if arguments.inline:
        inline = contextlib.nullcontext(InlinePlanner(_Standing()))
        rows.append(asyncio.run(_measured("on the loop", inline, problem, 0.0)))
    print(
        f"{'planner':16} {'pods':>7} {'plans':>6} {'seconds':>8} {'median':>9} {'p99':>9} {'worst gap':>10}"
    )
    for row in rows:
        gaps = f"{row.median * 1e3:6.1f} ms {row.p99 * 1e3:6.1f} ms {row.worst * 1e3:7.1f} ms"
        judged = "met" if row.worst <= _ALLOWED else "NOT met"
        print(f"{row.planner:16} {row.pods:7} {row.plans:6} {row.seconds:8.1f} {gaps}  {judged}")
    if arguments.json:
        document = {"machine": facts(), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


class _Standing:
    """A clock on which nothing takes time."""

    def now(self) -> int:
        return 0

    def monotonic(self) -> int:
        return 0

    async def sleep(self, nanoseconds: int) -> None:
        del nanoseconds


async def _measured(
    name: str, planner: AbstractAsyncContextManager[Planner], problem: Problem, seconds: float
) -> Row:
    async with planner as ready:
        deadline = round(max(seconds, 1.0) * SECOND)
        start = time.monotonic()
        plans = 0

        async def work() -> None:
            nonlocal plans
            while plans == 0 or time.monotonic() - start < seconds:
                await ready.plan(problem, deadline)
                plans += 1

        gaps = sorted(await _beats(work))
    return Row(
        planner=name,
        pods=len(problem.pods),
        plans=plans,
        seconds=time.monotonic() - start,
        beats=len(gaps),
        median=gaps[len(gaps) // 2],
        p99=gaps[len(gaps) * 99 // 100],
        worst=gaps[-1],
    )


async def _beats(work: Callable[[], Awaitable[None]]) -> list[float]:
    """The gaps between the turns of a task while the work goes on; the last one ends with the work."""
    gaps: list[float] = []
    last = time.perf_counter()
    busy = asyncio.ensure_future(work())
    while not busy.done():
        await asyncio.sleep(_BEAT)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    await busy
    return gaps


if __name__ == "__main__":
    main()
