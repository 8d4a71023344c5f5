"""Others of the same requests in place of those that have run out: no rule is broken by it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.solve.pack.aggregation import SubstitutableClasses


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_a_load_of_twins_asks_for_the_same_and_keeps_to_the_rules(seed: int) -> None:
    draw = np.random.default_rng(seed)
    vectors = draw.integers(1, 3, size=(24, 2))
    kind = draw.integers(0, 4, size=24)
    feasible = draw.random((24, 3)) < 0.8
    conflict = draw.random((4, 4)) < 0.2
    conflict |= conflict.T
    left = draw.integers(0, 4, size=24)
    counts = tuple(
        (int(item), int(draw.integers(1, 4))) for item in sorted(draw.choice(24, 3, replace=False))
    )
    pattern = SubstitutableClasses(vectors, kind, feasible, conflict).pattern(counts, 1, left.tolist())
    if not pattern:
        return
    amounts = np.zeros(24, dtype=np.int64)
    for item, number in pattern:
        amounts[item] = number
    asked = sum((vectors[item] * number for item, number in counts), np.zeros(2, dtype=np.int64))
    assert np.array_equal(amounts @ vectors, asked)
    assert np.all(amounts <= left)
    assert feasible[amounts > 0, 1].all()
    held = np.flatnonzero(amounts)
    for one in held.tolist():
        assert amounts[one] == 1 or not conflict[kind[one], kind[one]]
        assert not any(conflict[kind[one], kind[other]] for other in held.tolist() if other != one)


def test_without_equal_requests_no_class_stands_in() -> None:
    kind, everywhere = np.zeros(2, dtype=np.int64), np.ones((2, 1), dtype=np.bool_)
    apart = np.zeros((1, 1), dtype=np.bool_)
    assert not SubstitutableClasses(np.array([[1], [2]]), kind, everywhere, apart).any
    alike = SubstitutableClasses(np.array([[1], [1]]), kind, everywhere, apart)
    assert alike.any
    assert alike.pattern(((0, 3),), 0, [1, 2]) == ((0, 1), (1, 2))
    assert alike.pattern(((0, 3),), 0, [1, 1]) == ()
