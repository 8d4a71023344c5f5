"""A finished choice of nodes, written as a plan; and whether a plan has a place for one more pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dovetail.model import labels
from dovetail.model.plan import Cost, Plan, PlannedClaim, Unschedulable
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, add
from dovetail.testing.exhaustive.market import Block, Market, Option
from dovetail.testing.exhaustive.places import Site, asked_of
from dovetail.verify import verify


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


_NO_FAULT = frozenset({"left over", "weight"})  # others may still be left over


def with_one_more(market: Market, plan: Plan) -> Plan | None:
    """The plan with one pod more on a node that exists, on a bought one, or on one of its own; None if none.

    A bought node may become a larger one of its pool, in a domain where it could have come up anyway.
    """
    tried: set[int] = set()
    for item in plan.unschedulable:
        kind = _kind(market, item.pod)
        if kind in tried:
            continue
        tried.add(kind)
        for some in _with(market, plan, item.pod):
            if all(fault.rule in _NO_FAULT for fault in verify(market.problem, some)):
                return some
    return None


def _with(market: Market, plan: Plan, pod: str) -> Iterator[Plan]:
    left = tuple(item for item in plan.unschedulable if item.pod != pod)
    for node in market.problem.nodes:
        existing = {**plan.existing, node.name: (*plan.existing.get(node.name, ()), pod)}
        yield replace(plan, existing=existing, unschedulable=left)
    claims = [*plan.claims]
    for number, claim in enumerate(plan.claims):
        values = _values(market, claim)
        for option in market.options(_block(market, (*claim.pods, pod))):
            if option.site.pool.name == claim.pool and _agrees(option.site, values):
                pods = tuple(sorted((*claim.pods, pod)))
                made = claim_of(market, claim.name, Bought((), option), pods)
                yield _replaced(plan, [*claims[:number], made, *claims[number + 1 :]], left)
    for option in market.options(_block(market, (pod,))):
        made = claim_of(market, "one-more", Bought((), option), (pod,))
        yield _replaced(plan, [*claims, made], left)


def _replaced(plan: Plan, claims: list[PlannedClaim], left: tuple[object, ...]) -> Plan:
    unschedulable = tuple(item for item in plan.unschedulable if item in left)
    cost = Cost(sum(claim.price for claim in claims), 0)
    return replace(plan, claims=tuple(claims), unschedulable=unschedulable, cost=cost)


def _kind(market: Market, pod: str) -> int:
    return next(
        index for index, kind in enumerate(market.kinds) if any(each.key == pod for each in kind.pods)
    )


def _block(market: Market, pods: tuple[str, ...]) -> Block:
    counts = Counter(_kind(market, pod) for pod in pods)
    return tuple(counts[index] for index in range(len(market.kinds)))


def _values(market: Market, claim: PlannedClaim) -> dict[str, set[str | None]]:
    """What the node's label may be, per label that a rule looks at; None where it may lack it."""
    found: dict[str, set[str | None]] = {}
    for world in market.catalogue.worlds(claim):
        for key in (*market.keys, labels.ZONE):
            found.setdefault(key, set()).update(world.possible.get(key) or (None,))
    return found


def _agrees(site: Site, values: dict[str, set[str | None]]) -> bool:
    return all(site.labels.get(key) in allowed for key, allowed in values.items())
