"""The examples tell the stories that they promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def evening() -> Result:
    return simulate(load(EXAMPLES / "evening-rush"))


def test_the_evening_is_served_without_a_broken_rule(evening: Result) -> None:
    summary = evening.summary
    assert summary.violations == []
    assert summary.pods.unbound == 0
    assert summary.pods.pending_seconds.max < 180


def test_nodes_come_and_go(evening: Result) -> None:
    nodes, cost = evening.summary.nodes, evening.summary.cost
    assert 10 <= nodes.launched <= 24
    assert nodes.terminated >= nodes.launched // 2
    assert nodes.base == 2
    assert cost.spot > cost.on_demand > 0


def test_the_spot_shortage_costs_retries(evening: Result) -> None:
    assert evening.summary.nodes.launch_failures > 0
    assert any(pod.parts["retries"] > 0 for pod in evening.summary.waiting.all)


def test_every_wait_adds_up(evening: Result) -> None:
    assert evening.summary.waiting.pods > 20
    for pod in evening.summary.waiting.all:
        assert sum(pod.parts.values()) == pytest.approx(pod.total_seconds, abs=0.01)


def test_partners_meet_the_maximum_of_their_autoscaler(evening: Result) -> None:
    figures = evening.summary.hpa_at_maximum["shop/partner-api"]
    assert figures.nothing_pending_seconds > 10 * figures.waiting_for_nodes_seconds
    assert evening.summary.traffic["partner-api"].over_capacity > 0


TRACE = """name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time
before,4000,8192,0,0,100
small,2000,4096,0,12780000,12785000
gpu,8000,16384,1,12783600,12800000
later,16000,32768,0,12801600,12803600
after,1000,1024,0,12999999,13000000
"""


def test_a_trace_is_played(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(TRACE)
    scenario = load(EXAMPLES / "pod-trace", trace=path).until(90 * MINUTE)
    records = simulate(scenario).records
    trace_pods = ("default/small", "default/gpu", "default/later")
    created = [record["pod"] for record in records if record["kind"] == "pod.created"]
    bound = [record["pod"] for record in records if record["kind"] == "pod.bound"]
    assert [pod for pod in created if pod.startswith("default/")] == list(trace_pods)
    assert [pod for pod in bound if pod.startswith("default/")] == list(trace_pods)
    (gpu,) = [
        item for item in records if item["kind"] == "claim.created" and "nvidia.com/gpu" in item["requests"]
    ]
    assert gpu["requests"]["nvidia.com/gpu"] == 1


def test_a_trace_has_to_be_named() -> None:
    with pytest.raises(InputError, match="does not say which trace"):
        load(EXAMPLES / "pod-trace")
