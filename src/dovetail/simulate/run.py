"""Playing a scenario from its start to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dovetail.base.clock import SECOND
from dovetail.kube.memory.store import Change
from dovetail.simulate.analysis.figures import Summary
from dovetail.simulate.analysis.log import JsonlLog, Meter, Progress, Record
from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.simulate.cluster import Cluster
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.time.clock import VirtualClock, run_virtual

# How often progress is reported, in virtual time. It is the same with a spectator and without.
_STEP = 5 * SECOND

Listener = Callable[[Progress], None]


class Spectator(Protocol):
    """Watches a simulation play; it changes nothing. What it raises ends the simulation."""

    def changed(self, change: Change[Any]) -> None:
        """An object of the API server changed."""

    def progress(self, now: int, records: Sequence[Record]) -> None:
        """Every five seconds of virtual time: the instant, and all records so far."""


@dataclass(frozen=True, slots=True)
class Result:
    """A simulation that has been played. `records` is the event log; instants are nanoseconds."""

    scenario: Scenario
    records: Sequence[Record]
    start: int
    end: int
    sha256: str
    wall_seconds: float
    summary: Summary


def simulate(
    scenario: Scenario,
    *,
    faults: Faults | None = None,
    events: Path | None = None,
    listener: Listener | None = None,
    spectator: Spectator | None = None,
) -> Result:
    """Play a scenario; the same scenario, faults and seed give the same records, byte for byte.

    `events` is a file for the log as it grows. Raises InputError for what only shows once the cluster is
    put together, such as an instance type that the region does not have.
    """
    begun = time.perf_counter()
    records, sha256 = run_virtual(
        partial(_play, scenario, faults, events, listener, spectator), start=scenario.start
    )
    wall = time.perf_counter() - begun
    end = scenario.start + scenario.duration
    run = Run(
        scenario=scenario.file.name,
        seed=scenario.seed,
        start=scenario.start,
        end=end,
        sha256=sha256,
        wall_seconds=wall,
        assumptions=tuple(str(item) for item in scenario.assumptions),
        terms=scenario.terms,
    )
    return Result(scenario, records, scenario.start, end, sha256, wall, summarize(records, run))


async def _play(
    scenario: Scenario,
    faults: Faults | None,
    events: Path | None,
    listener: Listener | None,
    spectator: Spectator | None,
    clock: VirtualClock,
) -> tuple[tuple[Record, ...], str]:
    end = scenario.start + scenario.duration
    meter = Meter(scenario.start, end)
    with JsonlLog(clock, events) as log:
        cluster = Cluster(scenario, clock, log, faults=faults)
        if spectator is not None:
            cluster.server.observe(spectator.changed)
        await cluster.prepare()
        running = asyncio.get_running_loop().create_task(cluster.run(), name="cluster")
        if listener is None and spectator is None:  # nothing to report: the last step is as long as ever
            await clock.sleep(max(0, end - _STEP - clock.now()))
        while clock.now() < end:
            await clock.sleep(min(_STEP, end - clock.now()))
            if listener is not None:
                listener(meter.read(log.records, clock.now()))
            if spectator is not None:
                spectator.progress(clock.now(), log.records)
        cluster.finish()
        # Taken before the parts are cancelled: what they write while they stop is no history.
        history = (tuple(log.records), log.sha256())
        running.cancel()
    return history
