"""The scheduler's own filters: may this pod run on this node, and if not, in the scheduler's words, why.

One module per filter; `view` holds what they look at, `verdict` runs them in the scheduler's order and writes
its message.
"""

from dovetail.model.filters.reason import Reason
from dovetail.model.filters.verdict import (
    Nominated,
    Placement,
    check,
    examine,
    feasible_nodes,
    unschedulable_message,
)
from dovetail.model.filters.view import ClusterView, NodeView, PodFacts

__all__ = [
    "ClusterView",
    "NodeView",
    "Nominated",
    "Placement",
    "PodFacts",
    "Reason",
    "check",
    "examine",
    "feasible_nodes",
    "unschedulable_message",
]
