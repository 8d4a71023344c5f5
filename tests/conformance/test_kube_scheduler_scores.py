"""Our scores against the recorded choices of a real kube-scheduler: what it chose is among our best nodes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Namespace, Node, Pod
from dovetail.model.filters import feasible_nodes
from dovetail.model.scores import total_scores
from dovetail.simulate.scheduler.cluster import Cluster

VECTORS = Path(__file__).parent / "vectors"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def _pod(document: dict[str, Any]) -> Pod:
    """The recording left out overhead."""
    spec = {name: value for name, value in document["spec"].items() if name != "overhead"}
    return decode({**document, "spec": spec}, Pod)


def _cluster(record: dict[str, Any], scenario: dict[str, Any]) -> Cluster:
    cluster = Cluster()
    for node in record["nodes"]:
        document = {
            "metadata": {"name": node["name"], "labels": node["labels"]},
            "spec": {"taints": node["taints"]},
            "status": {"allocatable": node["allocatable"]},
        }
        cluster.set_node(decode(document, Node))
    for document in scenario.get("namespaces") or []:
        namespace = decode(document, Namespace)
        cluster.set_namespace(namespace.metadata.name, namespace.metadata.labels)
    for document in scenario.get("boundPods") or []:
        pod = _pod(document)
        cluster.bind(pod, pod.spec.node_name)
    return cluster


def _choices(record: dict[str, Any], scenario: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """(pod, the node it got, our best nodes) wherever there was a choice, up to the first pending verdict."""
    cluster = _cluster(record, scenario)
    found = []
    for document in scenario["pods"]:
        pod = _pod(document)
        verdict = record["verdicts"].get(pod.key)
        if verdict is None:
            continue
        if "pending" in verdict:
            break
        names = feasible_nodes(pod, cluster.view)
        if len(names) > 1:
            scores = total_scores(pod, [cluster.view.nodes[name] for name in names], cluster.occupancy)
            best = [name for name, score in zip(names, scores, strict=True) if score == max(scores)]
            found.append((pod.key, verdict["node"], best))
        cluster.bind(pod, verdict["node"])
    return found


def test_the_recorded_choice_is_among_our_best() -> None:
    scenarios = {
        item["name"]: item["scenario"]
        for path in sorted(VECTORS.glob("scheduling/*.jsonl.gz"))
        for item in _lines(path)
    }
    choices = {
        record["name"]: _choices(record, scenarios[record["name"]])
        for record in _lines(VECTORS / "kube_scheduler.jsonl.gz")
    }
    missed = {
        name: wrong
        for name, found in choices.items()
        if (wrong := [choice for choice in found if choice[1] not in choice[2]])
    }
    assert sum(len(found) for found in choices.values()) == 5_654
    assert missed == {}
