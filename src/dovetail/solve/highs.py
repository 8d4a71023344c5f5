"""HiGHS as this solver uses it: silent, and the same answer every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import highspy
from highspy import _core

S = TypeVar("S", bound=_core._Highs)


def quiet_solver(**options: bool | float | str) -> _core._Highs:
    """A solver with one thread and a fixed seed, and these options besides.

    Without callbacks: what the library adds for them costs more than many a small program.
    """
    return _quiet(_core._Highs(), options)


def asking_solver(**options: bool | float | str) -> highspy.Highs:
    """The same with callbacks, for who wants to stop it."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the library has no annotations
    return _quiet(solver, options)


def _quiet(solver: S, options: Mapping[str, bool | float | str]) -> S:
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 1, **options}.items():
        solver.setOptionValue(name, value)
    return solver
