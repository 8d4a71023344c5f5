"""Pod classes taken together for the relaxation: the bound stays true, and close to what all alone give."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dovetail.solve.bound.relaxation import kinds_of, relax

ROOM = np.array([[4_000 * size, 8_000 * size] for size in (1, 2, 4, 8, 16)], dtype=np.int64)
PRICE = np.array([int(1e8 * size * (1 + 0.02 * index)) for index, size in enumerate((1, 2, 4, 8, 16))])


@pytest.mark.parametrize("pod_classes", [3, 250, 251, 2_000])
def test_no_shape_is_worth_more_than_its_share_of_any_node(pod_classes: int) -> None:
    draw = random.Random(pod_classes)
    vectors = np.array([[draw.randint(50, 4_000), draw.randint(50, 8_000)] for _ in range(pod_classes)])
    feasible = np.all(vectors[:, None, :] <= ROOM[None, :, :], axis=2)
    demand = np.full(pod_classes, 3)
    duals = relax(feasible, ROOM, PRICE, vectors, demand)
    assert np.all(ROOM[np.flatnonzero(feasible.any(axis=0))] * duals.resources <= 2 * PRICE[:, None])
    held = np.sum(ROOM * duals.resources, axis=1)
    assert np.all(held <= PRICE * (1 + 1e-6))
    assert np.all(
        duals.dual_values[:, None] <= np.where(feasible, vectors @ duals.resources.T, np.inf) * (1 + 1e-9)
    )
    # Work of all pods at the cheapest rate: the bound by kinds loses little of it.
    least = max(float(vectors[:, 0].sum()) / 4_000, float(vectors[:, 1].sum()) / 8_000) * 3 * 1e8
    assert float(duals.dual_values @ demand) >= 0.98 * least


def test_equal_shapes_are_one_kind_and_rules_keep_kinds_apart() -> None:
    vectors = np.array([[100, 100], [100, 100], [100, 100], [101, 100]])
    feasible = np.array([[True, True], [True, True], [False, True], [True, True]])
    capacity = np.array([[1_000, 1_000], [2_000, 2_000]])
    kinds = kinds_of(feasible, capacity, vectors, np.array([1, 2, 4, 8]))
    assert sorted(kinds.demand.tolist()) == [3, 4, 8]
    many = np.arange(600).reshape(300, 2) // 100 + 1_000
    mixed = np.ones((300, 2), dtype=np.bool_)
    mixed[::2, 0] = False
    large = np.array([[5_000, 5_000], [9_000, 9_000]])
    kinds = kinds_of(mixed, large, many + np.arange(300)[:, None] % 7, np.ones(300, dtype=np.int64))
    assert kinds.demand.sum() == 300
    assert {tuple(row) for row in kinds.feasible.tolist()} == {(True, True), (False, True)}
