"""What two tables of yes and no share."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dovetail.model.arrays import share

_SIZE = st.integers(0, 5)


@given(data=st.data(), size=st.tuples(_SIZE, _SIZE, _SIZE))
def test_what_is_true_in_both_is_shared(data: st.DataObject, size: tuple[int, int, int]) -> None:
    rows = data.draw(arrays(np.bool_, size[:2]))
    columns = data.draw(arrays(np.bool_, size[1:]))
    expected = [[any(row & column) for column in columns.T] for row in rows]
    assert share(rows, columns).tolist() == expected
