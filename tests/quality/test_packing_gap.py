"""How near to its own proof the solver plans many pods of many sizes, on types of different make-up."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build, well_known_keys
from dovetail.model import labels
from dovetail.model.problem import Budget, Options, Problem
from dovetail.solve.solver import solve
from dovetail.verify import verify

pytestmark = pytest.mark.long

# name -> (pods, sizes of pods, most cost / lower bound). The last may only fall.
CASES = {"few sizes": (300, 6, 1.005), "many sizes": (400, 30, 1.01), "large pods": (120, 8, 1.02)}


def problem(name: str) -> Problem:
    """Pods drawn from a fixed list of sizes; types with 2, 4 and 8 GiB per cpu, three zones each."""
    count, sizes, _ = CASES[name]
    draw = random.Random(name)
    least = 1_500 if name == "large pods" else 100
    menu = [(draw.randint(least, 7_500), draw.randint(256, 24_000)) for _ in range(sizes)]
    pods = tuple(_pod(number, *draw.choice(menu)) for number in range(count))
    prices = {2: 0.0425, 4: 0.048, 8: 0.063}
    types = parse_instance_types(
        [_type(cpu, ratio, prices[ratio]) for cpu in (2, 4, 8, 16, 32) for ratio in prices]
    )
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    pool = {"metadata": {"name": "default"}, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}
    return build(
        ClusterObjects(pools=(decode(pool, NodePool),)),
        pods,
        lambda _: types,
        Options(well_known=well_known_keys(types)),
        require_ready=False,
    )


def _pod(number: int, cpu: int, memory: int) -> Pod:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    meta = {"name": f"pod-{number:04}", "namespace": "default"}
    return decode(
        {"metadata": meta, "spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]}}, Pod
    )


def _type(cpu: int, ratio: int, rate: float) -> dict[str, Any]:
    values = {labels.INSTANCE_TYPE: f"r{ratio}-{cpu}", labels.ARCH: "amd64", labels.OS: "linux"}
    return {
        "name": f"r{ratio}-{cpu}",
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in values.items()],
        "offerings": [
            {
                "price": round(cpu * rate, 6),
                "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: "on-demand"},
            }
            for zone in ("zone-1", "zone-2", "zone-3")
        ],
        "capacity": {"cpu": str(cpu), "memory": f"{ratio * cpu}Gi", "pods": "110"},
    }


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_gap_is_small_and_proven(name: str) -> None:
    asked = problem(name)
    plan = solve(asked, Budget(work=5_000_000))
    assert not plan.unschedulable
    assert verify(asked, plan) == ()
    assert plan.cost.hourly <= CASES[name][2] * plan.cost.lower_bound


def test_less_work_never_leaves_a_pod_out() -> None:
    asked = problem("many sizes")
    costs = []
    for work in (1_000, 100_000, 5_000_000):
        plan = solve(asked, Budget(work=work))
        assert not plan.unschedulable
        assert verify(asked, plan) == ()
        costs.append(plan.cost.hourly)
    assert costs[-1] <= costs[0]


def test_the_same_input_gives_the_same_plan() -> None:
    asked = problem("few sizes")
    assert solve(asked, Budget(work=100_000)) == solve(asked, Budget(work=100_000))
