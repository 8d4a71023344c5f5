"""The bound that a single pod gives: some node has to hold it."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.solve.bounds.proof import dearest_pod

FEASIBLE = np.array([[True, True, True], [False, True, True], [False, False, False]])
PRICE = np.array([10, 25, 20])
VECTORS = np.array([[1, 1], [4, 0], [9, 9]])


@pytest.mark.parametrize(
    ("demand", "free", "bound"),
    [
        ([1, 0, 0], [], 10),
        ([5, 1, 0], [], 20),  # the large pod decides, at its cheapest
        ([5, 1, 0], [[4, 0]], 10),  # the large pod has room, though none is left for the small ones
        ([5, 1, 0], [[4, 0], [1, 1]], 0),
        ([0, 0, 3], [], 0),  # nobody sells for it, so nobody placed it
        ([0, 0, 0], [], 0),
    ],
)
def test_some_node_has_to_hold_it(demand: list[int], free: list[list[int]], bound: int) -> None:
    room = np.array(free, dtype=np.int64).reshape(len(free), 2)
    assert dearest_pod(FEASIBLE, PRICE, VECTORS, np.array(demand), room) == bound
