"""Drift: nodes that their pool would not make that way any more. Pure."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import HOUR
from dovetail.base.memo import by_identity
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED
from dovetail.model import labels
from dovetail.model.offering import InstanceType, by_name
from dovetail.model.requirement import Requirements
from dovetail.units.timestamp import parse_rfc3339

NODE_POOL = "NodePoolDrifted"
REQUIREMENTS = "RequirementsDrifted"
TYPE_NOT_FOUND = "InstanceTypeNotFound"
# Types may come late into a provider's answers: a young claim is not judged by them.
_GROWN_UP = HOUR


def pool_drift(claim: NodeClaim, pool: NodePool, types: tuple[InstanceType, ...], now: int) -> str:
    """Why the claim does not suit its pool any more, in one word; "" if it does. `now` in nanoseconds."""
    if _template_changed(claim, pool):
        return NODE_POOL
    if _stamped(claim).compatible(_wanted(pool)):
        return REQUIREMENTS
    if grown_up(claim, now) and not _offered(claim, types):
        return TYPE_NOT_FOUND
    return ""


def grown_up(claim: NodeClaim, now: int) -> bool:
    """True iff the claim is judged by the types that are offered: from then on time changes nothing."""
    return now - parse_rfc3339(claim.metadata.creation_timestamp) >= _GROWN_UP


@by_identity(1024)
def _wanted(pool: NodePool) -> Requirements:
    return Requirements.read(pool.spec.template.spec.requirements)


@by_identity(32_768)
def _stamped(claim: NodeClaim) -> Requirements:
    return Requirements.from_labels(claim.metadata.labels)


def _template_changed(claim: NodeClaim, pool: NodePool) -> bool:
    """Hashes of different versions say nothing about each other; the pool's controller stamps anew."""
    made, now = claim.metadata.annotations, pool.metadata.annotations
    keys = (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION)
    if any(key not in marks for key in keys for marks in (made, now)):
        return False
    version = labels.NODEPOOL_HASH_VERSION
    return made[version] == now[version] and made[labels.NODEPOOL_HASH] != now[labels.NODEPOOL_HASH]


def _offered(claim: NodeClaim, types: tuple[InstanceType, ...]) -> bool:
    """True iff the provider still has the claim's type where the claim is; sold out counts as having."""
    stamped = claim.metadata.labels
    name = stamped.get(labels.INSTANCE_TYPE, "")
    zone, capacity = stamped.get(labels.ZONE, ""), stamped.get(labels.CAPACITY_TYPE, "")
    item = by_name(types).get(name)
    return item is not None and any(
        (one.zone, one.capacity_type) == (zone, capacity) for one in item.offerings
    )


def drifted_since(view: NodeView) -> int | None:
    """When the claim drifted (ns since the epoch); None if it has not."""
    return _drifted_since(view.claim)


@by_identity(32_768)
def _drifted_since(claim: NodeClaim) -> int | None:
    found = condition(claim.status.conditions, DRIFTED)
    if found is None or found.status != "True":
        return None
    return parse_rfc3339(found.last_transition_time)
