"""The best plan in whole nodes of a small pricing instance: every pattern that a better plan could use.

With dual values y such that no pattern of a column is worth more than its price, a plan costs what its pods
are worth plus what its nodes cost beyond the worth of their patterns. So a plan that costs less than U, where
the pods are worth z, has only patterns that cost less than U - z beyond their worth: fixing variables by
reduced costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dovetail.model.arrays import Amounts, Floats, Mask
from dovetail.solve.budget import HALF, LABELS, LITTLE, STEP, SolveBudget
from dovetail.solve.colgen.highs import integer_program, minimum
from dovetail.solve.colgen.knapsack_pricing import Knapsacks, children, taken
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.tolerances import FEW, LESS, PROGRAM, ROUNDING, WIDE
from dovetail.units.money import NANO_DOLLARS

_MOST_PATTERNS = 1_500  # that are chosen from
# Items, where pods are few: of 2 to 6 of 10 to 32 pods there were 9 to 550 patterns to choose from, up to 130
# in 6 to 20 ms; of 24 of 37 pods 12,000. Of fewer columns than are many, whole nodes take as little time.
_FEW_ITEMS = 12
_LOOK = 3e-9  # seconds for each item, pattern and column that is looked at, measured with some to spare


@dataclass(frozen=True, slots=True)
class Pattern:
    """So many nodes of a column with one pattern, or a free capacity with it."""

    counts: Amounts  # (I,), all together perhaps more than the demand
    column: int  # of the market; of `free` if it costs nothing
    number: int
    free: bool


@dataclass(frozen=True, slots=True)
class Whole:
    """No plan costs less than `bound`; the best one found, if it beats the limit."""

    bound: int  # nano-dollars per hour
    plan: tuple[Pattern, ...] = ()


class _Patterns(NamedTuple):
    """Patterns (M, I), what each costs (M,), its column (M,), and whether that is a free capacity (M,)."""

    counts: Amounts
    price: Amounts
    column: Amounts
    free: Mask

    def some(self, rows: Amounts) -> _Patterns:
        """Those in these rows."""
        return _Patterns(self.counts[rows], self.price[rows], self.column[rows], self.free[rows])


def few_patterns(pricing: PricingInstance) -> bool:
    """True iff all patterns that matter may take less time than whole nodes of so many columns."""
    return len(pricing.price) > FEW >= int(pricing.demand.sum()) and len(pricing.demand) <= _FEW_ITEMS


def whole(
    pricing: PricingInstance,
    dual_values: Floats,
    prices: tuple[int, int],
    work: SolveBudget,
    *,
    extra: Amounts | None = None,
    free: PricingInstance | None = None,
) -> Whole:
    """The optimum of a market if it is below `limit`, a price that is known to do; or what is proven of it.

    `known` is the worth of all pods, at most, at dual values (I,) which no column's price exceeds; less what
    the free capacities can take, if there are any: columns of `free` at its price, each there once. A node
    needs an item that it may be bought for.
    """
    known, limit = prices
    found, least = _enumerated(pricing, dual_values, limit - known, limit, work)
    parts = [_patterns(each, k, int(pricing.price[k]), free=False) for k, each in found]
    if extra is not None and len(extra):
        column = pricing.cheapest(extra)
        parts.append(_Patterns(extra, pricing.price[column], column, np.zeros(len(extra), dtype=np.bool_)))
    if free is not None:
        # What a free capacity is charged here may be more than any plan costs.
        highest = int(free.price.max(initial=0)) + 1
        more, least_free = _enumerated(free, dual_values, limit - known, highest, work)
        parts += [_patterns(each, k, 0, free=True) for k, each in more]
        least = min(least, least_free)
    if not parts or not work.left:
        return Whole(known if parts else min(limit, known + max(0, least)))
    every = _Patterns(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    if work.seconds < every.counts.size * len(pricing.price) * _LOOK:
        return Whole(known)  # there is no time to look for cheaper columns
    every = _useful(every, pricing)
    cost = every.price - every.counts @ dual_values
    order = np.argsort(cost, kind="stable")
    if len(order) > _MOST_PATTERNS:
        # A plan with one of those that are left out pays at least so much beyond the worth of its pods.
        least = min(least, int(cost[order[_MOST_PATTERNS]]))
    order = order[:_MOST_PATTERNS]
    every = every.some(order[cost[order] < limit - known])
    bound = max(known, min(limit, known + least))
    if not len(every.price):
        return Whole(bound)
    work.spend(len(every.price) * STEP)
    return _solved(every, pricing, np.where(dual_values > 0, pricing.demand, 0), (known, bound, limit), work)


def most_nodes(price: Amounts, demand: Amounts, limit: float) -> Floats:
    """How many nodes of each price (K,) a plan for `demand` can have that costs less than `limit`, (K,).

    Both in nano-dollars per hour. A program is solved much sooner where its variables have few values.
    """
    most: Floats = np.floor(np.minimum(demand.sum(), limit / np.maximum(price, 1)))
    return most


def _useful(every: _Patterns, pricing: PricingInstance) -> _Patterns:
    """Without patterns that a cheaper column holds as well, and those that no node may be bought for."""
    fine: Mask = every.free.copy()
    bought = np.flatnonzero(~every.free)
    if not pricing.takes.any():
        fine[bought] = pricing.cheapest(every.counts[bought], owned=True) == every.column[bought]
        return every.some(np.flatnonzero(fine))
    for column in np.unique(every.column[bought]).tolist():
        # A column that takes more of a limit is no substitute, however cheap.
        some = np.flatnonzero((pricing.takes <= pricing.takes[column]).all(axis=1))
        mine = bought[every.column[bought] == column]
        where = pricing.only(some).cheapest(every.counts[mine], owned=True)
        fine[mine] = some[where] == column
    return every.some(np.flatnonzero(fine))


def _patterns(counts: Amounts, column: int, price: int, *, free: bool) -> _Patterns:
    return _Patterns(counts, *(np.full(len(counts), each) for each in (price, column, free)))


def _enumerated(
    some: PricingInstance, dual_values: Floats, slack: int, limit: int, work: SolveBudget
) -> tuple[list[tuple[int, Amounts]], int]:
    """(column, its patterns that are not dearer than their worth by `slack`), and how much the others are."""
    patterns = PatternSearch(some, dual_values, work)
    enough = work.after(LITTLE)
    result: list[tuple[int, Amounts]] = []
    least, total = slack, 0
    for column, price in enumerate(some.price.tolist()):
        if price >= limit:
            break
        if not work.until(enough) or total > WIDE:
            return result, 0
        above = max(0.0, float(price - slack))
        found = patterns.of(column, above, WIDE)
        if found.others > above * (1 + PROGRAM):
            least = min(least, int(price - found.others * (1 + PROGRAM)))
        total += len(found.counts)
        if len(found.counts):
            result.append((column, found.counts))
    return result, least


def _solved(
    some: _Patterns, pricing: PricingInstance, demand: Amounts, costs: tuple[int, int, int], work: SolveBudget
) -> Whole:
    """The integer program over the patterns: cover the demand, use each free capacity once, keep the limits.

    `costs`: a bound on all plans, one on those that use other patterns, and what a plan must cost less than.
    """
    known, others, limit = costs
    capacities = np.unique(some.column[some.free])
    counts = np.minimum(some.counts, demand)
    taken = some.free[:, None] & (some.column[:, None] == capacities[None, :])
    used = np.where(some.free[:, None], 0, pricing.takes[some.column % max(1, len(pricing.takes))])
    scarce = np.maximum(pricing.most, 1)
    matrix = np.concatenate([counts, -taken.astype(np.float64), -used / scarce], axis=1)
    size, rows = matrix.shape
    most = np.where(some.free, 1.0, most_nodes(some.price, demand, limit))
    floor = [demand, np.full(len(capacities), -1), -np.minimum(pricing.most, 1)]
    bounds = np.concatenate(floor).astype(np.float64), np.full(rows, np.inf)
    pattern, row = np.nonzero(matrix)
    entries = row, pattern, matrix[pattern, row]
    model = integer_program(some.price / NANO_DOLLARS, (np.zeros(size), most), bounds, entries)
    answer = minimum(model, work, share=HALF, below=limit * LESS / NANO_DOLLARS)
    bound = int(min(max(answer.bound * NANO_DOLLARS * (1 - PROGRAM), known), others))
    if answer.values is None:
        return Whole(bound)
    nodes = np.rint(answer.values).astype(np.int64)
    plan = tuple(
        Pattern(some.counts[index], int(some.column[index]), int(nodes[index]), bool(some.free[index]))
        for index in np.flatnonzero(nodes > 0).tolist()
    )
    return Whole(bound, plan)


_MOST_FOLLOWED = 4  # times the width: so many partial patterns are made, then most must go


@dataclass(frozen=True, slots=True)
class Found:
    """Patterns (M, I) of one column, and a worth that no other pattern that matters exceeds."""

    counts: Amounts
    others: float


class PatternSearch:
    """All columns of a market, at dual values (I,) of which none is negative. Items of no worth are left
    out.
    """

    def __init__(self, pricing: PricingInstance, dual_values: Floats, work: SolveBudget) -> None:
        self._pricing, self._dual_values, self._work = pricing, dual_values, work
        self._knapsacks = Knapsacks(pricing, work)
        self._copies = np.where(dual_values > 0, pricing.copies(), 0)

    def of(self, column: int, above: float, width: int) -> Found:
        """Patterns worth more than `above`; partial patterns are followed as long as there are `width` at
        most.
        """
        pricing, copies = self._pricing, self._copies[column]
        nothing = np.zeros((0, len(copies)), dtype=np.int64)
        if self._knapsacks.screened(self._dual_values)[column] <= above:
            return Found(nothing, above)
        most, prices = self._knapsacks.fraction(column, self._dual_values)
        if most <= above:
            return Found(nothing, above)
        share = (pricing.vectors / np.maximum(pricing.capacity[column], 1)).max(axis=1)
        items = np.flatnonzero(copies)
        items = items[np.argsort(-share[items], kind="stable")]
        patterns = self._search(column, items, (above, prices), width)
        if patterns is None:
            return Found(nothing, most)
        counts = np.zeros((len(patterns), len(copies)), dtype=np.int64)
        counts[:, items] = patterns
        return Found(counts, above)

    def _search(self, column: int, items: Amounts, aim: tuple[float, Floats], width: int) -> Amounts | None:
        """Patterns over the items (M, n); None where there are too many partial ones."""
        above, prices = aim
        needs, dual_values = self._pricing.vectors[items], self._dual_values[items]
        copies = self._copies[column][items]
        later = _after((np.maximum(dual_values - needs @ prices, 0.0) * copies)[:, None])[:, 0]
        rest = _after(needs * copies[:, None])
        apart = self._pricing.conflict[np.ix_(items, items)]
        capacity, value = self._pricing.capacity[column][None].copy(), np.zeros(1)
        patterns: Amounts = np.zeros((1, len(items)), dtype=np.int64)
        for step in range(len(items)):
            clash: Mask = np.any(patterns[:, apart[step]] > 0, axis=1)
            number = taken(clash, capacity, needs[step], copies[step])
            size = int(number.sum()) + len(number)
            if size > width * _MOST_FOLLOWED or not self._work.left:
                return None
            self._work.spend(1 + size // LABELS)
            parent, count = children(number)
            value = value[parent] + count * dual_values[step]
            capacity = capacity[parent] - count[:, None] * needs[step]
            chosen = np.flatnonzero((value + capacity @ prices + later[step]) * (1 + ROUNDING) > above)
            patterns, value, capacity = patterns[parent[chosen]], value[chosen], capacity[chosen]
            patterns[:, step] = count[chosen]
            full = ~_could_hold_more(capacity - rest[step], patterns, (needs, copies, apart), step + 1)
            patterns, value, capacity = patterns[full], value[full], capacity[full]
            if len(value) > width:
                return None
        return patterns


def _could_hold_more(
    least: Amounts, patterns: Amounts, what: tuple[Amounts, Amounts, Mask], known: int
) -> Mask:
    """Partial patterns (L, n) that one more of the first `known` items fits into whatever else is put in.

    `least` (L, R) is the capacity that is left at least.
    """
    needs, copies, apart = what
    result: Mask = np.zeros(len(patterns), dtype=np.bool_)
    for item in range(known):
        if apart[item].any():
            continue
        fits = (patterns[:, item] < copies[item]) & ~result
        for row in np.flatnonzero(needs[item]).tolist():
            fits &= least[:, row] >= needs[item, row]
        result |= fits
    return result


def _after(values: Floats | Amounts) -> Floats | Amounts:
    """Sums of all rows (n, k) that come later."""
    sums = np.cumsum(values[::-1], axis=0)[::-1]
    return np.concatenate([sums[1:], np.zeros_like(values[:1])])
