"""What every provider asks of a node class before it launches anything."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.meta import condition
from dovetail.base.errors import CreateFailed, InsufficientCapacity, NodeClassNotReady


def check_ready(node_class: NodeClass) -> None:
    """Raises what a launch from a class that is not ready comes back with."""
    if node_class.deleting:
        raise InsufficientCapacity(f"node class {node_class.metadata.name} is terminating")
    ready = condition(node_class.status.conditions, "Ready")
    if ready is None or ready.status == "Unknown":
        raise CreateFailed("NodeClass readiness is unknown", reason="NodeClassReadinessUnknown")
    if ready.status == "False":
        raise NodeClassNotReady(ready.message)
