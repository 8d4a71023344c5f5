"""Columns that are left out of a relaxation change neither its optimum nor what it proves."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.model.arrays import Amounts, Mask
from dovetail.solve.bound import relaxation
from dovetail.solve.bound.relaxation import Duals, most_held, relax


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_and_the_proof_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    vectors = draw.integers(1, 9, (6, 3))
    capacity = draw.integers(1, 9, (8, 3))[:, None, :] * np.array([1, 2, 4])[None, :, None]
    price = 10**9 * draw.integers(5, 15, 8)[:, None] * np.array([1, 2, 4])[None, :]
    capacity, price = capacity.reshape(24, 3), price.reshape(24)
    feasible = np.all(vectors[:, None, :] <= capacity[None, :, :], axis=2)
    demand = np.where(feasible.any(axis=1), draw.integers(1, 20, 6), 0)
    duals = relax(feasible, capacity, price, vectors, demand)
    few = float(demand @ duals.dual_values)
    monkeypatch.setattr(relaxation, "_cheapest", lambda *given: np.ones(len(given[-1]), dtype=np.bool_))
    everything = float(demand @ relax(feasible, capacity, price, vectors, demand).dual_values)
    assert few == pytest.approx(everything, rel=1e-6)
    late = relax(feasible, capacity, price, vectors, demand, over=lambda: True)
    assert 0 < _bound(late, feasible, capacity, price, demand) <= everything * (1 + 1e-9)
    assert _bound(duals, feasible, capacity, price, demand) == pytest.approx(everything, rel=1e-5)


def test_limits_that_the_cheapest_columns_do_not_keep() -> None:
    """The cheapest column takes more of the limit than there is, so that the program needs the other one."""
    every, demand = np.ones((1, 2), dtype=np.bool_), np.array([10])
    capacity, price = np.array([[4], [4]]), 10**9 * np.array([1, 3])
    takes = np.array([[4], [1]])
    duals = relax(every, capacity, price, np.array([[1]]), demand, limits=(takes, np.array([4])))
    # x nodes of the first, y of the other: x + y = 2.5, 4 x + y = 4.
    assert float(demand @ duals.dual_values) - duals.limits[0] == pytest.approx(10**9 * (0.5 + 3 * 2))


def _bound(duals: Duals, feasible: Mask, capacity: Amounts, price: Amounts, demand: Amounts) -> float:
    """What the duals prove against all columns."""
    held = most_held(duals, feasible, capacity)
    factor = min(1.0, float((price[held > 0] / held[held > 0]).min(initial=1.0)))
    return float(demand @ duals.dual_values) * factor
