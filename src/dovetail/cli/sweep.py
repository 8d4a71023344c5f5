"""`dovetail sweep`: one scenario with many settings, and which of them are worth having."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.guess import nearest

if TYPE_CHECKING:
    from dovetail.simulate.experiment.dataset import Point, Row
    from dovetail.simulate.experiment.measures import Measure
    from dovetail.simulate.experiment.variant import Variant

_MOST_SHOWN = 30


def sweep(
    scenario: Path,
    *,
    vary: Annotated[tuple[str, ...], Parameter(negative="")],
    dataset: Path,
    samples: int | None = None,
    seeds: str = "1-3",
    until: str | None = None,
    measures: str = "costPerDay,waitP99",
    prices: Path | None = None,
    savings_plan: str = "",
    savings_plan_discount: str = "28%",
    jobs: int | None = None,
    on: str | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
    report: Path | None = None,
) -> None:
    """Play a scenario with every combination of settings, or with samples of them, and show the best ones.

    Best is what no other combination beats in all that counts: the Pareto set. Runs are kept in a folder of
    Parquet files as they end; the same command goes on where it was interrupted, and more seeds or values
    only play what is new.

    Examples:

    - `dovetail sweep examples/burst --vary policy=dovetail,karpenter --dataset runs`
    - `dovetail sweep mine --vary settings.nodeSurcharge=0.0..0.05 --samples 40 --dataset runs`

    Parameters
    ----------
    scenario
        The folder with a scenario.yaml.
    vary
        PATH=VALUE,VALUE of a field as `dovetail compare --set` takes it; a list in YAML where values have
        commas, or PATH=FROM..TO with --samples. `policy` is short for settings.policy.
    dataset
        A folder for the runs, one row each; pyarrow, DuckDB and others read it.
    samples
        Draw so many combinations, spread evenly over every axis, in place of all of them.
    seeds
        Such as 1-3 or 1,4,7: every combination is played with each.
    until
        Stop each run after this much virtual time.
    measures
        What counts, of the figures that `dovetail compare` shows; less is better.
    prices
        Prices to count instead, as of `dovetail simulate`.
    savings_plan
        Dollars an hour of a Compute Savings Plan, such as 18: costs are what is paid under it. How large it
        had better be is `--vary 'commitments.savingsPlans[0].hourly=0.5,1,2'` of a scenario that has one.
    savings_plan_discount
        How far its prices are below those on demand.
    jobs
        Processes at once; as many as there are cores by default.
    on
        dask://HOST:PORT of a Dask scheduler whose workers play the runs, instead of this machine.
    output
        A table of the best, or JSON with all combinations.
    report
        Write an HTML page with the picture to this file.
    """
    from rich.console import Console

    from dovetail.cli.messages import notes
    from dovetail.cli.prices import prices_everywhere
    from dovetail.cli.runs_output import processes_of, progress, seeds_of, time_of
    from dovetail.cli.savings_plan import as_field
    from dovetail.simulate.experiment.dataset import Dataset, Row, fingerprint, summed_up
    from dovetail.simulate.experiment.engine import address, played_on
    from dovetail.simulate.experiment.runs import Job, played
    from dovetail.simulate.experiment.space import Axis, changes, points
    from dovetail.simulate.experiment.variant import Variant
    from dovetail.simulate.scenario.scenario import ScenarioFolder
    from dovetail.views.comparison.write import write_sweep
    from dovetail.views.page.document import check_target

    counted = _measures(measures)
    if on is not None:
        address(on)
        if prices is not None:
            remedy = "leave one of the two out"
            raise InputError("workers do not have the file of --prices", source="--on", remedy=remedy)
    axes = [Axis.parse(text) for text in vary]
    if committed := as_field(savings_plan, savings_plan_discount):
        path, _, value = committed.partition("=")
        axes.append(Axis(path, (value,)))  # its rows are others than those at list prices
    if samples is not None and samples < 1:
        raise InputError(f"{samples} is not at least 1", source="--samples")
    numbers, length, processes = seeds_of(seeds), time_of(until), processes_of(jobs)
    chosen = list(points(axes, samples, numbers[0]))
    region, folder, said = "", ScenarioFolder(scenario), list[str]()
    for point in chosen:  # what is wrong with any is reported before the first is played
        variant = Variant("", scenario, settings=changes(point))
        scene = variant.load(numbers[0], length, folder)
        region, said = scene.file.region, [*said, *scene.notes]
    notes(said)
    begin = prices_everywhere(prices, region)
    check_target(report)
    store, mark = Dataset(dataset), fingerprint(scenario)
    wanted = [
        Row(mark, tuple(sorted(point)), seed, 0 if length is None else length // SECOND)
        for point in chosen
        for seed in numbers
    ]
    known = store.rows()
    work = [row for row in wanted if row.key not in known]
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    console.print(f"{len(wanted)} runs, {len(wanted) - len(work)} of them known, {len(work)} to play")
    queue = [Job(_variant(scenario, row), row.seed, length) for row in work]
    try:
        with progress(len(work)) as ended:
            runs = played_on(on, queue) if on else played(queue, processes, begin)
            for number, run in runs:
                row = work[number]
                done = replace(row, figures=run.figures, sha256=run.sha256, wall_seconds=run.wall_seconds)
                store.add(done)
                known[done.key] = done
                ended(run)
    finally:
        store.close()
    found = summed_up([known[row.key] for row in wanted], counted)
    if output == "json":
        print(json.dumps(_json(found, counted), indent=2))
    else:
        _print(found, counted)
    if report is not None:
        write_sweep(found, counted, report)
        console.print(f"Report: {report}")


def _variant(scenario: Path, row: Row) -> Variant:
    from dovetail.simulate.experiment.space import changes
    from dovetail.simulate.experiment.variant import Variant

    return Variant(_settings_text(row.settings), scenario, settings=changes(row.settings))


def _settings_text(settings: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{path}={value}" for path, value in settings)


def _measures(text: str) -> tuple[str, ...]:
    from dovetail.simulate.experiment.measures import MEASURES

    known = [one.key for one in MEASURES]
    found = tuple(part.strip() for part in text.split(","))
    for place, key in enumerate(found):
        if key in found[:place]:
            raise InputError(f"{key} is there twice", source="--measures", remedy="name each once")
        if key not in known:
            near = nearest(key, known)
            remedy = f"did you mean {near[0]}?" if near else f"valid are {', '.join(known)}"
            raise InputError(f"{key!r} is no figure", source="--measures", remedy=remedy)
    return found


def _print(found: Sequence[Point], counted: Sequence[str]) -> None:
    from rich.console import Console

    from dovetail.cli.tables import add_row, new_table
    from dovetail.simulate.experiment.measures import MEASURES

    shown = [one for one in MEASURES if one.key in counted]
    best = [point for point in found if point.best]
    title = f"{len(best)} of {len(found)} combinations are best (means over seeds)"
    if len(found) > 1 and len({tuple(_figures(point, shown)) for point in found}) == 1:
        title = f"All {len(found)} combinations come to the same (means over seeds)"
    table = new_table(title, *(one.label for one in shown))
    table.add_column("settings", overflow="fold")
    for point in best[:_MOST_SHOWN]:
        add_row(table, *_figures(point, shown), _settings_text(point.settings))
    console = Console()
    console.print(table)
    if len(best) > _MOST_SHOWN:
        console.print(f"and {len(best) - _MOST_SHOWN} more: -o json has all")


def _figures(point: Point, shown: Sequence[Measure]) -> list[str]:
    return [one.formatted(point.means[one.key]) for one in shown]


def _json(found: Sequence[Point], counted: Sequence[str]) -> dict[str, Any]:
    return {
        "measures": list(counted),
        "combinations": [
            {
                "settings": dict(point.settings),
                "seeds": point.seeds,
                "best": point.best,
                "mean": point.means,
            }
            for point in found
        ],
    }
