"""What a topology rule says about one domain."""

from __future__ import annotations

from dovetail.explain import words
from dovetail.explain.miss import Change, Miss
from dovetail.model.labels import HOSTNAME
from dovetail.model.matching import Matcher
from dovetail.solve.instance.topology import AFFINITY, SPREAD, Group

Roles = tuple[bool, bool]  # is the pod's own rule, counts the pod


def refused(group: Group, domain: str, roles: Roles) -> bool:
    """True iff the pod may not go into the domain."""
    own, counted = roles
    if own and not group.allows_owner(domain, itself=counted):
        return True
    return counted and not group.allows_matched(domain)


def refusing(group: Group, domain: str, roles: Roles) -> Miss:
    """Why it may not."""
    own, counted = roles
    key, selected = words.label(group.id.key), "; ".join(_matcher(item) for item in group.id.matchers)
    if not (own and not group.allows_owner(domain, itself=counted)):
        text = f"{_place(group, domain)} runs a pod whose anti-affinity keeps {selected} away"
        return Miss("anti-affinity", group.id.key, text)
    if group.id.kind == SPREAD:
        order = f"make the topology spread over {key} ScheduleAnyway"
        text = _spread(group, domain, selected)
        return Miss("spread", group.id.key, text, Change("topology", order, SPREAD, group.id.key))
    if group.id.kind == AFFINITY:
        order = f"make the pod affinity over {key} preferred"
        change = Change("topology", order, AFFINITY, group.id.key)
        return Miss("affinity", group.id.key, _affinity(group, domain, selected), change)
    order = f"make the pod anti-affinity over {key} preferred"
    count = group.matched.get(domain, 0)
    text = f"anti-affinity to {selected}: {_place(group, domain)} runs {count} of them"
    return Miss("anti-affinity", group.id.key, text, Change("topology", order, "anti", group.id.key))


def _spread(group: Group, domain: str, selected: str) -> str:
    key = words.label(group.id.key)
    if not domain:
        return f"spread over {key}: such nodes have no label {group.id.key}"
    start = f"spread over {key}, maxSkew {group.id.max_skew}, of {selected}"
    count, least = group.matched.get(domain, 0), group.least()
    if (group.id.key != HOSTNAME or group.closed) and len(group.universe) < group.id.min_domains:
        few = f"minDomains {group.id.min_domains}, but only {len(group.universe)} can be reached"
        return f"{start}: {_place(group, domain)} has {count} ({few})"
    lowest = sorted(each for each in group.universe if group.matched.get(each, 0) == least)
    rest = f", {words.listed(lowest)} {'has' if len(lowest) == 1 else 'have'} {least}" if lowest else ""
    return f"{start}: {_place(group, domain)} has {count}{rest}"


def _affinity(group: Group, domain: str, selected: str) -> str:
    where = sorted(each for each, count in group.matched.items() if count)
    if not where:
        return f"affinity to {selected}: no such pod runs or is planned"
    if group.id.key == HOSTNAME:
        return f"affinity to {selected}: they are on {words.listed(where)}, and must share a node"
    key = words.label(group.id.key)
    there = domain or f"without {group.id.key}"
    return f"affinity to {selected}: they are in {key} {words.listed(where)}, such nodes are {_in(there)}"


def _in(place: str) -> str:
    return place if place.startswith("without") else f"in {place}"


def _place(group: Group, domain: str) -> str:
    return domain if group.id.key == HOSTNAME else f"{words.label(group.id.key)} {domain or '(none)'}"


def _matcher(item: Matcher) -> str:
    where = "" if item.everywhere else f" in namespace {words.listed(item.namespaces)}"
    return f"{words.selector(item.selector)}{where}"
