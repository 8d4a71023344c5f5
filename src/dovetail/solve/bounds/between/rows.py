"""An integer program under construction: pods per kind and site, nodes per site, and what rules add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import highspy
import numpy as np

from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.bounds.between.terrain import Terrain
from dovetail.solve.packing.fractions import shares
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask

_INFINITE = highspy.kHighsInf
# Variable -> factor.
Terms = Mapping[int, float]


class Rows:
    """Variables are numbers: `nodes[site]`, `pods[kind][site]` where the kind may be, then yes or no."""

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self.copies = terrain.copies()
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._price: list[float] = []
        self._rows: list[tuple[Terms, float, float]] = []
        self._single: list[int] = []  # rows about what single nodes hold that can be bought
        self._present: dict[tuple[int, str, str], int] = {}
        sites = range(len(terrain.price))
        # No more nodes than pods: a program whose variables have few values is solved much sooner.
        most = np.minimum(terrain.most, terrain.demand.sum())
        self.nodes = [
            self._add(0 if site < terrain.bought else 1, float(most[site]), terrain.price[site])
            for site in sites
        ]
        self.pods: list[dict[int, int]] = [
            {site: self._add(0, float(most), 0) for site, most in enumerate(row) if most}
            for row in np.where(self.copies > 0, terrain.demand[:, None], 0).tolist()
        ]
        for kind, row in enumerate(self.pods):
            for site in row:
                if terrain.most[site] == 1:
                    self._upper[row[site]] = float(self.copies[kind, site])

    @property
    def size(self) -> int:
        """Factors that are not zero."""
        return sum(len(terms) for terms, _, _ in self._rows)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self._rows)

    @property
    def variables(self) -> int:
        """How many there are."""
        return len(self._price)

    def cost(self, values: Floats) -> float:
        """What an answer costs, in dollars per hour."""
        return float(np.dot(self._price, values)) / NANO_DOLLARS

    def open(self) -> Mask:
        """(S, K): where pods of a kind may be."""
        result = np.zeros(self.copies.shape, dtype=np.bool_)
        for kind, row in enumerate(self.pods):
            for site, variable in row.items():
                result[kind, site] = self._upper[variable] > 0
        return result

    def owners(self) -> Amounts:
        """Of each variable its site, and its kind, S for the nodes themselves; -1 for yes or no, (V, 2)."""
        result = np.full((len(self._price), 2), -1, dtype=np.int64)
        for site, node in enumerate(self.nodes):
            result[node] = site, len(self.pods)
        for kind, row in enumerate(self.pods):
            for site, variable in row.items():
                result[variable] = site, kind
        return result

    def factors(self) -> tuple[Amounts, Amounts, Floats]:
        """(row, variable, factor) of the rows that last where whole loads are chosen from."""
        listed = [
            (number, variable, factor)
            for number in self.lasting().tolist()
            for variable, factor in self._rows[number][0].items()
        ]
        row, variable, factor = zip(*listed, strict=True) if listed else ((), (), ())
        return np.array(row, np.int64), np.array(variable, np.int64), np.array(factor, np.float64)

    def lasting(self) -> Amounts:
        """The numbers of the rows that are not about what single nodes hold that can be bought."""
        return np.setdiff1d(np.arange(len(self._rows)), self._single)

    def flag(self) -> int:
        """A new yes or no."""
        return self._add(0, 1, 0)

    def at_most(self, terms: Terms, limit: float) -> None:
        """The terms add up to no more than that."""
        self._rows.append((terms, -_INFINITE, limit))

    def exactly(self, terms: Terms, value: float) -> None:
        """The terms add up to that."""
        self._rows.append((terms, value, value))

    def close(self, kind: int, sites: Iterable[int]) -> None:
        """None of the kind there."""
        for site in sites:
            variable = self.pods[kind].get(site)
            if variable is not None:
                self._upper[variable] = 0

    def count(self, kinds: Iterable[int], sites: Iterable[int], factor: float = 1.0) -> dict[int, float]:
        """Pods of these kinds on these sites."""
        some = list(sites)
        return {self.pods[kind][site]: factor for kind in kinds for site in some if site in self.pods[kind]}

    def present(self, kind: int, key: str, domain: str) -> int:
        """Yes iff, or at least if, there are pods of the kind in the domain."""
        known = self._present.get((kind, key, domain))
        if known is None:
            known = self._present[kind, key, domain] = self.flag()
            there = self.count((kind,), self.terrain.at(key)[domain])
            most = sum(self._upper[variable] for variable in there)
            self.at_most({**there, known: -min(most, float(self.terrain.demand[kind]))}, 0)
        return known

    def basic(self) -> None:
        """All pods have a place; what is on the nodes of a site has room there."""
        terrain = self.terrain
        for kind, row in enumerate(self.pods):
            self.exactly(dict.fromkeys(row.values(), 1.0), float(terrain.demand[kind]))
        scale = np.maximum(terrain.vectors.max(axis=0, initial=1), 1).astype(np.float64)
        needs, room = terrain.vectors / scale, terrain.room / scale
        for site, node in enumerate(self.nodes):
            there = [(kind, row[site]) for kind, row in enumerate(self.pods) if site in row]
            if not there:
                continue
            before = len(self._rows)
            for resource in range(needs.shape[1]):
                used = {pods: needs[kind, resource] for kind, pods in there if needs[kind, resource] > 0}
                if used:
                    self.at_most({**used, node: -room[site, resource]}, 0)
            if site < terrain.bought:
                self._bought(site, there)
                self._single += range(before, len(self._rows))
        for site in np.flatnonzero(terrain.before >= 0).tolist():
            most = min(int(terrain.most[site]), int(terrain.demand.sum()))
            self.at_most({self.nodes[site]: 1.0, self.nodes[int(terrain.before[site])]: -float(most)}, 0)

    def _bought(self, site: int, there: list[tuple[int, int]]) -> None:
        """A node holds whole pods, and one at least of those that it may be bought for."""
        terrain, node = self.terrain, self.nodes[site]
        for factors in shares(terrain.vectors[[kind for kind, _ in there]], terrain.room[site]).tolist():
            terms = {pods: share for (_, pods), share in zip(there, factors, strict=True) if share > 0}
            self.at_most({**terms, node: -1.0}, 0)
        if not all(terrain.own[kind, site] for kind, _ in there):
            self.at_most({node: 1.0, **{pods: -1.0 for kind, pods in there if terrain.own[kind, site]}}, 0)
        for one, pods in there:
            for other, theirs in there:
                if one < other and terrain.conflict[one, other]:
                    mine, others = 1 / self.copies[one, site], 1 / self.copies[other, site]
                    self.at_most({pods: mine, theirs: others, node: -1.0}, 0)

    def model(self) -> highspy.HighsLp:
        """The program, in dollars."""
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._price), len(self._rows)
        model.col_cost_ = np.array(self._price) / NANO_DOLLARS
        model.col_lower_ = np.array(self._lower)
        model.col_upper_ = np.array(self._upper)
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(self._price)
        model.row_lower_ = np.array([low for _, low, _ in self._rows])
        model.row_upper_ = np.array([high for _, _, high in self._rows])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        ends = np.cumsum([0, *(len(terms) for terms, _, _ in self._rows)])
        model.a_matrix_.start_ = ends.astype(np.int32)
        model.a_matrix_.index_ = np.array(
            [item for terms, _, _ in self._rows for item in terms], dtype=np.int32
        )
        model.a_matrix_.value_ = np.array(
            [value for terms, _, _ in self._rows for value in terms.values()], dtype=np.float64
        )
        return model

    def _add(self, lower: float, upper: float, price: float) -> int:
        self._lower.append(lower)
        self._upper.append(upper)
        self._price.append(price)
        return len(self._price) - 1
