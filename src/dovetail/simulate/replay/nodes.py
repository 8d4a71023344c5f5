"""Nodes of a snapshot: those of NodePools are there at the start, the others are node groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition, is_true
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.model import labels
from dovetail.reading import Manifest
from dovetail.simulate.scenario.initial_nodes import InitialNode
from dovetail.units.duration import format_duration
from dovetail.units.timestamp import parse_rfc3339

Document = dict[str, Any]
_GROUP = "eks.amazonaws.com/nodegroup"
_OTHERS = (
    "kubernetes.io/",
    "k8s.io/",
    "eks.amazonaws.com/",
    "karpenter.sh/",
    "karpenter.k8s.aws/",
    "k8s.aws/",
)
_SPOT_WORDS = ("spot", "SPOT")
_MADE_ANEW = ("DaemonSet", "CronJob")  # on every node, or at its time: whatever ran before


class Sold:
    """What the region sells to each NodePool, as its manifests (rewritten for the simulated account) are."""

    def __init__(self, region: str, pools: Sequence[Document], classes: Sequence[Document]) -> None:
        self._region = region
        self._class_of = {
            pool["metadata"]["name"]: pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
            for pool in pools
        }
        self._classes = {one["metadata"]["name"]: one for one in classes}
        self._known: dict[str, frozenset[tuple[str, str, str]]] = {}  # by class

    def refuses(self, pool: str, kind: str, zone: str, capacity_type: str) -> str:
        """Why no such node can be one of the pool's; "" where it can."""
        name = self._class_of.get(pool)
        if name is None or name not in self._classes:
            return f"of NodePool {pool}, which the snapshot lacks"
        if name not in self._known:
            node_class = decode(self._classes[name], EC2NodeClass)
            types = catalog.instance_types(self._region, node_class, zones=catalog.zones(self._region))
            self._known[name] = frozenset(
                (one.name, offering.zone, offering.capacity_type)
                for one in types
                for offering in one.offerings
                if offering.available
            )
        if (kind, zone, capacity_type) in self._known[name]:
            return ""
        return (
            f"of {kind or 'no instance type'}, which {self._region} does not sell ({capacity_type}, {zone})"
        )


def initial_nodes(
    manifests: Sequence[Manifest], made: Collection[str], sold: Sold
) -> tuple[list[InitialNode], dict[str, str]]:
    """The nodes of NodePools with their pods, and what was assumed.

    `made` are the workloads that the scenario has, Kind/namespace/name.
    """
    now = taken_at(manifests)
    claims = {
        item.object.status.node_name: item.object for item in manifests if isinstance(item.object, NodeClaim)
    }
    pods = _pods(manifests, made)
    found: list[InitialNode] = []
    left: Counter[str] = Counter()
    drifted = 0
    for item in manifests:
        node = item.object
        if not isinstance(node, Node) or labels.NODEPOOL not in node.metadata.labels:
            continue
        stamped, claim = node.metadata.labels, claims.get(node.metadata.name)
        capacity_type = stamped.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)
        if capacity_type == labels.RESERVED:
            capacity_type = labels.ON_DEMAND
        place = stamped.get(labels.INSTANCE_TYPE, ""), stamped.get(labels.ZONE, ""), capacity_type
        why = _unfit(node, claim) or sold.refuses(stamped[labels.NODEPOOL], *place)
        if why:
            left[why] += 1
            continue
        drifted += claim is not None and is_true(claim.status.conditions, "Drifted")
        since = (claim or node).metadata.creation_timestamp
        age = max(0, now - parse_rfc3339(since)) if since and now else 0
        found.append(
            InitialNode(
                name=node.metadata.name,
                node_pool=stamped[labels.NODEPOOL],
                instance_type=place[0],
                zone=place[1],
                capacity_type=capacity_type,
                node_claim=claim.metadata.name if claim is not None else "",
                age=format_duration(age),
                labels=own_labels(stamped),
                pods=dict(pods.get(node.metadata.name, {})),
            )
        )
    assumed = {}
    if found:
        count = sum(sum(one.pods.values()) for one in found)
        more = f"; {drifted} that had drifted do not" if drifted else ""
        assumed["nodes of NodePools"] = (
            f"the {len(found)} of the snapshot are there at the start, as old as in the snapshot, with "
            f"{count} pods where they ran; they are taken to be as their pools are now{more}"
        )
    if left:
        listed = "; ".join(f"{count} {why}" for why, count in sorted(left.items()))
        assumed["nodes of NodePools that are left out"] = f"{listed}: bought anew for their pods"
    return found, assumed


def _unfit(node: Node, claim: NodeClaim | None) -> str:
    if node.deleting or (claim is not None and claim.deleting):
        return "on their way out"
    ready = condition(node.status.conditions, "Ready")
    return "not ready" if ready is not None and ready.status != "True" else ""


def taken_at(manifests: Sequence[Manifest]) -> int:
    """When the snapshot was taken: the latest time that it names; 0 where it names none."""
    latest = ""
    for item in manifests:
        latest = max(latest, item.object.metadata.creation_timestamp)
        if isinstance(item.object, Node):
            beats = item.document.get("status", {}).get("conditions", ())
            latest = max([latest, *(str(one.get("lastHeartbeatTime") or "") for one in beats)])
    return parse_rfc3339(latest) if latest else 0


def _pods(manifests: Sequence[Manifest], made: Collection[str]) -> dict[str, Counter[str]]:
    """Node -> how many pods of which of the scenario's workloads run there."""
    by_uid = {uid: item.document for item in manifests if (uid := item.document["metadata"].get("uid"))}
    found: dict[str, Counter[str]] = {}
    for item in manifests:
        pod = item.object
        if not isinstance(pod, Pod) or not pod.spec.node_name or pod.terminal or pod.deleting:
            continue
        workload = next((one for one in _makers(item.document, by_uid) if one in made), "")
        kind = workload.partition("/")[0]
        if kind and kind not in _MADE_ANEW:
            key = f"Pod/{pod.key}" if kind == "StatefulSet" else workload
            found.setdefault(pod.spec.node_name, Counter())[key] += 1
    return found


def _makers(document: Document, by_uid: Mapping[str, Document]) -> Iterator[str]:
    """The pod, what made it, what made that, as far as the snapshot has them: Kind/namespace/name."""
    seen: Document | None = document
    while seen is not None:
        meta = seen["metadata"]
        yield f"{seen['kind']}/{meta.get('namespace', 'default')}/{meta['name']}"
        owners = [one for one in meta.get("ownerReferences", ()) if one.get("controller")]
        seen = by_uid.get(owners[0].get("uid", "")) if owners else None


def node_groups(manifests: Sequence[Manifest], region: str) -> tuple[list[Document], dict[str, str]]:
    """Nodes of no NodePool as groups of a scenario, and what was assumed."""
    sold = {record.name for record, _, _ in store.sold(region)}
    groups: dict[tuple[Any, ...], list[str]] = {}
    unknown = Counter[str]()
    for node in (item.object for item in manifests):
        if not isinstance(node, Node) or labels.NODEPOOL in node.metadata.labels:
            continue
        stamped = node.metadata.labels
        kind = stamped.get(labels.INSTANCE_TYPE, "")
        if kind not in sold or labels.ZONE not in stamped:
            unknown[kind or "no instance type"] += 1
            continue
        spot = stamped.get(labels.GROUP_CAPACITY_TYPE, "") in _SPOT_WORDS
        taints = tuple(
            (taint.key, taint.value, taint.effect)
            for taint in node.spec.taints
            if not taint.key.startswith(("node.kubernetes.io/", "node.cloudprovider."))
        )
        key = (stamped.get(_GROUP, "nodes"), kind, spot, taints, tuple(sorted(own_labels(stamped).items())))
        groups.setdefault(key, []).append(stamped[labels.ZONE])
    names = Counter[str]()
    found = []
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
        found.append(group)
    if not unknown:
        return found, {}
    left_out = ", ".join(f"{count} of {kind}" for kind, count in sorted(unknown.items()))
    text = f"{left_out} are left out: {region} sells no such type, or the zone is unknown"
    return found, {"other nodes": text}


def own_labels(stamped: Mapping[str, str]) -> dict[str, str]:
    """Labels that people gave: keys of Kubernetes and of the cloud are set anew."""
    return {
        key: value
        for key, value in stamped.items()
        if not any(f"{key.rpartition('/')[0]}/".endswith(suffix) for suffix in _OTHERS)
    }
