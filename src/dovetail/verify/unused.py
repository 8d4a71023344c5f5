"""Spread over domains that have no node yet.

The scheduler counts only domains that it can see, so a plan could crowd pods together by never opening the
rest. The promise is kept more strictly here: a domain where one more node could be bought, whatever the
plan buys already, counts as empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from dovetail.model.cluster_view import PodFacts
from dovetail.model.labels import HOSTNAME, INSTANCE_TYPE
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import Resources, add, fits, subtract
from dovetail.model.selector import NodeRule
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.model.volumes import volume_alternatives
from dovetail.verify.violation import Violation
from dovetail.verify.whole import commons_left
from dovetail.verify.worlds import Catalogue, Offer, looks_at_names, without_type


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a pool may still buy: types within its limits, offerings within what is left of the commons."""

    types: frozenset[str]
    commons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods that count alike: the rule, and the nodes that they count on."""

    rule: SpreadRule
    nodes: NodeRule

    def counts_on(self, name: str, node: Mapping[str, str]) -> bool:
        """True iff the node takes part in the rule for certain."""
        return not self.rule.honor_affinity or self.nodes.matches(name, node)

    def may_count_on(self, nodes: _Domains) -> Iterator[Mapping[str, str]]:
        """Those that do, or would with labels that are not certain yet; of nodes that are alike, one."""
        keys = _keys(self.nodes)
        named = HOSTNAME in keys or self.rule.key == HOSTNAME or looks_at_names(self.nodes)
        for name, node in (nodes.every if named else nodes.alike).items():
            if any(key not in node for key in keys) or self.counts_on(name, node):
                yield node


class _Domains:
    """Node or claim -> its labels, as far as they are certain and some spread rule looks at them."""

    def __init__(self, every: Mapping[str, Mapping[str, str]]) -> None:
        self.every = every
        first: dict[Hashable, str] = {}
        for name, node in every.items():
            first.setdefault(frozenset((key, node[key]) for key in node if key != HOSTNAME), name)
        self.alike = {name: every[name] for name in first.values()}  # one of those that differ in name alone


def _keys(rule: NodeRule) -> set[str]:
    terms = rule.terms or ()
    return set(rule.selector.keys).union(*(term.labels.keys for term in terms))


def unused_violations(catalogue: Catalogue, plan: Plan) -> Iterator[Violation]:
    """Domains hold at most `maxSkew` of a rule's own pods while another that could host them stays empty."""
    if not any(catalogue.like(pod).spread for _, pods in _placed(plan) for pod in pods):
        return
    nodes = _domains(catalogue, plan)
    labels = nodes.every
    members: dict[SpreadRule, list[tuple[str, str]]] = {}
    groups: dict[_Group, str] = {}
    for node, pods in _placed(plan):
        for pod in pods:
            facts = catalogue.like(pod)
            for rule in dict.fromkeys(facts.spread):
                if rule.selects_self:
                    members.setdefault(rule, []).append((pod, node))
                    groups.setdefault(_Group(rule, facts.node_rule), pod)
    rests: dict[str, _Rest] = {}
    for group, pod in groups.items():
        counts = Counter(
            labels[node][group.rule.key]
            for _, node in members[group.rule]
            if group.rule.key in labels[node] and group.counts_on(node, labels[node])
        )
        crowded = min((item for item, count in counts.items() if count > group.rule.max_skew), default="")
        if crowded and not rests:
            rests = _rests(catalogue, plan)
        empty = crowded and _empty(catalogue, rests, group, pod, nodes)
        if empty:
            message = f"{counts[crowded]} pods in {group.rule.key}={crowded} while {empty} is empty"
            yield Violation("spread", pod, f"{message}, maxSkew is {group.rule.max_skew}")


def _placed(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((claim.name, claim.pods) for claim in plan.claims)
    yield from sorted(plan.existing.items())


def _domains(catalogue: Catalogue, plan: Plan) -> _Domains:
    every = [catalogue.like(pod) for _, pods in _placed(plan) for pod in pods]
    spreading = list({id(facts.spread): facts for facts in every if facts.spread}.values())
    keys = {rule.key for facts in spreading for rule in facts.spread}
    keys = keys.union(*(_keys(facts.node_rule) for facts in spreading)) - {HOSTNAME}
    certain: dict[Offer, dict[str, str]] = {}
    found: dict[str, Mapping[str, str]] = {node.name: node.labels for node in catalogue.problem.nodes}
    for claim in plan.claims:
        offer = catalogue.offer(claim)
        if offer not in certain:
            values = {key: offer.values(key) for key in sorted(keys)}
            single = {key: next(iter(some)) for key, some in values.items() if len(some) == 1}
            certain[offer] = {key: some[0] for key, some in single.items() if len(some) == 1}
        found[claim.name] = {**certain[offer], HOSTNAME: claim.name}
    return _Domains(found)


def _rests(catalogue: Catalogue, plan: Plan) -> dict[str, _Rest]:
    """What each pool, by name, may still buy beside the plan."""
    commons = commons_left(catalogue.problem, plan)
    pools = catalogue.problem.pools
    return {pool.name: _Rest(_still_allowed(catalogue, plan, pool), commons) for pool in pools}


def _empty(catalogue: Catalogue, rests: Mapping[str, _Rest], group: _Group, pod: str, nodes: _Domains) -> str:
    """A domain without any node that could host the pod; '' if there is none."""
    key, facts = group.rule.key, catalogue.facts(pod)
    used = {labels[key] for labels in group.may_count_on(nodes) if key in labels}
    possible: set[str] = set()
    for pool in catalogue.problem.pools:
        hard = [item for item in pool.taints if item.effect in HARD_EFFECTS]
        if not untolerated(hard, facts.pod.spec.tolerations):
            possible |= _reach(catalogue, key, facts, pool, rests[pool.name])
    return min(possible - used, default="")


def _still_allowed(catalogue: Catalogue, plan: Plan, pool: Pool) -> frozenset[str]:
    """The types of which one more node would keep to the limits, whatever the cloud picks till then."""
    limits = pool.limits or {}
    if not limits:
        return frozenset(catalogue.sold(pool).by_name)
    bought: Resources = {}
    for claim in plan.claims:
        if claim.pool == pool.name:
            kinds = [catalogue.sold(pool).by_name[name].capacity for name in claim.instance_types]
            sizes = {name: max(kind.get(name, 0) for kind in kinds) for name in limits}
            bought = add(bought, {**sizes, "nodes": 1})
    rest = subtract(subtract(limits, pool.usage), bought)
    return frozenset(
        name
        for name, kind in catalogue.sold(pool).by_name.items()
        if all({**kind.capacity, "nodes": 1}.get(item, 0) <= rest[item] for item in limits)
    )


def _reach(catalogue: Catalogue, key: str, facts: PodFacts, pool: Pool, rest: _Rest) -> set[str]:
    """Values of the key that a new node of the pool could have and the pod could run with."""
    found: set[str] = set()
    well_known = catalogue.problem.options.well_known
    for wanted in _demands(catalogue, facts):
        if not pool.requirements.suits(wanted, well_known):
            continue
        asked = pool.requirements.add(*wanted)
        names = asked.get(INSTANCE_TYPE)
        # What is left of commons is the same for all of a plan, whatever pods ask about it.
        openings = catalogue.openings.get((pool.name, asked, key))
        if openings is None:
            openings = catalogue.openings[pool.name, asked, key] = list(
                _opened(catalogue, key, pool, asked, rest)
            )
        for kind, values in openings:
            if values <= found or kind.name not in rest.types or not names.has(kind.name):
                continue
            if fits(facts.requests, catalogue.allocatable(kind)):
                found |= values
    return found


def _opened(
    catalogue: Catalogue, key: str, pool: Pool, asked: Requirements, rest: _Rest
) -> Iterator[tuple[InstanceType, frozenset[str]]]:
    """Types with the values of the key that a node of one could have, by what is still to be had."""
    goods, every = catalogue.sold(pool), without_type(asked)
    rows = goods.open(every, catalogue.problem.commons)
    if rest.commons:
        rows = rows[goods.affordable(rest.commons)[rows]]
    for sort in goods.sorts(key, rows):
        if key == HOSTNAME:
            values = frozenset({"a new node"})
        else:
            way = asked.get(key)
            mine = way if sort.mine is None else way.intersection(sort.mine)
            ways = [mine if item is None else mine.intersection(item) for item in sort.theirs]
            values = frozenset().union(*(way.values for way in ways if not way.complement))
        if values:
            yield from ((kind, values) for kind in sort.types)


def _demands(catalogue: Catalogue, facts: PodFacts) -> Iterator[Requirements]:
    """The alternatives of what the pod wants of a node, its volumes included."""
    ways = volume_alternatives(facts.pod, catalogue.problem.volumes) or (Requirements(),)
    for wanted in pod_requirements(facts.pod):
        yield from (wanted.add(*way) for way in ways)
