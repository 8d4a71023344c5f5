"""What a planned node is likely to cost, and what at worst, of what its launch would hand to the cloud.

A claim lists every type that its pods fit on, hundreds of them; a launch leaves out bare metal, accelerators
and spot that is dearer than on demand, and hands over the 60 cheapest of the rest. On demand the cheapest is
launched; of spot pools a fleet weighs price and depth, and takes a deep one that is not the cheapest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dovetail.base.errors import CloudError
from dovetail.cloud.choice import Choice, Pool, Request, chosen, offered
from dovetail.cloud.spot_market import spot_markets
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import CPU, Resources, fits

_MARKETS = 20  # simulated spot markets, of which the mean is likely


def as_launched(problem: Problem, plan: Plan) -> Plan:
    """The plan, with what each claim is likely to cost and what at worst, of what its launch names."""
    launches = _Launches(problem)
    return replace(plan, claims=tuple(map(launches.priced, plan.claims)))


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is offered of the types that a claim lists, and the least that one of them has for pods."""

    kinds: tuple[InstanceType, ...]
    least: Resources


@dataclass
class _Launches:
    """Most claims of a plan ask for the same as others do; what differs most is what their pods ask for."""

    problem: Problem
    _known: dict[Hashable, tuple[int, int] | None] = field(default_factory=dict)
    # By pool and what is asked of anything but the type: what is offered of each type.
    _offered: dict[Hashable, Mapping[str, InstanceType]] = field(default_factory=dict)
    _listed: dict[Hashable, _Listed] = field(default_factory=dict)
    _room: dict[str, Resources] = field(default_factory=dict)  # by type
    # Of a spot pool in each of the markets: price as a share of its middle, and depth.
    _markets: dict[Pool, tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kinds = {pool.name: pool.instance_types for pool in self.problem.pools}

    def priced(self, claim: PlannedClaim) -> PlannedClaim:
        key = claim.pool, claim.instance_types, claim.requirements
        if key not in self._listed:
            self._listed[key] = self._of(claim)
        kinds = self._listed[key].kinds
        small: Hashable = ()  # most claims fit on every type that they list
        if not fits(claim.requests, self._listed[key].least):
            kinds = tuple(kind for kind in kinds if fits(claim.requests, self._room[kind.name]))
            small = tuple(kind.name for kind in kinds)
        if (key, small) not in self._known:
            self._known[key, small] = self._prices(kinds, claim)
        found = self._known[key, small]
        if found is None:
            return replace(claim, likely=claim.price)
        likely, worst = (price + claim.volumes + claim.surcharge for price in found)
        return replace(claim, likely=likely, worst=worst)

    def _of(self, claim: PlannedClaim) -> _Listed:
        asked = Requirements.of(item for item in claim.requirements if item.key != labels.INSTANCE_TYPE)
        key = claim.pool, asked
        if key not in self._offered:
            self._offered[key] = {kind.name: kind for kind in offered(self._kinds[claim.pool], asked)}
        have = self._offered[key]
        kinds = tuple(have[name] for name in claim.instance_types if name in have)
        for kind in kinds:
            if kind.name not in self._room:
                self._room[kind.name] = kind.allocatable()
        rooms = [self._room[kind.name] for kind in kinds]
        least = {name: min(room.get(name, 0) for room in rooms) for name in claim.requests} if rooms else {}
        return _Listed(kinds, least)

    def _prices(self, kinds: Sequence[InstanceType], claim: PlannedClaim) -> tuple[int, int] | None:
        """Likely and at worst, of the offerings alone; None where a launch would find none."""
        try:
            choice = chosen(list(kinds), Request(claim.requirements, claim.requests))
        except CloudError:
            return None
        # Where spot is sold out, the next launch takes the same types on demand.
        worst = max(offering.price for kind in choice.types for offering in kind.offerings)
        return self._likely(choice), worst

    def _likely(self, choice: Choice) -> int:
        found = choice.candidates()
        prices = np.array([one.offering.price for one in found], dtype=np.float64)
        if choice.capacity_type != labels.SPOT:
            return int(prices.min())
        markets = [self._market(one.pool, one.instance_type) for one in found]
        swings, depths = (np.stack(part, axis=1) for part in zip(*markets, strict=True))
        # As `choice.by_price_and_depth` has it: the cheapest of those half as deep as the deepest.
        deep = 2 * depths >= depths.max(axis=1, keepdims=True)
        paid = np.where(deep, prices * swings, np.inf).min(axis=1)
        return round(float(paid.mean()))

    def _market(
        self, pool: Pool, kind: InstanceType
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        if pool not in self._markets:
            vcpus = max(1, kind.capacity.get(CPU, 0) // 1000)
            swings, depths = zip(*spot_markets(pool, vcpus, _MARKETS), strict=True)
            self._markets[pool] = np.array(swings), np.array(depths, dtype=np.int64)
        return self._markets[pool]
