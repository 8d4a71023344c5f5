"""Admission rules of v1beta1 that differ from those of v1."""

from __future__ import annotations

from typing import Any

from dovetail.api.karpenter import common_rules, wellknown
from dovetail.api.karpenter.selector_rules import Terms, cel_any, has_any
from dovetail.api.rules import Rule, cel_list, on_update, rule

_KUBERNETES_KEYS = frozenset(
    {
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/windows-build",
    }
)
_KARPENTER_KEYS = frozenset({"karpenter.sh/capacity-type", "karpenter.sh/nodepool"})
_AWS_KEYS = (wellknown.AWS - wellknown.AWS_PLACEMENT) | {"karpenter.k8s.aws/ec2nodeclass"}
# Domains that users may not label in: with the keys, and the domains below them, that are free all the same.
_DOMAINS: tuple[tuple[str, frozenset[str], tuple[str, ...]], ...] = (
    ("kubernetes.io", _KUBERNETES_KEYS, ("node.kubernetes.io", "node-restriction.kubernetes.io")),
    ("k8s.io", frozenset(), ("kops.k8s.io",)),
    ("karpenter.sh", _KARPENTER_KEYS, ()),
    ("karpenter.k8s.aws", _AWS_KEYS, ()),
)


def _free(key: str, domain: str, keys: frozenset[str], inside: tuple[str, ...]) -> bool:
    part = key.partition("/")[0]
    return key in keys or part.endswith(inside) or not part.endswith(domain)


def _free_cel(key: str, domain: str, keys: frozenset[str], inside: tuple[str, ...]) -> str:
    part = f"{key}.split('/')[0]"
    allowed = [f"{key} in {cel_list(keys)}"] if keys else []
    return " || ".join(
        [*allowed, *(f"{part}.endsWith('{name}')" for name in inside), f"!{part}.endsWith('{domain}')"]
    )


def _key_rule(domain: str, keys: frozenset[str], inside: tuple[str, ...]) -> Rule:
    return Rule(
        f"key_outside_{domain}",
        f'label domain "{domain}" is restricted',
        check=lambda key: _free(key, domain, keys, inside),
        cel=_free_cel("self", domain, keys, inside),
    )


def _labels_rule(domain: str, keys: frozenset[str], inside: tuple[str, ...]) -> Rule:
    return Rule(
        f"labels_outside_{domain}",
        f'label domain "{domain}" is restricted',
        check=lambda labels: all(_free(key, domain, keys, inside) for key in labels),
        cel=f"self.all(key, {_free_cel('key', domain, keys, inside)})",
    )


KEY_RULES = (*(_key_rule(*domain) for domain in _DOMAINS), common_rules.key_not_hostname)
POOL_KEY_RULES = (*KEY_RULES, common_rules.key_not_nodepool)
LABEL_RULES = (
    *(_labels_rule(*domain) for domain in _DOMAINS),
    common_rules.labels_without_nodepool,
    common_rules.labels_without_hostname,
)


@rule(
    "requirements operator 'Gt' or 'Lt' must have a single positive integer value",
    cel="self.all(item, !(item.operator in ['Gt', 'Lt']) || (has(item.values) && item.values.size() == 1"
    " && int(item.values[0]) >= 0))",
)
def bounds_have_one_integer(requirements: list[dict[str, Any]]) -> bool:
    return common_rules.bounds_have_one_integer.fault(requirements, None) == ""


@rule(
    "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
    cel="!has(self.consolidateAfter) || self.consolidationPolicy != 'WhenUnderutilized'"
    " || self.consolidateAfter == 'Never'",
)
def no_wait_when_underutilized(disruption: dict[str, Any]) -> bool:
    wait = disruption.get("consolidateAfter", "Never")
    return wait == "Never" or disruption.get("consolidationPolicy") != "WhenUnderutilized"


@rule(
    "consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
    cel="self.consolidationPolicy != 'WhenEmpty' || has(self.consolidateAfter)",
)
def wait_when_empty(disruption: dict[str, Any]) -> bool:
    return disruption.get("consolidationPolicy") != "WhenEmpty" or "consolidateAfter" in disruption


SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
RESERVED = ("cpu", "memory", "ephemeral-storage", "pid")


def valid_keys(field: str) -> Rule:
    """The keys of a map of the kubelet are those that it knows."""
    known = RESERVED if field.endswith("Reserved") else SIGNALS
    listed = ",".join(f"'{name}'" for name in known)
    return Rule(
        f"keys_of_{field}",
        f"valid keys for {field} are [{listed}]",
        check=lambda value: all(key in known for key in value),
        cel=f"self.all(key, key in {cel_list(known)})",
    )


def not_negative(field: str) -> Rule:
    """No resource that is kept back is less than nothing."""
    return Rule(
        f"not_negative_{field}",
        f"{field} value cannot be a negative resource quantity",
        check=lambda value: not any(str(value.get(key, "")).startswith("-") for key in RESERVED),
        # A server reckons what a rule may cost: to go over all keys that there may be is over its limit.
        cel=f"{cel_list(RESERVED)}.all(key, !(key in self) || !string(self[key]).startsWith('-'))",
    )


def _paired(field: str, other: str) -> Rule:
    return Rule(
        f"{field}_has_{other}",
        f"{field} OwnerKey does not have a matching {other}",
        check=lambda kubelet: all(key in kubelet.get(other, {}) for key in kubelet.get(field, {})),
        cel=f"!has(self.{field}) || self.{field}.all(key, has(self.{other}) && key in self.{other})",
    )


@rule(
    "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
    cel="!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent)"
    " || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
)
def thresholds_in_order(kubelet: dict[str, Any]) -> bool:
    high, low = kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent")
    return high is None or low is None or high > low


KUBELET = (
    thresholds_in_order,
    _paired("evictionSoft", "evictionSoftGracePeriod"),
    _paired("evictionSoftGracePeriod", "evictionSoft"),
)


@rule(
    "amiSelectorTerms is required when amiFamily == 'Custom'",
    cel="self.amiFamily != 'Custom' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() > 0)",
)
def custom_has_terms(spec: dict[str, Any]) -> bool:
    return spec.get("amiFamily") != "Custom" or bool(spec.get("amiSelectorTerms"))


@on_update(
    "changing from 'instanceProfile' to 'role' is not supported. "
    "You must delete and recreate this node class if you want to change this.",
    cel="!has(oldSelf.instanceProfile) || has(self.instanceProfile)",
)
def profile_is_kept(spec: dict[str, Any], old: dict[str, Any]) -> bool:
    return "instanceProfile" not in old or "instanceProfile" in spec


@on_update("immutable field changed", cel="self == oldSelf")
def role_is_kept(role: str, old: str) -> bool:
    return role == old


@rule(
    "expected at least one, got none, ['tags', 'id', 'name']",
    cel=f"self.all(term, {cel_any('tags', 'id', 'name')})",
)
def ami_term_selects(terms: Terms) -> bool:
    return all(has_any(term, "tags", "id", "name") for term in terms)


def _not_every(field: str, others: tuple[str, ...], where: str) -> Rule:
    """Not every term sets the field together with another: the original's rule, true of no term at all."""

    def every(terms: Terms) -> bool:
        return all(field in term and has_any(term, *others) for term in terms)

    return Rule(
        f"{where}_{field}_alone",
        f"'{field}' is mutually exclusive, cannot be set with a combination of other fields in {where}",
        check=lambda terms: not every(terms),
        cel=f"!self.all(term, has(term.{field}) && ({cel_any(*others)}))",
    )


AMI_ID_ALONE = _not_every("id", ("tags", "name", "owner"), "amiSelectorTerms")
SUBNET_ID_ALONE = _not_every("id", ("tags",), "subnetSelectorTerms")
GROUP_ID_ALONE = _not_every("id", ("tags", "name"), "securityGroupSelectorTerms")
GROUP_NAME_ALONE = _not_every("name", ("tags", "id"), "securityGroupSelectorTerms")
