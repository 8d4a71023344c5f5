"""Our filters against the recorded verdicts of a real kube-scheduler.

Pods were created one by one, each after the verdict on the one before. Every node that was chosen must pass
our filters; a pod that was left pending must pass on no node, with the same count per reason. After a
scenario's first pending verdict the order of retries is not known, so nothing after it is compared.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Namespace, Node, Pod
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.filters import check, feasible_nodes, unschedulable_message

VECTORS = Path(__file__).parent / "vectors"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


RECORDED = lines(VECTORS / "kube_scheduler.jsonl.gz")


@cache
def feature(name: str) -> dict[str, dict[str, Any]]:
    return {item["name"]: item["scenario"] for item in lines(VECTORS / f"scheduling/{name}.jsonl.gz")}


def build(record: dict[str, Any], scenario: dict[str, Any]) -> ClusterView:
    namespaces = [decode(item, Namespace) for item in scenario.get("namespaces") or []]
    view = ClusterView(
        nodes=[
            NodeView.of(
                decode(
                    {
                        "metadata": {"name": node["name"], "labels": node["labels"]},
                        "spec": {"taints": node["taints"]},
                        "status": {"allocatable": node["allocatable"]},
                    },
                    Node,
                )
            )
            for node in record["nodes"]
        ],
        namespaces={item.metadata.name: item.metadata.labels for item in namespaces},
    )
    for document in scenario.get("boundPods") or []:
        view.add_pod(as_recorded(document))
    return view


def as_recorded(document: dict[str, Any]) -> Pod:
    """The recording left out overhead."""
    spec = {name: value for name, value in document["spec"].items() if name != "overhead"}
    return decode({**document, "spec": spec}, Pod)


def test_all_scenarios_are_there() -> None:
    assert len(RECORDED) == 343


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: record["name"])
def test_verdicts(record: dict[str, Any]) -> None:
    scenario = feature(record["name"].rpartition("-")[0])[record["name"]]
    view = build(record, scenario)
    for document in scenario["pods"]:
        pod = as_recorded(document)
        verdict = record["verdicts"].get(pod.key)
        if verdict is None:
            continue
        if "pending" in verdict:
            assert feasible_nodes(pod, view) == []
            assert unschedulable_message(pod, view) == verdict["pending"]
            break
        assert check(pod, verdict["node"], view) == ()
        view.add_pod(pod, verdict["node"])
    view.check()
