"""Acceptance: scenarios from a folder to their summary, with a base of managed nodes and autoscalers."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import TRAVEL, price, sold

from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load

SCENARIO = """\
apiVersion: simulation.dovetail.dev/v1alpha1
kind: Scenario
name: story
region: ap-northeast-2
duration: 12m
cluster: {name: travel}
nodeGroups:
  - {name: base, instanceType: m5.2xlarge, count: 2, zones: [ap-northeast-2a, ap-northeast-2c]}
"""

TRAFFIC = """\
traffic:
  - {service: NAME, deployment: default/NAME, base: 10, costPerRequest: 50m,
     peaks: [{from: "09:01", until: "09:10", rise: 1m, fall: 1m, add: 400}]}
"""

SERVICE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: default}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers:
        - {name: main, image: "NAME:1", resources: {requests: {cpu: "1", memory: 1Gi}}}
"""

AUTOSCALER = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  minReplicas: 2
  maxReplicas: MAX
  metrics:
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
"""


def filled(text: str, name: str, **values: int) -> str:
    """The text with its capital words replaced."""
    for word, value in {"NAME": name, **values}.items():
        text = text.replace(word, str(value))
    return text


def play(folder: Path, scenario: str, *manifests: str) -> Result:
    """Play a scenario with the travel site's pool and these manifests."""
    (folder / "scenario.yaml").write_text(scenario)
    (folder / "pool.yaml").write_text(TRAVEL.read_text())
    (folder / "services.yaml").write_text("---\n".join(manifests))
    result = simulate(load(folder))
    assert result.summary.violations == []
    return result


@pytest.mark.parametrize("maximum", [4, 60])
def test_an_autoscaler_at_its_maximum_is_kept_apart_from_waiting_for_nodes(
    tmp_path: Path, maximum: int
) -> None:
    service = filled(SERVICE, "web", REPLICAS=2) + filled(AUTOSCALER, "web", MAX=maximum)
    result = play(tmp_path, SCENARIO + filled(TRAFFIC, "web"), service)
    summary = result.summary
    if maximum == 4:
        # The base holds all four pods: nothing asks for a node, and no node autoscaler can help.
        stood = summary.hpa_at_maximum["default/web"]
        assert stood.maximum == 4
        assert stood.nothing_pending_seconds > 120
        assert stood.waiting_for_nodes_seconds == 0
        assert summary.nodes.launched == summary.waiting.pods == 0
        assert summary.traffic["web"].over_capacity > 0
        return
    assert summary.hpa_at_maximum == {}
    assert summary.nodes.launched > 0
    assert summary.pods.unbound == 0
    assert 30 < summary.pods.pending_seconds.max < 120
    for wait in summary.waiting.all:
        assert sum(wait.parts.values()) == pytest.approx(wait.total_seconds, abs=0.01)
    assert max(summary.waiting.mean, key=lambda part: summary.waiting.mean[part]) == "join"


def test_the_surge_lands_on_spot_and_the_base_is_left_alone(tmp_path: Path) -> None:
    result = play(tmp_path, SCENARIO, filled(SERVICE, "web", REPLICAS=40))
    started = [record for record in result.records if record["kind"] == "instance.started"]
    base = [record for record in started if not record["claim"]]
    surge = [record for record in started if record["claim"]]
    assert [record["capacityType"] for record in base] == ["on-demand"] * 2
    assert {record["capacityType"] for record in surge} == {"spot"}
    # All pods run, the first of them on the base, which costs nothing more.
    assert result.summary.pods.bound == 40
    nodes = {record["node"]: record["claim"] for record in result.records if record["kind"] == "node.created"}
    of_base = [name for name, claim in nodes.items() if not claim]
    bound = [record["node"] for record in result.records if record["kind"] == "pod.bound"]
    assert [bound.count(name) for name in of_base] == [7, 7]
    harm = ("node.deleted", "pod.evicted")
    touched = {record["node"] for record in result.records if record["kind"] in harm}
    assert not touched & set(of_base)
    # The saving that the cost table shows: less than the same types cost on demand.
    cost, types = result.summary.cost, sold()
    assert cost.on_demand == 0
    assert cost.base > 0
    assert cost.spot > 0
    for record in surge:
        assert record["price"] < price(types[record["instanceType"]])
