"""What `dovetail plan` leaves alone as production does: pools not Ready, classes that find nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import OK, run
from tests.unit.test_plan_cluster import CLASS, POOL, node, pod

_Text = pytest.CaptureFixture[str]


def asked(
    folder: Path, capsys: _Text, *items: dict[str, Any], code: str = "plan"
) -> tuple[dict[str, Any], str]:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    words = ["plan"] if code == "plan" else ["explain", *code.split()]
    given = ["-f", str(path), "--region", "eu-west-1", "--work", "20000", "-o", "json"]
    assert run([*words, *given]) == OK
    told = capsys.readouterr()
    found: dict[str, Any] = json.loads(told.out)
    return found, told.err


def ready(item: dict[str, Any], status: str, *more: dict[str, str], **rest: Any) -> dict[str, Any]:
    """The object as a server has it."""
    stamp = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": status, "message": "NodeClassReady=False"}, *more]
    found = copy.deepcopy(item)
    found["metadata"]["uid"] = "u"
    found["status"] = {
        "conditions": [{"lastTransitionTime": stamp, "reason": "X", **one} for one in conditions],
        **rest,
    }
    return found


NO_IMAGES = "AMISelector did not match any AMIs"


def test_a_pool_that_is_not_ready_buys_nothing_in_the_words_of_the_event(
    tmp_path: Path, capsys: _Text
) -> None:
    missing = {"type": "AMIsReady", "status": "False", "message": NO_IMAGES}
    pool, node_class = ready(POOL, "False"), ready(CLASS, "False", missing)
    found, notes = asked(tmp_path, capsys, pool, node_class, pod("late"))
    assert found["nodeClaims"] == []
    assert found["unschedulable"][0]["reason"] == f"no nodepools found (general: {NO_IMAGES})"
    assert f"nothing is bought from NodePool general, which is not Ready: {NO_IMAGES}" in notes
    for status in ("True", ""):
        pools = (ready(POOL, status), ready(CLASS, status)) if status else (POOL, CLASS)
        assert len(asked(tmp_path, capsys, *pools, pod("late"))[0]["nodeClaims"]) == 1


def test_another_pool_is_taken_for_one_that_is_not_ready(tmp_path: Path, capsys: _Text) -> None:
    other = copy.deepcopy(POOL)
    other["metadata"]["name"] = "other"
    found, _ = asked(
        tmp_path, capsys, ready(POOL, "False"), other, CLASS, pod("late"), pod("huge", cpu="9000")
    )
    assert [claim["nodePool"] for claim in found["nodeClaims"]] == ["other"]
    assert found["unschedulable"][0]["nodePools"]["general"] == "NodeClassReady=False"


@pytest.mark.parametrize(
    ("field", "terms", "bought"),
    [
        ("subnetSelectorTerms", [{"tags": {"a": "${CLUSTER}"}}], 0),
        ("subnetSelectorTerms", [{"tags": {"a": "${CLUSTER}"}}, {"tags": {"a": "b"}}], 1),
        ("securityGroupSelectorTerms", [{"tags": {"${KEY}": "b"}}], 0),
        ("amiSelectorTerms", [{"name": "al2023-${VERSION}"}], 0),
    ],
)
def test_a_variable_that_was_not_expanded_selects_nothing(
    field: str, terms: list[dict[str, Any]], bought: int, tmp_path: Path, capsys: _Text
) -> None:
    written = copy.deepcopy(CLASS)
    written["spec"] |= {"amiFamily": "AL2023", field: terms}
    found, notes = asked(tmp_path, capsys, POOL, written, pod("late"))
    assert len(found["nodeClaims"]) == bought
    assert ("is a variable that was not expanded); fill in the variables" in notes) != bool(bought)


def test_types_without_an_image_are_left_out_and_unused_classes_noted(tmp_path: Path, capsys: _Text) -> None:
    pool, unused = copy.deepcopy(POOL), copy.deepcopy(CLASS)
    pool["spec"]["template"]["spec"]["requirements"] = []
    unused["metadata"]["name"] = "unused"
    image = {"id": "ami-1", "name": "x", "requirements": []}
    kinds = {}
    for arch in ("amd64", "arm64"):
        image["requirements"] = [{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}]
        node_class = ready(CLASS, "True", amis=[image])
        found, notes = asked(tmp_path, capsys, pool, node_class, unused, pod("late"))
        kinds[arch] = set(found["nodeClaims"][0]["instanceTypes"])
        assert "EC2NodeClass unused is of no NodePool" in notes
    assert kinds["amd64"] and kinds["arm64"] and not kinds["amd64"] & kinds["arm64"]
    assert all(
        name.partition(".")[0].startswith("a1") or "g" in name.partition(".")[0] for name in kinds["arm64"]
    )


def test_another_architecture_than_that_of_the_images_is_warned_of(tmp_path: Path, capsys: _Text) -> None:
    """Where an image runs is all that is known of it: one that runs nowhere is not spoken of."""
    pool = copy.deepcopy(POOL)
    pool["spec"]["template"]["spec"]["requirements"] = []
    things = (pool, CLASS, node("n0"), pod("web", "n0"), pod("late", cpu="7"))
    warning = "images that run on amd64 here were never seen on arm64, which types that are proposed have: x."
    for question in ("plan", "pod shop/late", "node n0"):
        assert warning in asked(tmp_path, capsys, *things, code=question)[1], question
    amd = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    pool["spec"]["template"]["spec"]["requirements"] = [amd]
    assert "never seen" not in asked(tmp_path, capsys, *things)[1]
    pool["spec"]["template"]["spec"]["requirements"] = []
    new = pod("late", cpu="7")
    new["spec"]["containers"][0]["image"] = "new"
    assert "never seen" not in asked(tmp_path, capsys, pool, CLASS, node("n0"), new)[1]


def test_what_a_chart_holds_besides_is_not_installed(tmp_path: Path, capsys: _Text) -> None:
    hooks = ("test", "pre-install,post-upgrade", "pre-delete", "test-success , post-rollback")
    pods = [pod(f"hook-{index}") for index in range(len(hooks))]
    for one, hook in zip(pods, hooks, strict=True):
        del one["metadata"]["uid"], one["metadata"]["ownerReferences"]
        one["metadata"]["annotations"] = {"helm.sh/hook": hook}
    found, notes = asked(tmp_path, capsys, POOL, CLASS, *pods)
    assert [name for claim in found["nodeClaims"] for name in claim["pods"]] == ["shop/hook-1"]
    assert "does not run them (helm.sh/hook): Pod shop/hook-0, Pod shop/hook-2, Pod shop/hook-3" in notes
    pods[0]["metadata"]["uid"] = "u"  # it runs
    assert asked(tmp_path, capsys, POOL, CLASS, pods[0])[0]["pods"]["pending"] == 1


@pytest.mark.parametrize(
    ("kind", "replicas", "least", "pods"),
    [
        ("Deployment", 1, 3, 3),
        ("Deployment", 5, 3, 5),
        ("Deployment", 0, 3, 0),
        ("ReplicationController", 2, 0, 2),
    ],
)
def test_an_autoscaler_has_a_minimum_and_old_controllers_have_pods(
    kind: str, replicas: int, least: int, pods: int, tmp_path: Path, capsys: _Text
) -> None:
    labels: dict[str, Any] = {"app": "web"}
    containers = [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    workload = {
        "apiVersion": "apps/v1" if kind == "Deployment" else "v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels} if kind == "Deployment" else labels,
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }
    target = {"apiVersion": "apps/v1", "kind": kind, "name": "web"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 9},
    }
    found, _ = asked(tmp_path, capsys, POOL, CLASS, workload, *([scaler] if least else []))
    assert found["pods"]["pending"] == pods
