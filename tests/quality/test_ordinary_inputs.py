"""How far plans of ordinary manifests are from what is proven necessary."""

from __future__ import annotations

import pytest

from benchmarks.solve import ordinary
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.verify import verify

pytestmark = pytest.mark.long

# Cost over bound with a second's counted work, and pods that no node takes: those of hugepages and of Neuron
# devices, which none of the types has. These may only fall.
GAPS = {
    "cronwave": (1.001, 0),
    "daemons": (1.02, 0),
    "ephemeral": (1.001, 0),
    "existing": (1.13, 0),
    "hugepages": (1.001, 6),
    "smallteam": (1.001, 0),
    "statefulvol": (1.06, 0),
}


@pytest.mark.parametrize("name", GAPS)
def test_ordinary_manifests_are_planned_near_their_bound(name: str) -> None:
    most, left = GAPS[name]
    problem = ordinary.problem(name)
    plan = solve(problem, Budget(work=1_000_000))
    assert len(plan.unschedulable) == left
    assert plan.cost.hourly <= most * plan.cost.lower_bound
    assert not verify(problem, plan)
