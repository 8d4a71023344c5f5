"""Limits that several NodePools share, also in money: what they are, and what nodes take of them. Pure.

A shared limit is a quota of the solver's like those of an account (`Problem.commons`): each offering of a
pool that is under it draws on it, one quota for each resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering, by_name
from dovetail.model.resources import Resources
from dovetail.model.selector import Selector

if TYPE_CHECKING:
    from dovetail.model.problem import ExistingNode, Pool

HOURLY_COST = "hourly-cost"  # of limits, the one in dollars per hour; nano-dollars here
NODES = "nodes"
_PREFIX = "the shared limit "

# Quota and resource of each limit that a pool is under.
Drawn = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """What the nodes of some NodePools may have together. `pools` names them, or `selector` chooses them by
    their labels; without either it is all of them.
    """

    name: str
    limits: tuple[tuple[str, int], ...]  # in the units of `Resources`, HOURLY_COST in nano-dollars; sorted
    pools: tuple[str, ...] = ()
    selector: Selector | None = None

    def holds(self, pool: str, carried: Mapping[str, str]) -> bool:
        """True iff a NodePool of that name and these labels is under it."""
        if self.selector is not None:
            return self.selector.matches(carried)
        return not self.pools or pool in self.pools

    def quota(self, resource: str) -> str:
        """Under what name plans know what is left of it; reads as the end of "not enough is left of"."""
        return f"{_PREFIX}{self.name} ({resource})"


def counts_money(quota: str) -> bool:
    """True iff the quota is a shared limit in dollars."""
    return quota.endswith(f"({HOURLY_COST})")


def is_shared(quota: str) -> bool:
    """True iff the quota is a shared limit, none of an account."""
    return quota.startswith(_PREFIX)


def drawn_by(limits: Sequence[SharedLimit], pool: str, carried: Mapping[str, str]) -> Drawn:
    """On which quotas nodes of the pool draw."""
    return tuple(
        (limit.quota(name), name)
        for limit in limits
        if limit.holds(pool, carried)
        for name, _ in limit.limits
    )


def takes(kind: InstanceType, offering: Offering, drawn: Drawn, volumes: int) -> dict[str, int]:
    """By quota what a node of that offering takes: what the cloud asks for it, whatever an overlay says."""
    found = {
        quota: 1
        if name == NODES
        else offering.asked + volumes
        if name == HOURLY_COST
        else kind.capacity.get(name, 0)
        for quota, name in drawn
    }
    return {quota: amount for quota, amount in found.items() if amount > 0}


def drawing(types: tuple[InstanceType, ...], drawn: Drawn, volumes: int) -> tuple[InstanceType, ...]:
    """The types with what their offerings take. The very same ones for the same types: tables are kept by
    them. O(offerings) when they are new.
    """
    if not drawn:
        return types
    key = id(types), drawn, volumes
    known = _KNOWN.pop(key, None)
    if known is None or known[0] is not types:
        known = types, tuple(_drawing(kind, drawn, volumes) for kind in types)
    _KNOWN[key] = known
    if len(_KNOWN) > _MOST:
        del _KNOWN[next(iter(_KNOWN))]
    return known[1]


# As many sets of types as clusters have node classes under different limits, at 1.5 MiB each where a class
# takes all of a region; those of earlier prices are forgotten as new ones come.
_MOST = 16
_KNOWN: dict[tuple[int, Drawn, int], tuple[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = {}


def _drawing(kind: InstanceType, drawn: Drawn, volumes: int) -> InstanceType:
    return replace(
        kind,
        offerings=tuple(
            replace(one, draws=(*one.draws, *takes(kind, one, drawn, volumes).items()))
            for one in kind.offerings
        ),
    )


def given_back(
    commons: Mapping[str, int], pools: Sequence[Pool], away: Sequence[ExistingNode]
) -> dict[str, int]:
    """What is left once these nodes are gone: they count for shared limits no more, as for a pool's own."""
    left, by_name = dict(commons), {pool.name: pool for pool in pools if pool.shared}
    for node in away:
        pool = by_name.get(node.pool)
        for quota, name in pool.shared if pool is not None else ():
            if pool is not None and quota in left:
                left[quota] += _taken(pool, node, quota, name)
    return left


def _taken(pool: Pool, node: ExistingNode, quota: str, name: str) -> int:
    if name == NODES:
        return 1
    if name != HOURLY_COST:
        return node.capacity.get(name, 0)
    wanted = node.labels.get(labels.ZONE), node.labels.get(labels.CAPACITY_TYPE)
    kind = by_name(pool.instance_types).get(node.labels.get(labels.INSTANCE_TYPE, ""))
    offerings = kind.offerings if kind is not None else ()
    found = (one for one in offerings if (one.zone, one.capacity_type) == wanted)
    return next((dict(one.draws).get(quota, 0) for one in found), 0)


def rooms(limits: Sequence[SharedLimit], used: Resources, freed: Resources) -> dict[str, int]:
    """By quota how much more may be bought, where what is `freed` goes for it; `used` holds that as well.

    Above a limit, which a price or the limit itself may have brought about, what comes in place of
    something may be as large as that: a node that drifted is not kept for ever.
    """
    return {
        quota: max(0, most - used.get(quota, 0)) + freed.get(quota, 0)
        for limit in limits
        for name, most in limit.limits
        for quota in (limit.quota(name),)
    }
