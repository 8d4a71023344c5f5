"""What one node can hold, exactly, as an integer program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.int64]
Row = tuple[dict[int, float], float]  # column -> factor, and the most that they add up to
SLACK = 1e-6  # share by which integer programs may be off


@dataclass(frozen=True, slots=True)
class Load:
    """K kinds of things to hold: their worth, what one takes (K, R), and how many there are.

    `caps` are (kinds, most): of these kinds together so many at most. `apart` are pairs of different kinds
    that never share a node.
    """

    worth: Sequence[int]
    needs: Amounts
    count: Sequence[int]
    caps: tuple[tuple[tuple[int, ...], int], ...] = ()
    apart: tuple[tuple[int, int], ...] = ()


def holds_more(load: Load, room: Sequence[int], allowed: Sequence[bool], than: int) -> bool:
    """True iff something fits into `room` (R,) that is worth more than that, by a millionth at least."""
    upper = [_alone(load, kind, room) if allowed[kind] else 0 for kind in range(len(load.worth))]
    some = [kind for kind, most in enumerate(upper) if most and load.worth[kind] > 0]
    if sum(load.worth[kind] * upper[kind] for kind in some) <= than:
        return False
    place = {kind: index for index, kind in enumerate(some)}
    tied = sorted({kind for pair in load.apart for kind in pair if all(each in place for each in pair)})
    flag = {kind: len(some) + index for index, kind in enumerate(tied)}
    rows: list[Row] = []
    for row, amount in enumerate(room):
        used = {place[kind]: load.needs[kind, row] / amount for kind in some if load.needs[kind, row] > 0}
        if used:
            rows.append((used, 1.0))
    rows += [({place[kind]: 1.0 for kind in kinds if kind in place}, most) for kinds, most in load.caps]
    rows += [({place[kind]: 1.0, flag[kind]: -float(upper[kind])}, 0.0) for kind in tied]
    rows += [({flag[a]: 1.0, flag[b]: 1.0}, 1.0) for a, b in load.apart if a in flag and b in flag]
    bounds = [float(upper[kind]) for kind in some] + [1.0] * len(tied)
    gain = {place[kind]: load.worth[kind] / max(than, 1) for kind in some}
    in_parts = maximum(gain, bounds, rows, whole=False)
    if in_parts is None or in_parts <= 1 + SLACK:
        return False
    wanted = ({column: -value for column, value in gain.items()}, -(1 + SLACK))
    return maximum({}, bounds, [*rows, wanted], whole=True) is not None


def _alone(load: Load, kind: int, room: Sequence[int]) -> int:
    most = load.count[kind]
    for row, amount in enumerate(room):
        need = int(load.needs[kind, row])
        if need > 0:
            most = min(most, max(0, amount) // need)
    return most


def maximum(gain: dict[int, float], upper: list[float], rows: list[Row], *, whole: bool) -> float | None:
    """The most gain·x for 0 <= x <= upper with each row at most its limit; None if no x will do."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(upper), len(rows)
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = np.array([gain.get(column, 0.0) for column in range(len(upper))])
    model.col_lower_, model.col_upper_ = np.zeros(len(upper)), np.array(upper)
    if whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(upper)
    model.row_lower_ = np.full(len(rows), -highspy.kHighsInf)
    model.row_upper_ = np.array([limit for _, limit in rows])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    starts = np.cumsum([0, *(len(row) for row, _ in rows)])
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = np.array([column for row, _ in rows for column in row], dtype=np.int32)
    model.a_matrix_.value_ = np.array([value for row, _ in rows for value in row.values()], dtype=np.float64)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the library has no annotations
    for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
        solver.setOptionValue(name, value)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    return float(solver.getInfo().objective_function_value)
