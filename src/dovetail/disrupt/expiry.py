"""The age of nodes: when a claim reaches it, and whether a replacement comes first. Pure."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.candidates import NodeView
from dovetail.model import labels
from dovetail.units.duration import parse_nillable
from dovetail.units.timestamp import parse_rfc3339

REPLACE_FIRST = "replace-first"


def expires(claim: NodeClaim) -> int | None:
    """The instant of the claim's end (ns since the epoch); None if it has no limit."""
    age = parse_nillable(claim.spec.expire_after)
    return None if age is None else parse_rfc3339(claim.metadata.creation_timestamp) + age


def replaced_first(pool: NodePool | None) -> bool:
    """True iff the pool asks that nodes which reach their age are replaced as drifted ones are."""
    return pool is not None and pool.metadata.annotations.get(labels.EXPIRATION) == REPLACE_FIRST


def expired_since(view: NodeView, now: int) -> int | None:
    """When the node reached its age, if a replacement is to come first; None otherwise."""
    end = expires(view.claim) if replaced_first(view.pool) else None
    return end if end is not None and end <= now else None
