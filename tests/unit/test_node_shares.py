"""Shares of a node: whatever fits on one node, by whichever resource, takes at most one of it in each way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.solve.colgen.dual_feasible import shares

sizes = st.lists(st.lists(st.integers(0, 12), min_size=2, max_size=2), min_size=1, max_size=4)


@given(vectors=sizes, capacity=st.lists(st.integers(1, 24), min_size=2, max_size=2), data=st.data())
def test_what_fits_takes_one_node_at_most(
    vectors: list[list[int]], capacity: list[int], data: st.DataObject
) -> None:
    needs, node = np.array(vectors, dtype=np.int64), np.array(capacity, dtype=np.int64)
    left, counts = node.copy(), np.zeros(len(needs), dtype=np.int64)
    for kind in data.draw(st.lists(st.integers(0, len(needs) - 1), max_size=24)):
        if (needs[kind] <= left).all():
            left -= needs[kind]
            counts[kind] += 1
    assert (shares(needs, node) @ counts <= 1 + 1e-9).all()


def test_three_that_are_larger_than_half_need_three_nodes() -> None:
    ways = shares(np.array([[6, 1], [2, 1]]), np.array([10, 10]))
    assert ways[:, 0].max() == 1


def test_what_says_no_more_than_a_resource_is_left_out() -> None:
    ways = shares(np.array([[5, 0]]), np.array([10, 10]))
    assert len(ways) == 0
