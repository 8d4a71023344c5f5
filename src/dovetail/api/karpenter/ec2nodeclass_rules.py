"""Admission rules of EC2NodeClasses."""

from __future__ import annotations

from typing import Any

from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES
from dovetail.api.karpenter.selector_rules import Terms, cel_any, has_any
from dovetail.api.rules import Rule, rule


@rule(
    "must specify exactly one of ['role', 'instanceProfile']",
    cel="has(self.role) != has(self.instanceProfile)",
)
def role_or_profile(spec: dict[str, Any]) -> bool:
    return ("role" in spec) != ("instanceProfile" in spec)


@rule(
    "must specify amiFamily if amiSelectorTerms does not contain an alias",
    cel="has(self.amiFamily) || self.amiSelectorTerms.exists(term, has(term.alias))",
)
def family_or_alias(spec: dict[str, Any]) -> bool:
    return "amiFamily" in spec or any("alias" in term for term in spec["amiSelectorTerms"])


def _family_matches(alias: str, family: str) -> Rule:
    article = "an" if family.startswith("AL") else "a"
    text = f"if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"

    def holds(spec: dict[str, Any]) -> bool:
        used = {term["alias"].split("@", 1)[0] for term in spec["amiSelectorTerms"] if "alias" in term}
        return alias not in used or spec.get("amiFamily", "Custom") in (family, "Custom")

    cel = (
        f"!self.amiSelectorTerms.exists(term, has(term.alias) && term.alias.split('@')[0] == '{alias}')"
        f" || !has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom']"
    )
    return Rule(f"family_matches_{alias}", text, check=holds, cel=cel)


FAMILY_MATCHES = tuple(_family_matches(alias, family) for alias, family in ALIAS_FAMILIES.items())


@rule("role cannot be empty", cel="self != ''")
def role_given(role: str) -> bool:
    return role != ""


@rule("instanceProfile cannot be empty", cel="self != ''")
def profile_given(profile: str) -> bool:
    return profile != ""


@rule(
    "networkInterfaces must include a primary interface with interfaceType='interface'",
    cel="self.size() == 0 || self.exists(item, item.networkCardIndex == 0 && item.deviceIndex == 0"
    " && item.interfaceType == 'interface')",
)
def has_primary_interface(interfaces: Terms) -> bool:
    return not interfaces or any(
        (item["networkCardIndex"], item["deviceIndex"], item["interfaceType"]) == (0, 0, "interface")
        for item in interfaces
    )


@rule(
    "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, "
    "and can have at most one efa device per network card",
    cel="self.all(a, self.exists_one(b,"
    " a.networkCardIndex == b.networkCardIndex && a.deviceIndex == b.deviceIndex)"
    " && (a.interfaceType != 'efa-only' || self.exists_one(b,"
    " b.interfaceType == 'efa-only' && a.networkCardIndex == b.networkCardIndex)))",
)
def interfaces_are_distinct(interfaces: Terms) -> bool:
    places = [(item["networkCardIndex"], item["deviceIndex"]) for item in interfaces]
    cards = [item["networkCardIndex"] for item in interfaces if item["interfaceType"] == "efa-only"]
    return len(set(places)) == len(places) and len(set(cards)) == len(cards)


@rule(
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
    cel=cel_any("tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout", of="self"),
)
def some_timeout(tracking: dict[str, Any]) -> bool:
    return bool(tracking)


@rule(
    "must have only one blockDeviceMappings with rootVolume",
    cel="self.filter(item, has(item.rootVolume) && item.rootVolume).size() <= 1",
)
def one_root_volume(mappings: Terms) -> bool:
    return sum(1 for mapping in mappings if mapping.get("rootVolume")) <= 1


@rule("snapshotID or volumeSize must be defined", cel=cel_any("snapshotID", "volumeSize", of="self"))
def volume_has_size(ebs: dict[str, Any]) -> bool:
    return has_any(ebs, "snapshotID", "volumeSize")


@rule(
    "snapshotID must be set when volumeInitializationRate is set",
    cel="!has(self.volumeInitializationRate) || has(self.snapshotID)",
)
def rate_needs_snapshot(ebs: dict[str, Any]) -> bool:
    return "volumeInitializationRate" not in ebs or "snapshotID" in ebs


@rule("empty tag keys aren't supported", cel="!('' in self)")
def tag_keys_not_empty(tags: dict[str, str]) -> bool:
    return "" not in tags


def tag_free(tag: str, *, prefix: bool = False) -> Rule:
    """No tag has that key, or one that begins so."""
    text = f"tag contains a restricted tag matching {tag}"
    return Rule(
        f"tag_free_{tag}",
        text,
        check=lambda tags: not any(key.startswith(tag) if prefix else key == tag for key in tags),
        cel=f"!self.exists(key, key.startsWith('{tag}'))" if prefix else f"!('{tag}' in self)",
    )


RESTRICTED_TAGS = (
    tag_free("eks:eks-cluster-name"),
    tag_free("kubernetes.io/cluster/", prefix=True),
    tag_free("karpenter.sh/nodepool"),
    tag_free("karpenter.sh/nodeclaim"),
    tag_free("karpenter.k8s.aws/ec2nodeclass"),
)
