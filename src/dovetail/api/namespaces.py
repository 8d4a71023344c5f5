"""What a namespace allows its pods: LimitRange and ResourceQuota of v1."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.core import ResourceList
from dovetail.api.meta import Object, Part


class LimitRangeItem(Part, frozen=True, kw_only=True):
    type: str = ""
    default: ResourceList = {}
    default_request: ResourceList = {}
    min: ResourceList = {}
    max: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(Part, frozen=True, kw_only=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "LimitRange"
    PLURAL: ClassVar[str] = "limitranges"

    spec: LimitRangeSpec = LimitRangeSpec()


class ScopeRequirement(Part, frozen=True, kw_only=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Part, frozen=True, kw_only=True):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Part, frozen=True, kw_only=True):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector = ScopeSelector()


class ResourceQuota(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ResourceQuota"
    PLURAL: ClassVar[str] = "resourcequotas"

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
