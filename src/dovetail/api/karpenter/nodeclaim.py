"""karpenter.sh/v1 NodeClaim."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dovetail.api.core import ResourceList, ResourceRequirements
from dovetail.api.karpenter.nodepool import ClaimTemplateSpec
from dovetail.api.meta import Condition, Object, Part


class NodeClaimSpec(ClaimTemplateSpec, frozen=True, kw_only=True):
    resources: ResourceRequirements = ResourceRequirements()


class NodeClaimStatus(Part, frozen=True, kw_only=True):
    node_name: str = ""
    provider_id: str = msgspec.field(name="providerID", default="")
    image_id: str = msgspec.field(name="imageID", default="")
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    last_pod_event_time: str = ""
    conditions: tuple[Condition, ...] = ()


class NodeClaim(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "karpenter.sh/v1"
    KIND: ClassVar[str] = "NodeClaim"
    PLURAL: ClassVar[str] = "nodeclaims"
    NAMESPACED: ClassVar[bool] = False

    spec: NodeClaimSpec
    status: NodeClaimStatus = NodeClaimStatus()
