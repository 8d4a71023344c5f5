"""Whether a plan has a place for one more of the pods that it leaves over, with all others where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from dovetail.model import labels
from dovetail.model.plan import Cost, Plan, PlannedClaim
from dovetail.testing.exhaustive.answer import Bought, claim_of
from dovetail.testing.exhaustive.market import Block, Market
from dovetail.testing.exhaustive.places import Site
from dovetail.verify import verify

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
