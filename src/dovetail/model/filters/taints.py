"""Taints that keep pods away."""

from __future__ import annotations

from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts
from dovetail.model.taints import HARD_EFFECTS, untolerated

_NO = (Reason("node(s) had untolerated taint(s)"),)


def taints(facts: PodFacts, node: NodeView) -> Reasons:
    """Every NoSchedule and NoExecute taint must be tolerated."""
    hard = [item for item in node.taints if item.effect in HARD_EFFECTS]
    return _NO if hard and untolerated(hard, facts.pod.spec.tolerations) else ()
