"""`dovetail check cluster`: what is left of older generations, and which step is next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import run
from dovetail.lint.upgrade_path import State, assess

ROOT = Path(__file__).parents[2]


def _object(kind: str, name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    meta = {"name": name, **{key: more.pop(key) for key in ("labels", "annotations") if key in more}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def _definition(name: str, served: list[str], stored: list[str]) -> dict[str, Any]:
    versions = [{"name": version, "served": True} for version in served]
    return _object(
        "CustomResourceDefinition",
        name,
        "apiextensions.k8s.io/v1",
        spec={"versions": versions},
        status={"storedVersions": stored},
    )


def _controller(image: str) -> dict[str, Any]:
    containers = [{"name": "controller", "image": image}]
    return _object(
        "Deployment", "karpenter", "apps/v1", spec={"template": {"spec": {"containers": containers}}}
    )


def _pods(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "app"}], **spec}}}


V1 = _definition("nodepools.karpenter.sh", ["v1"], ["v1"])
BOTH = _definition("nodepools.karpenter.sh", ["v1beta1", "v1"], ["v1beta1", "v1"])
CASES = {
    "v1alone": ([V1], [], 7),
    "v1 and its controller": ([V1, _controller("public.ecr.aws/karpenter/controller:1.3.3@sha256:0")], [], 7),
    "0.27": (
        [
            _definition("provisioners.karpenter.sh", ["v1alpha5"], ["v1alpha5"]),
            _object("Provisioner", "default", "karpenter.sh/v1alpha5", spec={}),
            _object("Node", "n1", labels={"karpenter.sh/provisioner-name": "default"}),
            _controller("public.ecr.aws/karpenter/controller:v0.27.5"),
        ],
        ["definitions of v1alpha5", "objects of v1alpha5", "nodes and claims of Provisioners"],
        1,
    ),
    "0.32, pools made, nodes left": (
        [
            _definition("machines.karpenter.sh", ["v1alpha5"], ["v1alpha5"]),
            _object("Node", "n1", labels={"karpenter.sh/provisioner-name": "default"}),
            _controller("public.ecr.aws/karpenter/controller:v0.32.10"),
        ],
        ["definitions of v1alpha5", "nodes and claims of Provisioners"],
        2,
    ),
    "0.35.4, from which 1.0 cannot be left": (
        [
            _object("NodePool", "default", "karpenter.sh/v1beta1", spec={}),
            _controller("public.ecr.aws/karpenter/controller:0.35.4"),
        ],
        ["objects of v1beta1"],
        3,
    ),
    "0.37.7": (
        [
            _object("NodePool", "default", "karpenter.sh/v1beta1", spec={}),
            _controller("public.ecr.aws/karpenter/controller:0.37.7"),
        ],
        ["objects of v1beta1"],
        4,
    ),
    "1.0, stored both": (
        [BOTH, _controller("public.ecr.aws/karpenter/controller:1.0.6")],
        ["v1beta1 is a stored version", "v1beta1 is served"],
        5,
    ),
    "1.0, all written": (
        [
            _definition("nodepools.karpenter.sh", ["v1beta1", "v1"], ["v1"]),
            _controller("karpenter/controller:1.0.6"),
        ],
        ["v1beta1 is served"],
        6,
    ),
    "1.1 with webhooks left": (
        [V1, _object("ValidatingWebhookConfiguration", "validation.webhook.karpenter.sh")],
        ["webhooks of older releases"],
        6,
    ),
    "v1 that keeps v1beta1": (
        [
            _object(
                "NodePool",
                "default",
                "karpenter.sh/v1",
                annotations={"compatibility.karpenter.sh/v1beta1-kubelet-conversion": "{}"},
            )
        ],
        ["objects that keep v1beta1 in annotations"],
        5,
    ),
    "workloads by old names": (
        [
            _object(
                "Deployment",
                "web",
                "apps/v1",
                spec=_pods(nodeSelector={"karpenter.sh/provisioner-name": "a"}),
            ),
            _object("Deployment", "new", "apps/v1", spec=_pods(nodeSelector={"karpenter.sh/nodepool": "a"})),
        ],
        ["workloads that name old labels"],
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_and_what_is_next(name: str) -> None:
    documents, wanted, following = CASES[name]
    found = assess(documents)
    left = [item.what for item in found.leftovers]
    assert len(left) == len(wanted)
    assert all(what.startswith(begin) for what, begin in zip(left, wanted, strict=True))
    assert [step.number for step in found.steps if step.state is State.NEXT] == (
        [following] if following < 7 else []
    )
    assert all(step.state is State.DONE for step in found.steps if step.number < following)
    assert found.clean == (not wanted)


def test_only_what_is_old_is_named() -> None:
    documents, _, _ = CASES["workloads by old names"]
    assert assess(documents).leftovers[0].names == ("Deployment web",)


def test_our_own_definitions_leave_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "cluster", "-f", str(ROOT / "charts/dovetail/crds")]) == 0
    assert "Nothing of older generations is left." in capsys.readouterr().out


def test_a_file_is_answered_in_json_and_ends_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.json"
    documents, _, _ = CASES["0.27"]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    assert run(["check", "cluster", "-f", str(file), "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["release"] == "0.27.5"
    assert {"what": "objects of v1alpha5 and v1alpha1", "objects": ["Provisioner default"]}.items() <= (
        answer["leftovers"][1].items()
    )
    assert [step["state"] for step in answer["steps"]] == ["next", *["later"] * 5]
    assert all(step["back"] and step["commands"] for step in answer["steps"])


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": 1}, {"metadata": {"labels": 1, "annotations": []}, "spec": []}]
)
def test_odd_objects_are_no_fault(odd: dict[str, Any]) -> None:
    kinds = ("CustomResourceDefinition", "Deployment", "Node", "NodePool", "ValidatingWebhookConfiguration")
    assert assess([{"apiVersion": "karpenter.sh/v1beta1", "kind": kind, **odd} for kind in kinds]) is not None
