"""Resources that are left."""

from __future__ import annotations

from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)


def fit(facts: PodFacts, node: NodeView) -> Reasons:
    """One reason per resource that is short; where even an empty node would be, no eviction can help."""
    found: list[Reason] = []
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        found.append(Reason("Too many pods", helpless=False))
    extended = (name for name in facts.requests if name not in (*_FIRST, PODS))
    for name in (*_FIRST, *sorted(extended)):
        wanted, whole = facts.requests.get(name, 0), node.allocatable.get(name, 0)
        if wanted > 0 and wanted > whole - node.used.get(name, 0):
            found.append(Reason(f"Insufficient {name}", helpless=wanted > whole))
    return tuple(found)
