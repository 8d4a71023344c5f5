"""Problems that the solver cannot be tuned to: drawn anew from a seed, on the real types of a region.

`crowds` are large, `mixed` are small ones with rules of all kinds between their pods, `services` are clusters
of many Deployments whose rules are about their own pods alone. The seed is printed; `--seed` asks for the
same ones again.
"""

from __future__ import annotations

import json
import random
from functools import partial

from benchmarks.solve import inputs
from benchmarks.solve.case import FIRST, SolveCase
from benchmarks.solve.inputs import Document
from benchmarks.solve.traces import types
from dovetail.model import labels
from dovetail.model.problem import Problem
from dovetail.testing.crowds import crowd_of_pods
from dovetail.testing.problems import ZONES

_REGION = "us-east-1"
_CROWDS = ((10_000, 500), (30_000, 500), (50_000, 2_000))  # pods, and shapes among them
_MIXED = 12
_MOST, _FEWEST = 2_000, 10  # pods of a mixed one
_DEPLOYMENTS = (30, 60, 120, 250)
_SIZES = (  # milli-CPU and MiB
    (50, 64),
    (100, 128),
    (100, 256),
    (200, 1024),
    (250, 512),
    (500, 512),
    (500, 1024),
    (1000, 2048),
    (1000, 4096),
    (2000, 4096),
)
_REPLICAS = (1, 2, 2, 3, 3, 3, 4, 6)


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
        *(
            SolveCase(f"services/{number}", partial(services, seed, number), budgets=(FIRST, 1.0))
            for number in range(1, 2 * len(_DEPLOYMENTS) + 1)
        ),
    ]


def mixed(seed: int, number: int) -> Problem:
    """One of the small ones: few pods are as likely as many."""
    draw = random.Random(f"mixed {seed} {number}")
    pods = int(_FEWEST * (_MOST / _FEWEST) ** draw.random())
    return question(draw.randrange(1 << 30), pods, max(1, int(pods ** draw.uniform(0.2, 0.9))))


def services(seed: int, number: int) -> Problem:
    """Deployments of a few sizes: half of them must be spread over zones and a fifth rather would, a third
    rather over hosts; a fifth keep their pods off each other's hosts, and a fifth rather would.
    """
    draw, documents = random.Random(f"services {seed} {number}"), list[Document]()
    for each in range(_DEPLOYMENTS[number % len(_DEPLOYMENTS)]):
        app, (cpu, memory) = {"app": f"app-{each}"}, draw.choice(_SIZES)
        spec: Document = _spreads(draw, app) | _apart(draw, app)
        for _ in range(draw.choice(_REPLICAS)):
            documents.append(inputs.pod(len(documents), cpu, memory, app, **spec))
    return inputs.problem(documents, types(_REGION))


def _spreads(draw: random.Random, app: dict[str, str]) -> Document:
    zones, hosts, found = draw.random(), draw.random(), []
    if zones < 0.7:
        found.append(inputs.spread(labels.ZONE, app))
        found[-1]["whenUnsatisfiable"] = "DoNotSchedule" if zones < 0.5 else "ScheduleAnyway"
    if hosts < 0.3:
        found.append(inputs.spread(labels.HOSTNAME, app) | {"whenUnsatisfiable": "ScheduleAnyway"})
    return {"topologySpreadConstraints": found} if found else {}


def _apart(draw: random.Random, app: dict[str, str]) -> Document:
    kind, section = draw.random(), inputs.near("podAntiAffinity", labels.HOSTNAME, app)
    if kind >= 0.4:
        return {}
    if kind >= 0.2:
        [term] = section["podAntiAffinity"].pop("requiredDuringSchedulingIgnoredDuringExecution")
        section["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 100, "podAffinityTerm": term}
        ]
    return {"affinity": section}


def question(seed: int, pods: int, shapes: int) -> Problem:
    """Pods of so many shapes, each with a size and a rule of its own, and one pool."""
    documents: list[Document] = crowd_of_pods(random.Random(seed), pods, shapes)
    text = json.dumps(documents)
    for zone in ZONES:  # the generator's names for zones
        text = text.replace(f'"{zone}"', f'"{_REGION}{zone[-1]}"')
    return inputs.problem(json.loads(text), types(_REGION))
