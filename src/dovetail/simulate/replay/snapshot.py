"""A snapshot of a cluster as the beginning of a scenario."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.redact import redacted
from dovetail.base.errors import InputError
from dovetail.model.volumes import BIND_COMPLETED
from dovetail.reading import Manifest
from dovetail.simulate.replay.nodeclass import Surroundings, rewrite
from dovetail.simulate.replay.nodes import Sold, initial_nodes, node_groups
from dovetail.simulate.scenario.initial_nodes import InitialNode
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
_KUBELET = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(slots=True)
class Beginning:
    """A scenario's beginning. `assumed` says what a snapshot does not hold, and what is played instead.

    `version` is that of Kubernetes, "" where the snapshot does not say it. `originals` are the NodePools and
    node classes as the account has them, with what the classes found there.
    """

    manifests: list[Document] = field(default_factory=list)
    originals: list[Document] = field(default_factory=list)
    groups: list[Document] = field(default_factory=list)
    nodes: list[InitialNode] = field(default_factory=list)
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
    found.groups, assumed = node_groups(manifests, region)
    found.assumed |= assumed
    found.version = _version(written)
    if found.version:
        found.assumed["Kubernetes"] = f"{found.version}, the newest that a node of the snapshot runs"
    around = Surroundings(ClusterSection().name, found.version or ClusterSection().version, region)
    found.assumed |= rewrite(found.manifests, written, around)
    made = {_key(document) for document in found.manifests}
    classes = [document for document in found.manifests if document["kind"] == EC2NodeClass.KIND]
    pools = [document for document in found.manifests if document["kind"] == NodePool.KIND]
    found.nodes, assumed = initial_nodes(manifests, made, Sold(region, pools, classes))
    found.assumed |= assumed
    found.assumed["cloud"] = "the simulated one: no subnets, security groups, images or quotas of an account"
    return found


def _key(document: Mapping[str, Any]) -> str:
    meta = document["metadata"]
    return f"{document['kind']}/{meta.get('namespace', 'default')}/{meta['name']}"


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
