"""The same program over whole nodes: every set of pods that one node can hold is a variable of its own.

Where there are few such sets, it proves much more: no fraction of a node can be bought, and what a pod must
have beside it on its node is decided load by load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.bounds.between.terrain import ENDLESS, Terrain
from dovetail.solve.demand.topology import AFFINITY
from dovetail.solve.highs import quiet_solver
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.world import World
from dovetail.solve.work import Work

_ROUNDS = 40  # of linear programs
_AT_ONCE = 400  # loads that one round adds
_PAYS = 1e-9  # dollars per hour that a load must save to be added
_ROOMY = 1e-6  # share of the price, for the tolerances of linear programs
_MODEL, _ITERATION = 10, 10  # units of work per row of a linear program, and per iteration
_CELLS = 50  # loads times sites that are looked at per unit of work


@dataclass(frozen=True, slots=True)
class Loads:
    """N loads of a node that is bought."""

    site: Amounts  # (N,) the cheapest of those that no rule tells apart
    counts: Amounts  # (N, S)

    def some(self, kept: Mask) -> Loads:
        """Those where `kept` (N,) is True."""
        return Loads(self.site[kept], self.counts[kept])

    def __len__(self) -> int:
        return len(self.site)


class Enumeration:
    """Finds all loads that a plan for less than `price` could use; None where there are too many.

    It looks at so many at most, those that no node holds left out.
    """

    def __init__(self, rows: Rows, price: int, work: Work, most: int) -> None:
        self._rows = rows
        self._terrain = rows.terrain
        self._open = rows.open()
        self._price = price
        self._work = work
        self._left = most

    def run(self) -> Loads | None:
        """All loads, site by site of those that rules tell apart."""
        parts = []
        for sites in _alike(self._terrain):
            found = self._of(np.array(sorted(sites, key=lambda site: self._terrain.price[site])))
            if found is None:
                return None
            parts.append(found)
        width = len(self._terrain.kinds)
        return Loads(
            np.concatenate([np.zeros(0, dtype=np.int64), *(part.site for part in parts)]),
            np.concatenate([np.zeros((0, width), dtype=np.int64), *(part.counts for part in parts)]),
        )

    def _of(self, sites: Amounts) -> Loads | None:
        terrain = self._terrain
        counts = np.zeros((1, len(terrain.kinds)), dtype=np.int64)
        fits = (terrain.price[sites] < self._price)[None, :]
        if not fits.any():
            return Loads(np.zeros(0, dtype=np.int64), counts[:0])
        for kind in range(len(terrain.kinds)):
            grown = self._grown(kind, sites, counts, fits)
            if grown is None:
                return None
            counts, fits = grown
        fits &= (counts > 0).astype(np.int64) @ terrain.own[:, sites] > 0
        kept = fits.any(axis=1)
        return Loads(sites[fits[kept].argmax(axis=1)], counts[kept])

    def _grown(self, kind: int, sites: Amounts, counts: Amounts, fits: Mask) -> tuple[Amounts, Mask] | None:
        """The loads with any number of one more kind added, and the sites that hold each."""
        terrain = self._terrain
        parts, need = [(counts, fits)], terrain.vectors[kind]
        asked = np.flatnonzero(need)
        apart = np.flatnonzero(terrain.conflict[kind])
        for _ in range(int(terrain.demand[kind])):
            kept = (counts[:, apart] == 0).all(axis=1)
            counts, fits = counts[kept].copy(), fits[kept] & self._open[kind, sites]
            counts[:, kind] += 1
            used = counts @ terrain.vectors[:, asked]
            for position, resource in enumerate(asked.tolist()):
                fits &= used[:, position, None] <= terrain.room[sites, resource]
            kept = fits.any(axis=1)
            counts, fits = counts[kept], fits[kept]
            if not len(counts):
                break
            parts.append((counts, fits))
            self._left -= len(counts)
            self._work.spend(fits.size // _CELLS)
            if self._left < 0 or not self._work.left:
                return None
        return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])


class Program:
    """The program over loads, of the rows of one over pods and nodes per site."""

    def __init__(self, world: World, rows: Rows, loads: Loads) -> None:
        self._rows = rows
        self._whole = rows.model()
        starts = _starts(world, rows.terrain, loads)
        self._starts = starts.needed[:, starts.fine]
        self.loads = loads.some(starts.fine)
        self._owners = rows.owners()
        gone = (self._owners[:, 0] >= 0) & (self._owners[:, 0] < rows.terrain.bought)
        self._kept = np.flatnonzero(~gone)  # of the variables, those that remain
        self._factors = rows.factors()
        self.price: Floats = rows.terrain.price[self.loads.site] / NANO_DOLLARS

    def useful(self, most: float, work: Work) -> tuple[float, Mask]:
        """What fractions of loads cost at least, and the loads (N,) that a plan for less than `most` can use.

        In dollars per hour. The bound is 0 where the work does not suffice.
        """
        extra = np.zeros(len(self._starts))
        found = self._linear(self._plain(), work)
        chosen = np.zeros(len(self.loads), dtype=np.bool_)
        value = self._reduced(np.concatenate([found.duals, extra])) if found else self.price
        for _ in range(_ROUNDS):
            rest = np.flatnonzero(~chosen & (value < -_PAYS if chosen.any() and found else True))
            if not len(rest):
                break
            chosen[rest[np.argsort(value[rest], kind="stable")[:_AT_ONCE]]] = True
            if not work.left:
                return 0.0, np.ones_like(chosen)
            found = self._linear(self.model(chosen), work)
            value = self._reduced(found.duals) if found else value
        else:
            return 0.0, np.ones_like(chosen)
        if not found:
            return float("inf"), ~chosen
        return found.least, value <= (most - found.least) + most * _ROOMY

    def model(self, chosen: Mask) -> highspy.HighsLp:
        """The program with some of the loads (N,), in dollars: the variables that remain, then loads."""
        whole, some = self._whole, np.flatnonzero(chosen)
        row, column, value = self._entries(some)
        order = np.lexsort((column, row))
        many, extra = len(some), len(self._starts)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._kept) + many, whole.num_row_ + extra
        model.col_cost_ = np.concatenate([np.array(whole.col_cost_)[self._kept], self.price[some]])
        terrain = self._rows.terrain
        most = np.minimum(terrain.most[self.loads.site[some]], terrain.demand.sum())
        model.col_lower_ = np.concatenate([np.array(whole.col_lower_)[self._kept], np.zeros(many)])
        model.col_upper_ = np.concatenate([np.array(whole.col_upper_)[self._kept], most])
        model.integrality_ = [highspy.HighsVarType.kInteger] * model.num_col_
        model.row_lower_ = np.concatenate([whole.row_lower_, np.full(extra, -highspy.kHighsInf)])
        model.row_upper_ = np.concatenate([whole.row_upper_, np.ones(extra)])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(row[order], np.arange(model.num_row_ + 1)).astype(np.int32)
        model.a_matrix_.index_ = column[order].astype(np.int32)
        model.a_matrix_.value_ = value[order]
        return model

    def nodes(self, chosen: Mask, answer: Floats) -> Iterator[tuple[int, list[int]]]:
        """The nodes that an answer buys: the site, and the pods of each kind."""
        numbers = np.rint(answer[len(self._kept) :]).astype(np.int64)
        for load, number in zip(np.flatnonzero(chosen).tolist(), numbers.tolist(), strict=True):
            for _ in range(number):
                yield int(self.loads.site[load]), self.loads.counts[load].tolist()

    def values(self, chosen: Mask, answer: Floats) -> Floats:
        """What an answer means for pods and nodes per site."""
        rows, result = self._rows, np.zeros(self._rows.variables)
        result[self._kept] = answer[: len(self._kept)]
        for site, counts in self.nodes(chosen, answer):
            result[rows.nodes[site]] += 1
            for kind in np.flatnonzero(counts).tolist():
                result[rows.pods[kind][site]] += counts[kind]
        return result

    def _plain(self) -> highspy.HighsLp:
        """The program without loads."""
        model = self._rows.model()
        model.integrality_ = []
        return model

    def _linear(self, model: highspy.HighsLp, work: Work) -> _Linear | None:
        """The optimum in fractions; None if there is no solution."""
        model.integrality_ = []
        solver = quiet_solver(solver="simplex")
        solver.passModel(model)
        solver.run()
        info = solver.getInfo()
        work.spend(_MODEL * model.num_row_ + _ITERATION * max(0, info.simplex_iteration_count))
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return _Linear(float(info.objective_function_value), np.array(solver.getSolution().row_dual))

    def _reduced(self, duals: Floats) -> Floats:
        """The price of each load less what it is worth to the rows, (N,)."""
        rows, terrain = self._rows, self._rows.terrain
        row, variable, factor = self._factors
        worth = np.bincount(variable, duals[row] * factor, minlength=rows.variables)
        table = np.zeros((len(terrain.price), len(terrain.kinds) + 1))
        owned = self._owners[:, 0] >= 0
        table[tuple(self._owners[owned].T)] = worth[owned]
        counts, site = self.loads.counts, self.loads.site
        result: Floats = self.price - (table[site, :-1] * counts).sum(axis=1) - table[site, -1]
        return result - duals[rows.rows :] @ self._starts

    def _entries(self, some: Amounts) -> tuple[Amounts, Amounts, Floats]:
        """(row, column, factor) of all that are not zero."""
        rows, terrain = self._rows, self._rows.terrain
        place = np.full(rows.variables, -1, dtype=np.int64)
        place[self._kept] = np.arange(len(self._kept))
        row, variable, value = self._factors
        stays = place[variable] >= 0
        parts = [(row[stays], place[variable[stays]], value[stays])]
        row, variable, value = row[~stays], variable[~stays], value[~stays]
        site_of, kind_of = self._owners[variable].T
        sites = self.loads.site[some]
        whole = np.concatenate([self.loads.counts[some], np.ones((len(some), 1), dtype=np.int64)], axis=1)
        for site in np.unique(sites).tolist():
            mine, here = np.flatnonzero(site_of == site), np.flatnonzero(sites == site)
            listed, where = np.unique(row[mine], return_inverse=True)
            table = np.zeros((len(listed), len(terrain.kinds) + 1))
            np.add.at(table, (where, kind_of[mine]), value[mine])
            product = table @ whole[here].T
            at, load = np.nonzero(product)
            parts.append((listed[at], len(self._kept) + here[load], product[at, load]))
        start, load = np.nonzero(self._starts[:, some])
        parts.append((rows.rows + start, len(self._kept) + load, np.ones(len(start))))
        one, two, three = zip(*parts, strict=True)
        return np.concatenate(one), np.concatenate(two), np.concatenate(three)


@dataclass(frozen=True, slots=True)
class _Linear:
    least: float  # dollars per hour
    duals: Floats  # per row


@dataclass(frozen=True, slots=True)
class _Starts:
    """Loads with a pod that wants others beside it: (N,) possible at all, (G, N) only as the first ones."""

    fine: Mask
    needed: Mask


def _starts(world: World, terrain: Terrain, loads: Loads) -> _Starts:
    fine = np.ones(len(loads), dtype=np.bool_)
    needed: list[Mask] = []
    for index in sorted({index for kind in terrain.kinds for index in kind.owned}):
        group = world.topology.groups[index]
        if group.id.kind != AFFINITY or group.id.key != HOSTNAME:
            continue
        owners = [number for number, kind in enumerate(terrain.kinds) if index in kind.owned]
        matched = [number for number, kind in enumerate(terrain.kinds) if index in kind.matching]
        others = [number for number in matched if number not in owners]
        bootstrap = not any(world.before[index][0].values())
        first = np.zeros(len(loads), dtype=np.bool_)
        for number in owners:
            own = number in matched
            mates = loads.counts[:, others if own else matched].any(axis=1)
            lonely = (loads.counts[:, number] > 0) & ~mates
            if own and bootstrap:
                first |= lonely
            else:
                fine &= ~lonely
        if first.any():
            needed.append(first)
    return _Starts(fine, np.array(needed, dtype=np.bool_).reshape(len(needed), len(loads)))


def _alike(terrain: Terrain) -> Sequence[Sequence[int]]:
    """Sites where nodes can be bought, those together that no rule between pods tells apart."""
    found: dict[tuple[object, ...], list[int]] = {}
    values: Mapping[str, tuple[str, ...]] = terrain.domains
    for site in range(terrain.bought):
        key = (
            *(values[name][site] for name in sorted(values)),
            *(table[site] for c in terrain.counting.values() for table in (c.surely, c.never, c.foreign)),
            bool(terrain.unlimited[site]),
            -1 if terrain.most[site] >= ENDLESS else site,
        )
        found.setdefault(key, []).append(site)
    return list(found.values())
