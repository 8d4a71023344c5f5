"""Ordinary manifests as a user would bring them, each with a shape of its own, on the types of us-east-1.

StatefulSets with zonal volumes, GPUs beside web, soft affinities, spreads over capacity types and own labels,
limits, minValues, DaemonSets, 30 nodes at 40 % use. They were drawn once, from recipes by hand, and are kept
as they are, so that figures of different versions may be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.solve.case import SolveCase
from dovetail.cli.question import Question
from dovetail.model.problem import Problem

_FOLDER = Path(__file__).parent / "manifests"
NAMES = tuple(sorted(path.name.partition(".")[0] for path in _FOLDER.glob("*.json.gz")))


def problem(name: str) -> Problem:
    """What `dovetail plan -f` makes of the manifests of that name."""
    asked = Question(filename=(str(_FOLDER / f"{name}.json.gz"),), region="us-east-1")
    return asked.with_copies()[0]


def _made(name: str) -> Callable[[], Problem]:
    return lambda: problem(name)


def cases() -> list[SolveCase]:
    """One for each, with a second."""
    return [SolveCase(f"ordinary/{name}", _made(name), (1.0,)) for name in NAMES]
