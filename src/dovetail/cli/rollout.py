"""`dovetail rollout`: manifests change; when the last node is replaced, and what decides it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.words import number_of

if TYPE_CHECKING:
    from rich.console import Console

    from dovetail.simulate.questions.rollout import Course

_SHOWN = 8
_NEVER = float("inf")


def rollout(
    scenario: Path,
    *,
    filename: Annotated[tuple[Path, ...], Parameter(alias=["-f", "--file"], negative="")],
    after: str = "30m",
    watch: str = "12h",
    within: str | None = None,
    quota: int | None = None,
    undo: Path | None = None,
    alone: Annotated[bool, Parameter(negative="")] = False,
    seed: int | None = None,
    jobs: int | None = None,
    keep: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Apply new manifests while a scenario plays, and report when the last drifted node is replaced.

    Which budget decides that is found by playing it again with one thing changed at a time: a
    PodDisruptionBudget or a pool's budget that lets twice as many go, a window without moves left out.

    Examples:

    - `dovetail rollout last-week -f new-image.yaml --within 8h`
    - `dovetail rollout last-week -f new/ --watch 24h --alone --quota 4000 --undo back.yaml`

    Parameters
    ----------
    scenario
        The folder with a scenario.yaml; `dovetail replay --keep` makes one of a real cluster.
    filename
        The new manifests: files, or a folder of them. Of an object that is there, the fields that change are
        enough.
    after
        When they are applied, from the start of the scenario, less than a day: time for the cluster to come
        up before.
    watch
        How long is played from then on.
    within
        Name the single change that would finish in this time.
    quota
        The account's quota of vCPUs: says what the nodes, old and new together, leave of it at the peak.
    undo
        Write the objects as they are before the change into this file, to be applied to go back.
    alone
        Play nothing but the change itself.
    seed
        Luck; the scenario's own by default.
    jobs
        Processes at once; as many as there are cores by default.
    keep
        Write the scenario with the change into this new folder, for `dovetail simulate`.
    output
        An answer to read, or JSON.
    """
    from rich.console import Console

    from dovetail.cli.messages import notes
    from dovetail.cli.new_objects import check_quota, new_manifests, objects_of, of_quota, rewritten, way_back
    from dovetail.cli.runs_output import processes_of, progress, remark, time_of
    from dovetail.simulate.experiment.runs import Job, played
    from dovetail.simulate.experiment.variant import Variant
    from dovetail.simulate.questions.rollout import alternatives, course
    from dovetail.simulate.questions.stage import Addition, staged, time_of_day
    from dovetail.simulate.replay.folder import originals
    from dovetail.simulate.scenario.changed import Change
    from dovetail.simulate.scenario.scenario import load

    known = load(scenario)
    notes(known.notes)
    begins, length, limit = time_of(after, "--after"), time_of(watch, "--watch"), time_of(within, "--within")
    processes = processes_of(jobs)
    check_quota(quota)
    if limit is not None and limit > length:
        message = f"{within} is more than the {watch} that are watched"
        raise InputError(message, source="--within", remedy=f"watch longer: --watch {within}")
    before = originals(scenario)
    files, fresh = new_manifests(filename, objects_of(known, before))
    at = time_of_day(known, begins)
    assumed: dict[str, str] = {}
    if before:  # a replay: the account's selectors mean nothing in the simulated one
        objects, assumed = rewritten(known, fresh, before)
        extra = Addition(objects_later={at: objects}, duration=begins + length)
    else:
        extra = Addition(later={at: files}, duration=begins + length)
    number = known.seed if seed is None else seed
    if undo is not None:
        way_back(known.manifests, fresh, before).write(undo)
    for subject, text in sorted(assumed.items()):
        remark(f"Assumed of the new objects: {subject}: {text}")
    found: dict[str, Course] = {}
    with staged(scenario, extra, keep) as folder:
        others = [] if alone else list(alternatives(load(folder).manifests))
        ways = {
            "": Variant("as it is", folder),
            **{one.what: Variant(one.what, folder, settings=(Change.parse(one.setting),)) for one in others},
        }
        queue = [Job(way, number, records=True) for way in ways.values()]
        vcpus = _vcpus(known.file.region)
        with progress(len(queue)) as report:
            for index, run in played(queue, processes):
                found[list(ways)[index]] = course(run.records, run.start, begins, vcpus)
                report(run)
    settings = {one.what: one.setting for one in others}
    seconds = None if limit is None else limit / SECOND
    if output == "json":
        print(json.dumps({**_json(found, settings, seconds), "assumed": assumed}, indent=2))
    else:
        _print(found, settings, seconds)
        if quota is not None:
            text = of_quota(found[""].vcpus_peak, quota)
            Console(highlight=False).print(f"{text[0].upper()}{text[1:]}.")
    if undo is not None:
        remark(f"Way back: {undo}")
    if keep is not None:
        remark(f"Scenario: {keep}")


def _vcpus(region: str) -> dict[str, int]:
    from dovetail.cloud import catalog
    from dovetail.model.resources import CPU

    return {one.name: one.capacity.get(CPU, 0) // 1000 for one in catalog.instance_types(region)}


def _last(found: Course) -> float:
    last = found.at[100]
    return _NEVER if last is None else last


def _duration(seconds: float | None, found: Course) -> str:
    if seconds is None or seconds == _NEVER:
        return f"not by the end: {found.done} of {found.drifted}"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest:02d} min" if hours else f"{rest} min"


def _ranked(found: Mapping[str, Course]) -> list[tuple[str, Course]]:
    """Without the change itself; the soonest first, then by what was done in the end."""
    others = [(what, one) for what, one in found.items() if what]
    return sorted(others, key=lambda item: (_last(item[1]), -item[1].done, item[0]))


def _decides(found: Mapping[str, Course]) -> list[tuple[str, Course]]:
    """What would have made it sooner by a tenth at least."""
    base = found[""]
    return [
        (what, one)
        for what, one in _ranked(found)
        if _last(one) < 0.9 * _last(base) or (_last(base) == _NEVER and one.done > 1.1 * base.done)
    ]


def _print(found: Mapping[str, Course], settings: Mapping[str, str], limit: float | None) -> None:
    from rich.console import Console

    from dovetail.cli.tables import add_row, new_table

    base = found[""]
    console = Console(highlight=False, markup=False, soft_wrap=True)
    pools = ", ".join(f"{count} of {pool}" for pool, count in base.by_pool.items())
    console.print(f"{base.drifted} of {base.nodes} nodes drift{f': {pools}' if pools else ''}")
    table = new_table("Since the change", "", "")
    for share, seconds in base.at.items():
        name = "the last one is replaced after" if share == 100 else f"{share} % are replaced after"
        add_row(table, name, _duration(seconds, base))
    add_row(table, "vCPUs before, at the peak", f"{base.vcpus_before:,}, {base.vcpus_peak:,}")
    console.print(table)
    for text, count in list(base.blocked.items())[:_SHOWN]:
        console.print(f"{number_of(count, 'node or pool', 'nodes or pools')} waited: {text}")
    if len(found) > 1:
        others = new_table("One thing changed at a time", "the last one after", "")
        for what, one in _ranked(found)[:_SHOWN]:
            add_row(others, _duration(one.at[100], one), what)
        console.print(others)
        deciding = [what for what, _ in _decides(found)]
        console.print(f"It is decided by: {'; '.join(deciding)}" if deciding else "None of these decides it.")
    if limit is not None:
        _print_within(console, found, settings, limit)


def _print_within(
    console: Console, found: Mapping[str, Course], settings: Mapping[str, str], limit: float
) -> None:
    if _last(found[""]) <= limit:
        console.print("It is done in time.")
        return
    fast = [(what, one) for what, one in _ranked(found) if _last(one) <= limit]
    if not fast:
        console.print("No single change of these makes it in time.")
    for what, one in fast:
        console.print(f"In time with: {what} ({_duration(one.at[100], one)}): --set '{settings[what]}'")


def _json(found: Mapping[str, Course], settings: Mapping[str, str], limit: float | None) -> dict[str, Any]:
    return {
        "course": asdict(found[""]),
        "changed": [
            {"what": what, "set": settings[what], "lastAfter": one.at[100], "done": one.done}
            for what, one in _ranked(found)
        ],
        "decidedBy": [what for what, _ in _decides(found)],
        "inTime": None if limit is None else [what for what, one in found.items() if _last(one) <= limit],
    }
