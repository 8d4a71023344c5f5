"""Scenario files: what is read, and what is said of a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import store
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.latency import Distribution, Latency
from dovetail.simulate.scenario.scenario import load
from dovetail.simulate.scenario.settings import operator_settings

GOOD = """\
apiVersion: simulation.dovetail.dev/v1alpha1
kind: Scenario
name: small
region: ap-northeast-2
timezone: Asia/Seoul
start: 20:45
duration: 3h
nodeGroups:
  - {name: base, instanceType: m5.large, count: 2, zones: [ap-northeast-2a]}
latencies:
  boot: {median: 30s, p99: 60s}
traffic:
  - service: web
    deployment: default/web
    base: 100
    costPerRequest: 20m
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: named}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: any}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m8i.large]}
      - {key: kubernetes.io/arch, operator: NotIn, values: [arm64]}
"""


def _write(folder: Path, text: str) -> Path:
    (folder / "scenario.yaml").write_text(text)
    return folder


def test_a_good_scenario(tmp_path: Path) -> None:
    scenario = load(_write(tmp_path, GOOD))
    assert scenario.start == 1_772_451_900 * SECOND  # 2026-03-02T20:45 in Seoul
    assert scenario.duration == 3 * HOUR
    assert [curve.service for curve in scenario.curves] == ["web"]
    origins = {item.subject: item.origin for item in scenario.assumptions}
    assert origins["latencies.boot"] == "scenario"
    assert origins["latencies.launch"] == "default"


def test_where_prices_are_from_is_an_assumption(tmp_path: Path) -> None:
    (prices,) = (item.value for item in load(_write(tmp_path, GOOD)).assumptions if item.subject == "prices")
    assert prices.startswith("Prices of ap-northeast-2: ec2-instances-info of 2025-05-28")
    assert "258 estimated" in prices


@pytest.mark.usefixtures("unpriced")
def test_types_without_a_price_that_the_scenario_names_are_reported(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOL)
    _write(tmp_path, GOOD + "cluster: {instanceTypes: [m5.large, c6gd.metal]}\n")
    (assumption,) = (item.value for item in load(tmp_path).assumptions if item.subject == "on-demand prices")
    assert assumption == (
        "unknown of 2 of 754 types in ap-northeast-2, which are not bought; among them are types that are "
        "asked for by name: c6gd.metal, m8i.large"
    )


@pytest.fixture
def unpriced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region in which two types have no price, as in a file without a price list."""
    known = tuple(store.sold("ap-northeast-2"))
    without = {"c6gd.metal", "m8i.large"}
    rows = [(record, zones, 0 if record.name in without else price) for record, zones, price in known]
    monkeypatch.setattr(store, "sold", lambda _: iter(rows))


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "words"),
    [
        ("kind: Scenario", "kind: Scen", 2, "kind", "valid is Scenario"),
        ("region: ap", "regoin: ap", 4, "regoin", "did you mean 'region'"),
        ("Asia/Seoul", "Asia/Soul", 5, "timezone", "did you mean 'Asia/Seoul'"),
        ("start: 20:45", "start: 25:45", 6, "start", "not a local time"),
        ("duration: 3h", "duration: 3x", 7, "duration", "not a duration"),
        ("duration: 3h", "duration: 0s", 7, "duration", "between"),
        ("instanceType:", "instanceTyp:", 9, "nodeGroups[0].instanceTyp", "did you mean 'instanceType'"),
        ("count: 2", "count: two", 9, "nodeGroups[0].count", "expected whole number"),
        ("count: 2", "count: 1000000000", 8, "nodeGroups", "a simulation takes 20,000"),
        ("count: 2", "count: -2", 9, "nodeGroups[0].count", "fewer than 0"),
        ("zones: [ap-northeast-2a]", "zones: []", 9, "nodeGroups[0].zones", "at least one zone"),
        ("median: 30s", "median: 90s", 11, "latencies.boot", "p99"),
        ("  boot:", "  bot:", 11, "latencies.bot", "did you mean 'boot'"),
        ("default/web", "web", 14, "traffic[0].deployment", "namespace/name"),
        ("costPerRequest: 20m", "costPerRequest: 20q", 16, "traffic[0].costPerRequest", "not a quantity"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, old: str, new: str, line: int, path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load(_write(tmp_path, GOOD.replace(old, new)))
    error = caught.value
    assert (error.line, error.path) == (line, path)
    assert words in error.message
    assert error.source == str(tmp_path / "scenario.yaml")


@pytest.mark.parametrize(
    ("kind", "version", "spec", "path"),
    [
        ("Deployment", "apps/v1", {"replicas": 10**9}, "spec.replicas"),
        ("StatefulSet", "apps/v1", {"replicas": 200_001, "serviceName": "web"}, "spec.replicas"),
        ("Job", "batch/v1", {"completions": 10**9, "parallelism": 10**9}, "spec.parallelism"),
        ("HorizontalPodAutoscaler", "autoscaling/v2", {"maxReplicas": 2 * 10**9}, "spec.maxReplicas"),
        ("ScaledObject", "keda.sh/v1alpha1", {"maxReplicaCount": 10**9}, "spec.maxReplicaCount"),
    ],
)
@pytest.mark.parametrize("folder", [".", "changes"])
def test_more_pods_than_can_be_played_are_counted_and_not_made(
    tmp_path: Path, folder: str, kind: str, version: str, spec: dict[str, Any], path: str
) -> None:
    pods = {"containers": [{"name": "a", "image": "x"}]}
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    if version == "batch/v1":
        spec = {**spec, "template": {"spec": {**pods, "restartPolicy": "Never"}}}
    elif version == "apps/v1":
        labels = {"app": "web"}
        spec = {
            **spec,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pods},
        }
    elif version == "keda.sh/v1alpha1":
        cron = {"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "2"}
        target["triggers"] = [{"type": "cron", "metadata": cron}]
    document = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {**spec, **(target if "max" in path else {})},
    }
    text = GOOD + ("changes: [{at: '21:00', file: changes/a.yaml}]\n" if folder == "changes" else "")
    scenario = _write(tmp_path, text)
    (scenario / folder).mkdir(exist_ok=True)
    (scenario / folder / "a.yaml").write_text(json.dumps(document))
    with pytest.raises(InputError, match="a simulation takes 200,000") as caught:
        load(scenario)
    assert caught.value.path == path
    assert str(caught.value.source).endswith("a.yaml")


def test_changes_need_not_be_whole_objects(tmp_path: Path) -> None:
    """The second file changes what the first one made; replicas that nobody writes stay as they are then."""
    changes = "changes: [{at: '21:10', file: changes/b.yaml}, {at: '21:00', file: changes/a.yaml}]\n"
    scenario = _write(tmp_path, GOOD.replace("nodeGroups:", f"{changes}nodeGroups:"))
    (scenario / "changes").mkdir()
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    pod = "{metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: x}]}}"
    whole = f"{head}spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {pod}}}\n"
    (scenario / "web.yaml").write_text(whole)
    (scenario / "changes" / "a.yaml").write_text(f"{head}spec: {{replicas: 3}}\n")
    part = "spec: {template: {spec: {nodeSelector: {eks.amazonaws.com/nodegroup: base}}}}\n"
    (scenario / "changes" / "b.yaml").write_text(head + part)
    found = simulate(load(scenario).until(HOUR))
    pods = [record for record in found.records if record["kind"] == "pod.created"]
    assert len(pods) == 2 + 1 + 3


def test_a_number_of_nodes_that_nobody_keeps_is_noted(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOL.replace("spec:\n", "spec:\n  replicas: 2\n", 1))
    (note,) = load(_write(tmp_path, GOOD)).notes
    assert note.startswith("NodePool named has spec.replicas, which nobody looks at")
    assert load(_write(tmp_path, GOOD + "settings: {featureGates: {StaticCapacity: true}}\n")).notes == ()


def test_a_missing_field(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing the required field `duration`"):
        load(_write(tmp_path, GOOD.replace("duration: 3h\n", "")))


def test_malformed_yaml(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(_write(tmp_path, GOOD.replace("duration: 3h", "duration: [3h")))
    assert caught.value.line is not None


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="the folder is empty"):
        load(tmp_path)
    (tmp_path / "pod.yaml").write_text("")
    with pytest.raises(InputError, match=r"has no scenario\.yaml"):
        load(tmp_path)
    with pytest.raises(InputError, match="not a single file"):
        load(tmp_path / "pod.yaml")


def test_a_folder_with_nothing_to_play(tmp_path: Path) -> None:
    api = "apiVersion: simulation.dovetail.dev/v1alpha1\nkind: Scenario\n"
    head = f"{api}name: x\nregion: us-east-1\nduration: 5m\n"
    kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [web]\n"
    (tmp_path / "web.yaml").write_text(kustomization)
    with pytest.raises(InputError, match="holds nothing to play") as caught:
        load(_write(tmp_path, head))
    assert "kubectl kustomize" in caught.value.remedy
    group = "nodeGroups: [{name: base, instanceType: m5.large, count: 1, zones: [us-east-1a]}]\n"
    assert load(_write(tmp_path, head + group)).manifests == ()


def test_a_broken_manifest_beside_it(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: web}\n")
    with pytest.raises(InputError, match="Deployment"):
        load(_write(tmp_path, GOOD))


def test_a_latency_keeps_its_median_and_tail() -> None:
    distribution = Distribution.of(Latency(median="30s", p99="60s"))
    draws = sorted(distribution.draw(1, f"node {i}", "boot") for i in range(2_000))
    assert draws == sorted(distribution.draw(1, f"node {i}", "boot") for i in range(2_000))
    assert 29 * SECOND < draws[1_000] < 31 * SECOND
    assert 55 * SECOND < draws[1_980] < 66 * SECOND
    assert Distribution.of(Latency(median="2s")).draw(1, "a", "b") == 2 * SECOND


def test_repair_policies_are_those_of_the_flag(tmp_path: Path) -> None:
    policy = "{conditionType: Ready, conditionStatus: False, tolerationDuration: 5m"
    scenario = load(_write(tmp_path, f"{GOOD}settings: {{repairPolicies: {{policies: [{policy}}}]}}}}\n"))
    (found,) = operator_settings(scenario.file.settings, HOUR, lambda *_: None).repair_policies
    assert (found.condition, found.status, found.toleration) == ("Ready", "False", 5 * MINUTE)
    with pytest.raises(InputError) as refused:
        load(
            _write(
                tmp_path,
                f"{GOOD}settings:\n  repairPolicies:\n    policies:\n    - {policy}, priority: -1}}\n",
            )
        )
    fault = refused.value
    assert (fault.path, fault.line) == ("settings.repairPolicies.policies[0].priority", GOOD.count("\n") + 4)
    assert "priority -1 outside the supported range [0, 100]" in fault.message
