"""What a work queue did so far: counts and durations, cheap enough to be kept at every turn."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

# Seconds; those of the libraries that Karpenter is made with, so that dashboards show the same.
TURN = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
WORK = tuple(10.0**power for power in range(-8, 4))
SUCCESS, LATER, ERROR = "success", "requeue_after", "error"


class Durations:
    """How many were at most as long as each bound, in seconds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one: longer than every bound
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Tally:
    """Of one queue, since the process began."""

    added: int = 0
    retried: int = 0  # added for later
    results: dict[str, int] = field(default_factory=lambda: dict.fromkeys((SUCCESS, LATER, ERROR), 0))
    waited: Durations = field(default_factory=lambda: Durations(WORK))
    worked: Durations = field(default_factory=lambda: Durations(WORK))
    turns: Durations = field(default_factory=lambda: Durations(TURN))

    def ended(self, result: str, seconds: float) -> None:
        """A turn is over."""
        self.results[result] += 1
        self.worked.observe(seconds)
        self.turns.observe(seconds)
