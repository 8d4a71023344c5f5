"""What offerings of all pools draw on together: vCPUs of an account's quota, addresses of subnets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.model.problem import Problem
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.plan import PlannedClaim
from dovetail.solve.supply.encode import Amounts, PoolTable

# With so many times what the pods seem to need, a common is as good as endless.
_PLENTY = 4


class Commons:
    """B commons that a plan may come to the end of, `names`.

    `left` (B,) is what is left of each, `draws` (C, B) what a node of each column of all pools takes.
    Those with plenty left are not among them, unless `strict`.
    """

    def __init__(
        self, problem: Problem, tables: Sequence[PoolTable], shapes: Sequence[Shape], *, strict: bool
    ) -> None:
        drawn = {name for table in tables for item in table.offerings for name, _ in item.draws}
        names = tuple(sorted(drawn & problem.commons.keys()))
        left = np.array([problem.commons[name] for name in names], dtype=np.int64)
        draws = _draws(tables, names)
        short = left < np.iinfo(np.int64).max
        if not strict:
            short &= left < _PLENTY * _needs(tables, shapes, draws)
        self.all = bool(short.all())  # every one that something draws on is among them
        self.names = tuple(name for name, scarce in zip(names, short.tolist(), strict=True) if scarce)
        self.left: Amounts = left[short]
        self.draws: Amounts = draws[:, short]
        self.start = np.cumsum([0, *(len(table.offerings) for table in tables)]).tolist()

    @property
    def any(self) -> bool:
        """True iff a plan may come to the end of something."""
        return bool(self.names)


def overdrawn(problem: Problem, claims: Sequence[PlannedClaim]) -> bool:
    """True iff the claims, as they are priced, draw more on a common than is left of it."""
    if not problem.commons:
        return False
    drawn: dict[tuple[str, str, str, str, int], Sequence[tuple[str, int]]] = {
        (pool.name, kind.name, item.zone, item.capacity_type, item.price): item.draws
        for pool in problem.pools
        for kind in pool.instance_types
        for item in kind.offerings
        if item.draws
    }
    extra = {pool.name: problem.extra(pool) for pool in problem.pools}
    left = dict(problem.commons)
    for claim in claims:
        key = claim.instance_type, claim.zone, claim.capacity_type, claim.price - extra[claim.pool]
        for name, amount in drawn.get((claim.pool, *key), ()):
            if name in left:
                left[name] -= amount
    return any(rest < 0 for rest in left.values())


def _draws(tables: Sequence[PoolTable], names: tuple[str, ...]) -> Amounts:
    rows = [[dict(item.draws).get(name, 0) for name in names] for table in tables for item in table.offerings]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(names))


def _needs(tables: Sequence[PoolTable], shapes: Sequence[Shape], draws: Amounts) -> Amounts:
    """About what all pods draw on each common (B,), if they drew on it alone.

    Each resource is bought where it is cheapest. Pods that rules tie may each want a node of their own.
    """
    if not draws.size or not shapes:
        return np.zeros(draws.shape[1], dtype=np.int64)
    total = sum(shape.vector * len(shape.pods) for shape in shapes)
    tied = sum(len(shape.pods) for shape in shapes if shape.involved)
    room = np.concatenate([table.room[table.column_type] for table in tables])
    price = np.concatenate([table.price for table in tables])
    result = np.zeros(draws.shape[1], dtype=np.int64)
    for common in range(draws.shape[1]):
        some = draws[:, common] > 0
        if not some.any():
            continue
        nodes = total / np.maximum(room[some], 1)
        best = np.argmin(np.maximum(price[some], 1)[:, None] * nodes, axis=0)
        drawn = nodes[best, np.arange(nodes.shape[1])] * draws[some, common][best]
        least = int(draws[some, common].min())
        result[common] = int(np.ceil(drawn.sum())) + least * (tied + 1)
    return result
