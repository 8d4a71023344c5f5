"""Nodes that are cordoned."""

from __future__ import annotations

from dovetail.api.core import Taint
from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts
from dovetail.model.taints import NO_SCHEDULE, untolerated

_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_NO = (Reason("node(s) were unschedulable"),)


def unschedulable(facts: PodFacts, node: NodeView) -> Reasons:
    """A cordon holds unless the pod tolerates the taint that stands for it."""
    return _NO if node.unschedulable and untolerated((_TAINT,), facts.pod.spec.tolerations) else ()
