"""The same bursts on a real API server, scheduler and workload controllers, beside their simulation."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.realised import drift
from benchmarks.realised.run import realised
from benchmarks.realised.workloads import BURST_MINUTES, workload
from dovetail.base.clock import MINUTE
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.simulate.live.play import play_live
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import Scenario, load
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane

# Milliseconds from when a pod is bound until it runs, at least and at most: an image is pulled and containers
# start, as in the simulation in the median. What kwok plays starts at once else.
STARTS = 3_000, 6_000
WORLDS = SIMULATED, REAL = "simulated", "cluster"
# One of each family that differs, small ones beside large ones; the sixth is the case of ten Deployments of
# which every other one must be spread over zones.
TEN = (
    "plain-152",
    "zones-33",
    "zones-wished-147",
    "hosts-47",
    "apart-46",
    "zones-454",
    "near-48",
    "rules-135",
    "daemons-40",
    "half-full-115",
)


def both(
    name: str, minutes: int, seed: int = 1, *, nominate: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of its simulation and those of a cluster, over so many minutes from the burst on."""
    burst = workload(name)
    with tempfile.TemporaryDirectory() as folder:
        written = burst.write(Path(folder) / "scenario", BURST_MINUTES + minutes, nominate=nominate)
        for world, result in _worlds(load(written).seeded(seed)):
            found = realised(result.records, result.start + BURST_MINUTES * MINUTE, result.end)
            yield world, _row(name, seed, result, asdict(found))


def both_drifting(name: str, seed: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same of a burst, a drift and the loss of half of the pods, as `play_drift` has them but sooner.
    What can be reached at best is not asked.
    """
    with tempfile.TemporaryDirectory() as folder:
        bound = drift.least_of_half(name, seed, Path(folder) / "alone")
        scenario = drift.scenario(name, seed, Path(folder) / "drift", drift.SHORT)
        for world, result in _worlds(scenario):
            found = drift.drifted(result.records, result.start, drift.SHORT, bound, math.nan)
            yield world, _row(name, seed, result, asdict(found))


def _worlds(scenario: Scenario) -> Iterator[tuple[str, Result]]:
    yield SIMULATED, simulate(scenario)
    with ControlPlane(build(), starts=STARTS) as plane:
        define(plane)
        access = Kubeconfig([plane.kubeconfig]).access()
        yield REAL, asyncio.run(play_live(scenario, access))


def _row(name: str, seed: int, result: Result, found: dict[str, Any]) -> dict[str, Any]:
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **found}
