"""NodeOverlays among the manifests of `dovetail plan` and `dovetail explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import OK, run
from tests.unit.test_plan_classes import asked
from tests.unit.test_plan_cluster import CLASS, POOL, pod

_Text = pytest.CaptureFixture[str]
_FUSE = "smarter-devices/fuse"


def overlay(name: str, *types: str, **spec: Any) -> dict[str, Any]:
    key = "node.kubernetes.io/instance-type"
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": [{"key": key, "operator": "In", "values": list(types)}], **spec},
    }


def test_prices_of_overlays_decide_what_is_bought(tmp_path: Path, capsys: _Text) -> None:
    dear = overlay("dear", "c5.4xlarge", price="0.001", weight=2)
    found, notes = asked(tmp_path, capsys, CLASS, POOL, pod("web"), dear)
    (claim,) = found["nodeClaims"]
    assert claim["instanceType"] == "c5.4xlarge"
    assert "NodeOverlay dear sets the price of 1 type to $0.001/h" in notes
    assert "a cluster heeds them where its gate NodeOverlay is open" in notes


def test_what_the_nodes_cost_at_list_prices_is_said(tmp_path: Path, capsys: _Text) -> None:
    path = tmp_path / "all.json"
    for price, told in (("0.001", True), (None, False)):
        given = overlay("dear", "c5.4xlarge", price=price) if price else overlay("dear", "c5.4xlarge")
        items = [CLASS, POOL, pod("web"), given]
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert run(["plan", "-f", str(path), "--region", "us-east-1", "--work", "100000"]) == OK
        text = "At list prices, without NodeOverlays, these nodes cost $0.6"
        assert (text in capsys.readouterr().out) == told


def test_list_prices_are_in_json_and_a_savings_plan_bears_them(tmp_path: Path, capsys: _Text) -> None:
    path = tmp_path / "all.json"
    given = overlay("cheap", "c5.4xlarge", price="0.001")
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [CLASS, POOL, pod("web"), given]})
    )
    words = ["plan", "-f", str(path), "--region", "us-east-1", "--work", "100000", "-o", "json"]
    assert run([*words, "--savings-plan", "10"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["cost"]["instance"] == 0.001
    assert found["cost"]["atListPrices"] == pytest.approx(found["cost"]["hourly"] + 0.68 - 0.001)
    # 0.68 on demand at 28 % less
    assert found["savingsPlan"]["usedAfter"] == pytest.approx(0.68 * 0.72)


def test_resources_of_overlays_hold_pods(tmp_path: Path, capsys: _Text) -> None:
    made = pod("web")
    made["spec"]["containers"][0]["resources"] = {"requests": {_FUSE: "1"}, "limits": {_FUSE: "1"}}
    fuses = overlay("fuses", "c5.xlarge", capacity={_FUSE: "5"})
    assert asked(tmp_path, capsys, CLASS, POOL, made)[0]["nodeClaims"] == []
    (claim,) = asked(tmp_path, capsys, CLASS, POOL, made, fuses)[0]["nodeClaims"]
    assert claim["instanceType"] == "c5.xlarge"


def test_what_each_overlay_does_is_said(tmp_path: Path, capsys: _Text) -> None:
    both = overlay("both", "c5.xlarge", "c5.2xlarge", priceAdjustment="-10%", capacity={_FUSE: "5"})
    elsewhere, empty = overlay("elsewhere", "m5.large", price="1"), overlay("empty", "c5.xlarge")
    _, notes = asked(tmp_path, capsys, CLASS, POOL, pod("web"), both, elsewhere, empty)
    text = f"NodeOverlay both changes the price of 2 types by -10% and gives 2 types 5 {_FUSE}"
    assert text in notes
    assert "NodeOverlay elsewhere matches no type that a NodePool may buy" in notes
    assert "NodeOverlay empty sets nothing" in notes


def test_overlays_that_count_nowhere_are_named(tmp_path: Path, capsys: _Text) -> None:
    one, other = overlay("b", "c5.xlarge", price="1"), overlay("a", "c5.xlarge", price="2")
    wrong = overlay("c", "c5.xlarge", capacity={"habana.ai/gaudi": "1"})
    _, notes = asked(tmp_path, capsys, CLASS, POOL, pod("web"), one, other, wrong)
    assert "NodeOverlay a is left out: conflict with another overlay" in notes
    text = "invalid capacity: habana.ai/gaudi in resource, restricted"
    assert f"NodeOverlay c is left out: {text}" in notes
