"""The best plan in whole nodes of a small market: every pattern that a better plan could use, all at once.

With worths y such that no load of a column is worth more than its price, a plan costs what its pods are worth
plus what its nodes cost beyond the worth of their loads. So a plan that costs less than U, where the pods are
worth z, has only patterns that cost less than U - z beyond their worth: fixing variables by reduced costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.packing.integer import minimum
from dovetail.solve.packing.knapsack import Knapsacks
from dovetail.solve.packing.market import Market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.work import Work

_WIDTH = 3_000  # partial loads that are followed at most
_PATTERNS = 600  # more are not solved
_MOST_FOUND = 5_000  # patterns; then no more are looked for
_SHARE = 0.1  # of the work left, for finding patterns
_PATTERN = 10  # units of work for each pattern
_SLACK = 1e-7  # share by which the solver's bound is lowered for its tolerances


@dataclass(frozen=True, slots=True)
class Whole:
    """No plan costs less than `bound`; the best one found as (pattern, nodes), if it beats the limit."""

    bound: int  # nano-dollars per hour
    plan: tuple[tuple[Amounts, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Patterns (M, I), what each costs (M,), and the free room that it is for (M,), -1 if it is bought."""

    counts: Amounts
    price: Amounts
    room: Amounts


def whole(
    goods: Market,
    worth: Floats,
    prices: tuple[int, int],
    work: Work,
    *,
    extra: Amounts | None = None,
    free: Market | None = None,
) -> Whole:
    """The optimum of a market if it is below `limit`, a price that is known to do; or what is proven of it.

    `known` is the worth of all pods, at most, at worths (I,) which no column's price exceeds; less what the
    free rooms can take, if there are any: columns of `free` at its price, each there once.
    """
    known, limit = prices
    found, least = _enumerated(goods, worth, limit - known, limit, work)
    patterns = [
        _Patterns(each, np.full(len(each), goods.price[k]), np.full(len(each), -1)) for k, each in found
    ]
    if extra is not None and len(extra):
        column = goods.cheapest(extra)
        cost = goods.price[column] - extra @ worth
        near = cost < limit - known
        patterns.append(_Patterns(extra[near], goods.price[column[near]], np.full(int(near.sum()), -1)))
    if free is not None:
        # What a free room is charged here may be more than any plan costs.
        highest = int(free.price.max(initial=0)) + 1
        more, least_free = _enumerated(free, worth, limit - known, highest, work)
        patterns += [
            _Patterns(each, np.zeros(len(each), dtype=np.int64), np.full(len(each), k)) for k, each in more
        ]
        least = min(least, least_free)
    bound = max(known, min(limit, known + max(0, least)))
    if not sum(len(each.price) for each in patterns) or not work.left:
        return Whole(known if patterns else bound)
    every = _Patterns(
        np.concatenate([each.counts for each in patterns]),
        np.concatenate([each.price for each in patterns]),
        np.concatenate([each.room for each in patterns]),
    )
    if len(every.price) > _PATTERNS:
        cost = every.price - every.counts @ worth
        best = np.argsort(cost, kind="stable")[:_PATTERNS]
        every, bound = _Patterns(every.counts[best], every.price[best], every.room[best]), known
    work.spend(len(every.price) * _PATTERN)
    return _solved(every, np.where(worth > 0, goods.demand, 0), bound, known, work)


def _enumerated(
    some: Market, worth: Floats, slack: int, limit: int, work: Work
) -> tuple[list[tuple[int, Amounts]], int]:
    """(column, its patterns that are not dearer than their worth by `slack`), and how much the others are."""
    knapsacks = Knapsacks(some, work)
    enough = work.after(_SHARE)
    result: list[tuple[int, Amounts]] = []
    least = slack
    total = 0
    for column, price in enumerate(some.price.tolist()):
        if price >= limit:
            break
        if work.used > enough or not work.left or total > _MOST_FOUND:
            return result, 0
        above = max(0.0, float(price - slack))
        best = knapsacks.run(column, worth, above, _WIDTH)
        counts = best.counts[_largest(some, column, best.counts, worth)]
        if best.others > above * (1 + _SLACK):
            least = min(least, int(price - best.others * (1 + _SLACK)))
        total += len(counts)
        if len(counts):
            result.append((column, counts))
    return result, least


def _largest(some: Market, column: int, counts: Amounts, worth: Floats) -> Amounts:
    """Rows of patterns that no further item of worth fits into: the others are not needed."""
    left = some.room[column] - counts @ some.vectors
    open_to = (counts < some.demand) & some.feasible[column] & (worth > 0)
    for row in range(left.shape[1]):
        open_to &= (some.vectors[:, row][None, :] <= left[:, row][:, None]) | (some.vectors[:, row] == 0)
    if some.conflict.any():
        open_to &= (counts > 0).astype(np.float32) @ some.conflict.astype(np.float32) == 0
    return np.flatnonzero(~open_to.any(axis=1))


def _solved(every: _Patterns, demand: Amounts, bound: int, known: int, work: Work) -> Whole:
    """The integer program over the patterns: cover the demand, use each free room once."""
    rooms = np.unique(every.room[every.room >= 0])
    counts = np.minimum(every.counts, demand)
    matrix = np.concatenate([counts, -(every.room[:, None] == rooms[None, :]).astype(np.int64)], axis=1)
    size, rows = matrix.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = size, rows
    model.col_cost_ = every.price / NANO_DOLLARS
    model.col_lower_, model.col_upper_ = np.zeros(size), np.full(size, highspy.kHighsInf)
    model.row_lower_ = np.concatenate([demand, np.full(len(rooms), -1)]).astype(np.float64)
    model.row_upper_ = np.full(rows, highspy.kHighsInf)
    model.integrality_ = [highspy.HighsVarType.kInteger] * size
    pattern, row = np.nonzero(matrix)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.searchsorted(pattern, np.arange(size + 1)).astype(np.int32)
    model.a_matrix_.index_ = row.astype(np.int32)
    model.a_matrix_.value_ = matrix[pattern, row].astype(np.float64)
    answer = minimum(model, work)
    proven = int(min(max(answer.bound * NANO_DOLLARS * (1 - _SLACK), known), bound))
    if answer.values is None:
        return Whole(proven)
    nodes = np.rint(answer.values).astype(np.int64)
    bought = np.flatnonzero((nodes > 0) & (every.room < 0))
    plan = tuple((every.counts[index], int(nodes[index])) for index in bought.tolist())
    return Whole(proven, plan)
