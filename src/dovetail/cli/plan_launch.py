"""What a planned node is likely to cost, and what at worst, of what its launch would hand to the cloud.

A claim lists every type that its pods fit on, hundreds of them; a launch leaves out bare metal, accelerators
and spot that is dearer than on demand, and hands over the 60 cheapest of the rest. On demand the cheapest is
launched; of spot pools a fleet weighs price and depth, and takes a deep one that is not the cheapest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache

from dovetail.base.errors import CloudError
from dovetail.cloud.choice import Choice, Pool, Request, by_price_and_depth, choose
from dovetail.cloud.spot import spot_depth, spot_swing
from dovetail.model.labels import SPOT
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU

# Seeds of the simulated spot market, none that a simulation of seed 0 or above plays.
_MARKETS = range(-20, 0)


def as_launched(problem: Problem, plan: Plan) -> Plan:
    """The plan, with what each claim is likely to cost and what at worst, of what its launch names."""
    launches = _Launches(problem)
    return replace(plan, claims=tuple(map(launches.priced, plan.claims)))


@dataclass
class _Launches:
    """Most claims of a plan ask for the same as others do."""

    problem: Problem
    _known: dict[Hashable, tuple[int, int] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pools = self.problem.pools
        self._kinds = {pool.name: {kind.name: kind for kind in pool.instance_types} for pool in pools}
        self._depth, self._swing = cache(spot_depth), cache(spot_swing)

    def priced(self, claim: PlannedClaim) -> PlannedClaim:
        requests = tuple(sorted(claim.requests.items()))
        key = claim.pool, claim.instance_types, claim.requirements, requests
        if key not in self._known:
            self._known[key] = self._prices(claim)
        found = self._known[key]
        if found is None:
            return replace(claim, likely=claim.price)
        likely, worst = (price + claim.volumes + claim.surcharge for price in found)
        return replace(claim, likely=likely, worst=worst)

    def _prices(self, claim: PlannedClaim) -> tuple[int, int] | None:
        """Likely and at worst, of the offerings alone; None where a launch would find none."""
        kinds = self._kinds[claim.pool]
        try:
            choice = choose(
                [kinds[name] for name in claim.instance_types], Request(claim.requirements, claim.requests)
            )
        except CloudError:
            return None
        # Where spot is sold out, the next launch takes the same types on demand.
        worst = max(offering.price for kind in choice.types for offering in kind.offerings)
        return self._likely(choice), worst

    def _likely(self, choice: Choice) -> int:
        found = choice.candidates()
        if choice.capacity_type != SPOT:
            return min(candidate.offering.price for candidate in found)
        sold = [
            (one.pool, one.offering.price, max(1, one.instance_type.capacity.get(CPU, 0) // 1000))
            for one in found
        ]
        return round(sum(self._paid(seed, sold) for seed in _MARKETS) / len(_MARKETS))

    def _paid(self, seed: int, sold: Iterable[tuple[Pool, int, int]]) -> float:
        """Nano-dollars per hour in one market, of pools with their middle prices and vCPUs."""
        prices = {pool: price * self._swing(seed, pool, 0) for pool, price, _ in sold}
        order = by_price_and_depth({pool: self._depth(seed, pool, vcpus, 0) for pool, _, vcpus in sold})
        return prices[min(prices, key=lambda pool: order(pool, prices[pool]))]
