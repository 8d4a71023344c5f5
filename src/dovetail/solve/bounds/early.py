"""The relaxation that a solve begins with, used again for its proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from dovetail.solve.bounds.relaxation import Duals, relax_shapes
from dovetail.solve.bounds.scope import Scope
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.world import World


@dataclass(frozen=True, slots=True)
class Early:
    """Prices of resources for all S shapes of a world, whatever they give up and whether or not they find a
    place. Prices need not be the best ones of a scope to prove something about it."""

    prices: Callable[[], Duals]  # solved when somebody asks for the first time
    offerings: Amounts  # (S,) how many may hold each shape
    columns: int  # that may hold any
    pods: int

    @classmethod
    def of(cls, world: World, columns: Columns, feasible: Mask) -> Early:
        """For all shapes; `feasible` (S, C)."""
        sold = feasible & ~columns.reserved
        return cls(
            prices=cache(partial(relax_shapes, world, columns, sold)),
            offerings=sold.sum(axis=1),
            columns=int(np.count_nonzero(sold.any(axis=0))),
            pods=sum(len(shape.pods) for shape in world.shapes),
        )

    def duals(self, scope: Scope) -> Duals:
        """For the kinds of a scope; its rules cost nothing."""
        some, known = list(scope.shapes), self.prices()
        extra = scope.vectors.shape[1] - known.resources.shape[1]
        resources = np.concatenate([known.resources, np.zeros((len(known.resources), extra))], axis=1)
        charged = np.concatenate([known.charged, np.zeros(extra)])
        return Duals(known.worth[some], resources, known.feasible[some], charged)

    def same(self, scope: Scope) -> bool:
        """True only if the scope's relaxation is this one: every pod, every offering and nothing else."""
        return (
            not scope.rules
            and not scope.allowed.any()
            and len(scope.price) == self.columns
            and int(scope.demand.sum()) == self.pods
            and bool(np.array_equal(scope.feasible.sum(axis=1), self.offerings[list(scope.shapes)]))
            and not scope.conflict.any()
        )
