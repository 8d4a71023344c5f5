"""Recorded scheduling scenarios (JSON lines): reading them, and turning each into a Problem."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import CSINode, DaemonSet, StorageClass
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Options, Problem


@dataclass(frozen=True)
class Scenario:
    """One recorded scenario. `expected` is the recorded answer, as its JSON."""

    name: str
    feature: str
    problem: Problem
    expected: dict[str, Any]


def features(folder: Path) -> list[str]:
    """Every feature that the folder has a file `<feature>.jsonl.gz` of, in order."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in folder.glob("*.jsonl.gz"))


def read_scenarios(path: Path) -> Iterator[Scenario]:
    """The scenarios of a file, in recorded order."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            scenario = record["scenario"]
            yield Scenario(record["name"], scenario["feature"], to_problem(scenario), record["expected"])


def to_problem(scenario: dict[str, Any]) -> Problem:
    """The question that the scenario asks."""
    by_name = {item.name: item for item in _types(json.dumps(scenario["instanceTypes"]))}
    chosen = scenario.get("instanceTypesForNodePool") or {}

    def instance_types(pool: NodePool) -> tuple[InstanceType, ...]:
        names = chosen.get(pool.metadata.name, list(by_name))
        return tuple(by_name[name] for name in names)

    nodes = scenario.get("nodes") or []
    pools = [decode(item, NodePool) for item in scenario["nodePools"]]
    options = scenario.get("options") or {}
    return build(
        ClusterObjects(
            pools=tuple(pools),
            claims=tuple(_claim(node, pools) for node in nodes if _pool(node)),
            nodes=tuple(decode(item, Node) for item in nodes),
            pods=tuple(decode(item, Pod) for item in scenario.get("boundPods") or []),
            daemonsets=tuple(decode(item, DaemonSet) for item in scenario.get("daemonSets") or []),
            namespaces=_namespaces(scenario.get("namespaces") or []),
            volume_claims=tuple(
                decode(item, PersistentVolumeClaim) for item in scenario.get("volumeClaims") or []
            ),
            volumes=tuple(decode(item, PersistentVolume) for item in scenario.get("volumes") or []),
            storage_classes=tuple(
                decode(item, StorageClass) for item in scenario.get("storageClasses") or []
            ),
            csi_nodes=tuple(decode(item, CSINode) for item in scenario.get("csiNodes") or []),
        ),
        tuple(decode(item, Pod) for item in scenario["pods"]),
        instance_types,
        Options(
            respect_preferences=options.get("preferencePolicy", "Respect") == "Respect",
            strict_min_values=options.get("minValuesPolicy", "Strict") == "Strict",
            well_known=frozenset(scenario["wellKnownLabels"]),
        ),
        require_ready=False,
    )


@lru_cache(maxsize=8)
def _types(text: str) -> tuple[InstanceType, ...]:
    return parse_instance_types(json.loads(text))


def _pool(node: dict[str, Any]) -> str:
    return str(node["metadata"].get("labels", {}).get(labels.NODEPOOL, ""))


def _claim(node: dict[str, Any], pools: list[NodePool]) -> NodeClaim:
    """The claim of a node: its name, labels and capacity, and the startup taints of its pool."""
    pool = next((item for item in pools if item.metadata.name == _pool(node)), pools[0])
    template = pool.spec.template.spec
    reference = template.node_class_ref
    return decode(
        {
            "metadata": {"name": node["metadata"]["name"], "labels": node["metadata"].get("labels", {})},
            "spec": {
                "nodeClassRef": {"group": reference.group, "kind": reference.kind, "name": reference.name},
                "startupTaints": [
                    {"key": taint.key, "value": taint.value, "effect": taint.effect}
                    for taint in template.startup_taints
                ],
            },
            "status": {
                "nodeName": node["metadata"]["name"],
                "providerID": node["spec"].get("providerID", ""),
                "capacity": node["status"].get("capacity", {}),
                "allocatable": node["status"].get("allocatable", {}),
            },
        },
        NodeClaim,
    )


def _namespaces(items: list[dict[str, Any]]) -> tuple[Namespace, ...]:
    return tuple(decode(item, Namespace) for item in items)
