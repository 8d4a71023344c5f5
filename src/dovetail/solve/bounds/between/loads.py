"""Loads: what one node holds; all that a plan could use, where they are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.bounds.between.terrain import ENDLESS, Terrain
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.work import Work

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


def joined(parts: Sequence[Loads], kinds: int) -> Loads:
    """All of them as one list, of so many kinds of pods."""
    return Loads(
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.site for part in parts)]),
        np.concatenate([np.zeros((0, kinds), dtype=np.int64), *(part.counts for part in parts)]),
    )


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
        for sites in alike(self._terrain):
            found = self._of(np.array(sorted(sites, key=lambda site: self._terrain.price[site])))
            if found is None:
                return None
            parts.append(found)
        return joined(parts, len(self._terrain.kinds))

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


def alike(terrain: Terrain) -> Sequence[Sequence[int]]:
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
