"""How long things take that only a real cluster would know: distributions, drawn per entity."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.base.streams import stream
from dovetail.simulate.scenario.traffic import Section
from dovetail.units.duration import parse_duration

_MILLISECOND = 1_000_000
_Z99 = 2.3263  # standard normal quantile of 99 %
_WIDEST = 3.0  # draws beyond three standard deviations are cut: one draw must not decide a run


class Latency(Section, frozen=True, kw_only=True):
    """A log-normal length of time by its median and its 99th percentile; without `p99` it is constant."""

    median: str
    p99: str = ""

    def __str__(self) -> str:
        return f"median {self.median}, p99 {self.p99}" if self.p99 else f"always {self.median}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A Latency ready to be drawn from. `median` in nanoseconds; `sigma` of the underlying normal."""

    median: int
    sigma: float

    @staticmethod
    def of(latency: Latency) -> Distribution:
        """Raises ValueError for a duration that cannot be read, or a p99 below the median."""
        median = parse_duration(latency.median)
        top = parse_duration(latency.p99) if latency.p99 else median
        if median < 0 or top < median:
            raise ValueError(f"the median {latency.median!r} must be at least 0s and p99 not less than it")
        return Distribution(median, math.log(top / median) / _Z99 if median else 0.0)

    def draw(self, seed: int, entity: str, purpose: str) -> int:
        """Nanoseconds, in whole milliseconds; always the same for the same arguments."""
        z = stream(seed, entity, purpose).gauss(0.0, 1.0)
        factor = math.exp(self.sigma * min(max(z, -_WIDEST), _WIDEST))
        return round(self.median * factor / _MILLISECOND) * _MILLISECOND


class Latencies(Section, frozen=True, kw_only=True):
    """All latencies of a scenario. The defaults are assumptions of Dovetail's, not measurements."""

    launch: Latency = Latency(median="2s", p99="5s")  # a launch call, until the instance is pending
    boot: Latency = Latency(median="26s", p99="50s")  # instance pending until its Node object exists
    ready: Latency = Latency(median="8s", p99="18s")  # Node object until it is Ready (network plug-in)
    pull: Latency = Latency(median="3s", p99="14s")  # an image that the node has not got yet
    start: Latency = Latency(median="1500ms", p99="5s")  # containers, until the pod is Ready
    stop: Latency = Latency(median="2s", p99="20s")  # a pod that is asked to stop, within its grace period
    terminate: Latency = Latency(median="35s", p99="80s")  # a termination call, until the instance is gone
