"""Columns that are left out of a relaxation change neither its optimum nor what it proves."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.solve.bound import relaxation
from dovetail.solve.bound.relaxation import Duals, best_rates, most_held, relax
from dovetail.solve.instance.arrays import Amounts, Mask


def test_sizes_of_one_family_are_one_column() -> None:
    capacity = np.array([[2, 4], [4, 8], [8, 16], [8, 32]], dtype=np.int64)
    price = np.array([10, 20, 40, 50], dtype=np.int64)
    vectors = np.array([[1, 1], [3, 1], [8, 1]], dtype=np.int64)
    feasible = np.all(vectors[:, None, :] <= capacity[None, :, :], axis=2)
    assert best_rates(feasible, capacity, price).tolist() == [2, 3]


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
    monkeypatch.setattr(relaxation, "best_rates", lambda feasible, *_: np.flatnonzero(feasible.any(axis=0)))
    everything = float(demand @ relax(feasible, capacity, price, vectors, demand).dual_values)
    assert few == pytest.approx(everything, rel=1e-6)
    assert _bound(duals, feasible, capacity, price, demand) == pytest.approx(everything, rel=1e-5)


def _bound(duals: Duals, feasible: Mask, capacity: Amounts, price: Amounts, demand: Amounts) -> float:
    """What the duals prove against all columns."""
    held = most_held(duals, feasible, capacity)
    factor = min(1.0, float((price[held > 0] / held[held > 0]).min(initial=1.0)))
    return float(demand @ duals.dual_values) * factor
