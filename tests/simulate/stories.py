"""The objects of the acceptance tests: a travel site's pool and class, and placeholder pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operated import REGION, Operated, pod, pool

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, condition
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import MINUTE
from dovetail.cloud import catalog
from dovetail.cloud.aws.api import CapacityReservation
from dovetail.model.offering import InstanceType
from dovetail.reading import read
from dovetail.testing.guests import node_class
from dovetail.units.timestamp import to_rfc3339

TRAVEL = Path(__file__).parents[2] / "examples" / "evening-rush" / "01-node-pool.yaml"
POOL = "karpenter-node-pool"
ASKED = tuple(f"{family}.2xlarge" for family in ("m7i-flex", "m7i", "m5", "m5a", "m5ad", "m5n"))
OFFERED = tuple(sorted(set(ASKED) - {"m5n.2xlarge"}))
ZONES = ("ap-northeast-2a", "ap-northeast-2c")


def travel_class(**spec: Any) -> dict[str, Any]:
    """The travel site's EC2NodeClass in the cluster `demo`; fields of the spec may be given."""
    _, made = (dict(manifest.document) for manifest in read([TRAVEL]).manifests)
    terms = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    made["spec"] = {
        **made["spec"],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        **spec,
    }
    return made


def travel_pool(*, capacity: tuple[str, ...] = ("spot", "on-demand"), **template: Any) -> dict[str, Any]:
    """The travel site's NodePool as first written: without a disruption section."""
    made, _ = (dict(manifest.document) for manifest in read([TRAVEL]).manifests)
    spec = {key: value for key, value in made["spec"].items() if key != "disruption"}
    inner = {**spec["template"]["spec"], **template}
    inner["requirements"] = [
        {**item, "values": list(capacity)} if item["key"] == "karpenter.sh/capacity-type" else item
        for item in inner["requirements"]
    ]
    return {**made, "spec": {**spec, "template": {"spec": inner}}}


def keeping(pool: dict[str, Any], **disruption: Any) -> dict[str, Any]:
    """The pool with a disruption section; without arguments one that keeps empty nodes."""
    return {**pool, "spec": {**pool["spec"], "disruption": disruption or {"consolidateAfter": "Never"}}}


def inflate(count: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A ReplicaSet of placeholder pods, one core each, that stop at once; pod spec fields may be given."""
    template = pod("inflate", cpu, terminationGracePeriodSeconds=0, **spec)["spec"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "inflate", "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "inflate"}},
            "template": {"metadata": {"labels": {"app": "inflate"}}, "spec": template},
        },
    }


async def scale(world: Operated, count: int) -> None:
    """kubectl scale rs inflate --replicas COUNT."""
    await world.client.patch(ReplicaSet, "inflate", "default", merge={"spec": {"replicas": count}})


def apart() -> dict[str, Any]:
    """Affinity that wants every placeholder on a host of its own."""
    term = {"labelSelector": {"matchLabels": {"app": "inflate"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_team(name: str) -> dict[str, Any]:
    """Affinity that demands a node of a team."""
    rule = {"key": "team", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def price(item: InstanceType, capacity: str = "on-demand") -> int:
    """The type's cheapest price of that capacity type that is to be had, nano-dollars per hour."""
    return min(one.price for one in item.offerings if one.capacity_type == capacity and one.available)


def sold(capacity: str = "on-demand") -> dict[str, InstanceType]:
    """The region's instance types that are to be had as that capacity type, by name."""
    return {
        item.name: item
        for item in catalog.instance_types(REGION)
        if any(one.capacity_type == capacity and one.available for one in item.offerings)
    }


def condition_of(item: EC2NodeClass | NodePool | NodeClaim | None, kind: str) -> Condition:
    """The object's condition of that type; both must exist."""
    assert item is not None
    found = condition(item.status.conditions, kind)
    assert found is not None
    return found


async def falls_ill(
    world: Operated, node: Node, kind: str = "AcceleratedHardwareReady", reason: str = "Broken"
) -> None:
    """As a node monitoring agent reports it."""
    stamp = to_rfc3339(world.clock.now())
    found = {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": stamp}
    kept = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": stamp}]
    merge = {"status": {"conditions": [*kept, found]}}
    await world.client.patch(Node, node.metadata.name, merge=merge, status=True)


async def six_nodes(
    world: Operated,
    *budgets: dict[str, Any],
    annotations: dict[str, str] | None = None,
    disruption: dict[str, Any] | None = None,
) -> list[Node]:
    """Each with one pod with these annotations; in order of name."""
    lasting = pool(disruption=disruption or {"consolidateAfter": "Never", "budgets": list(budgets)})
    pods = inflate(6, affinity=apart())
    pods["spec"]["template"]["metadata"]["annotations"] = annotations or {}
    world.create(node_class(), lasting, pods)
    await world.clock.sleep(2 * MINUTE)
    return sorted(world.state.all(Node), key=lambda node: node.metadata.name)


def reserved(kind: str = "default", ends: int | None = None) -> CapacityReservation:
    """A reservation of one machine of the travel site's types."""
    return CapacityReservation(
        id="cr-1",
        instance_type="m5.2xlarge",
        zone=ZONES[0],
        zone_id="apne2-az1",
        owner="123456789012",
        kind=kind,
        state="active",
        total=1,
        left=1,
        criteria="targeted",
        ends=ends,
    )
