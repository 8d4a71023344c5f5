"""Every load of a node that is worth so much and has no room for one more item, if there are not too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.solve.packing.knapsack import Knapsacks
from dovetail.solve.packing.market import Market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.work import Work

_SLACK = 1e-9  # share by which bounds are raised for rounding in floating point
_LABELS_PER_UNIT = 4
_MOST_FOLLOWED = 4  # times the width: so many partial loads are made, then most must go


@dataclass(frozen=True, slots=True)
class Found:
    """Loads (M, I) of one column, and a worth that no other load that matters exceeds."""

    counts: Amounts
    others: float


class Loads:
    """All columns of a market, at worths (I,) of which none is negative. Items of no worth are left out."""

    def __init__(self, goods: Market, worth: Floats, work: Work) -> None:
        self._goods, self._worth, self._work = goods, worth, work
        self._knapsacks = Knapsacks(goods, work)
        self._copies = np.where(worth > 0, goods.copies(), 0)

    def of(self, column: int, above: float, width: int) -> Found:
        """Loads worth more than `above`; partial loads are followed as long as there are `width` at most."""
        goods, copies = self._goods, self._copies[column]
        nothing = np.zeros((0, len(copies)), dtype=np.int64)
        if self._knapsacks.screened(self._worth)[column] <= above:
            return Found(nothing, above)
        most, prices = self._knapsacks.fraction(column, self._worth)
        if most <= above:
            return Found(nothing, above)
        share = (goods.vectors / np.maximum(goods.room[column], 1)).max(axis=1)
        items = np.flatnonzero(copies)
        items = items[np.argsort(-share[items], kind="stable")]
        loads = self._search(column, items, (above, prices), width)
        if loads is None:
            return Found(nothing, most)
        counts = np.zeros((len(loads), len(copies)), dtype=np.int64)
        counts[:, items] = loads
        return Found(counts, above)

    def _search(self, column: int, items: Amounts, aim: tuple[float, Floats], width: int) -> Amounts | None:
        """Loads over the items (M, n); None where there are too many partial ones."""
        above, prices = aim
        needs, worth, copies = self._goods.vectors[items], self._worth[items], self._copies[column][items]
        later = _after((np.maximum(worth - needs @ prices, 0.0) * copies)[:, None])[:, 0]
        rest = _after(needs * copies[:, None])
        apart = self._goods.conflict[np.ix_(items, items)]
        room, value = self._goods.room[column][None].copy(), np.zeros(1)
        loads: Amounts = np.zeros((1, len(items)), dtype=np.int64)
        for step in range(len(items)):
            asked = needs[step] > 0
            number = np.minimum(
                (room[:, asked] // needs[step][asked]).min(axis=1, initial=2**15 - 1), copies[step]
            )
            number[(loads[:, apart[step]] > 0).any(axis=1)] = 0
            size = int(number.sum()) + len(number)
            if size > width * _MOST_FOLLOWED or not self._work.left:
                return None
            self._work.spend(1 + size // _LABELS_PER_UNIT)
            parent = np.repeat(np.arange(len(value)), number + 1)
            count = np.arange(len(parent)) - np.repeat(np.cumsum(number + 1) - number - 1, number + 1)
            value = value[parent] + count * worth[step]
            room = room[parent] - count[:, None] * needs[step]
            chosen = np.flatnonzero((value + room @ prices + later[step]) * (1 + _SLACK) > above)
            loads, value, room = loads[parent[chosen]], value[chosen], room[chosen]
            loads[:, step] = count[chosen]
            full = ~_could_hold_more(room - rest[step], loads, (needs, copies, apart), step + 1)
            loads, value, room = loads[full], value[full], room[full]
            if len(value) > width:
                return None
        return loads


def _could_hold_more(least: Amounts, loads: Amounts, what: tuple[Amounts, Amounts, Mask], known: int) -> Mask:
    """Partial loads (L, n) that one more of the first `known` items fits into whatever else is put in.

    `least` (L, R) is the room that is left at least.
    """
    needs, copies, apart = what
    result: Mask = np.zeros(len(loads), dtype=np.bool_)
    for item in range(known):
        if apart[item].any():
            continue
        fits = (loads[:, item] < copies[item]) & ~result
        for row in np.flatnonzero(needs[item]).tolist():
            fits &= least[:, row] >= needs[item, row]
        result |= fits
    return result


def _after(values: Floats | Amounts) -> Floats | Amounts:
    """Sums of all rows (n, k) that come later."""
    sums = np.cumsum(values[::-1], axis=0)[::-1]
    return np.concatenate([sums[1:], np.zeros_like(values[:1])])
