"""`dovetail replay`: a real cluster, from a snapshot and its history, played again."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError, InputErrors, Place
from dovetail.cli.messages import note
from dovetail.simulate.scenario.policy import Policy


def replay(
    *snapshot: Path,
    history: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    trace: Path | None = None,
    keep: Path | None = None,
    region: str | None = None,
    until: str | None = None,
    seed: int | None = None,
    policy: Policy | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
    report: Path | None = None,
) -> None:
    """Play a real cluster again in virtual time: what would another policy have done with last week?

    A snapshot (`dovetail snapshot`) says what the cluster is: workloads, DaemonSets, NodePools, budgets,
    priorities, volumes, managed nodes. A history says its load. What is not known is assumed, and listed.

    Examples:

    - `dovetail replay cluster.json.gz`
    - `dovetail replay cluster.json.gz --history replicas.json --history audit.log --keep last-week`
    - `dovetail compare last-week --policy dovetail --policy karpenter`

    Parameters
    ----------
    snapshot
        What `dovetail snapshot` wrote, or manifests; several are taken together.
    history
        Answers of Prometheus to range queries of kube-state-metrics (JSON), or Kubernetes audit logs.
    trace
        A CSV of pods (name, cpu_milli, memory_mib, num_gpu, creation_time, deletion_time) beside it.
    keep
        Write the scenario into this new folder: simulate, compare and sweep play it as any other.
    region
        The region, where the nodes do not say it.
    until
        Play this much, such as 6h. All of the history by default; two hours without one.
    seed
        Luck: boot times and spot capacity.
    policy
        Which is in charge of nodes: dovetail, karpenter or cluster-autoscaler.
    output
        A summary to read, or JSON with every figure.
    report
        Write an HTML report to this file.
    """
    from rich.console import Console

    from dovetail.cli.assumed_pool import with_pool
    from dovetail.cli.group_shares import shares_of
    from dovetail.cli.plan_input import asks_for_nodes, refuse_twins
    from dovetail.cli.region import refuse_unknown_region, resolve
    from dovetail.cli.runs_output import time_of
    from dovetail.cli.simulate_live import live_view
    from dovetail.cli.tables import write_out
    from dovetail.reading import read
    from dovetail.simulate.analysis.summary import to_json
    from dovetail.simulate.analysis.summary_table import summary_table
    from dovetail.simulate.replay.folder import Wanted, write_replay
    from dovetail.simulate.replay.history import read_past
    from dovetail.simulate.run import simulate
    from dovetail.simulate.scenario.scenario import FILE_NAME, load
    from dovetail.views.page.document import check_target
    from dovetail.views.report.write import write_report

    if not snapshot:
        raise InputError("which cluster?", remedy="give a file of: dovetail snapshot -o cluster.json.gz")
    for path in snapshot:
        if (path / FILE_NAME).is_file():
            raise InputError(
                "this is a scenario already", source=str(path), remedy=f"play it: dovetail simulate {path}"
            )
    length = time_of(until)
    check_target(report)
    reading = read(list(snapshot))
    for line in (*reading.notes, *shares_of(reading.node_groups)):
        note(line)
    refuse_twins(reading.manifests)
    reading, assumed_pools = with_pool(reading)
    if assumed_pools:
        note(assumed_pools)
    objects = (item.object for item in reading.manifests)
    place = resolve(region, objects, os.environ, groups=reading.node_groups)
    if place is None:
        raise InputError("which region?", remedy="the nodes do not say it: give --region us-east-1")
    refuse_unknown_region(place.name, place.origin)
    if not history and trace is None and not asks_for_nodes(reading):
        raise InputError(
            "there is nothing to play: no pods, workloads or nodes",
            source=str(snapshot[0]),
            remedy="give what dovetail snapshot -o cluster.json.gz wrote, or --history or --trace",
        )
    past = read_past(history) if history else None
    wanted = Wanted(snapshot[0].name.split(".")[0] or "replay", place.name, past, trace, length)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as spare:
        folder = keep if keep is not None else Path(spare) / "replay"
        assumed = write_replay(reading.manifests, wanted, folder)
        console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
        console.print("Assumed:")
        for subject, value in sorted(assumed.items()):
            console.print(f"  {subject}: {value}")
        given = snapshot[0] if keep is None else folder
        with _told_of(given, folder):
            scenario = load(folder)
        if policy is not None:
            scenario = scenario.under(policy)
        if seed is not None:
            scenario = scenario.seeded(seed)
        with live_view(scenario) as listener, _told_of(given, folder):
            result = simulate(scenario, listener=listener)
    if report is not None:
        write_report(result, report)
    if output == "json":
        print(json.dumps(to_json(result.summary), indent=2))
    else:
        write_out(summary_table(result.summary))
    if keep is not None:
        console.print(f"Scenario: {keep}")


@contextmanager
def _told_of(given: Path, folder: Path) -> Iterator[None]:
    """What is wrong with the scenario in the folder is wrong with what was `given`."""
    try:
        yield
    except InputError as error:
        if given == folder:
            raise
        raise InputErrors.of(tuple(_moved(one, given, folder) for one in error.faults)) from None


def _moved(error: InputError, given: Path, folder: Path) -> InputError:
    if not error.source.startswith(str(folder)):
        return error
    place: Place = {**error.place, "source": str(given), "line": None, "column": None}
    return InputError(error.message, **place)
