"""What the node classes of all providers have in common."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.meta import Condition, Object, Part


class NodeClassStatus(Part, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class NodeClass(Object, frozen=True, kw_only=True):
    """A provider's own part of a NodePool; what its spec holds is the provider's business."""

    NAMESPACED: ClassVar[bool] = False

    status: NodeClassStatus = NodeClassStatus()
