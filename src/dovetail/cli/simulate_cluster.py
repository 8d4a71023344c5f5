"""`dovetail simulate --kubeconfig`: the same scenario in virtual time and on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dovetail.base.errors import DovetailError
from dovetail.cli.run import first
from dovetail.cli.simulate_live import live_view
from dovetail.kube.http.kubeconfig import locate
from dovetail.simulate.analysis.summary import to_json
from dovetail.simulate.live.compare import TOLERANCE, Row, compare
from dovetail.simulate.live.play import play_live
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import Scenario


def on_cluster(plan: Scenario, kubeconfig: Path, context: str, events: Path | None) -> tuple[Result, Result]:
    """Both runs; the cluster's first, as it is the one that may be refused."""
    access = locate(os.environ, kubeconfig=kubeconfig, context=context)
    try:
        with live_view(plan, minutes=1) as listener:
            real = asyncio.run(play_live(plan, access, events=events, listener=listener))
    except* DovetailError as group:
        raise first(group) from None
    return simulate(plan), real


def print_comparison(simulated: Result, real: Result, output: str) -> None:
    """A table to read, or JSON with both summaries."""
    rows = compare(simulated, real)
    if output == "table":
        Console().print(_table(rows))
        return
    print(
        json.dumps(
            {
                "simulated": to_json(simulated.summary),
                "cluster": to_json(real.summary),
                "comparison": [
                    {
                        "figure": row.name,
                        "simulated": row.simulated,
                        "cluster": row.cluster,
                        "close": row.close,
                    }
                    for row in rows
                ],
            },
            indent=2,
        )
    )


def _table(rows: tuple[Row, ...]) -> Table:
    table = Table(title="Both runs", title_justify="left")
    for name in ("", "simulated", "cluster", "difference"):
        table.add_column(name, justify="left" if not name else "right")
    for row in rows:
        mark = "" if row.close else f" (more than {TOLERANCE:.0%})"
        table.add_row(row.name, f"{row.simulated:g}", f"{row.cluster:g}", f"{row.difference:.1%}{mark}")
    return table
