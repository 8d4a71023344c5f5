"""HiGHS as this solver uses it: silent, the same answer every time, integer programs within counted work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import highspy
import numpy as np
from highspy import _core

from dovetail.model.arrays import Amounts, Floats
from dovetail.model.problem import WORK_PER_SECOND
from dovetail.solve.budget import LITTLE, STEP, Late, SolveBudget
from dovetail.solve.tolerances import LESS

S = TypeVar("S", bound=_core._Highs)


def quiet_solver(**options: bool | float | str) -> _core._Highs:
    """A solver with one thread and a fixed seed, and these options besides.

    Without callbacks: what the library adds for them costs more than many a small program.
    """
    return _quiet(_core._Highs(), options)


def asking_solver(**options: bool | float | str) -> highspy.Highs:
    """A quiet solver with callbacks, so that it can be stopped on its way."""
    return _quiet(highspy.Highs(), options)  # type: ignore[no-untyped-call]  # it has no annotations


def _quiet(solver: S, options: Mapping[str, bool | float | str]) -> S:
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 1, **options}.items():
        solver.setOptionValue(name, value)
    return solver


# Units of work between two questions of the solver whether it shall go on: measured, 0.5 to 2 times that.
_QUESTION, _PER_ENTRY = 400, 0.6  # at least, and per factor
MOST_CELLS = 3_000  # items times offerings, or sites, of a program in whole numbers that comes to an end
# Seconds in which it may look at no clock: per entry, and per value of a column (of 1,024 at most), since it
# notes what each would cost. Of programs that were to end in between it took up to about 0.1 s more,
# which a deadline has as grace; to keep all of that would leave out many a program that ends early.
_DEAF, _DEAF_VALUE, _VALUES = 2.5e-5, 5e-7, 1024
# The same per value beyond these, of 4,096: of 33,164 pods of 3 shapes (240 such columns) it looked at no
# clock for 0.37 s with at most 1,000 values, 0.79 s with 4,000, 0.92 and 1.02 s with 8,000 and 16,000.
_DEAF_WIDE, _WIDEST = 1e-6, 4096
# Questions after which a search begins anew, with another seed and nothing that is dearer than what it found:
# where it gets into a part with many nodes it stays there. The nodes per site of 36 pods over three zones
# came to their end after 1,264 to 2,491 questions with five seeds of eight, not within 2,571 with the others.
_ANEW = 1_000
# Units that probing in presolve takes, without a question or a look at a clock, per variable and entry: of
# 1,062 variables with 16,103 entries 0.66 s, of 2,173 with 42,342 4.1 s, of 4,173 with 79,635 23 s. Without
# it the largest of these had its first bound after 0.6 s.
_PROBED, _NO_PROBING = 0.05, 1 << 15

Limits = tuple[Floats, Floats]  # the least and the most
Entries = tuple[Amounts, Amounts, Floats]  # rows, columns and values (N,)
NO_ENTRIES: Entries = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)


def integer_program(
    cost: Floats, limits: Limits, rows: Limits, entries: Entries, *, ordered: bool = False
) -> highspy.HighsLp:
    """A program in whole numbers: what variables cost, their least and most, the same of rows, and entries
    in any order; by column and then by row, so that they need not be sorted, if `ordered`.
    """
    row, column, value = entries
    order = slice(None) if ordered else np.lexsort((row, column))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(cost), len(rows[0])
    model.col_cost_, (model.col_lower_, model.col_upper_) = cost, limits
    model.row_lower_, model.row_upper_ = rows
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(cost)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.searchsorted(column[order], np.arange(len(cost) + 1)).astype(np.int32)
    model.a_matrix_.index_ = row[order].astype(np.int32)
    model.a_matrix_.value_ = value[order]
    return model


@dataclass(frozen=True, slots=True)
class Answer:
    """No solution costs less than `bound`, infinite where there is none; `values` of the best found.

    Of solutions that cost less than what was asked for, if that was limited.
    """

    bound: float
    values: Floats | None


def minimum(
    model: highspy.HighsLp, work: SolveBudget, *, share: float = LITTLE, below: float = np.inf, seed: int = 1
) -> Answer:
    """The minimum of an integer program; what is known of it once the work is used up.

    Only solutions that cost less than `below` are looked for, which takes much less where there are none.
    Work is charged by the size of the program every time the solver asks whether it shall go on, up to a
    `share` of the work that is left. One that takes long begins anew with the next `seed`.
    """
    check = max(_QUESTION, int(_PER_ENTRY * len(model.a_matrix_.value_)))
    seconds = work.seconds - _deaf(model)
    if seconds <= 0:
        return Answer(-float("inf"), None)
    probed = _PROBED * model.num_col_ * len(model.a_matrix_.value_)
    probing = probed <= min(work.rest * share, seconds * WORK_PER_SECOND)
    # It does not ask in every phase; a clock, where one ends the solve, it heeds in more of them.
    solver = asking_solver(
        mip_rel_gap=0.0,
        mip_abs_gap=1e-9,
        time_limit=seconds,
        objective_bound=below,
        presolve_rule_off=0 if probing else _NO_PROBING,
        # It solves programs of its own: twice the time, where it is clear already what is too dear.
        mip_heuristic_run_root_reduced_cost=below == np.inf,
        random_seed=seed,
    )
    enough, anew, late = work.after(share), work.used + _ANEW * seed * check, False

    def ask(event: Any) -> None:
        nonlocal late
        try:
            work.spend(check)
        except Late:  # not through the library
            late = True
        event.data_in.user_interrupt = late or work.used > anew or not work.until(enough)

    solver.cbMipInterrupt.subscribe(ask)
    solver.passModel(model)
    solver.run()
    work.spend(check)
    if late:
        raise Late
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return Answer(below, None)
    info = solver.getInfo()
    bound = min(float(info.mip_dual_bound), below)
    values = np.array(solver.getSolution().col_value, dtype=np.float64)
    known = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    known = known and float(info.objective_function_value) < below
    answer = Answer(bound if np.isfinite(bound) else -float("inf"), values if known else None)
    if solver.getModelStatus() != highspy.HighsModelStatus.kInterrupt or not work.until(enough):
        return answer
    share, below = (enough - work.used) / work.rest, info.objective_function_value * LESS if known else below
    other = minimum(model, work, share=share, below=below, seed=seed + 1)
    return Answer(max(answer.bound, other.bound), answer.values if other.values is None else other.values)


@dataclass(frozen=True, slots=True)
class Linear:
    """An optimum in fractions of patterns."""

    least: float  # dollars per hour
    duals: Floats  # per row
    values: Floats | None = None  # per variable


def optimum(
    model: highspy.HighsLp, work: SolveBudget, begun: tuple[_core._Highs, int] | None = None
) -> Linear | None:
    """Its optimum in fractions; None if there is no solution. Nothing is proven once the time is over.

    `begun`: a solver that knows so many of its variables and goes on from its last optimum.
    """
    model.integrality_ = []
    solver, known = begun or (quiet_solver(solver="simplex"), 0)
    solver.setOptionValue("time_limit", work.seconds)
    if known:
        columns, matrix = (model.col_cost_, model.col_lower_, model.col_upper_), model.a_matrix_
        starts = np.array(matrix.start_, dtype=np.int32)[known:]
        index, value = (np.array(some)[starts[0] :] for some in (matrix.index_, matrix.value_))
        cost, lower, upper = (np.array(some)[known:] for some in columns)
        solver.addCols(len(cost), cost, lower, upper, len(value), starts[:-1] - starts[0], index, value)
    else:
        solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    work.spend(STEP * model.num_row_ + STEP * max(0, info.simplex_iteration_count))
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return Linear(0.0, np.zeros(model.num_row_))
    found = solver.getSolution()
    return Linear(float(info.objective_function_value), np.array(found.row_dual), np.array(found.col_value))


def _deaf(model: highspy.HighsLp) -> float:
    """Seconds that the solver may take without a look at the clock."""
    whole = np.array([kind == highspy.HighsVarType.kInteger for kind in model.integrality_], dtype=np.bool_)
    values = np.minimum(np.array(model.col_upper_) - np.array(model.col_lower_), _WIDEST)[whole]
    noted = np.minimum(values, _VALUES)
    each = _DEAF_VALUE * noted + _DEAF_WIDE * (values - noted)
    return float(_DEAF * len(model.a_matrix_.value_) + each.sum())
