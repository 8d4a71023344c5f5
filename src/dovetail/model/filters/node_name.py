"""Pods that name their node."""

from __future__ import annotations

from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts

_NO = (Reason("node(s) didn't match the requested node name"),)


def node_name(facts: PodFacts, node: NodeView) -> Reasons:
    """A pod that names a node runs there or nowhere."""
    return _NO if facts.pod.spec.node_name not in ("", node.name) else ()
