"""A finished choice of nodes, written as a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dovetail.model import labels
from dovetail.model.plan import Cost, Plan, PlannedClaim, Unschedulable
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, add
from dovetail.testing.exhaustive.market import Block, Market, Option
from dovetail.testing.exhaustive.places import asked_of


@dataclass(frozen=True, slots=True)
class Bought:
    """A node to buy and the pods on it."""

    block: Block
    option: Option


def plan_of(market: Market, filled: Sequence[Block], bought: Sequence[Bought]) -> Plan:
    """The plan with these blocks on the existing nodes, in their order, and these new nodes."""
    waiting = [[pod.key for pod in kind.pods] for kind in market.kinds]
    existing = {
        node.name: tuple(sorted(_take(waiting, block)))
        for node, block in zip(market.problem.nodes, filled, strict=True)
        if any(block)
    }
    counts: Counter[str] = Counter()
    claims = []
    for node in bought:
        pool = node.option.site.pool.name
        claims.append(
            claim_of(market, f"{pool}-{counts[pool]}", node, tuple(sorted(_take(waiting, node.block))))
        )
        counts[pool] += 1
    left = sorted(pod for names in waiting for pod in names)
    return Plan(
        claims=tuple(sorted(claims, key=lambda claim: claim.name)),
        existing=dict(sorted(existing.items())),
        unschedulable=tuple(Unschedulable(pod, "left out") for pod in left),
        cost=Cost(sum(claim.price for claim in claims), 0),
    )


def _take(waiting: list[list[str]], block: Block) -> list[str]:
    taken = []
    for names, count in zip(waiting, block, strict=True):
        taken += names[:count]
        del names[:count]
    return taken


def claim_of(market: Market, name: str, node: Bought, pods: tuple[str, ...]) -> PlannedClaim:
    """A claim that comes up as the node bought, with these pods."""
    site, types = node.option.site, node.option.types
    asked = asked_of(site)
    several = len(types) > 1
    if several:
        # Only what a rule between pods looks at needs to be decided.
        decided = [item for item in site.decided if item.key in {*market.keys, labels.CAPACITY_TYPE}]
        asked = site.pool.requirements.add(*decided)
    asked = _naming(asked, types)
    if node.option.relaxed:
        # What the types do not have is not asked for.
        asked = Requirements.of(replace(item, min_values=None) for item in asked)
    stamped = {**site.pool.labels, **{item.key: item.any_value() for item in site.decided}}
    prices = [
        world.offering.price
        for kind in types
        for world in market.catalogue.worlds_of_type(site.pool, asked, stamped, kind)
    ]
    return PlannedClaim(
        name=name,
        pool=site.pool.name,
        pods=pods,
        requirements=asked,
        instance_types=types,
        requests=_total(market.catalogue.facts(pod).requests for pod in pods),
        instance_type=site.kind.name,
        zone=site.offering.zone,
        capacity_type=site.offering.capacity_type,
        price=site.price,
        worst=max(prices) + market.problem.extra(site.pool),
        volumes=site.pool.volumes,
        surcharge=market.problem.options.node_surcharge,
        labels=stamped,
        taints=site.pool.taints,
        min_values_relaxed=node.option.relaxed,
    )


def _naming(asked: Requirements, types: Iterable[str]) -> Requirements:
    return asked.add(Requirement.new(labels.INSTANCE_TYPE, "In", types))


def _total(requests: Iterable[Resources]) -> Resources:
    total: Resources = {}
    for item in requests:
        total = add(total, item)
    return total
