"""What a simulation came to, in figures: read from the event log and from nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from dovetail.base.clock import HOUR, SECOND
from dovetail.cost.commitments import Terms, applied
from dovetail.cost.facts import Facts, read_facts
from dovetail.simulate.analysis.disruptions import disruption_figures
from dovetail.simulate.analysis.figures import (
    CostFigures,
    EfficiencyFigures,
    MaximumFigures,
    NodeFigures,
    OwnerWait,
    PlanFigures,
    PodFigures,
    PodWait,
    Quantiles,
    Summary,
    TrafficFigures,
    Violation,
    WaitingFigures,
    dollars,
)
from dovetail.simulate.analysis.waiting import PARTS, Record, Spell, Wait, at_maximum, explain, waits

_DIGITS = 4


def efficiency_figures(records: Iterable[Mapping[str, Any]], end: int) -> EfficiencyFigures:
    """From the looks that the controller took; the mean weighs each by what was paid until the next one."""
    looks = [record for record in records if record["kind"] == "efficiency"]
    if not looks:
        return EfficiencyFigures(start=None, end=None, mean=None)
    spans = [later - earlier for earlier, later in pairwise([*(look["t"] for look in looks), end])]
    paid = sum(look["cost"] * span for look, span in zip(looks, spans, strict=True))
    needed = sum(look["lowerBound"] * span for look, span in zip(looks, spans, strict=True))
    ratios = [look["lowerBound"] / look["cost"] for look in looks]
    return EfficiencyFigures(
        start=round(ratios[0], _DIGITS),
        end=round(ratios[-1], _DIGITS),
        mean=round(needed / paid if paid else ratios[-1], _DIGITS),
    )


def plan_figures(records: Iterable[Mapping[str, Any]]) -> PlanFigures:
    """Over all plans that bought something and are settled: their nodes joined or failed, their pods went."""
    settled = [record for record in records if record["kind"] == "plan.realised"]

    def total(of: str, outcome: str) -> int:
        return sum(record[of][outcome] for record in settled)

    return PlanFigures(
        settled=len(settled),
        planned_hourly=dollars(sum(record["planned"] for record in settled)),
        realised_hourly=dollars(sum(record["realised"] for record in settled)),
        nodes_joined=total("nodes", "joined"),
        nodes_failed=total("nodes", "failed"),
        pods_here=total("pods", "here"),
        pods_elsewhere=total("pods", "elsewhere"),
        pods_replanned=total("pods", "replanned"),
        pods_gone=total("pods", "gone"),
    )


_WORST = 5
NO_OWNER = "(no controller)"


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a run besides its log; `start` and `end` in nanoseconds since the epoch."""

    scenario: str
    seed: int
    start: int
    end: int
    sha256: str
    wall_seconds: float
    assumptions: tuple[str, ...] = ()
    terms: Terms | None = None


def paid_facts(records: Iterable[Record], start: int, end: int, terms: Terms | None) -> Facts:
    """What ran, at what is paid for it under the terms."""
    facts = read_facts(records, end)
    return facts if terms is None else applied(facts, terms, start - start % HOUR, -(-end // HOUR) * HOUR)


def summarize(records: Sequence[Record], run: Run) -> Summary:
    """All figures of a run."""
    found = waits(records, run.end)
    return Summary(
        scenario=run.scenario,
        seed=run.seed,
        pods=_pods(found),
        nodes=_nodes(records, run.end - run.start),
        cost=_cost(records, run),
        efficiency=efficiency_figures(records, run.end),
        plans=plan_figures(records),
        disruptions=disruption_figures(records, run.end),
        waiting=_waiting([wait for wait in found if wait.waited and not wait.placeholder]),
        hpa_at_maximum=_maximum(records, run.end),
        traffic=_traffic(records),
        violations=[
            Violation(rule=item["rule"], subject=item["subject"], message=item["message"])
            for item in records
            if item["kind"] == "violation"
        ],
        refused={item["workload"]: item["message"] for item in records if item["kind"] == "workload.refused"},
        invariants_checked=sum(item["invariants"] for item in records if item["kind"] == "checked"),
        faults=_faults(records),
        event_log_sha256=run.sha256,
        wall_seconds=round(run.wall_seconds, 2),
        simulated_seconds=_seconds(run.end - run.start),
        assumptions=list(run.assumptions),
    )


def _faults(records: Iterable[Record]) -> dict[str, int]:
    """By kind, in order of name."""
    fired = Counter(str(record["fault"]) for record in records if record["kind"] == "fault")
    return dict(sorted(fired.items()))


def _seconds(nanoseconds: float) -> float:
    return round(nanoseconds / SECOND, 3)


def quantiles(values: Iterable[int]) -> Quantiles:
    """Of lengths in nanoseconds, as seconds."""
    ordered = sorted(values)

    def at(percent: int) -> float:
        return _seconds(ordered[max(0, -(-percent * len(ordered) // 100) - 1)]) if ordered else 0.0

    return Quantiles(p50=at(50), p90=at(90), p99=at(99), max=at(100))


def _pods(found: Sequence[Wait]) -> PodFigures:
    bound = [wait for wait in found if wait.bound is not None]
    left = [wait for wait in found if wait.bound is None and not wait.deleted]
    return PodFigures(
        created=len(found),
        bound=len(bound),
        unbound=len(left),
        unbound_placeholders=sum(wait.placeholder for wait in left),
        preempted=dict(
            Counter(
                wait.owner or NO_OWNER for wait in found if wait.preempted and not wait.placeholder
            ).most_common()
        ),
        pending_seconds=quantiles(wait.pending for wait in bound if not wait.placeholder),
    )


def _nodes(records: Iterable[Record], span: int) -> NodeFigures:
    launched = terminated = base = initial = failures = present = peak = expired = 0
    of_claims: set[str] = set()
    for record in records:
        match record["kind"]:
            case "instance.started" if record.get("claim"):
                launched += "since" not in record
                initial += "since" in record
                of_claims.add(record["instance"])
            case "instance.started":
                base += 1
            case "instance.terminated":
                terminated += record["instance"] in of_claims
            case "instance.launchFailed":
                failures += 1
            case "node.created":
                present += 1
                peak = max(peak, present)
            case "node.deleted":
                present -= 1
            case "disrupted":
                expired += record["reason"] == "expired"
    return NodeFigures(
        launched=launched,
        terminated=terminated,
        peak=peak,
        base=base,
        initial=initial,
        launch_failures=failures,
        expired=expired,
        expired_daily=round(expired * 24 * HOUR / span, 1) if span else 0.0,
    )


def _cost(records: Sequence[Record], run: Run) -> CostFigures:
    end = run.end
    running: dict[str, Record] = {}
    spent = {"base": 0, "on-demand": 0, "spot": 0, "volumes": 0, "estimated": 0}
    hourly = peak = 0

    def charge(start: Record, until: int) -> None:
        amount = start["price"] * (until - start["t"]) // HOUR
        volumes = start.get("volumes", 0) * (until - start["t"]) // HOUR
        kind = ("spot" if start["capacityType"] == "spot" else "on-demand") if start.get("claim") else "base"
        spent[kind] += amount
        spent["volumes"] += volumes
        if start.get("estimated"):
            spent["estimated"] += amount - volumes

    for record in records:
        if record["kind"] == "instance.started":
            running[record["instance"]] = record
            hourly += record["price"]
            peak = max(peak, hourly)
        elif record["kind"] == "instance.terminated" and record["instance"] in running:
            start = running.pop(record["instance"])
            hourly -= start["price"]
            charge(start, record["t"])
    for start in running.values():
        charge(start, end)
    total = paid = spent["base"] + spent["on-demand"] + spent["spot"]
    unused = 0
    if run.terms is not None:
        facts = paid_facts(records, run.start, end, run.terms)
        paid = facts.bill(run.start, end)
        unused = sum(one.cost(run.start, end) for one in facts.unused)
    return CostFigures(
        total=dollars(total),
        paid=dollars(paid),
        unused=dollars(unused),
        peak_hourly=dollars(peak),
        base=dollars(spent["base"]),
        on_demand=dollars(spent["on-demand"]),
        spot=dollars(spent["spot"]),
        volumes=dollars(spent["volumes"]),
        estimated=dollars(spent["estimated"]),
    )


def _waiting(found: Sequence[Wait]) -> WaitingFigures:
    slowest = sorted(found, key=lambda wait: (-wait.total, wait.created, wait.pod))
    owners: dict[str, list[Wait]] = {}
    for wait in slowest:
        owners.setdefault(wait.owner or NO_OWNER, []).append(wait)
    count = max(1, len(found))
    return WaitingFigures(
        pods=len(found),
        mean={part: _seconds(sum(wait.parts[part] for wait in found) / count) for part in PARTS},
        worst=[_pod_wait(wait) for wait in slowest[:_WORST]],
        by_owner=[
            OwnerWait(
                owner=owner,
                pods=len(group),
                mean_seconds=_seconds(sum(wait.total for wait in group) / len(group)),
                max_seconds=_seconds(group[0].total),
                explanation=explain(group[0]),
            )
            for owner, group in owners.items()
        ],
        all=[_pod_wait(wait) for wait in found],
    )


def _pod_wait(wait: Wait) -> PodWait:
    return PodWait(
        pod=wait.pod,
        owner=wait.owner,
        total_seconds=_seconds(wait.total),
        pending_seconds=_seconds(wait.pending),
        parts={part: _seconds(length) for part, length in wait.parts.items()},
        node=wait.node,
        attempts=wait.attempts,
        explanation=explain(wait),
    )


def _maximum(records: Sequence[Record], end: int) -> dict[str, MaximumFigures]:
    maxima = {record["name"]: record["max"] for record in records if record["kind"] == "hpa"}

    def total(spells: Iterable[Spell], waiting: bool) -> float:
        return _seconds(sum(spell.end - spell.start for spell in spells if spell.waiting is waiting))

    return {
        name: MaximumFigures(
            maximum=maxima[name],
            nothing_pending_seconds=total(spells, False),
            waiting_for_nodes_seconds=total(spells, True),
            spells=[
                {"start": spell.start // SECOND, "end": spell.end // SECOND, "waitingForNodes": spell.waiting}
                for spell in spells
            ],
        )
        for name, spells in at_maximum(records, end).items()
    }


def _traffic(records: Iterable[Record]) -> dict[str, TrafficFigures]:
    sums: dict[str, tuple[float, float, int]] = {}
    for record in records:
        if record["kind"] == "traffic":
            requests, over, seconds = sums.get(record["service"], (0.0, 0.0, 0))
            window = record["seconds"]
            sums[record["service"]] = (
                requests + record["load"] * window,
                over + record["over"],
                seconds + (window if record["over"] > 0 else 0),
            )
    return {
        name: TrafficFigures(requests=round(requests), over_capacity=round(over), overloaded_seconds=seconds)
        for name, (requests, over, seconds) in sorted(sums.items())
    }


def to_json(summary: Summary) -> dict[str, Any]:
    """The summary as plain values, ready to be written as JSON."""
    built: Mapping[str, Any] = msgspec.to_builtins(summary)
    return dict(built)
