"""Writing a comparison, or what a sweep found, to one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dovetail import __version__
from dovetail.base.clock import SECOND
from dovetail.simulate.experiment.comparison import Comparison, Way
from dovetail.simulate.experiment.dataset import Point
from dovetail.simulate.experiment.measures import MEASURES
from dovetail.simulate.experiment.runs import Run
from dovetail.simulate.experiment.steps import DIRECT
from dovetail.views.page.document import one_file, part, write_page
from dovetail.views.report.series import chart_series

_PAGE = "dovetail.views.comparison"
_HOUR = 3600
_TILES = ("costPerDay", "waitP99", "evictions", "requestsOverCapacity")


def write_comparison(found: Comparison, path: Path) -> None:
    """The page; raises InputError when it cannot be written."""
    write_page(render(found), path)


def render(found: Comparison) -> str:
    """The page as text. Charts show the ways that were played just now, with their first seed."""
    script = part("comparison.js", _PAGE)
    return one_file("Dovetail: a comparison", part("comparison.html", _PAGE), script, page_data(found))


def page_data(found: Comparison) -> dict[str, Any]:
    """Everything that the page shows, as JSON values; times in Unix seconds."""
    played = [way for way in found.ways if way.run is not None and way.run.records]
    runs = [way.run for way in played if way.run is not None]
    first = runs[0] if runs else None
    return {
        "title": f"The same scenario, {len(found.ways)} ways",
        "version": __version__,
        "seeds": list(found.seeds),
        "period": None if first is None else _period(first),
        "ways": [_way(way) for way in found.ways],
        "tiles": list(_TILES),
        "measures": [
            {
                "key": one.key,
                "label": one.label,
                "values": [one.formatted(way.mean(one.key)) for way in found.ways],
            }
            for one in MEASURES
        ],
        "charts": _charts(runs) if runs else {},
    }


def _period(run: Run) -> dict[str, Any]:
    local = datetime.fromtimestamp(run.start // SECOND, ZoneInfo(run.timezone))
    offset = local.utcoffset() or timedelta()
    return {
        "start": run.start // SECOND,
        "end": run.end // SECOND,
        "zone": run.timezone,
        "offsetSeconds": round(offset.total_seconds()),
        "seed": run.job.seed,
    }


def _way(way: Way) -> dict[str, Any]:
    steps = way.steps
    return {
        "name": way.name,
        "played": way.run is not None and bool(way.run.records),
        "differences": {
            one.key: {
                "mean": one.formatted(item.mean, signed=True),
                "margin": None if item.margin is None else one.formatted(item.margin),
                "sure": one.shows(item),
                "better": item.mean < 0,
            }
            for one in MEASURES
            if (item := way.differences.get(one.key)) is not None
        },
        "steps": None
        if steps is None
        else {
            "names": list(steps.names),
            "at": list(steps.at),
            "pods": steps.pods,
            "asked": steps.asked if steps.names == DIRECT else None,
            "started": steps.started if steps.names == DIRECT else None,
        },
    }


def _charts(runs: Sequence[Run]) -> dict[str, Any]:
    """Per chart the grid and one line per run; the grid is the same, as all runs cover the same time."""
    series = [chart_series(run.records, run.start, run.end) for run in runs]
    times = max((each["t"] for each in series), key=len)
    return {
        "t": times,
        "pending": [_padded(each["lines"].get("pods.pending", []), len(times)) for each in series],
        "nodes": [_padded(_nodes(each["lines"]), len(times)) for each in series],
        "cost": [_padded(each["lines"].get("cost", []), len(times)) for each in series],
        "spent": [_padded(_spent(times, each["lines"].get("cost", [])), len(times)) for each in series],
    }


def _nodes(lines: Mapping[str, Sequence[float | None]]) -> list[float]:
    kinds = [values for name, values in lines.items() if name.startswith("nodes.")]
    return [sum(value or 0 for value in values) for values in zip(*kinds, strict=True)]


def _spent(times: Sequence[int], hourly: Sequence[float | None]) -> list[float]:
    """Dollars from the beginning on: each point but the first stands for the interval that it ends."""
    step = times[1] - times[0] if len(times) > 1 else 0
    parts = ((value or 0) * step / _HOUR for value in hourly[1:])
    return [round(total, 4) for total in accumulate(parts, initial=0.0)]


def _padded(values: Sequence[float | None], length: int) -> list[float | None]:
    last = values[-1] if values else 0
    return [*values, *[last] * (length - len(values))]


def write_sweep(found: Sequence[Point], counted: Sequence[str], path: Path) -> None:
    """The page; raises InputError when it cannot be written."""
    data = {
        "version": __version__,
        "counted": list(counted),
        "measures": [{"key": one.key, "label": one.label, "unit": one.unit} for one in MEASURES],
        "points": [
            {
                "settings": dict(point.settings),
                "seeds": point.seeds,
                "best": point.best,
                "values": {one.key: point.means[one.key] for one in MEASURES},
                "text": {one.key: one.formatted(point.means[one.key]) for one in MEASURES},
            }
            for point in found
        ],
    }
    page = one_file("Dovetail: a sweep", part("sweep.html", _PAGE), part("sweep.js", _PAGE), data)
    write_page(page, path)
