"""Admission rules of what bounds the pods of a namespace: LimitRanges and ResourceQuotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dovetail.api.names import label_key_faults
from dovetail.api.pod_resources import (
    HUGE_PAGES,
    NOT_OF_CONTAINERS,
    OF_CONTAINERS,
    extended,
    meant_resource,
    name_fault,
)
from dovetail.api.rules import Rule
from dovetail.units.quantity import nanos_if_any

Value = dict[str, Any]

_ONE = 1_000_000_000  # nano-units
_OF_QUOTAS = frozenset(
    {
        *OF_CONTAINERS,
        *(f"{part}.{name}" for part in ("requests", "limits") for name in OF_CONTAINERS),
        "requests.storage",
        "pods",
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)
_PAGES = (HUGE_PAGES, f"requests.{HUGE_PAGES}")
_MEASURED = (*OF_CONTAINERS, "storage")
_COUNTED = frozenset(name for name in _OF_QUOTAS if name.rpartition(".")[2] not in _MEASURED)
_SCOPES = (
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_OF_CONTAINERS_ALONE = ("default", "defaultRequest")
# Of two bounds of one resource the first is not above the second.
_ORDER = (
    ("min", "max"),
    ("min", "defaultRequest"),
    ("min", "default"),
    ("defaultRequest", "default"),
    ("defaultRequest", "max"),
    ("default", "max"),
)


def _limit_range_fault(item: Value) -> str:
    return next(_limit_range_faults(item), "")


def _limit_range_faults(item: Value) -> Iterator[str]:
    kind = item["type"]
    if "/" not in kind and kind not in ("Container", "Pod", "PersistentVolumeClaim"):
        yield 'type: supported values: "Container", "Pod", "PersistentVolumeClaim"'
        return
    for bound in _BOUNDS:
        for name in item.get(bound, {}) if "/" not in kind else ():
            if fault := _bounded_fault(kind, name):
                yield f"{bound}[{name}]: {fault}"
    if kind == "Pod":
        for bound in _OF_CONTAINERS_ALONE:
            if item.get(bound):
                yield f"{bound}: may not be specified when `type` is 'Pod'"
    if kind == "PersistentVolumeClaim" and not {"storage"} & {*item.get("min", ()), *item.get("max", ())}:
        yield "either minimum or maximum storage value is required, but neither was provided"
    for low, high in _ORDER:
        for name, amount in item.get(low, {}).items():
            most = item.get(high, {}).get(name)
            asked, allowed = nanos_if_any(amount), nanos_if_any(most)
            if asked is not None and allowed is not None and asked > allowed:
                yield f"{low}[{name}]: {low} value {amount} is greater than {high} value {most}"
    for name, written in item.get("maxLimitRequestRatio", {}).items():
        ratio = nanos_if_any(written) or _ONE
        if ratio < _ONE:
            yield f"maxLimitRequestRatio[{name}]: ratio {written} is less than 1"
        least, most = (nanos_if_any(item.get(bound, {}).get(name)) for bound in ("min", "max"))
        if least and most and ratio * least > most * _ONE:
            yield f"maxLimitRequestRatio[{name}]: ratio {written} is greater than max/min"


def _bounded_fault(kind: str, name: str) -> str:
    if kind == "PersistentVolumeClaim" and name == "storage":
        return ""
    fault = name_fault(name)
    near = meant_resource(name) if fault == NOT_OF_CONTAINERS else ""
    return f"{fault}; did you mean {near}?" if near else fault


def _same_type_fault(limits: list[Value]) -> str:
    types = [item["type"] for item in limits]
    return next((f'duplicate type: "{kind}"' for kind in types if types.count(kind) > 1), "")


def _quota_fault(hard: Value) -> str:
    for name, amount in hard.items():
        if faults := label_key_faults(name):
            return f"{name}: {faults[0]}"
        if "/" not in name and name not in _OF_QUOTAS and not name.startswith(_PAGES):
            part, dot, rest = name.rpartition(".")
            near = meant_resource(rest)
            hint = f"; did you mean {part}{dot}{near}?" if near else ""
            return f"{name}: must be a standard resource for quota{hint}"
        nanos = nanos_if_any(amount) or 0  # what is no quantity is the schema's to say
        if nanos < 0:
            return f"{name}: must be greater than or equal to 0"
        if nanos % _ONE and (name in _COUNTED or name.startswith("count/") or extended(name)):
            return f"{name}: must be an integer"
    return ""


def _scope_fault(spec: Value) -> str:
    return next((f'"{one}": unsupported scope' for one in spec.get("scopes", ()) if one not in _SCOPES), "")


# Type name of the field tables -> its rules.
RULES: dict[str, tuple[Rule, ...]] = {
    "V1LimitRangeItem": (Rule("bounds_are_sound", explain=_limit_range_fault),),
    "V1LimitRangeSpec": (
        Rule("types_differ", explain=lambda spec: _same_type_fault(spec.get("limits", [])), at="limits"),
    ),
    "V1ResourceQuotaSpec": (
        Rule("quota_counts", explain=lambda spec: _quota_fault(spec.get("hard", {})), at="hard"),
        Rule("scopes_known", explain=_scope_fault, at="scopes"),
    ),
}
