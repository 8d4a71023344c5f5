"""What `dovetail check` says of NodeOverlays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.lint.check import check
from dovetail.lint.survey import survey
from dovetail.lint.table import chosen
from tests.unit.test_plan_cluster import CLASS, POOL
from tests.unit.test_plan_overlays import overlay


def said(folder: Path, *items: dict[str, Any], values: str = "") -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    if values:
        (folder / "values.yaml").write_text(values)
    return [item.what for item in check(survey([str(folder)], recursive=True), chosen(select=("NP025",)))]


def with_pool(folder: Path, *items: dict[str, Any], values: str = "") -> list[str]:
    return said(folder, CLASS, POOL, *items, values=values)


def test_conflicts_and_what_sets_nothing_or_matches_nothing_are_found(tmp_path: Path) -> None:
    one, other = overlay("b", "c5.xlarge", price="1"), overlay("a", "c5.xlarge", price="2")
    assert with_pool(tmp_path, one, other) == ["NodeOverlay a stands against another one of its weight"]
    assert with_pool(tmp_path, one) == []
    assert with_pool(tmp_path, overlay("a", "c5.xlarge")) == [
        "NodeOverlay a sets neither a price nor a resource"
    ]
    text = "NodeOverlay a matches no type that a NodePool here may buy"
    assert with_pool(tmp_path, overlay("a", "m5.large", price="1")) == [text]
    wrong = overlay("a", "c5.xlarge", capacity={"habana.ai/gaudi": "1"})
    assert with_pool(tmp_path, wrong) == ["NodeOverlay a is not valid"]


def test_what_no_catalogue_can_know_is_left_alone(tmp_path: Path) -> None:
    assert said(tmp_path, overlay("a", "m5.large", price="1")) == [], "pools may be elsewhere"
    reserved = overlay("a", "c5.xlarge", price="1")
    reserved["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}
    ]
    assert with_pool(tmp_path, reserved) == []
    elsewhere = overlay("a", "c5.xlarge", price="1")
    elsewhere["spec"]["requirements"].append(
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-west-1a"]}
    )
    assert with_pool(tmp_path, elsewhere) == [], "no region is named"


def test_overlays_of_different_clusters_do_not_stand_against_each_other(tmp_path: Path) -> None:
    assert said(tmp_path / "apart", overlay("a", "m5.large", price="1")) == []
    assert said(tmp_path / "apart" / "pools", CLASS, POOL) == []
    text = "NodeOverlay a matches no type that a NodePool here may buy"
    found = check(survey([str(tmp_path / "apart")], recursive=True), chosen(select=("NP025",)))
    assert [item.what for item in found] == [text], "one cluster in several folders"
    for name in ("one", "two"):
        assert said(tmp_path / name, CLASS, POOL, overlay("a", "c5.xlarge", price="1")) == []
    both = survey([str(tmp_path / "one"), str(tmp_path / "two")], recursive=True)
    assert check(both, chosen(select=("NP025",))) == ()


@pytest.mark.parametrize(
    ("values", "shut"),
    [
        ("settings: {clusterName: demo, interruptionQueue: demo}\n", True),
        ("settings: {clusterName: demo, featureGates: {nodeOverlay: false}}\n", True),
        ("settings: {clusterName: demo, featureGates: {nodeOverlay: true}}\n", False),
        (
            "settings: {clusterName: demo}\n"
            "controller: {env: [{name: FEATURE_GATES, value: 'NodeRepair=true,NodeOverlay=true'}]}\n",
            False,
        ),
    ],
)
def test_values_that_leave_the_gate_shut_are_found(tmp_path: Path, values: str, shut: bool) -> None:
    found = with_pool(tmp_path, overlay("a", "c5.xlarge", price="1"), values=values)
    text = "there are NodeOverlays, and these values leave the gate NodeOverlay shut"
    assert found == ([text] if shut else [])
    assert with_pool(tmp_path, values=values) == [], "without overlays the gate is nobody's business"
