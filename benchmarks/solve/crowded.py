"""Problems that the solver cannot be tuned to: drawn anew from a seed, on the real types of a region.

`crowds` are large, `mixed` are small ones with rules of all kinds between their pods. The seed is printed;
`--seed` asks for the same ones again.
"""

from __future__ import annotations

import json
import random
from functools import partial

from benchmarks.solve import inputs
from benchmarks.solve.case import FIRST, SolveCase
from benchmarks.solve.inputs import Document
from benchmarks.solve.traces import types
from dovetail.model.problem import Problem
from dovetail.testing.crowds import crowd_of_pods
from dovetail.testing.problems import ZONES

_REGION = "us-east-1"
_CROWDS = ((10_000, 500), (30_000, 500), (50_000, 2_000))  # pods, and shapes among them
_MIXED = 12
_MOST, _FEWEST = 2_000, 10  # pods of a mixed one


def cases(seed: int) -> list[SolveCase]:
    """All of them, drawn from the seed."""
    return [
        *(
            SolveCase(
                f"crowds/{pods}x{shapes}",
                partial(question, seed, pods, shapes),
                budgets=(FIRST, 1.0, 2.0),
            )
            for pods, shapes in _CROWDS
        ),
        *(
            SolveCase(f"mixed/{number:02}", partial(mixed, seed, number), budgets=(FIRST, 1.0))
            for number in range(1, _MIXED + 1)
        ),
    ]


def mixed(seed: int, number: int) -> Problem:
    """One of the small ones: few pods are as likely as many."""
    draw = random.Random(f"mixed {seed} {number}")
    pods = int(_FEWEST * (_MOST / _FEWEST) ** draw.random())
    return question(draw.randrange(1 << 30), pods, max(1, int(pods ** draw.uniform(0.2, 0.9))))


def question(seed: int, pods: int, shapes: int) -> Problem:
    """Pods of so many shapes, each with a size and a rule of its own, and one pool."""
    documents: list[Document] = crowd_of_pods(random.Random(seed), pods, shapes)
    text = json.dumps(documents)
    for zone in ZONES:  # the generator's names for zones
        text = text.replace(f'"{zone}"', f'"{_REGION}{zone[-1]}"')
    return inputs.problem(json.loads(text), types(_REGION))
