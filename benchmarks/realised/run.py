"""One run of a workload, and what its event log says of the first plan: the promise and its outcome."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.realised.workloads import BURST_MINUTES, HOUR_MINUTES, workload
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.collector import collect_seldom
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.units.money import NANO_DOLLARS

Record = Mapping[str, Any]

EARLY = 15 * MINUTE  # over which spending is added up: long enough for a second and a third wave to show

WEIGHED = 6 * SECOND  # in which a round may ask for several plans


@dataclass(frozen=True, slots=True)
class Realised:
    """One run. Seconds from the burst on, dollars per hour; shares of 1."""

    pods: int  # of the burst
    unbound: int  # of them, when the run ended
    planned: float  # $/h of the first plan's nodes, as planned
    bound: float  # the lower bound of its cost
    on_first: float  # share of the pods that were planned onto new nodes and were bound to any of that plan
    on_node: float  # share of them that were bound to the very node, or changed places with their like
    at_bound: float  # $/h of all nodes bought since the burst, once all its pods were bound, over `planned`
    at_end: float  # the same when the run ended
    early: float  # spent in the first 15 minutes, over what the first plan's nodes alone would have cost
    waves: int  # plans that bought nodes for pods of the burst, those of the first plan counted as one
    p50: float  # from the creation of a pod until it is bound
    p99: float
    slowest: float  # from the burst until the last node of the first plan was Ready
    moved: int  # pods evicted within the hour


def play(
    run: tuple[str, int],
    *,
    nominate: bool = True,
    minutes: int = HOUR_MINUTES - BURST_MINUTES,
    patches: str = "",
) -> dict[str, Any]:
    """One workload, by name, on one seed: the fields of Realised, and how long it took. So many minutes from
    the burst on: a few are enough to see where its pods go.
    """
    result, burst = simulated(run, nominate=nominate, minutes=minutes, patches=patches)
    found = realised(result.records, burst, result.end)
    name, seed = run
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **asdict(found)}


def simulated(
    run: tuple[str, int],
    *,
    nominate: bool = True,
    policy: str = "dovetail",
    minutes: int = HOUR_MINUTES - BURST_MINUTES,
    patches: str = "",
) -> tuple[Result, int]:
    """How a workload, by name, on a seed went, and the instant of its burst."""
    name, seed = run
    collect_seldom()
    chosen = workload(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario"
        length = BURST_MINUTES + minutes
        written = chosen.write(path, length, nominate=nominate, policy=policy, patches=patches)
        scenario = load(written).seeded(seed)
        return simulate(scenario), scenario.start + BURST_MINUTES * MINUTE


def realised(records: Sequence[Record], burst: int, end: int) -> Realised:
    """Figures of a run whose burst came at the instant `burst`; instants are nanoseconds. Pure.

    The first plan is every decision up to the one with which each pod of the burst had been in a batch: a
    burst that took longer to be created than a batch stays open is no second wave.
    """
    created = {r["pod"]: r["t"] for r in records if r["kind"] == "pod.created" and _in_burst(r["t"], burst)}
    bought = [r for r in records if r["kind"] == "decision" and _about(r, created)]
    seen = _all_batched(records, created)
    first = [r for r in bought if r["t"] <= seen] or bought[:1]
    claims = {one["claim"]: one for r in first for one in r["claims"]}
    promised = {pod: name for name, one in claims.items() for pod in one["pods"] if pod in created}
    node_of = {r["node"]: r["claim"] for r in records if r["kind"] == "node.created"}
    places: dict[str, tuple[int, str]] = {}
    for r in records:
        if r["kind"] == "pod.bound" and r["pod"] in created:
            places.setdefault(r["pod"], (r["t"], node_of.get(r["node"], "")))
    waits = sorted(at - created[pod] for pod, (at, _) in places.items())
    bound_at = max((at for at, _ in places.values()), default=end)
    planned = sum(r["hourly"] for r in first)
    starts = [r["t"] for r in records if r["kind"] == "instance.started" and r["claim"] in claims]
    ready = {r["node"]: r["t"] for r in reversed(records) if r["kind"] == "node.ready"}
    up = [at for node, at in ready.items() if node_of.get(node) in claims]
    return Realised(
        pods=len(created),
        unbound=len(created) - len(places),
        planned=planned / NANO_DOLLARS,
        bound=sum(r["lowerBound"] for r in first) / NANO_DOLLARS,
        on_first=_share((places.get(pod, (0, ""))[1] in claims for pod in promised), len(promised)),
        on_node=_outcomes(records, {r["snapshot"] for r in first}),
        at_bound=_ratio(hourly(records, burst, bound_at), planned),
        at_end=_ratio(hourly(records, burst, end), planned),
        early=_ratio(
            spent(records, burst, burst + EARLY), planned * (burst + EARLY - _middle(starts)) // HOUR
        ),
        waves=len(bought) - len(first) + bool(first),
        p50=_at(waits, 50),
        p99=_at(waits, 99),
        slowest=(max(up) - burst) / SECOND if up else 0.0,
        moved=sum(r["kind"] == "pod.evicted" for r in records),
    )


def _in_burst(instant: int, burst: int) -> bool:
    """Controllers create the pods of a change within seconds."""
    return burst <= instant < burst + MINUTE


def _about(decision: Record, pods: Mapping[str, int]) -> bool:
    return any(pod in pods for one in decision["claims"] for pod in one["pods"])


def _all_batched(records: Sequence[Record], created: Mapping[str, int]) -> int:
    """When the round ended after which no pod of the burst was new to a batch: with the decision that
    followed its last plan, which is 0.1 to 0.4 s later on a real control plane.
    """
    first: dict[str, int] = {}
    for r in records:
        if r["kind"] == "batch":
            for pod in r["pods"]:
                if pod in created:
                    first.setdefault(pod, r["t"])
    last = max(first.values(), default=0)
    solved = [r["t"] for r in records if r["kind"] == "solve" and r["t"] >= last]
    at = max((at for at in solved if at <= solved[0] + WEIGHED), default=last)
    after = (r for r in records if r["t"] >= at and r["kind"] in ("batch", "decision"))
    ended = next(after, None)
    return ended["t"] if ended is not None and ended["kind"] == "decision" else at


def _outcomes(records: Iterable[Record], plans: set[str]) -> float:
    settled = [r["pods"] for r in records if r["kind"] == "plan.realised" and r["plan"] in plans]
    here = sum(pods["here"] for pods in settled)
    return _ratio(here, here + sum(pods["elsewhere"] + pods["replanned"] for pods in settled))


def hourly(records: Iterable[Record], burst: int, until: int) -> int:
    """Nano-dollars per hour, at that instant, of what was started for claims since the burst."""
    running: dict[str, int] = {}
    for r in records:
        if r["t"] > until:
            break
        if r["kind"] == "instance.started" and r["claim"] and r["t"] >= burst:
            running[r["instance"]] = r["price"]
        elif r["kind"] == "instance.terminated":
            running.pop(r["instance"], None)
    return sum(running.values())


def spent(records: Iterable[Record], burst: int, until: int) -> int:
    """Nano-dollars that these instances cost until then."""
    paid, running = 0, dict[str, tuple[int, int]]()
    for r in records:
        if r["t"] > until:
            break
        if r["kind"] == "instance.started" and r["claim"] and r["t"] >= burst:
            running[r["instance"]] = r["t"], r["price"]
        elif r["kind"] == "instance.terminated" and r["instance"] in running:
            begun, price = running.pop(r["instance"])
            paid += price * (r["t"] - begun) // HOUR
    return paid + sum(price * (until - begun) // HOUR for begun, price in running.values())


def _middle(instants: Sequence[int]) -> int:
    ordered = sorted(instants)
    return ordered[len(ordered) // 2] if ordered else 0


def _share(true: Iterable[bool], number: int) -> float:
    return sum(true) / number if number else 1.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _at(ordered: Sequence[int], percent: int) -> float:
    """That quantile, in seconds."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] / SECOND if ordered else 0.0
