"""Peak memory of a solve, in a process of its own; what the decoded input alone takes is told beside it."""

from __future__ import annotations

import json
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.solve import inputs
from benchmarks.solve.case import Row, Settings, Target, planned
from benchmarks.solve.check import checked
from benchmarks.solve.scaling import sizes
from dovetail.api.codec import decode
from dovetail.api.core import Pod

_MOST = 500.0  # MiB
_BUDGET = 10.0  # seconds: in one, part of the pods is left for the next plan


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """So many pending pods of so many shapes."""

    name: str
    pods: int
    shapes: int

    def run(self, settings: Settings) -> list[Row]:
        budget = (settings.budgets or (_BUDGET,))[0]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return [pool.submit(self.measured, budget, settings).result()]

    def measured(self, budget: float, settings: Settings) -> Row:
        """The row; meaningful only in a fresh process, since a peak never falls."""
        bare = _peak()
        menu = sizes(self.shapes)
        pods = tuple(_decoded(number, *menu[number % self.shapes]) for number in range(self.pods))
        problem = inputs.problem(pods, inputs.linear_types())
        before = _peak()
        started, used = time.perf_counter(), time.process_time()
        plan = planned(problem, budget, counted=settings.counted)
        wall, cpu, peak = time.perf_counter() - started, time.process_time() - used, _peak()
        return Row(
            case=self.name,
            budget=budget,
            pods=self.pods,
            nodes=len(plan.claims),
            left=len(plan.unschedulable),
            hourly=plan.cost.hourly / 1e9,
            over_bound=plan.cost.hourly / plan.cost.lower_bound if plan.cost.lower_bound else None,
            wall=(wall,),
            cpu=(cpu,),
            violations=checked(self.name, problem, plan)[0] if settings.check else None,
            work=plan.work,
            peak_mib=peak,
            note=f"{peak:.0f} MiB: modules {bare:.0f}, input {before - bare:.0f}, solve {peak - before:.0f}",
            target=Target(mib=_MOST),
        )


def _decoded(number: int, cpu: int, memory: int) -> Pod:
    """A pod as it arrives: nothing of it is shared with the next one."""
    return decode(json.loads(json.dumps(inputs.pod(number, cpu, memory, {"app": "waiting"}))), Pod)


def _peak() -> float:
    """MiB that the process has held at most; not what its parent held when it was started."""
    status = Path("/proc/self/status")
    if status.exists():
        kib = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(kib) / 1024
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def cases() -> list[MemoryCase]:
    """A cluster's worth of pending pods."""
    return [MemoryCase("memory/100000", 100_000, 500)]
