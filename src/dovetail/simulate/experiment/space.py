"""The settings that a sweep tries: every combination of lists, or samples of lists and ranges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import yaml

from dovetail.base.errors import InputError
from dovetail.base.streams import stream
from dovetail.base.yaml_writing import inline
from dovetail.simulate.scenario.changed import Change

_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")
_EXAMPLE = "give PATH=VALUE,VALUE or PATH=FROM..TO, such as settings.podMovesPerDay=1,2,5"
_SHORT = {"policy": "settings.policy"}


@dataclass(frozen=True, slots=True)
class Axis:
    """One field and what it may be: `values`, or a range of numbers, from which samples are drawn."""

    path: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @staticmethod
    def parse(text: str) -> Axis:
        """Raises InputError for what is no PATH=VALUES."""
        path, equals, right = text.partition("=")
        path = _SHORT.get(path.strip(), path.strip())
        if not equals or not path or not right.strip():
            raise InputError(f"{text!r} varies nothing", source="--vary", remedy=_EXAMPLE)
        found = _RANGE.fullmatch(right.strip())
        if found is not None:
            low, high = float(found[1]), float(found[2])
            if low >= high:
                raise InputError(f"{right!r} is no range", source="--vary", remedy=_EXAMPLE)
            return Axis(path, (), low, high, "." not in found[1] + found[2])
        if right.strip().startswith("["):
            try:
                values = tuple(map(inline, yaml.safe_load(right)))
            except (yaml.YAMLError, TypeError):
                raise InputError(f"{right!r} is no list", source="--vary", remedy=_EXAMPLE) from None
        else:
            values = tuple(part.strip() for part in right.split(","))
        if len(set(values)) < len(values) or "" in values:
            raise InputError(f"{right!r} names a value twice, or none", source="--vary", remedy=_EXAMPLE)
        return Axis(path, values)

    def drawn(self, share: float) -> str:
        """The value at a share of the axis, 0 to below 1."""
        if self.values:
            return self.values[int(share * len(self.values))]
        if self.whole:
            return str(int(self.low + share * (self.high - self.low + 1)))
        return f"{self.low + share * (self.high - self.low):.6g}"


def points(axes: Sequence[Axis], samples: int | None, seed: int) -> Iterator[tuple[tuple[str, str], ...]]:
    """(path, value) of every axis, for each point. Samples fill every axis evenly (a Latin hypercube).

    Raises InputError for a range without samples, and for two axes of one field.
    """
    named = [axis.path for axis in axes]
    for path in named:
        if named.count(path) > 1:
            remedy = f"join its values: --vary {path}=VALUE,VALUE"
            raise InputError(f"{path} is varied twice", source="--vary", remedy=remedy)
    if samples is None:
        ranged = [axis.path for axis in axes if not axis.values]
        if ranged:
            raise InputError(f"{ranged[0]} is a range", source="--vary", remedy="say how many: --samples 50")
        for chosen in product(*(axis.values for axis in axes)):
            yield tuple((axis.path, value) for axis, value in zip(axes, chosen, strict=True))
        return
    columns = []
    for axis in axes:
        draws = stream(seed, "sweep", axis.path)
        order = list(range(samples))
        draws.shuffle(order)
        columns.append([axis.drawn((place + draws.random()) / samples) for place in order])
    seen = set()
    for row in zip(*columns, strict=True):
        if row not in seen:
            seen.add(row)
            yield tuple((axis.path, value) for axis, value in zip(axes, row, strict=True))


def changes(point: Sequence[tuple[str, str]]) -> tuple[Change, ...]:
    """The point as fields to set."""
    return tuple(Change.parse(f"{path}={value}", "--vary") for path, value in point)
