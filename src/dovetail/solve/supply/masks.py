"""Tables of yes and no."""

from __future__ import annotations

import numpy as np

from dovetail.solve.supply.encode import Mask


def share(rows: Mask, columns: Mask) -> Mask:
    """(A, B): whether any of N things is true in both; `rows` (A, N), `columns` (N, B).

    Nothing in here can be invalid. Libraries for matrices work on whole registers, and now and then complain
    of what happens to be in lanes that nothing was loaded into.
    """
    with np.errstate(invalid="ignore"):
        result: Mask = rows.astype(np.float32) @ columns.astype(np.float32) > 0
    return result
