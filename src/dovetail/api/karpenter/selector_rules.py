"""Admission rules of the terms by which EC2NodeClasses select images, subnets, groups and reservations."""

from __future__ import annotations

import re
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES
from dovetail.api.rules import cel_list, rule

Terms = list[dict[str, Any]]

_WINDOWS = ("windows2019", "windows2022", "windows2025")


def cel_any(*fields: str, of: str = "term") -> str:
    """CEL: at least one of the fields is set."""
    return " || ".join(f"has({of}.{name})" for name in fields)


def _alone(field: str, *others: str) -> str:
    """CEL: the field is not set together with any of the others."""
    return f"!has(term.{field}) || !({cel_any(*others)})"


def _every(holds: str) -> str:
    return f"self.all(term, {holds})"


def _not_every(field: str, *others: str) -> str:
    """CEL: not every term sets the field together with one of the others."""
    return f"!self.all(term, has(term.{field}) && ({cel_any(*others)}))"


def has_any(term: dict[str, Any], *fields: str) -> bool:
    """At least one of the fields is set."""
    return any(name in term for name in fields)


@rule(
    "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
    cel=_every(cel_any("tags", "id", "name", "alias", "ssmParameter")),
)
def ami_term_selects(terms: Terms) -> bool:
    return all(has_any(term, "tags", "id", "name", "alias", "ssmParameter") for term in terms)


@rule(
    "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
    cel=_every(_alone("id", "alias", "tags", "name", "owner")),
)
def ami_id_alone(terms: Terms) -> bool:
    return not any("id" in term and has_any(term, "alias", "tags", "name", "owner") for term in terms)


@rule(
    "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
    cel=_every(_alone("alias", "id", "tags", "name", "owner")),
)
def ami_alias_alone_in_term(terms: Terms) -> bool:
    return not any("alias" in term and has_any(term, "id", "tags", "name", "owner") for term in terms)


@rule(
    "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
    cel="self.size() == 1 || !self.exists(term, has(term.alias))",
)
def ami_alias_only_term(terms: Terms) -> bool:
    return len(terms) == 1 or not any("alias" in term for term in terms)


@rule(
    "'alias' is improperly formatted, must match the format 'family@version'",
    cel="self.matches('^[a-zA-Z0-9]+@.+')",
)
def alias_format(alias: str) -> bool:
    return re.match(r"[a-zA-Z0-9]+@.+", alias) is not None


@rule(
    "family is not supported, must be one of the following: "
    "'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
    cel=f"self.split('@')[0] in {cel_list(ALIAS_FAMILIES)}",
)
def alias_family(alias: str) -> bool:
    return alias.split("@", 1)[0] in ALIAS_FAMILIES


@rule(
    "windows families may only specify version 'latest'",
    cel=f"!(self.split('@')[0] in {cel_list(_WINDOWS)})"
    " || (self.split('@').size() > 1 && self.split('@')[1] == 'latest')",
)
def alias_windows_latest(alias: str) -> bool:
    family, *rest = alias.split("@")
    return family not in _WINDOWS or rest[:1] == ["latest"]


@rule("empty tag keys or values aren't supported", cel="self.all(key, key != '' && self[key] != '')")
def tags_not_empty(tags: dict[str, str]) -> bool:
    return all(key and value for key, value in tags.items())


@rule("subnetSelectorTerms cannot be empty", cel="self.size() > 0")
def subnet_terms_given(terms: Terms) -> bool:
    return bool(terms)


@rule("expected at least one, got none, ['tags', 'id']", cel=_every(cel_any("tags", "id")))
def subnet_term_selects(terms: Terms) -> bool:
    return all(has_any(term, "tags", "id") for term in terms)


# The next rules only fire when every term mixes fields: the original's rule, which users may rely on.
@rule(
    "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
    cel=_not_every("id", "tags"),
)
def subnet_id_alone(terms: Terms) -> bool:
    return not all("id" in term and "tags" in term for term in terms)


@rule(
    "'id' is mutually exclusive, "
    "cannot be set with a combination of other fields in a security group selector term",
    cel=_not_every("id", "tags", "name"),
)
def group_id_alone(terms: Terms) -> bool:
    return not all("id" in term and has_any(term, "tags", "name") for term in terms)


@rule(
    "'name' is mutually exclusive, "
    "cannot be set with a combination of other fields in a security group selector term",
    cel=_not_every("name", "tags", "id"),
)
def group_name_alone(terms: Terms) -> bool:
    return not all("name" in term and has_any(term, "tags", "id") for term in terms)


@rule("securityGroupSelectorTerms cannot be empty", cel="self.size() > 0")
def group_terms_given(terms: Terms) -> bool:
    return bool(terms)


@rule("expected at least one, got none, ['tags', 'id', 'name']", cel=_every(cel_any("tags", "id", "name")))
def group_term_selects(terms: Terms) -> bool:
    return all(has_any(term, "tags", "id", "name") for term in terms)


@rule(
    "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
    cel=_every(cel_any("tags", "id", "instanceMatchCriteria")),
)
def reservation_term_selects(terms: Terms) -> bool:
    return all(has_any(term, "tags", "id", "instanceMatchCriteria") for term in terms)


@rule(
    "'id' is mutually exclusive, "
    "cannot be set along with other fields in a capacity reservation selector term",
    cel=_not_every("id", "tags", "ownerID", "instanceMatchCriteria"),
)
def reservation_id_alone(terms: Terms) -> bool:
    """As the rules above: it refuses an empty list too."""
    return not all(
        "id" in term and has_any(term, "tags", "ownerID", "instanceMatchCriteria") for term in terms
    )


@rule("expected at least one, got none, ['name', 'id']", cel=cel_any("name", "id", of="self"))
def placement_group_selects(selector: dict[str, Any]) -> bool:
    return has_any(selector, "name", "id")


@rule("'name' and 'id' are mutually exclusive", cel="!(has(self.name) && has(self.id))")
def placement_group_one_way(selector: dict[str, Any]) -> bool:
    return not ("name" in selector and "id" in selector)
