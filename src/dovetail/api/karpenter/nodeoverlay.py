"""karpenter.sh/v1alpha1 NodeOverlay."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dovetail.api.core import ResourceList
from dovetail.api.karpenter.nodepool import Requirement
from dovetail.api.meta import Condition, Object, Part


class NodeOverlaySpec(Part, frozen=True, kw_only=True):
    requirements: tuple[Requirement, ...] = ()
    price: str | None = None  # dollars per hour
    price_adjustment: str | None = None  # with a sign: dollars per hour, or percent
    capacity: ResourceList = {}
    weight: int = 0


class NodeOverlayStatus(Part, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class NodeOverlay(Object, frozen=True, kw_only=True):
    """Changes what instance types cost, or adds resources that they offer."""

    API_VERSION: ClassVar[str] = "karpenter.sh/v1alpha1"
    KIND: ClassVar[str] = "NodeOverlay"
    PLURAL: ClassVar[str] = "nodeoverlays"
    NAMESPACED: ClassVar[bool] = False

    spec: NodeOverlaySpec = NodeOverlaySpec()
    status: NodeOverlayStatus = msgspec.field(default=NodeOverlayStatus())
