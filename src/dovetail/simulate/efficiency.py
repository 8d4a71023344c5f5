"""How efficient the managed nodes were over a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from dovetail.simulate.figures import EfficiencyFigures

_DIGITS = 4


def efficiency_figures(records: Iterable[Mapping[str, Any]], end: int) -> EfficiencyFigures:
    """From the looks that the controller took; the mean weighs each by what was paid until the next one."""
    looks = [record for record in records if record["kind"] == "efficiency"]
    if not looks:
        return EfficiencyFigures(start=None, end=None, mean=None)
    spans = [later - earlier for earlier, later in pairwise([*(look["t"] for look in looks), end])]
    paid = sum(look["cost"] * span for look, span in zip(looks, spans, strict=True))
    needed = sum(look["lowerBound"] * span for look, span in zip(looks, spans, strict=True))
    ratios = [look["lowerBound"] / look["cost"] for look in looks]
    return EfficiencyFigures(
        start=round(ratios[0], _DIGITS),
        end=round(ratios[-1], _DIGITS),
        mean=round(needed / paid if paid else ratios[-1], _DIGITS),
    )
