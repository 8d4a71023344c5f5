"""Peak memory of a solve, in a process of its own; with what the decoded input alone takes."""

from __future__ import annotations

import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from benchmarks.machine import peak_mib
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
        bare = peak_mib()
        menu = sizes(self.shapes)
        pods = tuple(_decoded(number, *menu[number % self.shapes]) for number in range(self.pods))
        problem = inputs.problem(pods, inputs.linear_types())
        before = peak_mib()
        started, used = time.perf_counter(), time.process_time()
        plan = planned(problem, budget, counted=settings.counted)
        wall, cpu, peak = time.perf_counter() - started, time.process_time() - used, peak_mib()
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


def cases() -> list[MemoryCase]:
    """A cluster's worth of pending pods."""
    return [MemoryCase("memory/100000", 100_000, 500)]
