"""A snapshot of a cluster as the beginning of a scenario."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.api.admission import admit
from dovetail.api.core_schema import pod_specs
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.redact import redacted
from dovetail.base.errors import ApiError, InputError
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
    *("RuntimeClass", "LimitRange", "ResourceQuota", "CapacityBuffer", "PodTemplate", "NodeOverlay"),
    *("PodGroup", "Workload"),
)
_REWRITTEN = ("NodePool", "EC2NodeClass")
_OWN = ("ReplicaSet", "Job", "Pod")  # kept where no object of the snapshot owns them
_STATUS = ("PersistentVolume", "PersistentVolumeClaim")
_BUILT_IN = ("system-cluster-critical", "system-node-critical")
_META = ("name", "namespace", "labels", "annotations")
_KUBELET = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(slots=True)
class Beginning:
    """A scenario's beginning. `assumed` says what a snapshot does not hold, and what is played instead.

    `version` is that of Kubernetes, "" where the snapshot does not say it. `originals` are the NodePools and
    node classes as the account has them, with what the classes found there. `gates` are those that are open
    there, as far as it can be told: whether CapacityBuffers and NodeOverlays count.
    """

    manifests: list[Document] = field(default_factory=list)
    originals: list[Document] = field(default_factory=list)
    groups: list[Document] = field(default_factory=list)
    nodes: list[InitialNode] = field(default_factory=list)
    version: str = ""
    gates: tuple[str, ...] = ()
    assumed: dict[str, str] = field(default_factory=dict)


def beginning(manifests: Sequence[Manifest], region: str) -> Beginning:
    """What of the cluster goes along. Raises InputError where nothing could be bought or run."""
    written = [item.document for item in manifests]
    found = Beginning()
    uids = {document["metadata"].get("uid") for document in written} - {None}
    left = Counter[str]()
    refused: dict[str, str] = {}
    for document in written:
        kind = document["kind"]
        if kind == "ScaledObject" and not _has_cron(document):
            left[kind] += 1
        elif kind in _KEPT or (kind in _OWN and _stands_alone(document, uids)):
            plain = _plain(document)
            if why := _refusal(plain):
                refused[_key(document)] = why
                continue
            found.manifests.append(plain)
            if kind in _REWRITTEN:
                status = redacted(document).get("status")
                found.originals.append(_plain(document) | ({"status": status} if status else {}))
        elif kind == "HorizontalPodAutoscaler":
            left[kind] += 1
    for kind, which in (("HorizontalPodAutoscaler", ""), ("ScaledObject", " without a cron trigger")):
        if left[kind]:
            found.assumed[f"{kind}s{which}"] = (
                f"{left[kind]} are not played, as the snapshot does not hold the traffic: "
                "replicas are those of the snapshot, or of the history"
            )
    if refused:
        key, why = next(iter(refused.items()))
        found.assumed["objects that the simulated API server does not take"] = (
            f"{len(refused)} are left out, the first is {key}: {why}"
        )
    if refused and not any(document["kind"] == "NodePool" for document in found.manifests):
        raise InputError(f"the snapshot has no NodePool that can be played: {next(iter(refused.values()))}")
    _add_priorities(written, found)
    _add_runtimes(written, found)
    _add_storage_classes(found)
    _heed_gated(written, found)
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


def _add_priorities(written: Sequence[Document], found: Beginning) -> None:
    """PriorityClasses that pods name and a dump lacks, with what its pods have of them."""
    have = {item["metadata"]["name"] for item in found.manifests if item["kind"] == "PriorityClass"}
    named = {spec.get("priorityClassName") for item in found.manifests for spec in pod_specs(item)}
    missing = sorted(name for name in named if name and name not in have and name not in _BUILT_IN)
    known: dict[str, Document] = {}
    for document in written:
        if document["kind"] == "Pod" and (spec := document["spec"]).get("priority") is not None:
            known.setdefault(spec.get("priorityClassName", ""), spec)
    for name in missing:
        spec = known.get(name, {})
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        policy = spec.get("preemptionPolicy", "PreemptLowerPriority")
        found.manifests.append({**made, "value": spec.get("priority", 0), "preemptionPolicy": policy})
    if missing:
        listed = ", ".join(f"{name}: {known.get(name, {}).get('priority', 0)}" for name in missing)
        found.assumed["PriorityClasses that the snapshot lacks"] = f"as pods have them, else 0: {listed}"


def _add_runtimes(written: Sequence[Document], found: Beginning) -> None:
    """RuntimeClasses that pods name and a dump lacks, with the overhead that its pods have of them."""
    have = {item["metadata"]["name"] for item in found.manifests if item["kind"] == "RuntimeClass"}
    named = {spec.get("runtimeClassName") for item in found.manifests for spec in pod_specs(item)}
    missing = sorted(name for name in named if name and name not in have)
    pods = [document["spec"] for document in written if document["kind"] == "Pod"]
    known = {spec["runtimeClassName"]: spec["overhead"] for spec in pods if _overhead_of_class(spec)}
    for name in missing:
        made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
        overhead = {"overhead": {"podFixed": known[name]}} if name in known else {}
        found.manifests.append({**made, "handler": name, **overhead})
    if missing:
        listed = ", ".join(f"{name}: {'' if name in known else 'no '}overhead" for name in missing)
        found.assumed["RuntimeClasses that the snapshot lacks"] = f"as pods have them, else none: {listed}"


def _overhead_of_class(spec: Document) -> bool:
    return bool(spec.get("runtimeClassName") and spec.get("overhead"))


def _add_storage_classes(found: Beginning) -> None:
    """Those that volumes yet to be made name and a dump lacks: of EBS, in the zone of a pod's node."""
    have = {item["metadata"]["name"] for item in found.manifests if item["kind"] == "StorageClass"}
    templates = [
        *(one for item in found.manifests for one in item.get("spec", {}).get("volumeClaimTemplates", ())),
        *(
            volume["ephemeral"]["volumeClaimTemplate"]
            for item in found.manifests
            for spec in pod_specs(item)
            for volume in spec.get("volumes", ())
            if volume.get("ephemeral", {}).get("volumeClaimTemplate")
        ),
    ]
    named = {one.get("spec", {}).get("storageClassName") for one in templates}
    missing = sorted(name for name in named if name and name not in have)
    for name in missing:
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        how = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}
        found.manifests.append({**made, **how})
    if missing:
        listed = ", ".join(missing)
        found.assumed["StorageClasses that the snapshot lacks"] = f"of EBS, WaitForFirstConsumer: {listed}"


def _refusal(document: Document) -> str:
    """Why the simulated API server would not take it, though another has; "" if it would."""
    try:
        admit(document)
    except ApiError as error:
        return str(error)
    return ""


def _has_cron(scaled: Document) -> bool:
    return any(one.get("type") == "cron" for one in scaled["spec"].get("triggers", ()))


def _key(document: Mapping[str, Any]) -> str:
    meta = document["metadata"]
    return f"{document['kind']}/{meta.get('namespace', 'default')}/{meta.get('name') or meta['generateName']}"


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


def _heed_gated(written: Sequence[Document], found: Beginning) -> None:
    """Only a controller whose gate is open writes conditions of such objects."""
    for kind in (CapacityBuffer.KIND, NodeOverlay.KIND):  # so are their gates called
        items = [document for document in written if document["kind"] == kind]
        told = any(one.get("status", {}).get("conditions") for one in items)
        found.gates += (kind,) if told else ()
        if items:
            gate = "open: they have conditions" if told else "shut: none has a condition"
            found.assumed[f"{kind}s"] = f"the gate {kind} is {gate}"


def _plain(document: Document) -> Document:
    """The object as it would be applied: without what the server and controllers wrote into it."""
    found = copy.deepcopy(redacted(document))
    meta = document["metadata"]
    found["metadata"] = {key: copy.deepcopy(meta[key]) for key in _META if meta.get(key)}
    if "name" not in found["metadata"]:  # of a manifest that was never created
        found["metadata"]["generateName"] = meta["generateName"]
    if found["kind"] not in _STATUS:
        found.pop("status", None)
    spec = found.get("spec", {})
    if found["kind"] == "Pod":
        # What admission makes of its PriorityClass and its RuntimeClass, it makes again or has no class for.
        for name in ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy", "overhead"):
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
