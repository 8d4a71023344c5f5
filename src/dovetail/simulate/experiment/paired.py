"""Differences of two variants over the same seeds, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

# Two-sided 95 % quantiles of Student's distribution, by degrees of freedom from 1 on.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Of the means, and how far the truth may be from it at 95 %; None with a single seed."""

    mean: float
    margin: float | None

    @property
    def sure(self) -> bool:
        """True iff the interval does not hold zero."""
        return self.margin is not None and abs(self.mean) > self.margin


def student(degrees: int) -> float:
    """The 95 % quantile; beyond 30 degrees of freedom by its expansion around the normal one."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    normal = 1.959964
    return float(normal + (normal**3 + normal) / (4 * degrees))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Of `theirs` less `ours`, pair by pair: what luck does to both cancels out."""
    pairs = [b - a for a, b in zip(ours, theirs, strict=True)]
    if len(pairs) < 2:
        return Difference(fmean(pairs), None)
    return Difference(fmean(pairs), student(len(pairs) - 1) * stdev(pairs) / sqrt(len(pairs)))
