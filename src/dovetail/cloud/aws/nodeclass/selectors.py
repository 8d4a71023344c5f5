"""Terms of selectors as filters of Describe calls, and what their answers mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from dovetail.api.karpenter.ec2nodeclass import PlacementGroupSelector, SelectorTerm
from dovetail.base.clock import MINUTE
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import CapacityReservation, SecurityGroup, Subnet
from dovetail.cloud.provider import ResolvedReservation, ResolvedSecurityGroup, ResolvedSubnet

Filters = tuple[Filter, ...]
_Named = TypeVar("_Named", Subnet, SecurityGroup, CapacityReservation)
ANY = "*"
CAPACITY_BLOCK = "capacity-block"
# A capacity block is taken back this long before its end: nothing is launched into it any more.
BLOCK_ENDS = 40 * MINUTE


def subnet_queries(terms: Iterable[SelectorTerm]) -> tuple[Filters, ...]:
    """One call for all ids, and one for each term of tags."""
    return _queries(terms, (("subnet-id", "id"),))


def group_queries(terms: Iterable[SelectorTerm]) -> tuple[Filters, ...]:
    """One call for all ids, one for all names, and one for each term of tags."""
    return _queries(terms, (("group-id", "id"), ("group-name", "name")))


def reservation_queries(terms: Iterable[SelectorTerm]) -> tuple[Filters, ...]:
    """One call per term. EC2 cannot filter by id: `selected` picks those from what the account has."""
    found = []
    for term in terms:
        filters = list(_tags(term))
        if term.owner_id:
            filters.append(Filter("owner-id", (term.owner_id,)))
        if term.instance_match_criteria:
            filters.append(Filter("instance-match-criteria", (term.instance_match_criteria,)))
        found.append(_sorted(filters))
    return tuple(dict.fromkeys(found))


def placement_query(selector: PlacementGroupSelector) -> Filters:
    """The one group that the selector names."""
    if selector.id:
        return (Filter("group-id", (selector.id,)),)
    return (Filter("group-name", (selector.name,)),)


def subnets(found: Iterable[Subnet]) -> tuple[ResolvedSubnet, ...]:
    """Each once; most free addresses first, then by id."""
    ranked = sorted(_once(found), key=lambda item: (-item.free_addresses, item.id))
    return tuple(ResolvedSubnet(item.id, item.zone, item.zone_id, item.free_addresses) for item in ranked)


def groups(found: Iterable[SecurityGroup]) -> tuple[ResolvedSecurityGroup, ...]:
    """Each once, by id."""
    ranked = sorted(_once(found), key=lambda item: item.id)
    return tuple(ResolvedSecurityGroup(item.id, item.name) for item in ranked)


def reservations(
    found: Iterable[CapacityReservation], terms: Iterable[SelectorTerm], now: int
) -> tuple[ResolvedReservation, ...]:
    """Those that a term selects and that have not ended, each once, by id."""
    terms = tuple(terms)
    chosen = [
        item
        for item in _once(found)
        if any(selected(item, term) for term in terms) and (item.ends is None or item.ends > now)
    ]
    return tuple(
        ResolvedReservation(
            item.id,
            item.instance_type,
            item.zone,
            item.owner,
            item.criteria,
            item.kind,
            "expiring" if expiring(item, now) else "active",
            item.interruptible,
            item.ends,
            item.left,
        )
        for item in sorted(chosen, key=lambda item: item.id)
    )


def expiring(item: CapacityReservation, now: int) -> bool:
    """True iff it is a block of capacity that ends soon."""
    return item.kind == CAPACITY_BLOCK and item.ends is not None and item.ends - now <= BLOCK_ENDS


def selected(item: CapacityReservation, term: SelectorTerm) -> bool:
    """True iff all fields of the term fit."""
    return (
        (not term.id or term.id == item.id)
        and (not term.owner_id or term.owner_id == item.owner)
        and (not term.instance_match_criteria or term.instance_match_criteria == item.criteria)
        and all(key in item.tags and value in (ANY, item.tags[key]) for key, value in term.tags.items())
    )


def _queries(terms: Iterable[SelectorTerm], named: tuple[tuple[str, str], ...]) -> tuple[Filters, ...]:
    terms = tuple(terms)
    found: list[Filters] = []
    for name, attribute in named:
        values = sorted({getattr(term, attribute) for term in terms} - {""})
        if values:
            found.append((Filter(name, tuple(values)),))
    found += [_sorted(_tags(term)) for term in terms if term.tags]
    return tuple(dict.fromkeys(found))


def _tags(term: SelectorTerm) -> Iterable[Filter]:
    for key, value in term.tags.items():
        yield Filter("tag-key", (key,)) if value == ANY else Filter(f"tag:{key}", (value,))


def _sorted(filters: Iterable[Filter]) -> Filters:
    return tuple(sorted(filters, key=lambda item: (item.name, item.values)))


def _once(found: Iterable[_Named]) -> Iterable[_Named]:
    return {item.id: item for item in found}.values()
