"""Rules that NodePools and NodeClaims share: labels, requirements, class references."""

from __future__ import annotations

from typing import Any

from dovetail.api.karpenter import wellknown
from dovetail.api.rules import on_update, rule

_KARPENTER_KEYS = ("karpenter.sh/capacity-type", "karpenter.sh/nodepool")
_AWS_KEYS = wellknown.AWS | {"karpenter.k8s.aws/ec2nodeclass"}
_NUMERIC = ("Gt", "Lt", "Gte", "Lte")
_INT64 = 2**63


def _domain_free(key: str, domain: str, allowed: tuple[str, ...] | frozenset[str]) -> bool:
    return key in allowed or not key.split("/", 1)[0].endswith(domain)


@rule('label domain "karpenter.sh" is restricted')
def key_outside_karpenter(key: str) -> bool:
    return _domain_free(key, "karpenter.sh", _KARPENTER_KEYS)


@rule('label domain "karpenter.k8s.aws" is restricted')
def key_outside_aws(key: str) -> bool:
    return _domain_free(key, "karpenter.k8s.aws", _AWS_KEYS)


@rule('label "kubernetes.io/hostname" is restricted')
def key_not_hostname(key: str) -> bool:
    return key != "kubernetes.io/hostname"


@rule('label "karpenter.sh/nodepool" is restricted')
def key_not_nodepool(key: str) -> bool:
    return key != "karpenter.sh/nodepool"


@rule('label domain "karpenter.sh" is restricted')
def labels_outside_karpenter(labels: dict[str, str]) -> bool:
    return all(_domain_free(key, "karpenter.sh", _KARPENTER_KEYS) for key in labels)


@rule('label domain "karpenter.k8s.aws" is restricted')
def labels_outside_aws(labels: dict[str, str]) -> bool:
    return all(_domain_free(key, "karpenter.k8s.aws", _AWS_KEYS) for key in labels)


@rule('label "kubernetes.io/hostname" is restricted')
def labels_without_hostname(labels: dict[str, str]) -> bool:
    return "kubernetes.io/hostname" not in labels


@rule('label "karpenter.sh/nodepool" is restricted')
def labels_without_nodepool(labels: dict[str, str]) -> bool:
    return "karpenter.sh/nodepool" not in labels


@rule("requirements with operator 'In' must have a value defined")
def in_has_values(requirements: list[dict[str, Any]]) -> bool:
    return all(item["operator"] != "In" or item.get("values") for item in requirements)


@rule("requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value")
def bounds_have_one_integer(requirements: list[dict[str, Any]]) -> bool:
    return all(item["operator"] not in _NUMERIC or _one_integer(item.get("values")) for item in requirements)


def _one_integer(values: list[str] | None) -> bool:
    if values is None or len(values) != 1:
        return False
    digits = values[0].removeprefix("+")
    return digits.isascii() and digits.isdigit() and int(digits) < _INT64


@rule("requirements with 'minValues' must have at least that many values specified in the 'values' field")
def in_has_min_values(requirements: list[dict[str, Any]]) -> bool:
    return all(
        item["operator"] != "In" or len(item.get("values") or ()) >= item.get("minValues", 0)
        for item in requirements
    )


@rule("group may not be empty")
def group_given(group: str) -> bool:
    return group != ""


@rule("kind may not be empty")
def kind_given(kind: str) -> bool:
    return kind != ""


@rule("name may not be empty")
def name_given(name: str) -> bool:
    return name != ""


@on_update("nodeClassRef.group is immutable")
def group_is_kept(ref: dict[str, str], old: dict[str, str]) -> bool:
    return ref["group"] == old["group"]


@on_update("nodeClassRef.kind is immutable")
def kind_is_kept(ref: dict[str, str], old: dict[str, str]) -> bool:
    return ref["kind"] == old["kind"]
