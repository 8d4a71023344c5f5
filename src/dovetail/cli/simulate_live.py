"""What a user sees while a simulation runs: a live line on a terminal, an occasional line elsewhere.

Or, with --live, the cluster itself in `dovetail top`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.cli.terminal import application_of
from dovetail.simulate.analysis.log import Progress as Moment
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.run import Listener, Result, simulate
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.units.money import dollars
from dovetail.views.top.board import Board
from dovetail.views.top.feed import SimulationFeed

_REFRESH = 0.1  # seconds of real time between updates of the terminal


@contextmanager
def live_view(scenario: Scenario, *, minutes: int = 30) -> Iterator[Listener]:
    """A listener that shows progress on standard error for as long as the context lasts.

    Without a terminal it is a line whenever so many minutes have passed in the cluster.
    """
    console = Console(stderr=True, highlight=False)
    zone = ZoneInfo(scenario.file.timezone)
    if console.is_terminal:
        with _bar(scenario, console) as bar:
            task = bar.add_task(scenario.file.name, total=1.0, **_columns(None, zone))
            yield _every(
                _REFRESH, lambda moment: bar.update(task, completed=moment.done, **_columns(moment, zone))
            )
            bar.update(task, completed=1.0)
    else:
        yield _lines(console, zone, minutes * MINUTE)


def play_watched(scenario: Scenario, faults: Faults | None, events: Path | None) -> Result | None:
    """Play it while `dovetail top` shows it; None when it was left before the end. Raises InputError."""
    if not sys.stdout.isatty():
        raise InputError("standard output is no terminal", source="--live", remedy="leave --live out")
    application = application_of()
    found: list[Result] = []

    def play(feed: SimulationFeed) -> None:
        found.append(simulate(scenario, faults=faults, events=events, spectator=feed))

    feed = SimulationFeed(scenario.file.name, scenario.start, play)
    shown = application(Board(), feed, ZoneInfo(scenario.file.timezone))
    shown.run()
    if shown.failure is not None:
        raise shown.failure
    return found[0] if found else None


def _bar(scenario: Scenario, console: Console) -> Progress:
    return Progress(
        TextColumn(f"[bold]{scenario.file.name}"),
        BarColumn(bar_width=24),
        TextColumn("[cyan]{task.fields[clock]}"),
        TextColumn("{task.fields[nodes]} nodes"),
        TextColumn("{task.fields[pods]} pods"),
        TextColumn("[{task.fields[colour]}]{task.fields[pending]} pending"),
        TextColumn("[green]{task.fields[hourly]}/h"),
        console=console,
        refresh_per_second=10,
    )


def _columns(moment: Moment | None, zone: ZoneInfo) -> dict[str, Any]:
    if moment is None:
        return {"clock": "--:--", "nodes": 0, "pods": 0, "pending": 0, "hourly": "$0.00", "colour": "dim"}
    return {
        "clock": _clock(moment, zone),
        "nodes": moment.nodes,
        "pods": moment.pods,
        "pending": moment.pending,
        "hourly": f"${dollars(moment.hourly):.2f}",
        "colour": "yellow" if moment.pending else "dim",
    }


def _clock(moment: Moment, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(moment.now // SECOND, zone).strftime("%H:%M")


def _every(seconds: float, show: Callable[[Moment], None]) -> Listener:
    """Pass on at most one moment per so much real time."""
    last = 0.0

    def listen(moment: Moment) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            show(moment)

    return listen


def _lines(console: Console, zone: ZoneInfo, every: int) -> Listener:
    upcoming = 0

    def listen(moment: Moment) -> None:
        nonlocal upcoming
        if moment.now >= upcoming or moment.done >= 1:
            upcoming = moment.now - moment.now % every + every
            console.print(
                f"{_clock(moment, zone)}  {moment.nodes:3} nodes  {moment.pods:4} pods  "
                f"{moment.pending:4} pending  ${dollars(moment.hourly):.2f}/h",
                markup=False,
            )

    return listen
