"""The node that a planned claim becomes, as the scheduler sees it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements
from dovetail.api.meta import Meta, OwnerReference
from dovetail.cloud.unavailable import single_values
from dovetail.cluster.nodes import Machine
from dovetail.controllers.provisioning.openings import MOST_NODES_AT_ONCE
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.resources import CPU, MEMORY, PODS, pod_requests, quantities, subtract, total


def sold(problem: Problem, claim: PlannedClaim) -> tuple[Pool, InstanceType, Offering]:
    """What the claim is priced by: its pool, and the cheapest type and offering."""
    pool = next(item for item in problem.pools if item.name == claim.pool)
    kind = next(item for item in pool.instance_types if item.name == claim.instance_type)
    offering = next(
        one for one in kind.offerings if (one.zone, one.capacity_type) == (claim.zone, claim.capacity_type)
    )
    return pool, kind, offering


def planned_node(problem: Problem, claim: PlannedClaim, asked: Mapping[str, Pod]) -> ExistingNode:
    """The node that the cloud makes of the claim if it has its cheapest offering, with its daemons."""
    _, kind, offering = sold(problem, claim)
    bought = {**kind.requirements.labels(), **offering.requirements.labels()}
    # What the claim leaves no choice of the launch heeds, such as one of several partitions.
    tags = {**bought, **single_values(claim.requirements), **claim.labels}
    tags |= {labels.NODEPOOL: claim.pool, labels.HOSTNAME: claim.name}
    room, pods = kind.allocatable(), daemons(claim, asked)
    return ExistingNode(claim.name, tags, claim.taints, room, kind.capacity, pods, claim.pool)


def daemons(claim: PlannedClaim, asked: Mapping[str, Pod]) -> tuple[Pod, ...]:
    """So many pods as the claim has room for beside its own; the first asks for all that is left for them.

    Scores go by the shares of a node that are in use: less of everything is not the same. A pod of a plan for
    41 pods on five nodes was expected to have room, and 12 of them on other nodes than they went to.
    """
    left = subtract(claim.requests, total(pod_requests(asked[key]) for key in claim.pods))
    none = {CPU: 0, MEMORY: 0}
    each = none | {name: amount for name, amount in left.items() if name != PODS and amount > 0}
    found = []
    for number in range(left.get(PODS, 0)):
        requests = quantities(none if number else each)
        owner = OwnerReference(
            api_version="apps/v1", kind="DaemonSet", name="daemons", uid="", controller=True
        )
        meta = Meta(name=f"{claim.name}-{number}", namespace="kube-system", owner_references=(owner,))
        container = Container(resources=ResourceRequirements(requests=requests))
        found.append(Pod(metadata=meta, spec=PodSpec(node_name=claim.name, containers=(container,))))
    return tuple(found)


def planned_turn(machine: Machine) -> int:
    """When the node was planned to open, from 1 on; 0 where that is not known. Anyone may have written it."""
    mark = machine.claim.metadata.annotations.get(labels.OPENS, "") if machine.claim is not None else ""
    number = mark.isascii() and mark.isdigit() and len(mark) <= len(str(MOST_NODES_AT_ONCE))
    return int(mark) if number else 0
