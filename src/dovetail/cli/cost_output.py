"""How `dovetail cost` shows its answer: a table, CSV, JSON, or OpenCost's own JSON."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.base.clock import HOUR
from dovetail.cli.messages import visible
from dovetail.cli.tables import add_row, new_table, write_out
from dovetail.cost.allocation import IDLE, NANO, Allocation, AllocationSet
from dovetail.cost.commitments import Used
from dovetail.cost.idle import Cause, sentence
from dovetail.cost.window import Window
from dovetail.units.money import HOURS_A_MONTH
from dovetail.units.timestamp import to_rfc3339

_NARROW = 100  # columns of a terminal
_MOST = 12  # causes of idle that a table shows


@dataclass(frozen=True, slots=True)
class Answer:
    """All amounts in nano-dollars. `overhead` is an hour's, `causes` of idle."""

    window: Window
    known: tuple[int, int]
    keys: tuple[str, ...]
    sets: tuple[AllocationSet, ...]
    bill: int
    overhead: int
    filtered: bool
    idle: bool
    causes: Mapping[Cause, int] | None
    commitments: tuple[Used, ...] = ()


def show(answer: Answer, form: str, console: Console) -> None:
    """Print it."""
    match form:
        case "csv":
            _print_csv(answer)
        case "json":
            print(json.dumps(_document(answer), indent=2))
        case "opencost":
            print(json.dumps({"code": 200, "data": [one.to_json() for one in answer.sets]}, indent=2))
        case _:
            _print_table(answer, console)


def exact(nanos: int) -> str:
    """Dollars with nine decimals: nothing is lost."""
    sign = "-" if nanos < 0 else ""
    return f"{sign}{abs(nanos) // NANO}.{abs(nanos) % NANO:09d}"


def spoken(window: Window) -> str:
    """A window for people."""
    return f"{to_rfc3339(window.start)} to {to_rfc3339(window.end)}"


def _named(one: Allocation) -> str:
    return one.name or "(all)"


def _groups(answer: Answer, one: AllocationSet) -> list[Allocation]:
    """Dearest first, idle last."""
    found = [group for group in one if answer.idle or not group.is_idle]
    return sorted(found, key=lambda group: (group.is_idle, -group.total, group.name))


_COLUMNS = (
    "CPU",
    "Memory",
    "GPU",
    "Volumes",
    "Other",
    "Total",
    "$/month",
    "CPU used",
    "Memory used",
    "Unused",
)


def _print_table(answer: Answer, console: Console) -> None:
    """Columns in which nothing is known are left out."""
    several = len(answer.sets) > 1
    rows = []
    for one in answer.sets:
        hours = min(one.window.end, answer.known[1]) - max(one.window.start, answer.known[0])
        for group in _groups(answer, one):
            first = (to_rfc3339(one.window.start),) if several else ()
            rows.append((first, group, tuple(_cells(group, hours))))
    filled = [index for index in range(len(_COLUMNS)) if any(cells[index] != "-" for _, _, cells in rows)]
    if console.width < _NARROW and any(_COLUMNS[index] == "Unused" for index in filled):
        filled.remove(_COLUMNS.index("$/month"))  # names need the room more
    title = f"Cost {'by ' + ', '.join(answer.keys) if answer.keys else 'in all'}: {spoken(answer.window)}"
    table = new_table(title, *(["From"] if several else []), "Name", *(_COLUMNS[index] for index in filled))
    for column in table.columns[-len(filled) :] if filled else ():
        column.justify = "right"
    name = table.columns[1 if several else 0]
    name.no_wrap, name.overflow = False, "fold"
    for first, group, cells in rows:
        add_row(table, *first, visible(_named(group)), *(cells[index] for index in filled))
    write_out(table, console)
    for line in _footer(answer):
        console.print(Text(line), soft_wrap=not console.is_terminal)
    if answer.causes is not None:
        console.print()
        _print_causes(answer.causes, console)


def _cells(group: Allocation, hours: int) -> Iterator[str]:
    """As _COLUMNS has them; "-" for nothing."""
    other = group.network + group.load_balancer + group.shared + group.external
    for amount in (*(group.resource_cost(name) for name in ("cpu", "ram", "gpu")), group.volume_cost, other):
        yield _short(amount) if amount else "-"
    yield _short(group.total)
    yield f"{group.total * HOURS_A_MONTH * HOUR / max(1, hours) / NANO:,.2f}"
    used = any(group.usage.values()) and not group.is_idle
    yield from (f"{group.efficiency(name):.0%}" if used else "-" for name in ("cpu", "ram"))
    yield _short(_unused(group)) if used else "-"


def _unused(group: Allocation) -> int:
    """Nano-dollars of what its pods ask for beyond what they use."""
    parts = ((group.resource_cost(name), group.efficiency(name)) for name in ("cpu", "ram"))
    return sum(round(cost * max(0.0, 1 - efficiency)) for cost, efficiency in parts)


def _short(nanos: int) -> str:
    return f"{nanos / NANO:,.4f}"


def _footer(answer: Answer) -> Iterator[str]:
    idle = sum(group.total for one in answer.sets for group in one if group.is_idle)
    whole = sum(one.total for one in answer.sets)
    if answer.filtered:
        yield f"${_short(whole)} of the bill of ${_short(answer.bill)} match the filter."
        return
    share = f" ({idle / whole:.0%})" if whole > 0 and idle else ""
    hint = "" if answer.idle or not idle else "; --idle shows it as a line, --share lays it on the others"
    shared = " is borne by the others" if not idle and answer.idle else f"${_short(idle)}{share}{hint}"
    yield f"Bill ${exact(answer.bill)}, of it idle {shared.strip()}."
    for one in answer.commitments:
        used = f"{1 - one.left / one.due:.1%}" if one.due else "none"
        more = f"; ${_short(one.next_hour)} an hour more would cost nothing" if one.next_hour else ""
        yield f"{one.name}: {used} of ${_short(one.due)} is used{more}."
    if whole != answer.bill:
        yield f"With the overhead that was given: ${exact(whole)}."


def _print_causes(causes: Mapping[Cause, int], console: Console) -> None:
    table = new_table("What causes idle", "Dollars", "Share", "Cause")
    table.columns[0].justify = table.columns[1].justify = "right"
    table.columns[2].no_wrap = False
    whole = sum(causes.values())
    shown = list(causes.items())[:_MOST]
    for cause, part in shown:
        add_row(table, _short(part), f"{part / whole:.0%}" if whole else "", visible(sentence(cause)))
    rest = whole - sum(part for _, part in shown)
    if len(causes) > _MOST:
        add_row(table, _short(rest), f"{rest / whole:.0%}" if whole else "", f"{len(causes) - _MOST} more")
    write_out(table, console)


def _rows(answer: Answer) -> Iterator[dict[str, Any]]:
    for one in answer.sets:
        for group in _groups(answer, one):
            yield {
                "start": to_rfc3339(one.window.start),
                "end": to_rfc3339(one.window.end),
                "name": group.name,
                "cpu": exact(group.resource_cost("cpu")),
                "memory": exact(group.resource_cost("ram")),
                "gpu": exact(group.resource_cost("gpu")),
                "volumes": exact(group.volume_cost),
                "network": exact(group.network),
                "loadBalancers": exact(group.load_balancer),
                "shared": exact(group.shared),
                "external": exact(group.external),
                "total": exact(group.total),
                "cpuCoreHours": round(group.hours["cpu"], 6),
                "memoryGibHours": round(group.hours["ram"] / (1 << 30), 6),
                "gpuHours": round(group.hours["gpu"], 6),
                "cpuRequested": round(group.request["cpu"], 6),
                "cpuUsed": round(group.usage["cpu"], 6),
                "memoryGibRequested": round(group.request["ram"] / (1 << 30), 6),
                "memoryGibUsed": round(group.usage["ram"] / (1 << 30), 6),
                "containers": 0 if group.is_idle else group.parts,
            }


def _print_csv(answer: Answer) -> None:
    rows = list(_rows(answer))
    if rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _document(answer: Answer) -> dict[str, Any]:
    idle = sum(group.total for one in answer.sets for group in one if group.name.endswith(IDLE))
    found: dict[str, Any] = {
        "window": {"start": to_rfc3339(answer.window.start), "end": to_rfc3339(answer.window.end)},
        "known": {"start": to_rfc3339(answer.known[0]), "end": to_rfc3339(answer.known[1])},
        "aggregate": list(answer.keys),
        "bill": exact(answer.bill),
        "idle": exact(idle),
        "total": exact(sum(one.total for one in answer.sets)),
        "groups": list(_rows(answer)),
    }
    if answer.commitments:
        found["commitments"] = [
            {
                "name": one.name,
                "due": exact(one.due),
                "unused": exact(one.left),
                "unusedAnHour": exact(one.next_hour),
            }
            for one in answer.commitments
        ]
    if answer.causes is not None:
        found["causesOfIdle"] = [
            {"cause": cause.kind, "detail": cause.detail, "dollars": exact(part)}
            for cause, part in answer.causes.items()
        ]
    return found
