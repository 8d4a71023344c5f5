"""How late plans are: random problems of all sizes and kinds, asked of the worker process as in production.

Every other problem is on the real types of a region, from one pool; the rest has pools, limits, nodes and
types that are drawn as well.

Late is what a plan takes beyond its deadline, from the question to the plan in the asking process, so that
the way there and back counts. Allowed is a tenth of the deadline, or 100 ms where that is more. On a machine
that does other things as well, --cpu measures and ends solves by CPU time, in this process; with --speed 0.5
that clock runs twice as fast, as on a core half as fast.

Left over are pods without a place that would have one if they were alone: limits and rules between pods may
forbid it, but a longer deadline sometimes finds one. Those that it did not come to are untried.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import facts
from benchmarks.solve.crowded import question
from dovetail.base.clock import SECOND
from dovetail.base.collector import collect_between, collect_seldom
from dovetail.cli.main import readers_may_leave
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.runtime.planning.process import ProcessPlanner
from dovetail.solve.budget import Deadline, SolveBudget
from dovetail.solve.search_state import SolveContext
from dovetail.solve.solver import solve
from dovetail.testing.crowds import crowd
from dovetail.verify import verify

# One problem in so many is one of these: pods, and distinct shapes among them.
_EVERY = 25
_LARGE = ((2_000, 2_000), (4_000, 2_000), (10_000, 500), (20_000, 50), (50_000, 2_000))
_MOST_PODS = 50_000
_CLASSES = (
    ("up to 10 pods", 10),
    ("up to 100", 100),
    ("up to 1,000", 1_000),
    ("up to 10,000", 10_000),
    ("up to 50,000", _MOST_PODS),
)

_LINE = "{:16} {:>7} {:>12} {:>10} {:>11} {:>9} {:>10} {:>8}"

Asking = Callable[[Problem], Awaitable[tuple[Plan, float]]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One problem; times in seconds."""

    seed: int
    pods: int
    pod_classes: int
    seconds: float
    late: float
    left: int  # pods without a place that would have one if they were alone
    untried: int  # pods left over for want of time
    violations: int


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deadline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--problems", type=int, default=1_000, help="how many (default: 1000)")
    parser.add_argument(
        "--first", type=int, help="seed of the first (default: another one each time, which is printed)"
    )
    parser.add_argument("--deadline", type=float, default=1.0, help="seconds (default: 1)")
    parser.add_argument("--cpu", action="store_true", help="by CPU time, in this process")
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        help="of a core, with --cpu: 0.5 is one half as fast (default: 1)",
    )
    parser.add_argument(
        "--check", action="store_true", help="hold every plan against the rules, which takes long"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.speed != 1 and not arguments.cpu:
        parser.error("--speed needs --cpu: only a clock of this process can run faster")
    if arguments.first is None:
        arguments.first = secrets.randbelow(1_000_000)
    print(f"seeds from {arguments.first} on", flush=True)
    samples = asyncio.run(_measured(arguments))
    allowed = max(0.1, 0.1 * arguments.deadline)
    print(
        _LINE.format(
            "problems", "number", "ended early", "p99 late", "worst late", "too late", "left over", "untried"
        )
    )
    rows = [_row(name, some, allowed) for name, some in _classes(samples)]
    if arguments.json:
        document = {"machine": facts(), "deadline": arguments.deadline, "cpu": arguments.cpu, "rows": rows}
        document["speed"] = arguments.speed
        document["samples"] = [asdict(sample) for sample in samples]
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def size(seed: int) -> tuple[int, int]:
    """Pods and distinct shapes of the problem with that seed: small ones are as frequent as large ones."""
    draw = random.Random(f"size of {seed}")
    if seed % _EVERY == 0:
        return _LARGE[seed // _EVERY % len(_LARGE)]
    pods = int(_MOST_PODS ** draw.random())
    return pods, min(2_000, max(1, int(pods ** draw.uniform(0, 0.9))))


async def _measured(arguments: argparse.Namespace) -> list[Sample]:
    nanoseconds = round(arguments.deadline * SECOND)
    seeds = range(arguments.first, arguments.first + arguments.problems)
    collect_seldom()  # as the controller does
    if arguments.cpu:
        collect_between()  # as its worker does
        return [await _sample(seed, arguments, _by_cpu(nanoseconds, arguments.speed)) for seed in seeds]
    async with ProcessPlanner() as planner:

        async def ask(problem: Problem) -> tuple[Plan, float]:
            start = time.monotonic()
            plan = await planner.plan(problem, nanoseconds)
            return plan, time.monotonic() - start

        return [await _sample(seed, arguments, ask) for seed in seeds]


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 < speed <= 1:
        raise argparse.ArgumentTypeError(f"more than 0 and at most 1 is possible, not {text}")
    return speed


class _Slow(Deadline):
    """Of a core with that speed. Libraries look at the clock of this one."""

    def __init__(self, instant: int, now: Callable[[], int], speed: float) -> None:
        super().__init__(instant, now)
        self._speed = speed

    @property
    def seconds(self) -> float:
        return super().seconds * self._speed


def _by_cpu(nanoseconds: int, speed: float) -> Asking:
    def now() -> int:
        return int(time.process_time_ns() / speed)

    async def ask(problem: Problem) -> tuple[Plan, float]:
        start = now()
        plan = solve(problem, Budget.within(nanoseconds), stop=_Slow(start + nanoseconds, now, speed))
        return plan, (now() - start) / SECOND

    return ask


async def _sample(seed: int, arguments: argparse.Namespace, ask: Asking) -> Sample:
    pods, pod_classes = size(seed)
    problem = crowd(seed, pods, pod_classes) if seed % 2 else question(seed, pods, pod_classes)
    gc.collect()
    plan, seconds = await ask(problem)
    violations = len(verify(problem, plan)) if arguments.check else 0
    late = max(0.0, seconds - arguments.deadline)
    untried = sum(each.untried for each in plan.unschedulable)
    found = Sample(seed, pods, pod_classes, seconds, late, _left(problem, plan), untried, violations)
    if violations or found.late > max(0.1, 0.1 * arguments.deadline):
        print(
            f"seed {seed}: {pods} pods of {pod_classes} shapes, {seconds:.2f} s, {violations} violations, "
            f"{found.left} left over, {untried} of them for want of time",
            flush=True,
        )
    return found


def _left(problem: Problem, plan: Plan) -> int:
    if not plan.left:
        return 0
    context, left = SolveContext(problem, SolveBudget(Budget(0))), set(plan.left)
    pods = [pod for index in context.stranded(left) for pod in context.instance.pod_classes[index].pods]
    return len(left.intersection(pods))


def _classes(samples: list[Sample]) -> Iterable[tuple[str, list[Sample]]]:
    least = 0
    for name, most in _CLASSES:
        yield name, [sample for sample in samples if least < sample.pods <= most]
        least = most
    yield "2,000 shapes", [sample for sample in samples if sample.pod_classes >= 2_000]
    yield "all", samples


def _row(name: str, samples: list[Sample], allowed: float) -> dict[str, object]:
    late = sorted(sample.late for sample in samples) or [0.0]
    row = {
        "problems": name,
        "number": len(samples),
        "endedEarly": sum(sample.late == 0 for sample in samples),
        "p99": late[len(late) * 99 // 100],
        "worst": late[-1],
        "tooLate": sum(value > allowed for value in late),
        "left": sum(sample.left for sample in samples),
        "untried": sum(sample.untried for sample in samples),
        "violations": sum(sample.violations for sample in samples),
    }
    texts = [f"{row[key]:.3f} s" for key in ("p99", "worst")]
    counts = row["tooLate"], row["left"], row["untried"]
    print(_LINE.format(name, len(samples), row["endedEarly"], *texts, *counts))
    return row


if __name__ == "__main__":
    main()
