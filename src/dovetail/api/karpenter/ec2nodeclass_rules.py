"""Admission rules of EC2NodeClasses."""

from __future__ import annotations

import re
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES
from dovetail.api.rules import Rule, rule

Terms = list[dict[str, Any]]

_WINDOWS = ("windows2019", "windows2022", "windows2025")


@rule("must specify exactly one of ['role', 'instanceProfile']")
def role_or_profile(spec: dict[str, Any]) -> bool:
    return ("role" in spec) != ("instanceProfile" in spec)


@rule("must specify amiFamily if amiSelectorTerms does not contain an alias")
def family_or_alias(spec: dict[str, Any]) -> bool:
    return "amiFamily" in spec or any("alias" in term for term in spec["amiSelectorTerms"])


def _family_matches(alias: str, family: str) -> Rule:
    article = "an" if family.startswith("AL") else "a"
    text = f"if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"

    def holds(spec: dict[str, Any]) -> bool:
        used = {term["alias"].split("@", 1)[0] for term in spec["amiSelectorTerms"] if "alias" in term}
        return alias not in used or spec.get("amiFamily", "Custom") in (family, "Custom")

    return Rule(f"family_matches_{alias}", text, check=holds)


FAMILY_MATCHES = tuple(_family_matches(alias, family) for alias, family in ALIAS_FAMILIES.items())


@rule("expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']")
def ami_term_selects(terms: Terms) -> bool:
    return all(_has_any(term, "tags", "id", "name", "alias", "ssmParameter") for term in terms)


@rule("'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms")
def ami_id_alone(terms: Terms) -> bool:
    return not any("id" in term and _has_any(term, "alias", "tags", "name", "owner") for term in terms)


@rule("'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms")
def ami_alias_alone_in_term(terms: Terms) -> bool:
    return not any("alias" in term and _has_any(term, "id", "tags", "name", "owner") for term in terms)


@rule("'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms")
def ami_alias_only_term(terms: Terms) -> bool:
    return len(terms) == 1 or not any("alias" in term for term in terms)


@rule("'alias' is improperly formatted, must match the format 'family@version'")
def alias_format(alias: str) -> bool:
    return re.match(r"[a-zA-Z0-9]+@.+", alias) is not None


@rule(
    "family is not supported, must be one of the following: "
    "'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'"
)
def alias_family(alias: str) -> bool:
    return alias.split("@", 1)[0] in ALIAS_FAMILIES


@rule("windows families may only specify version 'latest'")
def alias_windows_latest(alias: str) -> bool:
    family, *rest = alias.split("@")
    return family not in _WINDOWS or rest[:1] == ["latest"]


@rule("empty tag keys or values aren't supported")
def tags_not_empty(tags: dict[str, str]) -> bool:
    return all(key and value for key, value in tags.items())


@rule("subnetSelectorTerms cannot be empty")
def subnet_terms_given(terms: Terms) -> bool:
    return bool(terms)


@rule("expected at least one, got none, ['tags', 'id']")
def subnet_term_selects(terms: Terms) -> bool:
    return all(_has_any(term, "tags", "id") for term in terms)


# The next rules only fire when every term mixes fields: the original's rule, which users may rely on.
@rule(
    "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term"
)
def subnet_id_alone(terms: Terms) -> bool:
    return not all("id" in term and "tags" in term for term in terms)


@rule(
    "'id' is mutually exclusive, "
    "cannot be set with a combination of other fields in a security group selector term"
)
def group_id_alone(terms: Terms) -> bool:
    return not all("id" in term and _has_any(term, "tags", "name") for term in terms)


@rule(
    "'name' is mutually exclusive, "
    "cannot be set with a combination of other fields in a security group selector term"
)
def group_name_alone(terms: Terms) -> bool:
    return not all("name" in term and _has_any(term, "tags", "id") for term in terms)


@rule("securityGroupSelectorTerms cannot be empty")
def group_terms_given(terms: Terms) -> bool:
    return bool(terms)


@rule("expected at least one, got none, ['tags', 'id', 'name']")
def group_term_selects(terms: Terms) -> bool:
    return all(_has_any(term, "tags", "id", "name") for term in terms)


@rule("expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']")
def reservation_term_selects(terms: Terms) -> bool:
    return all(_has_any(term, "tags", "id", "instanceMatchCriteria") for term in terms)


@rule(
    "'id' is mutually exclusive, "
    "cannot be set along with other fields in a capacity reservation selector term"
)
def reservation_id_alone(terms: Terms) -> bool:
    return not any(
        "id" in term and _has_any(term, "tags", "ownerID", "instanceMatchCriteria") for term in terms
    )


@rule("expected at least one, got none, ['name', 'id']")
def placement_group_selects(selector: dict[str, Any]) -> bool:
    return _has_any(selector, "name", "id")


@rule("'id' and 'name' are mutually exclusive, set one of them")
def placement_group_one_way(selector: dict[str, Any]) -> bool:
    return not ("name" in selector and "id" in selector)


@rule("role cannot be empty")
def role_given(role: str) -> bool:
    return role != ""


@rule("instanceProfile cannot be empty")
def profile_given(profile: str) -> bool:
    return profile != ""


@rule("networkInterfaces must include a primary interface with interfaceType='interface'")
def has_primary_interface(interfaces: Terms) -> bool:
    return any(
        (item["networkCardIndex"], item["deviceIndex"], item["interfaceType"]) == (0, 0, "interface")
        for item in interfaces
    )


@rule("networkInterfaces must not use the same networkCardIndex and deviceIndex twice")
def interfaces_are_distinct(interfaces: Terms) -> bool:
    places = [(item["networkCardIndex"], item["deviceIndex"]) for item in interfaces]
    return len(set(places)) == len(places)


@rule("networkInterfaces may have at most one 'efa-only' interface per network card")
def one_efa_per_card(interfaces: Terms) -> bool:
    cards = [item["networkCardIndex"] for item in interfaces if item["interfaceType"] == "efa-only"]
    return len(set(cards)) == len(cards)


@rule("at least one of ['tcpEstablishedTimeout', 'udpStreamTimeout', 'udpTimeout'] must be set")
def some_timeout(tracking: dict[str, Any]) -> bool:
    return bool(tracking)


@rule("must have only one blockDeviceMappings with rootVolume")
def one_root_volume(mappings: Terms) -> bool:
    return sum(1 for mapping in mappings if mapping.get("rootVolume")) <= 1


@rule("snapshotID or volumeSize must be defined")
def volume_has_size(ebs: dict[str, Any]) -> bool:
    return _has_any(ebs, "snapshotID", "volumeSize")


@rule("snapshotID must be set when volumeInitializationRate is set")
def rate_needs_snapshot(ebs: dict[str, Any]) -> bool:
    return "volumeInitializationRate" not in ebs or "snapshotID" in ebs


@rule("empty tag keys aren't supported")
def tag_keys_not_empty(tags: dict[str, str]) -> bool:
    return "" not in tags


def _tag_free(tag: str, *, prefix: bool = False) -> Rule:
    text = f"tag contains a restricted tag matching {tag}"
    return Rule(
        f"tag_free_{tag}",
        text,
        check=lambda tags: not any(key.startswith(tag) if prefix else key == tag for key in tags),
    )


RESTRICTED_TAGS = (
    _tag_free("eks:eks-cluster-name"),
    _tag_free("kubernetes.io/cluster/", prefix=True),
    _tag_free("karpenter.sh/nodepool"),
    _tag_free("karpenter.sh/nodeclaim"),
    _tag_free("karpenter.k8s.aws/ec2nodeclass"),
)


def _has_any(term: dict[str, Any], *fields: str) -> bool:
    return any(name in term for name in fields)
