"""ValidationSucceeded of a NodePool: rules that the API server cannot check. Pure."""

from __future__ import annotations

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.karpenter.runtime import validate_node_pool
from dovetail.controllers.conditions import Conditions, Stamp, set_condition

VALIDATION = "ValidationSucceeded"


def validation(pool: NodePool, conditions: Conditions, stamp: Stamp) -> Conditions:
    """The conditions with the verdict on the pool in place."""
    messages = validate_node_pool(pool)
    if not messages:
        return set_condition(conditions, VALIDATION, "True", stamp)
    return set_condition(
        conditions,
        VALIDATION,
        "False",
        stamp,
        reason="NodePoolValidationFailed",
        message="; ".join(messages),
    )
