"""Recorded scenarios, feature by feature: cost against the proven bound and against the recorded answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.solve.case import Row, Settings, Target, planned
from benchmarks.solve.check import checked
from dovetail.testing.scenarios import features, read_scenarios

_FOLDER = Path(__file__).parent.parent.parent / "tests" / "conformance" / "vectors" / "scheduling"
# Features that nothing but resources constrains -> mean cost / resource relaxation of the recorded answers.
_UNCONSTRAINED = {
    "basic": 1.81,
    "basic-large": 1.44,
    "init-sidecar": 1.44,
    "packing-cpu": 1.27,
    "packing-large-pods": 1.44,
    "packing-memory": 1.34,
    "packing-mixed": 1.31,
    "packing-tiny": 2.64,
    "pod-overhead": 1.56,
}
_GAP = 1.05


@dataclass(frozen=True, slots=True)
class VectorCase:
    """All scenarios of one feature."""

    name: str
    feature: str

    def run(self, settings: Settings) -> list[Row]:
        return [self._row(budget, settings) for budget in settings.budgets or (1.0,)]

    def _row(self, budget: float, settings: Settings) -> Row:
        wall, cpu, hourly, bounds, recorded = 0.0, 0.0, 0.0, [], []
        pods = nodes = left = broken = dearer = 0
        for scenario in read_scenarios(_FOLDER / f"{self.feature}.jsonl.gz"):
            started, used = time.perf_counter(), time.process_time()
            plan = planned(scenario.problem, budget, counted=settings.counted)
            wall, cpu = wall + time.perf_counter() - started, cpu + time.process_time() - used
            pods, nodes = pods + len(scenario.problem.pods), nodes + len(plan.claims)
            left += len(plan.unschedulable)
            hourly += plan.cost.hourly / 1e9
            if plan.cost.lower_bound:
                bounds.append(plan.cost.hourly / plan.cost.lower_bound)
            theirs = max(run["totalPrice"] for run in scenario.expected["runs"])
            placed = len(scenario.problem.pods) - len(plan.unschedulable)
            if theirs and placed == len(scenario.expected["summary"]["scheduled"]):
                recorded.append(plan.cost.hourly / 1e9 / theirs)
                dearer += recorded[-1] > 1 + 1e-9
            if settings.check:
                broken += checked(f"{self.name}/{scenario.name}", scenario.problem, plan)[0]
        free = self.feature in _UNCONSTRAINED
        mean = sum(recorded) / len(recorded) if recorded else None
        return Row(
            case=self.name,
            budget=budget,
            pods=pods,
            nodes=nodes,
            left=left if not free else 0,
            hourly=hourly,
            over_bound=sum(bounds) / len(bounds) if bounds else None,
            wall=(wall,),
            cpu=(cpu,),
            violations=broken if settings.check else None,
            note=f"cost / recorded {mean:.3f}, dearer in {dearer}" if mean is not None else "",
            rival=f"{_UNCONSTRAINED[self.feature]:.2f} x relaxation" if free else "",
            target=Target(over_bound=_GAP) if free else Target(),
        )


def cases() -> list[VectorCase]:
    """One per feature."""
    return [VectorCase(f"vectors/{name}", name) for name in features(_FOLDER)]
