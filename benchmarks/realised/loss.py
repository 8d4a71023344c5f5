"""What a loss of half of the pods makes of a burst, in an hour of virtual time or, with a drift, in two.

The burst of a workload; 18 minutes later half of the replicas go, and with a drift all nodes are of an old
template a quarter of an hour after that, under the usual budget of a tenth.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.realised.churn import moved_again, undone
from benchmarks.realised.drift import alone, changed, halved, proven, write
from benchmarks.realised.run import Record, hourly, spent
from benchmarks.realised.workloads import BURST_MINUTES, workloads
from dovetail.base.clock import MINUTE
from dovetail.base.collector import collect_seldom
from dovetail.disrupt.command import DRIFTED
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.units.money import NANO_DOLLARS

LOSS, DRIFT = 20, 35  # minutes of the scenario
END, END_OF_DRIFT = 80, 140


@dataclass(frozen=True, slots=True)
class Lost:
    """One run, from the loss on."""

    spent: float  # $
    last: float  # $/h in the end
    end: float  # the same over the bound of what runs then
    evicted: int
    twice: int  # of these, such as had come within the hour before in place of an evicted one
    undone: int  # commands that a later one undid within the hour, see `benchmarks.realised.churn`
    failed: int  # commands whose replacements did not come
    renewed: int  # minutes from the drift to its last command


def play_loss(run: tuple[str, int], *, drift: bool) -> dict[str, Any]:
    """One workload, by name, on one seed: the fields of Lost."""
    name, seed = run
    collect_seldom()
    workload = next(one for one in workloads() if one.name == name)
    workload.update = []
    changes = {LOSS: halved(workload.burst)}
    if drift:
        changes[DRIFT] = changed(workload.base)
    end = END_OF_DRIFT if drift else END
    with tempfile.TemporaryDirectory() as folder:
        result = simulate(load(write(workload, Path(folder) / "loss", changes, end)).seeded(seed))
        bound = proven(simulate(load(alone(workload, Path(folder) / "alone")).seeded(seed)).records)
    found = lost(result.records, result.start, end, bound)
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **asdict(found)}


def lost(records: Sequence[Record], start: int, end: int, bound: float) -> Lost:
    """Figures of a run; `start` in nanoseconds, `end` in minutes, the bound in $/h. Pure."""
    burst, loss, drift, until = (start + m * MINUTE for m in (BURST_MINUTES, LOSS, DRIFT, end))
    last = hourly(records, burst, until) / NANO_DOLLARS
    drifted = [r["t"] for r in records if r["kind"] == "disruption" and r["reason"] == DRIFTED]
    return Lost(
        spent=(spent(records, burst, until) - spent(records, burst, loss)) / NANO_DOLLARS,
        last=last,
        end=last / bound,
        evicted=sum(r["kind"] == "pod.evicted" and loss <= r["t"] < until for r in records),
        twice=moved_again(records, loss),
        undone=undone(records, loss),
        failed=sum(r["kind"] == "disruption.failed" for r in records),
        renewed=(max(drifted, default=drift) - drift) // MINUTE,
    )
