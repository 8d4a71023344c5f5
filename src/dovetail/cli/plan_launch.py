"""What a planned node is likely to cost, and what at worst, of what its launch would hand to the cloud.

A claim lists every type that its pods fit on, hundreds of them; a launch leaves out bare metal, accelerators
and spot that is dearer than on demand, and hands over the 60 cheapest of the rest; of spot what is near the
cheapest, and the others where that refuses. On demand the cheapest is launched; of spot pools a fleet weighs
price and depth, and takes a deep one that is not the cheapest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dovetail.base.errors import CloudError
from dovetail.cloud.choice import Offered, Pool, Request, SpotRange, narrowed, offered
from dovetail.cloud.spot_market import spot_markets
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import CPU, Resources

_PAIRS = 10  # of simulated spot markets, of which the mean is likely


def as_launched(problem: Problem, plan: Plan, spot: SpotRange | None) -> Plan:
    """The plan, with what each claim is likely to cost and what at worst, of what its launch names.

    `spot` says which spot it names at first, None for all.
    """
    launches = _Launches(problem, spot)
    return replace(plan, claims=tuple(map(launches.priced, plan.claims)))


class _Rooms:
    """What the types of a pool have for pods, in columns."""

    def __init__(self, kinds: tuple[InstanceType, ...]) -> None:
        self.by_name = {kind.name: kind for kind in kinds}
        self.position = {kind.name: index for index, kind in enumerate(kinds)}
        self._rooms = [kind.allocatable() for kind in kinds]
        self._columns: dict[str, npt.NDArray[np.int64]] = {}

    def holding(self, rows: npt.NDArray[np.int64], requests: Resources) -> npt.NDArray[np.bool_]:
        """Which of the types at these positions hold so much."""
        holds = np.ones(len(rows), dtype=np.bool_)
        for name, amount in requests.items():
            if amount > 0:
                holds &= self._column(name)[rows] >= amount
        return holds

    def _column(self, name: str) -> npt.NDArray[np.int64]:
        if name not in self._columns:
            self._columns[name] = np.array([room.get(name, 0) for room in self._rooms], dtype=np.int64)
        return self._columns[name]


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is offered of the types that a claim lists, and their positions in the pool."""

    types: list[Offered]
    rows: npt.NDArray[np.int64]


@dataclass
class _Launches:
    """Most claims of a plan ask for the same as others do; what differs most is what their pods ask for."""

    problem: Problem
    spot: SpotRange | None
    _asked: dict[Hashable, tuple[int, int] | None] = field(default_factory=dict)
    _known: dict[Hashable, tuple[int, int] | None] = field(default_factory=dict)
    # By pool and what is asked of anything but the type: what is offered of each type that was asked for.
    _offered: dict[Hashable, dict[str, Offered | None]] = field(default_factory=dict)
    _listed: dict[Hashable, _Listed] = field(default_factory=dict)
    # Spot pools by number, which is their row of `_drawn`: in each of the markets a price, as a share of its
    # middle, and a depth.
    _markets: dict[Pool, int] = field(default_factory=dict)
    _drawn: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2 * _PAIRS, 2)))

    def __post_init__(self) -> None:
        self._rooms = {pool.name: _Rooms(pool.instance_types) for pool in self.problem.pools}

    def priced(self, claim: PlannedClaim) -> PlannedClaim:
        asked = claim.pool, claim.instance_types, claim.requirements, frozenset(claim.requests.items())
        if asked not in self._asked:
            self._asked[asked] = self._of_offerings(claim)
        found = self._asked[asked]
        if found is None:
            return replace(claim, likely=claim.price)
        likely, worst = (price + claim.volumes + claim.surcharge for price in found)
        return replace(claim, likely=likely, worst=worst)

    def _of_offerings(self, claim: PlannedClaim) -> tuple[int, int] | None:
        """Likely and at worst, of the offerings alone; None where a launch would find none."""
        key = claim.pool, claim.instance_types, claim.requirements
        if key not in self._listed:
            self._listed[key] = self._of(claim)
        listed = self._listed[key]
        holds = self._rooms[claim.pool].holding(listed.rows, claim.requests)
        held = key, holds.tobytes()  # most claims fit on every type that they list
        if held not in self._known:
            types = [item for item, fits in zip(listed.types, holds.tolist(), strict=True) if fits]
            self._known[held] = self._prices(types, claim)
        return self._known[held]

    def _of(self, claim: PlannedClaim) -> _Listed:
        asked = Requirements.of(item for item in claim.requirements if item.key != labels.INSTANCE_TYPE)
        key, rooms = (claim.pool, asked), self._rooms[claim.pool]
        have = self._offered.setdefault(key, {})
        new = [name for name in claim.instance_types if name not in have]
        have |= dict.fromkeys(new)
        have |= {item.kind.name: item for item in offered((rooms.by_name[name] for name in new), asked)}
        types = [item for name in claim.instance_types if (item := have[name]) is not None]
        return _Listed(types, np.array([rooms.position[item.kind.name] for item in types], dtype=np.int64))

    def _prices(self, types: list[Offered], claim: PlannedClaim) -> tuple[int, int] | None:
        try:
            request = Request(claim.requirements, claim.requests)
            named = narrowed(types, request, self.spot)
            every = narrowed(types, request, None) if named.shortened else named
        except CloudError:
            return None
        # What is near may be sold out, and all of spot: the next launch takes the same types on demand.
        worst = max(offering.price for item in every.types for offering in item.offerings)
        return self._likely(named.types, named.capacity_type), worst

    def _likely(self, named: list[Offered], capacity_type: str) -> int:
        found = [
            (item.kind, offering)
            for item in named
            for offering in item.offerings
            if offering.capacity_type == capacity_type
        ]
        prices = np.array([offering.price for _, offering in found], dtype=np.float64)
        if capacity_type != labels.SPOT:
            return int(prices.min())
        rows = self._rows(found)
        swings, depths = self._drawn[rows].transpose(2, 1, 0)
        # As `choice.by_price_and_depth` has it: the cheapest of those half as deep as the deepest.
        deep = 2 * depths >= depths.max(axis=1, keepdims=True)
        paid = np.where(deep, prices * swings, np.inf).min(axis=1)
        return round(float(paid.mean()))

    def _rows(self, found: Sequence[tuple[InstanceType, Offering]]) -> list[int]:
        """Of the spot pools of these offerings, whose markets are drawn where they are new."""
        pools: list[Pool] = [(labels.SPOT, kind.name, offering.zone) for kind, offering in found]
        kinds = (kind for kind, _ in found)
        new = {pool: kind for pool, kind in zip(pools, kinds, strict=True) if pool not in self._markets}
        if new:
            vcpus = {pool: max(1, kind.capacity.get(CPU, 0) // 1000) for pool, kind in new.items()}
            self._drawn = np.concatenate((self._drawn, spot_markets(vcpus, _PAIRS)))
            self._markets |= {pool: len(self._markets) + index for index, pool in enumerate(new)}
        return [self._markets[pool] for pool in pools]
