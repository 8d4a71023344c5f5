"""How many pods pools' limits leave nodes for at most, for when there is no time to find out by buying."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.limits import NODES
from dovetail.solve.supply.world import World

Pools = tuple[int, ...]


class Rations:
    """Counts what pods that are to be on new nodes ask for, by the pools that these may be of.

    Pools are full once that is more than their limits allow nodes for: some of the pods are refused for
    certain, whichever nodes are bought. So those that come later are better off in other pools.
    """

    def __init__(self, world: World, remaining: Mapping[int, Mapping[str, int]]) -> None:
        """`remaining`: what is left of the limits, per pool that has some."""
        self.full: set[int] = set()
        self._world = world
        self._remaining = remaining
        self._asked: dict[Pools, Floats] = {}
        self._most: dict[Pools, Floats | None] = {}

    def take(self, pools: Pools, requests: Amounts, bundles: int) -> None:
        """So many more bundles are to be on new nodes of some of the pools."""
        if pools not in self._most:
            self._most[pools] = self._held(pools)
            self._asked[pools] = np.zeros(len(requests))
        most = self._most[pools]
        if most is not None:
            self._asked[pools] += requests * bundles
            if (self._asked[pools] > most).any():
                self.full.update(pools)

    def _held(self, pools: Pools) -> Floats | None:
        """What nodes of all the pools hold together at most, (R,); None where that has no end."""
        if not all(pool in self._remaining for pool in pools):
            return None
        names = self._world.axis.names
        total = np.zeros(len(names))
        for pool in pools:
            left = self._remaining[pool]
            nodes = float(left.get(NODES, np.inf)) * self._world.tables[pool].room.max(axis=0, initial=0)
            total += np.minimum(nodes, [left.get(name, np.inf) for name in names])
        return total
