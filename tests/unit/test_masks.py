"""What two tables of yes and no share, and rows that are numbered."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dovetail.model.arrays import numbered, share

_SIZE = st.integers(0, 5)


@given(data=st.data(), size=st.tuples(_SIZE, _SIZE, _SIZE))
def test_what_is_true_in_both_is_shared(data: st.DataObject, size: tuple[int, int, int]) -> None:
    rows = data.draw(arrays(np.bool_, size[:2]))
    columns = data.draw(arrays(np.bool_, size[1:]))
    expected = [[any(row & column) for column in columns.T] for row in rows]
    assert share(rows, columns).tolist() == expected


@given(data=st.data(), size=st.tuples(_SIZE, st.integers(1, 5), _SIZE))
def test_equal_rows_have_equal_numbers_in_their_own_order(
    data: st.DataObject, size: tuple[int, int, int]
) -> None:
    amounts = data.draw(arrays(np.int64, size[:2], elements=st.sampled_from([0, 1, 255, 256, 1 << 40])))
    bits = data.draw(arrays(np.uint8, (size[0], size[2]), elements=st.sampled_from([0, 3, 200])))
    rows = [(*one, *other) for one, other in zip(amounts.tolist(), bits.tolist(), strict=True)]
    order = sorted(set(rows))
    assert numbered(amounts, bits).tolist() == [order.index(row) for row in rows]
