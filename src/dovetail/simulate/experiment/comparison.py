"""Runs of several variants, beside each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from dovetail import __version__
from dovetail.base.errors import InputError
from dovetail.simulate.experiment.measures import MEASURES, Difference, difference
from dovetail.simulate.experiment.runs import Run
from dovetail.simulate.experiment.steps import Steps


@dataclass(frozen=True, slots=True)
class Way:
    """A variant and what its runs came to. `differences` are to the first way, over the seeds of both."""

    name: str
    figures: dict[int, dict[str, float]]  # by seed
    sha256: dict[int, str]
    version: str = __version__
    run: Run | None = field(default=None, repr=False)  # of the first seed; None for what an earlier run wrote
    steps: Steps | None = None
    differences: dict[str, Difference] = field(default_factory=dict)

    def mean(self, key: str) -> float:
        """Over all its seeds."""
        return fmean(each[key] for each in self.figures.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first way is what the others are compared with."""

    ways: tuple[Way, ...]
    seeds: tuple[int, ...]  # that all ways have in common


def compared(runs: Sequence[Run], old: Sequence[Way]) -> Comparison:
    """The runs by variant, then ways of earlier comparisons. Raises InputError where they share no seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.job.variant.name, []).append(run)
    ways = [_way(name, items) for name, items in groups.items()]
    ways += [_renamed(each, groups) for each in old]
    common = set.intersection(*(set(way.figures) for way in ways))
    if not common:
        raise InputError("no seed was played in all ways", remedy="give --seeds that the file has too")
    seeds = tuple(sorted(common))
    first = ways[0]
    judged = [first]
    for way in ways[1:]:
        found = {
            one.key: difference(_over(first, one.key, seeds), _over(way, one.key, seeds)) for one in MEASURES
        }
        judged.append(replace(way, differences=found))
    return Comparison(tuple(judged), seeds)


def _over(way: Way, key: str, seeds: Sequence[int]) -> list[float]:
    return [way.figures[seed][key] for seed in seeds]


def _way(name: str, runs: Sequence[Run]) -> Way:
    return Way(
        name,
        {run.job.seed: run.figures for run in runs},
        {run.job.seed: run.sha256 for run in runs},
        run=runs[0],
        steps=runs[0].steps,
    )


def _renamed(way: Way, taken: dict[str, Any]) -> Way:
    if way.name not in taken:
        return way
    return Way(f"{way.name} (Dovetail {way.version}, earlier)", way.figures, way.sha256, way.version)


def earlier(path: Path) -> list[Way]:
    """The ways of a file that `compare -o json` wrote. Raises InputError."""
    remedy = "give what `dovetail compare ... -o json > FILE` wrote"
    try:
        found = json.loads(path.read_text("utf-8"))
        ways = [_read(item) for item in found["ways"]]
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", source=str(path), remedy=remedy) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError("is no comparison", source=str(path), remedy=remedy) from None
    keys = {one.key for one in MEASURES}
    if not all(keys <= figures.keys() for way in ways for figures in way.figures.values()):
        raise InputError("lacks figures that are compared now", source=str(path), remedy=remedy)
    return ways


def _read(item: Any) -> Way:
    runs = item["runs"]
    figures = {int(run["seed"]): {key: float(x) for key, x in run["figures"].items()} for run in runs}
    hashes = {int(run["seed"]): str(run["eventLogSha256"]) for run in runs}
    return Way(str(item["name"]), figures, hashes, str(item["version"]))
