"""Rules that NodePools and NodeClaims share: labels, requirements, class references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dovetail.api.karpenter import wellknown
from dovetail.api.rules import cel_list, on_update, rule

_KARPENTER_KEYS = ("karpenter.sh/capacity-type", "karpenter.sh/nodepool")
_AWS_KEYS = wellknown.AWS | {"karpenter.k8s.aws/ec2nodeclass"}
_NUMERIC = ("Gt", "Lt", "Gte", "Lte")
_INT64 = 2**63


def _domain_free(key: str, domain: str, allowed: tuple[str, ...] | frozenset[str]) -> bool:
    return key in allowed or not key.split("/", 1)[0].endswith(domain)


def _domain_free_cel(key: str, domain: str, allowed: tuple[str, ...] | frozenset[str]) -> str:
    return f"{key} in {cel_list(allowed)} || !{key}.split('/')[0].endsWith('{domain}')"


_CORE_DOMAIN = ("karpenter.sh", _KARPENTER_KEYS)
_AWS_DOMAIN = ("karpenter.k8s.aws", _AWS_KEYS)
# Overlays change prices and resources of instance types, which these do not distinguish.
_AWS_OVERLAY_DOMAIN = ("karpenter.k8s.aws", _AWS_KEYS - wellknown.AWS_PLACEMENT)


@rule('label domain "karpenter.sh" is restricted', cel=_domain_free_cel("self", *_CORE_DOMAIN))
def key_outside_karpenter(key: str) -> bool:
    return _domain_free(key, *_CORE_DOMAIN)


@rule('label domain "karpenter.k8s.aws" is restricted', cel=_domain_free_cel("self", *_AWS_DOMAIN))
def key_outside_aws(key: str) -> bool:
    return _domain_free(key, *_AWS_DOMAIN)


@rule('label domain "karpenter.k8s.aws" is restricted', cel=_domain_free_cel("self", *_AWS_OVERLAY_DOMAIN))
def overlay_key_outside_aws(key: str) -> bool:
    return _domain_free(key, *_AWS_OVERLAY_DOMAIN)


@rule('label "kubernetes.io/hostname" is restricted', cel="self != 'kubernetes.io/hostname'")
def key_not_hostname(key: str) -> bool:
    return key != "kubernetes.io/hostname"


@rule('label "karpenter.sh/nodepool" is restricted', cel="self != 'karpenter.sh/nodepool'")
def key_not_nodepool(key: str) -> bool:
    return key != "karpenter.sh/nodepool"


@rule(
    'label domain "karpenter.sh" is restricted',
    cel=f"self.all(key, {_domain_free_cel('key', *_CORE_DOMAIN)})",
)
def labels_outside_karpenter(labels: dict[str, str]) -> bool:
    return all(_domain_free(key, *_CORE_DOMAIN) for key in labels)


@rule(
    'label domain "karpenter.k8s.aws" is restricted',
    cel=f"self.all(key, {_domain_free_cel('key', *_AWS_DOMAIN)})",
)
def labels_outside_aws(labels: dict[str, str]) -> bool:
    return all(_domain_free(key, *_AWS_DOMAIN) for key in labels)


@rule('label "kubernetes.io/hostname" is restricted', cel="!('kubernetes.io/hostname' in self)")
def labels_without_hostname(labels: dict[str, str]) -> bool:
    return "kubernetes.io/hostname" not in labels


@rule('label "karpenter.sh/nodepool" is restricted', cel="!('karpenter.sh/nodepool' in self)")
def labels_without_nodepool(labels: dict[str, str]) -> bool:
    return "karpenter.sh/nodepool" not in labels


@rule(
    "requirements with operator 'In' must have a value defined",
    cel="self.all(item, item.operator != 'In' || (has(item.values) && item.values.size() > 0))",
)
def in_has_values(requirements: list[dict[str, Any]]) -> bool:
    return all(item["operator"] != "In" or item.get("values") for item in requirements)


# What is no number cannot be converted, which breaks the rule too; a pattern costs more than a server allows.
_ONE_INTEGER = (
    f"self.all(item, !(item.operator in {cel_list(_NUMERIC)}) || (has(item.values) && item.values.size() == 1"
    " && int(item.values[0]) >= 0))"
)


@rule(
    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
    cel=_ONE_INTEGER,
)
def bounds_have_one_integer(requirements: list[dict[str, Any]]) -> bool:
    return all(item["operator"] not in _NUMERIC or one_integer(item.get("values")) for item in requirements)


# The same on overlays, word for word as users know it: one comma less.
overlay_bounds_have_one_integer = replace(
    bounds_have_one_integer,
    message="requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
)


@rule(
    "requirements with operator 'NotIn' must have a value defined",
    cel="self.all(item, item.operator != 'NotIn' || (has(item.values) && item.values.size() > 0))",
)
def not_in_has_values(requirements: list[dict[str, Any]]) -> bool:
    return all(item["operator"] != "NotIn" or item.get("values") for item in requirements)


def one_integer(values: Sequence[str] | None) -> bool:
    """True iff it is one number of 64 bits, not below zero: +1 and -0 are such numbers."""
    if values is None or len(values) != 1:
        return False
    negative, digits = values[0].startswith("-"), values[0].removeprefix("+").removeprefix("-")
    if len(values[0]) - len(digits) > 1 or not (digits.isascii() and digits.isdigit()):
        return False
    return int(digits.lstrip("0")[:20] or 0) < (1 if negative else _INT64)


@rule(
    "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    cel="self.all(item, item.operator != 'In' || !has(item.minValues)"
    " || (has(item.values) && item.values.size() >= item.minValues))",
)
def in_has_min_values(requirements: list[dict[str, Any]]) -> bool:
    return all(
        item["operator"] != "In"
        or item.get("minValues") is None
        or (item.get("values") is not None and len(item["values"]) >= item["minValues"])
        for item in requirements
    )


@rule("group may not be empty", cel="self != ''")
def group_given(group: str) -> bool:
    return group != ""


@rule("kind may not be empty", cel="self != ''")
def kind_given(kind: str) -> bool:
    return kind != ""


@rule("name may not be empty", cel="self != ''")
def name_given(name: str) -> bool:
    return name != ""


@on_update("nodeClassRef.group is immutable", cel="self.group == oldSelf.group")
def group_is_kept(ref: dict[str, str], old: dict[str, str]) -> bool:
    return ref["group"] == old["group"]


@on_update("nodeClassRef.kind is immutable", cel="self.kind == oldSelf.kind")
def kind_is_kept(ref: dict[str, str], old: dict[str, str]) -> bool:
    return ref["kind"] == old["kind"]
