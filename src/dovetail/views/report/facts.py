"""The report's data of a record of costs alone, which knows nodes, pods and prices, and no events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from dovetail import __version__
from dovetail.base.clock import HOUR, SECOND
from dovetail.cost.allocation import NANO
from dovetail.cost.facts import Facts, Instance
from dovetail.cost.window import Window
from dovetail.units.money import HOURS_A_MONTH
from dovetail.views.history import Record, decisions
from dovetail.views.report.costs import facts_data
from dovetail.views.report.page import ended_rows
from dovetail.views.report.series import BASE, POINTS

_STEP = 5 * SECOND
_NOTE = "What instances and their root volumes cost, at the prices that were paid."
_RESOURCES = ("cpu", "memory")


Absent = tuple[tuple[str, str], ...]
# What a page does not show, and why.
OF_A_RECORD: Absent = (
    (
        "Decisions, and disruptions planned and refused",
        "a record of costs has none; the controller's log has them: dovetail serve LOG",
    ),
    (
        "The proven least, and the gap",
        "they are not recorded with costs; the controller's own page and its log have them",
    ),
    (
        "Pods that waited",
        "a record knows pods from when they have a node; the controller's own page has them",
    ),
)
OF_A_LOG: Absent = (
    (
        "Pods, and who bears the cost",
        "the controller's log names no pods that ran, so all of the cost is idle here; its record has them: "
        "dovetail run --cost-store FILE, dovetail serve FILE",
    ),
    (
        "Disruptions that were held back",
        "the controller logs them at level debug: dovetail run --log-level debug",
    ),
)


def facts_report(
    title: str, facts: Facts, window: Window, records: Sequence[Record] = (), absent: Absent = ()
) -> dict[str, Any]:
    """As `page.report_data` makes it of a simulation; the window is cut where the facts end. UTC.

    `records` are what the controller's log says of decisions and of the proven least; `absent` is what is not
    known, with the reason.
    """
    start = max(window.start, facts.start)
    known = Window(start, max(start + _STEP, min(window.end, facts.end)))
    costs = facts_data(facts, known)
    instances = [one for one in facts.instances.values() if _lives(one, known)]
    said = [record for record in records if known.start <= record["t"] <= known.end]
    series = _series(facts, instances, known)
    least = _least(said, series["t"])
    if any(value is not None for value in least):
        series["lines"]["efficiency"] = least
    return {
        "title": title,
        "verdict": _verdict(costs, known),
        "version": __version__,
        "period": {
            "start": known.start // SECOND,
            "end": known.end // SECOND,
            "zone": "UTC",
            "offsetSeconds": 0,
        },
        "about": "from a log of the controller" if records else "from a record of costs",
        "tiles": _tiles(facts, instances, costs, known),
        "series": series,
        "traffic": {},
        "waiting": {"note": "", "buckets": [], "phases": [], "texts": [], "rows": []},
        "hpa": [],
        "decisions": decisions(said),
        "disruption": {"reasons": [], "budgets": [], "blockers": [], "rows": ended_rows(said)},
        "nodes": sorted(
            (_row(one, known) for one in instances), key=lambda row: (row["launched"], row["name"])
        ),
        "events": [],
        "costNote": _NOTE,
        "costs": costs,
        "assumptions": [],
        "absent": absent_rows(absent),
        "eventLogSha256": "",
    }


def absent_rows(absent: Absent) -> list[dict[str, str]]:
    """As the page takes them."""
    return [{"what": what, "why": why} for what, why in absent]


def _least(records: Iterable[Record], instants: Sequence[int]) -> list[float | None]:
    """The proven least as a share of the cost, percent, as of the last look before each instant."""
    looks = [one for one in records if one["kind"] == "efficiency" and one["cost"]]
    shares: list[float | None] = []
    at = 0
    for end in instants:
        while at < len(looks) and looks[at]["t"] <= end * SECOND:
            at += 1
        last = looks[at - 1] if at else None
        shares.append(None if last is None else round(100 * last["lowerBound"] / last["cost"], 4))
    return shares


def _lives(one: Instance, window: Window) -> bool:
    return one.start < window.end and (one.end is None or one.end > window.start)


def _verdict(costs: dict[str, Any], window: Window) -> str:
    share = costs["idle"] / costs["bill"] if costs["bill"] else 0.0
    return f"${costs['bill']:,.2f} in {window.length / HOUR:,.1f} h; {share:.0%} of it were borne by no pod."


def _rate(one: Instance, at: int) -> int:
    """Nano-dollars an hour then."""
    return next((rate.price for rate in reversed(one.rates) if rate.at <= at), one.rates[0].price)


def _tiles(
    facts: Facts, instances: list[Instance], costs: dict[str, Any], window: Window
) -> list[dict[str, Any]]:
    now = [one for one in instances if one.end is None or one.end >= window.end]
    hourly = sum(_rate(one, window.end) for one in now) / NANO
    pods = sum(run.end is None or run.end > window.end for run in facts.pods if run.start < window.end)
    spot = sum(one.capacity_type == "spot" for one in now)
    shown = [
        (f"${costs['bill']:,.2f}", "spent in the time shown"),
        (f"${hourly:,.2f}", "an hour at its end"),
        (f"${hourly * HOURS_A_MONTH:,.0f}", "a month at that rate"),
        (str(len(now)), f"nodes at its end, {spot} of them spot"),
        (str(pods), "pods with a node at its end"),
        (f"{costs['idle'] / costs['bill'] if costs['bill'] else 0:.0%}", "idle: borne by no pod"),
    ]
    return [{"value": value, "label": label, "bad": False} for value, label in shown]


def _kind(one: Instance) -> str:
    return one.capacity_type or "on-demand" if one.claim else BASE


def _row(one: Instance, window: Window) -> dict[str, Any]:
    return {
        "name": one.name,
        "claim": one.claim,
        "pool": one.pool,
        "kind": _kind(one),
        "instanceType": one.instance_type,
        "zone": one.zone,
        "price": one.rates[-1].price / NANO,
        "estimated": False,
        "launched": one.start / SECOND,
        "joined": None,
        "ready": None if one.ready is None else one.ready / SECOND,
        "leaving": None if one.ending is None else one.ending / SECOND,
        "gone": (window.end if one.end is None else one.end) / SECOND,
    }


def _series(facts: Facts, instances: list[Instance], window: Window) -> dict[str, Any]:
    """Values at the ends of even intervals, from what changed between them."""
    step = max(window.length // POINTS, _STEP)
    changes: list[tuple[int, str, int]] = []

    def during(name: str, amount: int, start: int, end: int | None) -> None:
        changes.append((start, name, amount))
        if end is not None:
            changes.append((end, name, -amount))

    for one in instances:
        during(f"nodes.{_kind(one)}", 1, one.start, one.end)
        ends = [rate.at for rate in one.rates[1:]]
        for rate, end in zip(one.rates, [*ends, one.end], strict=True):
            during("cost", rate.price, rate.at, end)
        for name in _RESOURCES:
            room = one.allocatable.get(name, one.capacity.get(name, 0))
            during(f"room.{name}", room, one.ready or one.start, one.end)
    living = {one.id for one in instances}
    for run in facts.pods:
        if run.instance not in living:
            continue
        during("pods.running", 1, run.start, run.end)
        requests = run.workload.requests()
        for name in _RESOURCES:
            during(f"asked.{name}", requests.get(name, 0), run.start, run.end)
    return _sampled(sorted(changes), window, step)


def _sampled(changes: list[tuple[int, str, int]], window: Window, step: int) -> dict[str, Any]:
    now: defaultdict[str, int] = defaultdict(int)
    names = dict.fromkeys(name for _, name, _ in changes if name.startswith("nodes."))
    lines: dict[str, list[float | None]] = {name: [] for name in (*names, "cost", "pods.running")}
    for name in _RESOURCES:
        lines[f"use.{name}"] = []
    instants, at = [], 0
    for upcoming in range(window.start + step, window.end + 1, step):
        while at < len(changes) and changes[at][0] <= upcoming:
            now[changes[at][1]] += changes[at][2]
            at += 1
        instants.append(upcoming // SECOND)
        for name in names:
            lines[name].append(now[name])
        lines["cost"].append(round(now["cost"] / NANO, 4))
        lines["pods.running"].append(now["pods.running"])
        for name in _RESOURCES:
            room = now[f"room.{name}"]
            lines[f"use.{name}"].append(round(100 * now[f"asked.{name}"] / room, 4) if room > 0 else None)
    return {"t": instants, "lines": lines}
