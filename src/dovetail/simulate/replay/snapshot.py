"""A snapshot of a cluster as the beginning of a scenario."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.api.core import Node
from dovetail.api.redact import redacted
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import store
from dovetail.model import labels
from dovetail.model.volumes import BIND_COMPLETED
from dovetail.reading import Manifest
from dovetail.simulate.replay.nodeclass import Surroundings, rewrite
from dovetail.simulate.scenario.schema import ClusterSection

Document = dict[str, Any]
# Kinds that go along as they are; of the others only what controllers do not make.
_KEPT = (
    *("Namespace", "PriorityClass", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "Service"),
    *("DaemonSet", "Deployment", "StatefulSet", "CronJob", "PodDisruptionBudget", "NodePool"),
    *("EC2NodeClass", "KWOKNodeClass", "ScaledObject", "ScaledJob", "ReplicationController"),
)
_REWRITTEN = ("NodePool", "EC2NodeClass")
_OWN = ("ReplicaSet", "Job", "Pod")  # kept where no object of the snapshot owns them
_STATUS = ("PersistentVolume", "PersistentVolumeClaim")
_META = ("name", "namespace", "labels", "annotations")
_GROUP = "eks.amazonaws.com/nodegroup"
_GROUP_CAPACITY = "eks.amazonaws.com/capacityType"
_OTHERS = (
    "kubernetes.io/",
    "k8s.io/",
    "eks.amazonaws.com/",
    "karpenter.sh/",
    "karpenter.k8s.aws/",
    "k8s.aws/",
)
_KUBELET = re.compile(r"v?(\d+)\.(\d+)")
_SPOT_WORDS = ("spot", "SPOT")


@dataclass(slots=True)
class Beginning:
    """A scenario's beginning. `assumed` says what a snapshot does not hold, and what is played instead.

    `version` is that of Kubernetes, "" where the snapshot does not say it. `originals` are the NodePools and
    node classes as the account has them, with what the classes found there.
    """

    manifests: list[Document] = field(default_factory=list)
    originals: list[Document] = field(default_factory=list)
    groups: list[Document] = field(default_factory=list)
    version: str = ""
    assumed: dict[str, str] = field(default_factory=dict)


def beginning(manifests: Sequence[Manifest], region: str) -> Beginning:
    """What of the cluster goes along. Raises InputError where nothing could be bought or run."""
    written = [item.document for item in manifests]
    found = Beginning()
    if not any(document["kind"] == "NodePool" for document in written):
        raise InputError(
            "the snapshot has no NodePool, so nothing can be bought",
            remedy="add a manifest of one: dovetail replay SNAPSHOT more.yaml",
        )
    uids = {document["metadata"].get("uid") for document in written} - {None}
    left = Counter[str]()
    for document in written:
        kind = document["kind"]
        if kind in _KEPT or (kind in _OWN and _stands_alone(document, uids)):
            found.manifests.append(_plain(document))
            if kind in _REWRITTEN:
                status = redacted(document).get("status")
                found.originals.append(_plain(document) | ({"status": status} if status else {}))
        elif kind == "HorizontalPodAutoscaler":
            left[kind] += 1
    if left:
        found.assumed["HorizontalPodAutoscalers"] = (
            f"{left.total()} are not played, as the snapshot does not hold the traffic: "
            "replicas are those of the snapshot, or of the history"
        )
    nodes = [item.object for item in manifests if isinstance(item.object, Node)]
    _nodes(nodes, region, found)
    found.version = _version(written)
    if found.version:
        found.assumed["Kubernetes"] = f"{found.version}, the newest that a node of the snapshot runs"
    around = Surroundings(ClusterSection().name, found.version or ClusterSection().version, region)
    found.assumed |= rewrite(found.manifests, written, around)
    found.assumed["cloud"] = "the simulated one: no subnets, security groups, images or quotas of an account"
    return found


def _version(written: Iterable[Mapping[str, Any]]) -> str:
    """Such as "1.33"; "" where no node says it."""
    said = (
        str(document.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""))
        for document in written
        if document["kind"] == "Node"
    )
    found = [match for match in map(_KUBELET.match, said) if match]
    return ".".join(
        max((match.groups() for match in found), key=lambda pair: tuple(map(int, pair)), default=())
    )


def _stands_alone(document: Document, uids: set[Any]) -> bool:
    """True for what runs, and that nothing else in the snapshot would make again."""
    status = document.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed") or status.get("completionTime"):
        return False
    owners = [item for item in document["metadata"].get("ownerReferences", ()) if item.get("controller")]
    return not any(owner.get("uid") in uids or owner.get("kind") == "Node" for owner in owners)


def _plain(document: Document) -> Document:
    """The object as it would be applied: without what the server and controllers wrote into it."""
    found = copy.deepcopy(redacted(document))
    meta = document["metadata"]
    found["metadata"] = {key: copy.deepcopy(meta[key]) for key in _META if meta.get(key)}
    if found["kind"] not in _STATUS:
        found.pop("status", None)
    spec = found.get("spec", {})
    if found["kind"] == "Pod":
        for name in ("nodeName", "ephemeralContainers"):
            spec.pop(name, None)
    elif found["kind"] == "Job":
        spec.pop("selector", None)
        spec.pop("manualSelector", None)
    elif found["kind"] == "PersistentVolumeClaim" and spec.get("volumeName"):
        found["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
    elif found["kind"] == "PersistentVolume" and "claimRef" in spec:
        reference = spec["claimRef"]
        spec["claimRef"] = {key: reference[key] for key in ("name", "namespace") if key in reference}
    return found


def _nodes(nodes: Sequence[Node], region: str, found: Beginning) -> None:
    """Nodes of no NodePool become node groups; the others are bought anew."""
    sold = {record.name for record, _, _ in store.sold(region)}
    groups: dict[tuple[Any, ...], list[str]] = {}
    unknown = Counter[str]()
    bought = 0
    for node in nodes:
        stamped = node.metadata.labels
        if labels.NODEPOOL in stamped:
            bought += 1
            continue
        kind = stamped.get(labels.INSTANCE_TYPE, "")
        if kind not in sold or labels.ZONE not in stamped:
            unknown[kind or "no instance type"] += 1
            continue
        spot = stamped.get(_GROUP_CAPACITY, "") in _SPOT_WORDS
        taints = tuple(
            (taint.key, taint.value, taint.effect)
            for taint in node.spec.taints
            if not taint.key.startswith(("node.kubernetes.io/", "node.cloudprovider."))
        )
        key = (stamped.get(_GROUP, "nodes"), kind, spot, taints, tuple(sorted(_own_labels(stamped).items())))
        groups.setdefault(key, []).append(stamped[labels.ZONE])
    names = Counter[str]()
    for (name, kind, spot, taints, own), zones in sorted(groups.items()):
        names[name] += 1
        group = {
            "name": name if names[name] == 1 else f"{name}-{names[name]}",
            "instanceType": kind,
            "count": len(zones),
            "zones": sorted(zones),
            "capacityType": labels.SPOT if spot else labels.ON_DEMAND,
        }
        if own:
            group["labels"] = dict(own)
        if taints:
            group["taints"] = [{"key": k, "value": v, "effect": e} for k, v, e in taints]
        found.groups.append(group)
    if bought:
        found.assumed["nodes of NodePools"] = (
            f"the {bought} of the snapshot are not there at the start: they are bought anew for the pods"
        )
    if unknown:
        left_out = ", ".join(f"{count} of {kind}" for kind, count in sorted(unknown.items()))
        found.assumed["other nodes"] = (
            f"{left_out} are left out: {region} sells no such type, or the zone is unknown"
        )


def _own_labels(stamped: Mapping[str, str]) -> dict[str, str]:
    """Labels that people gave: keys of Kubernetes and of the cloud are set anew."""
    return {
        key: value
        for key, value in stamped.items()
        if not any(f"{key.rpartition('/')[0]}/".endswith(suffix) for suffix in _OTHERS)
    }
