"""HiGHS as this solver uses it: silent, and the same answer every time."""

from __future__ import annotations

import highspy


def quiet_solver(**options: bool | float | str) -> highspy.Highs:
    """A solver with one thread and a fixed seed, and these options besides."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the library has no annotations
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 1, **options}.items():
        solver.setOptionValue(name, value)
    return solver
