"""Host ports that are taken."""

from __future__ import annotations

from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts
from dovetail.model.ports import port_error

_NO = (Reason("node(s) didn't have free ports for the requested pod ports", helpless=False),)


def ports(facts: PodFacts, node: NodeView) -> Reasons:
    """No pod on the node may hold a port that this pod asks for."""
    if not facts.ports:
        return ()
    taken = (port for other in node.pods.values() for port in other.ports)
    return _NO if port_error(facts.ports, taken) else ()
