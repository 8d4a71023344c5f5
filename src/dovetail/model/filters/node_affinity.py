"""A pod's nodeSelector and required node affinity."""

from __future__ import annotations

from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts

_NO = (Reason("node(s) didn't match Pod's node affinity/selector"),)


def node_affinity(facts: PodFacts, node: NodeView) -> Reasons:
    """The selector and one of the affinity's terms must match the node's labels."""
    return () if facts.node_rule.matches(node.name, node.labels) else _NO
