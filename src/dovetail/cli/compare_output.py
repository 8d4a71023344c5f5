"""A comparison as a table and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.tables import add_row, new_table, write_out
from dovetail.simulate.experiment.comparison import Comparison, Way
from dovetail.simulate.experiment.measures import MEASURES, Measure
from dovetail.simulate.experiment.steps import DIRECT, Steps

_WIDEST = 44  # characters of all names together that fit beside the longest label
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def print_comparison(found: Comparison, console: Console) -> None:
    """Means, differences to the first way, and the steps from a pending pod to its node."""
    others = found.ways[1:]
    seeds = ", ".join(map(str, found.seeds))
    names = _headings(found, console)
    title = f"Means over seed {seeds}" if len(found.seeds) == 1 else f"Means over seeds {seeds}"
    table = new_table(title, "", *names)
    for one in MEASURES:
        add_row(table, one.label, *(one.formatted(way.mean(one.key)) for way in found.ways))
    write_out(table, console)
    table = new_table(f"Difference to {names[0]} (± 95 %)", "", *names[1:])
    for one in MEASURES:
        add_row(table, one.label, *(_difference(way, one) for way in others))
    write_out(table, console)
    if len(found.seeds) == 1:
        console.print("One seed says nothing about chance: give --seeds 1-5 for intervals.", style="dim")
    else:
        console.print("* the interval does not hold zero; differences are taken seed by seed", style="dim")
    for way in found.ways:
        if way.steps is not None:
            write_out(Text(f"\n{way.name}: {steps_text(way.steps)}"), console)


def _headings(found: Comparison, console: Console) -> list[str]:
    """The names of the ways; where they are too long for columns, letters, explained first."""
    names = [way.name for way in found.ways]
    if sum(map(len, names)) <= _WIDEST and len(names) <= len(_LETTERS):
        return names
    letters = [_LETTERS[index] if index < len(_LETTERS) else str(index + 1) for index in range(len(names))]
    for letter, name in zip(letters, names, strict=True):
        console.print(f"{letter}  {name}", markup=False, highlight=False, soft_wrap=True)
    return letters


def steps_text(steps: Steps) -> str:
    """One line: each step with the mean time at which it is reached."""
    shown = " -> ".join(f"{name} {at:.1f} s" for name, at in zip(steps.names, steps.at, strict=True))
    when = f" (asked for after {steps.asked:.1f} s, started after {steps.started:.1f} s)"
    pods = f"{steps.pods} pods that a node was bought for"
    return f"{len(steps.names)} steps, mean of {pods}: {shown}{when if steps.names == DIRECT else ''}"


def _difference(way: Way, one: Measure) -> str:
    found = way.differences[one.key]
    margin = "" if found.margin is None else f" ± {found.margin:,.{one.digits}f}"
    return f"{one.formatted(found.mean, signed=True)}{margin}{' *' if one.shows(found) else ''}"


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Every figure of every run, and the differences. Margins are null with one seed."""
    return {
        "seeds": list(found.seeds),
        "measures": {one.key: {"label": one.label, "unit": one.unit} for one in MEASURES},
        "ways": [
            {
                "name": way.name,
                "version": way.version,
                "mean": {one.key: way.mean(one.key) for one in MEASURES},
                "difference": {
                    key: {"mean": item.mean, "margin95": item.margin} for key, item in way.differences.items()
                },
                "steps": None
                if way.steps is None
                else {
                    "pods": way.steps.pods,
                    "at": dict(zip(way.steps.names, way.steps.at, strict=True)),
                },
                "runs": [
                    {"seed": seed, "figures": figures, "eventLogSha256": way.sha256[seed]}
                    for seed, figures in way.figures.items()
                ],
            }
            for way in found.ways
        ],
    }
