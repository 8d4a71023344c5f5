"""karpenter.sh/v1 NodePool."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dovetail.api.core import ResourceList, Taint
from dovetail.api.meta import Condition, Object, Part


class NodeClassRef(Part, frozen=True, kw_only=True):
    group: str
    kind: str
    name: str

    @property
    def of_auto_mode(self) -> bool:
        """True iff EKS Auto Mode runs what has such a class, which has Karpenter's kinds as well."""
        return self.group == "eks.amazonaws.com"


class Requirement(Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class TemplateMeta(Part, frozen=True, kw_only=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClaimTemplateSpec(Part, frozen=True, kw_only=True):
    """What NodePool templates and NodeClaims have in common."""

    node_class_ref: NodeClassRef
    requirements: tuple[Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    termination_grace_period: str | None = None
    expire_after: str = "720h"


class NodeClaimTemplate(Part, frozen=True, kw_only=True):
    spec: ClaimTemplateSpec
    metadata: TemplateMeta = TemplateMeta()


class Budget(Part, frozen=True, kw_only=True):
    nodes: str = "10%"
    # None means every reason; an empty tuple means none.
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(Part, frozen=True, kw_only=True):
    consolidate_after: str = "0s"
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[Budget, ...] = (Budget(),)


class NodePoolSpec(Part, frozen=True, kw_only=True):
    template: NodeClaimTemplate
    disruption: Disruption = Disruption()
    limits: ResourceList = {}
    weight: int = 0
    replicas: int | None = None


class NodePoolStatus(Part, frozen=True, kw_only=True):
    resources: ResourceList = {}
    nodes: int = 0
    node_class_observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class NodePool(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "karpenter.sh/v1"
    KIND: ClassVar[str] = "NodePool"
    PLURAL: ClassVar[str] = "nodepools"
    NAMESPACED: ClassVar[bool] = False

    spec: NodePoolSpec
    status: NodePoolStatus = msgspec.field(default=NodePoolStatus())
