"""The inputs of Karpenter's own scheduling benchmark as they are, recorded from it as data."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from benchmarks.solve.case import FIRST, SolveCase, Target
from dovetail.model import labels
from dovetail.model.problem import Problem
from dovetail.testing.scenarios import to_problem

_FOLDER = Path(__file__).parent.parent.parent / "tests" / "conformance" / "vectors" / "karpenter_bench"


def cases() -> list[SolveCase]:
    """All three. Labels and selectors are drawn independently from one shared key: rules cross."""
    return [
        SolveCase(
            "original/diverse_2000",
            partial(problem, "diverse_2000"),
            budgets=(FIRST, 1.0, 10.0),
            targets={FIRST: Target(seconds=0.4), 1.0: Target(over_bound=1.05), 10.0: Target(over_bound=1.02)},
            rival="6.1-8.0 s, 400 nodes, $711.65/h",
        ),
        SolveCase(
            "original/diverse_20000",
            partial(problem, "diverse_20000"),
            budgets=(FIRST, 2.0),
            targets={FIRST: Target(seconds=1.2)},
            rival="105 s, 4,000 nodes",
        ),
        SolveCase(
            "original/preferences_4000", partial(problem, "preferences_4000"), rival="83 s, 4,000 nodes"
        ),
    ]


def problem(name: str) -> Problem:
    """The question, made anew."""
    return to_problem({"wellKnownLabels": sorted(labels.WELL_KNOWN), **_document(name)})


@lru_cache(maxsize=1)
def _document(name: str) -> dict[str, Any]:
    with gzip.open(_FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        document: dict[str, Any] = json.loads(next(lines))
    return document.get("scenario", document)
