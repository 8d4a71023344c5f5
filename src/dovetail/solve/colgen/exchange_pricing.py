"""Better patterns from good ones: take out up to two items, put in up to two others of more worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.base.streams import stream
from dovetail.model.arrays import BLOCK, Amounts, Floats, Mask
from dovetail.solve.budget import CELLS, SolveBudget
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.tolerances import MOSTLY, PAYS, WIDE

_HITS = 2  # pairs that are taken per row
_MOST_UNITS = 150_000  # of work in one call; the rows that few pairs can pay for come first


class Exchange:
    """Prices exchanges for one market. Item number I stands for "nothing"."""

    def __init__(self, pricing: PricingInstance, work: SolveBudget) -> None:
        self._pricing = pricing
        self._work = work
        self._draw = stream(0, "solve", "exchange")
        self._outs: dict[bytes, Amounts] = {}  # per pattern, what may be taken out of it (N, 2)
        first, second = self._pairs()
        items = np.arange(len(pricing.demand))
        first = np.concatenate([items, first])
        second = np.concatenate([np.full(len(items), len(items)), second])
        self._first, self._second = first, second
        self._vectors = np.concatenate([pricing.vectors, np.zeros_like(pricing.vectors[:1])])
        self._needs = self._vectors[first] + self._vectors[second]

    def _pairs(self) -> tuple[Amounts, Amounts]:
        """Pairs of items (P,) that can share a node, or one item twice; a sample where there are many."""
        # All pairs of thousands of items are too many to be listed, so they are numbered: row by row of the
        # upper triangle, those of item i with itself and later ones from `begin[i]` on.
        items = len(self._pricing.demand)
        item = np.arange(items)
        begin = item * (2 * items + 1 - item) // 2
        one, other = np.nonzero(np.triu(self._pricing.conflict))
        apart = begin[one] + other - one
        number = items * (items + 1) // 2 - len(apart)
        most = WIDE - min(items, WIDE)
        some = sorted(self._draw.sample(range(number), most)) if number > most else range(number)
        chosen = np.array(some, dtype=np.int64)
        # From a place among the pairs that can share a node to its number among all of them.
        chosen += np.searchsorted(apart - np.arange(len(apart)), chosen, side="right")
        first = np.searchsorted(begin, chosen, side="right") - 1
        return first, first + chosen - begin[first]

    def run(
        self, dual_values: Floats, counts: Amounts, column: Amounts, demand: Amounts, most_rows: int
    ) -> Iterator[Amounts]:
        """New patterns (M, I), best first by gain per price, from the base patterns (B, I) on their columns.

        They come in blocks. None of them asks for more than `demand` of an item. `dual_values` is per item,
        (I,).
        """
        dual_values = np.append(np.where(demand > 0, dual_values, 0.0), 0.0)
        base, out = self._rows(counts, most_rows)
        if not len(base):
            return
        price = self._pricing.price[column[base]].astype(np.float64)
        lost = price - (counts @ dual_values[:-1])[base] + dual_values[out].sum(axis=1)
        used = counts @ self._pricing.vectors
        capacity = (self._pricing.capacity[column] - used)[base] + self._vectors[out].sum(axis=1)
        value = dual_values[self._first] + dual_values[self._second]
        order = np.argsort(-value, kind="stable")
        # Only pairs of more worth than what a row has lost can pay: a prefix of the order.
        prefix = np.searchsorted(-value[order], -(lost + PAYS * price))
        row, pair = self._hits(capacity, column[base], prefix, order)
        gain = (value[pair] - lost[row]) / price[row]
        best = np.argsort(-gain, kind="stable")
        row, pair = row[best], pair[best]
        for start in range(0, len(row), BLOCK):
            some = slice(start, start + BLOCK)
            ends = out[row[some]].T, np.array([self._first[pair[some]], self._second[pair[some]]])
            found = self._exchanged(counts[base[row[some]]], *ends)
            yield found[np.all(found <= demand, axis=1)]

    def _exchanged(self, counts: Amounts, taken: Amounts, put: Amounts) -> Amounts:
        """The patterns (N, I) without the items `taken` (2, N), and with those that are `put` (2, N)."""
        found = np.concatenate([counts, np.zeros((len(counts), 1), dtype=np.int64)], axis=1)
        lines = np.arange(len(counts))
        for items, step in zip((*taken, *put), (-1, -1, 1, 1), strict=True):
            found[lines, items] += step
        return found[:, :-1]

    def _rows(self, counts: Amounts, most: int) -> tuple[Amounts, Amounts]:
        """(base pattern (N,), the two items taken out (N, 2)), a sample where there are more than `most`."""
        bases, outs = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)]
        for index, pattern in enumerate(counts):
            key = pattern.tobytes()
            if key not in self._outs:
                some = np.append(pattern, 2)  # of "nothing" there are two to take out
                held = np.append(len(pattern), np.flatnonzero(pattern))
                first, second = np.triu_indices(len(held))
                fine = (first != second) | (some[held[first]] >= 2)
                self._outs[key] = np.stack([held[first[fine]], held[second[fine]]], axis=1)
            outs.append(self._outs[key])
            bases.append(np.full(len(outs[-1]), index))
        base, out = np.concatenate(bases), np.concatenate(outs)
        if len(base) > most:
            chosen = np.array(sorted(self._draw.sample(range(len(base)), most)), dtype=np.int64)
            base, out = base[chosen], out[chosen]
        return base, out

    def _hits(self, capacity: Amounts, column: Amounts, prefix: Amounts, order: Amounts) -> Amounts:
        """Rows and pairs (2, N): the first pairs of the order that fit into the capacity of a row."""
        order = order[: int(np.max(prefix, initial=0))]
        kinds, kind = np.unique(column, return_inverse=True)
        needs, may = self._needs[order], self._may(kinds, order)
        askers = [np.flatnonzero(needs[:, resource]) for resource in range(needs.shape[1])]
        hits = [np.zeros((2, 0), dtype=np.int64)]
        by_length = np.argsort(prefix, kind="stable")
        by_length = by_length[prefix[by_length] > 0]
        enough = self._work.used + _MOST_UNITS
        for start in range(0, len(by_length), BLOCK):
            if self._work.used > enough or not self._work.left:
                break
            block = by_length[start : start + BLOCK]
            longest = int(prefix[block[-1]])
            # In place, these take half of what other comparisons do.
            looked = sum(int(np.searchsorted(asking, longest)) for asking in askers)
            self._work.spend(1 + len(block) * looked // (2 * CELLS))
            fits = may[kind[block], :longest]
            fits &= np.arange(longest)[None, :] < prefix[block][:, None]
            for resource, asking in enumerate(askers):
                if len(asking) < (1 - MOSTLY) * len(needs):  # so few are looked at alone
                    some = asking[: np.searchsorted(asking, longest)]
                    fits[:, some] &= needs[some, resource][None, :] <= capacity[block, resource][:, None]
                else:
                    fits &= needs[:longest, resource][None, :] <= capacity[block, resource][:, None]
            for _ in range(_HITS):
                hit = fits.argmax(axis=1)
                found = np.flatnonzero(fits[np.arange(len(block)), hit])
                hits.append(np.stack([block[found], order[hit[found]]]))
                fits[found, hit[found]] = False
        return np.concatenate(hits, axis=1)

    def _may(self, columns: Amounts, pairs: Amounts) -> Mask:
        """Which of the columns (K,) may hold both items of each pair (P,), (K, P)."""
        # For the columns in use alone: for all of a large market it would take longer than the search.
        some = self._pricing.feasible[columns]
        some = np.concatenate([some, np.ones((len(columns), 1), dtype=np.bool_)], axis=1)
        return some[:, self._first[pairs]] & some[:, self._second[pairs]]
