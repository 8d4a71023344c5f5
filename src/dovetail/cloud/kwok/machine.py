"""Instances and the Node objects that they are."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.core import Node, NodeSpec, NodeStatus, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Meta
from dovetail.cloud.choice import Candidate
from dovetail.cloud.provider import Instance
from dovetail.cloud.unavailable import single_values
from dovetail.model import labels
from dovetail.model.resources import amounts, quantities
from dovetail.units.money import NANO_DOLLARS, parse_dollars
from dovetail.units.timestamp import parse_rfc3339

SCHEME = "kwok://"
PLAYED = "kwok.x-k8s.io/node"  # by this kwok knows the nodes that it plays
_PARTITION = "kwok-partition"
_PRICE = "eks-node-viewer/instance-price"
_CLAIM = "dovetail.dev/nodeclaim"  # an annotation: whose instance it is, before the claim says so
_UNREGISTERED = Taint(key=labels.UNREGISTERED_TAINT, effect="NoExecute")


def instance(chosen: Candidate, claim: NodeClaim, now: int) -> Instance:
    """What a launch for the claim gives; a claim has one name and so has its node."""
    kind, offering = chosen.instance_type, chosen.offering
    name = claim.metadata.name
    return Instance(
        provider_id=SCHEME + name,
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price,
        image_id="",
        created=now,
        claim=name,
        labels={**single_values(kind.requirements), **single_values(offering.requirements)},
        capacity=kind.capacity,
        allocatable=kind.allocatable(),
    )


def node(made: Instance, claim: NodeClaim) -> Node:
    """The object that kwok is to play."""
    name = made.provider_id.removeprefix(SCHEME)
    own = {
        labels.HOSTNAME: name,
        PLAYED: "fake",
        _PARTITION: "a",
        _PRICE: _dollars(made.price),
    }
    taints = (*claim.spec.taints, *claim.spec.startup_taints, _UNREGISTERED)
    return Node(
        metadata=Meta(
            name=name,
            labels={**claim.metadata.labels, **made.labels, **own},
            annotations={PLAYED: "fake", _CLAIM: made.claim},
        ),
        spec=NodeSpec(provider_id=made.provider_id, taints=taints),
        status=NodeStatus(capacity=quantities(made.capacity), allocatable=quantities(made.allocatable)),
    )


def read(found: Node) -> Instance | None:
    """The instance that a Node object is, if it is one of ours."""
    if not found.spec.provider_id.startswith(SCHEME):
        return None
    meta = found.metadata
    return Instance(
        provider_id=found.spec.provider_id,
        instance_type=meta.labels.get(labels.INSTANCE_TYPE, ""),
        zone=meta.labels.get(labels.ZONE, ""),
        capacity_type=meta.labels.get(labels.CAPACITY_TYPE, ""),
        price=_price(meta.labels),
        image_id="",
        created=parse_rfc3339(meta.creation_timestamp),
        claim=meta.annotations.get(_CLAIM, ""),
        terminating=found.deleting,
        labels=_decided(meta.labels),
        capacity=amounts(found.status.capacity),
        allocatable=amounts(found.status.allocatable),
    )


def _decided(found: Mapping[str, str]) -> dict[str, str]:
    """The labels that the launch decided, without those of the pool and of the cluster."""
    mine = labels.KWOK_WELL_KNOWN - {labels.NODEPOOL}
    return {key: value for key, value in found.items() if key in mine}


def _dollars(price: int) -> str:
    return f"{price / NANO_DOLLARS:.9f}".rstrip("0").rstrip(".")


def _price(found: Mapping[str, str]) -> int:
    try:
        return parse_dollars(found.get(_PRICE, "0"))
    except ValueError:
        return 0  # not written by the controller
