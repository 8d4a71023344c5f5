"""The same program over whole nodes: every set of pods that one node can hold is a variable of its own.

Where loads are few, or only those count that pay, it proves much more: no fraction of a node can be bought,
and what a pod must have beside it on its node is decided load by load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.bounds.between.loads import Loads, joined
from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.bounds.between.terrain import Terrain
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


@dataclass(frozen=True, slots=True)
class Linear:
    """An optimum in fractions of loads."""

    least: float  # dollars per hour
    duals: Floats  # per row


class Master:
    """The program over loads, of the rows of one over pods and nodes per site."""

    def __init__(self, world: World, rows: Rows, loads: Loads) -> None:
        self._world, self._rows = world, rows
        self._whole = rows.model()
        self._owners = rows.owners()
        gone = (self._owners[:, 0] >= 0) & (self._owners[:, 0] < rows.terrain.bought)
        self._kept = np.flatnonzero(~gone)  # of the variables, those that remain
        self._lasting = rows.lasting()
        self._factors = rows.factors()
        self._take(loads)

    def add(self, loads: Loads) -> None:
        """More of them."""
        self._take(joined((self.loads, loads), len(self._rows.pods)))

    @property
    def every(self) -> Mask:
        """All loads, (N,)."""
        return np.ones(len(self.loads), dtype=np.bool_)

    def _take(self, loads: Loads) -> None:
        starts = _starts(self._world, self._rows.terrain, loads)
        self._starts = starts.needed[:, starts.fine]
        self.loads = loads.some(starts.fine)
        self.price: Floats = self._rows.terrain.price[self.loads.site] / NANO_DOLLARS

    def useful(self, most: float, work: Work) -> tuple[float, Floats, Mask]:
        """What fractions of loads cost at least, the reduced price of each load (N,), and whether a plan for
        less than `most` can use it.

        In dollars per hour. The bound is 0 where the work does not suffice.
        """
        found = self.plain(work)
        chosen = np.zeros(len(self.loads), dtype=np.bool_)
        value = self.reduced(found) if found else self.price
        for _ in range(_ROUNDS):
            rest = np.flatnonzero(~chosen & (value < -_PAYS if chosen.any() and found else True))
            if not len(rest):
                break
            chosen[rest[np.argsort(value[rest], kind="stable")[:_AT_ONCE]]] = True
            if not work.left:
                return 0.0, value, np.ones_like(chosen)
            found = self.linear(chosen, work)
            value = self.reduced(found) if found else value
        else:
            return 0.0, value, np.ones_like(chosen)
        if not found:
            return float("inf"), value, ~chosen
        return found.least, value, value <= (most - found.least) + most * _ROOMY

    def model(self, chosen: Mask) -> highspy.HighsLp:
        """The program with some of the loads (N,), in dollars: the variables that remain, then loads."""
        whole, some = self._whole, np.flatnonzero(chosen)
        row, column, value = self._entries(some)
        lasting, extra = self._lasting, len(self._starts)
        # Nobody asks for rows about single nodes: without them, a program is solved much sooner.
        row = np.searchsorted(np.append(lasting, self._rows.rows + np.arange(extra)), row)
        order = np.lexsort((column, row))
        many = len(some)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._kept) + many, len(lasting) + extra
        model.col_cost_ = np.concatenate([np.array(whole.col_cost_)[self._kept], self.price[some]])
        terrain = self._rows.terrain
        most = np.minimum(terrain.most[self.loads.site[some]], terrain.demand.sum())
        model.col_lower_ = np.concatenate([np.array(whole.col_lower_)[self._kept], np.zeros(many)])
        model.col_upper_ = np.concatenate([np.array(whole.col_upper_)[self._kept], most])
        model.integrality_ = [highspy.HighsVarType.kInteger] * model.num_col_
        lower, upper = np.array(whole.row_lower_)[lasting], np.array(whole.row_upper_)[lasting]
        model.row_lower_ = np.concatenate([lower, np.full(extra, -highspy.kHighsInf)])
        model.row_upper_ = np.concatenate([upper, np.ones(extra)])
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

    def plain(self, work: Work) -> Linear | None:
        """The optimum in fractions of the program without loads; None if there is no solution."""
        found = _linear(self._whole, work)
        return found and Linear(found.least, np.concatenate([found.duals, np.zeros(len(self._starts))]))

    def linear(self, chosen: Mask, work: Work) -> Linear | None:
        """The optimum in fractions of some of the loads (N,); None if there is no solution."""
        found, rows = _linear(self.model(chosen), work), self._rows.rows
        if found is None:
            return None
        duals = np.zeros(rows + len(self._starts))
        duals[np.append(self._lasting, rows + np.arange(len(self._starts)))] = found.duals
        return Linear(found.least, duals)

    def worths(self, linear: Linear) -> Floats:
        """What the rows pay for a pod of each kind at each site, and for one more node there: (K, S + 1)."""
        rows, terrain = self._rows, self._rows.terrain
        row, variable, factor = self._factors
        worth = np.bincount(variable, linear.duals[row] * factor, minlength=rows.variables)
        table = np.zeros((len(terrain.price), len(terrain.kinds) + 1))
        owned = self._owners[:, 0] >= 0
        table[tuple(self._owners[owned].T)] = worth[owned]
        return table

    def reduced(self, linear: Linear) -> Floats:
        """The price of each load less what it is worth to the rows, (N,)."""
        table, counts, site = self.worths(linear), self.loads.counts, self.loads.site
        result: Floats = self.price - (table[site, :-1] * counts).sum(axis=1) - table[site, -1]
        return result - linear.duals[self._rows.rows :] @ self._starts

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


def _linear(model: highspy.HighsLp, work: Work) -> Linear | None:
    """Its optimum in fractions; None if there is no solution. Nothing is proven once the time is over."""
    model.integrality_ = []
    solver = quiet_solver(solver="simplex", time_limit=work.seconds)
    solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    work.spend(_MODEL * model.num_row_ + _ITERATION * max(0, info.simplex_iteration_count))
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return Linear(0.0, np.zeros(model.num_row_))
    return Linear(float(info.objective_function_value), np.array(solver.getSolution().row_dual))


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
