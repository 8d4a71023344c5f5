"""autoscaling.x-k8s.io/v1beta1 CapacityBuffer."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dovetail.api.core import ResourceList
from dovetail.api.meta import Condition, Object, Part


class PodTemplateRef(Part, frozen=True, kw_only=True):
    name: str = ""


class ScalableRef(Part, frozen=True, kw_only=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Part, frozen=True, kw_only=True):
    provisioning_strategy: str = ""
    pod_template_ref: PodTemplateRef | None = None
    scalable_ref: ScalableRef | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: ResourceList = {}


class CapacityBufferStatus(Part, frozen=True, kw_only=True):
    pod_template_ref: PodTemplateRef | None = None
    pod_template_generation: int | None = None
    provisioning_strategy: str = ""
    replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class CapacityBuffer(Object, frozen=True, kw_only=True):
    """Keeps room free for pods that are yet to come."""

    API_VERSION: ClassVar[str] = "autoscaling.x-k8s.io/v1beta1"
    KIND: ClassVar[str] = "CapacityBuffer"
    PLURAL: ClassVar[str] = "capacitybuffers"

    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = msgspec.field(default=CapacityBufferStatus())
