"""A zone's machines are gone and none comes any more: do the pods come back, how fast, at what cost?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.base.guess import nearest
from dovetail.cloud import catalog
from dovetail.simulate.analysis.log import Meter, Record
from dovetail.simulate.questions.stage import Addition, Document, time_of_day
from dovetail.simulate.run import Result
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.schema import Subnet
from dovetail.units.money import dollars

_SHARES = (50, 90, 99, 100)  # percent of the pods that were lost
_VOLUMES = ("volume node affinity", "PersistentVolume's node affinity", "no available volume zone")


@dataclass(frozen=True, slots=True)
class Outage:
    """From `after` (ns) on. Empty lists mean all; `warned` spot instances have two minutes."""

    zone: str
    after: int
    instance_types: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    warned: bool = False
    free: tuple[tuple[str, int], ...] = ()  # zone -> addresses that its subnet has


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came of it. Instants in seconds after the outage began; None: not before the end."""

    before: int  # pods that ran
    lost: int  # at most so many of them did not, at once
    back: dict[int, float | None]  # percent of the lost -> when
    missing: int  # in the end
    stuck: dict[str, int]  # why pods have no node in the end -> how many; the scheduler's words
    by_volume: tuple[str, ...]  # pods that their volume's zone holds
    hourly_before: float  # dollars
    hourly_after: float  # in the end
    launched: int  # nodes, since
    failed: dict[str, int]  # launches that failed since, by reason


def addition(scenario: Scenario, outage: Outage, length: int) -> Addition:
    """Raises InputError for a zone that the region does not have."""
    zones = tuple(catalog.zones(scenario.file.region))
    for flag, zone in (("--zone", outage.zone), *(("--free", name) for name, _ in outage.free)):
        if zone not in zones:
            near = nearest(zone, zones)
            remedy = f"did you mean {near[0]}?" if near else f"valid are {', '.join(zones)}"
            raise InputError(f"{scenario.file.region} has no zone {zone!r}", source=flag, remedy=remedy)
    what: Document = {
        "zones": [outage.zone],
        "instanceTypes": list(outage.instance_types),
        "capacityTypes": list(outage.capacity_types),
    }
    at = time_of_day(scenario, outage.after)
    kind = "spot_interrupted" if outage.warned else "instance_terminated"
    until = time_of_day(scenario, outage.after - SECOND)  # of the next day
    sections: Document = {
        "shortages": [{"from": at, "until": until, **what}],
        "interruptions": [{"at": at, "kind": kind, **what}],
    }
    if outage.free:
        sections["cluster"] = {"subnets": _subnets(scenario, dict(outage.free), zones)}
    return Addition(sections=sections, duration=outage.after + length)


def _subnets(scenario: Scenario, free: dict[str, int], zones: Sequence[str]) -> list[Document]:
    """The scenario's own, or one in each zone; of a zone with several the first one has the addresses."""
    cluster = scenario.file.cluster
    usual = {"karpenter.sh/discovery": cluster.name}
    known = cluster.subnets or tuple(Subnet(id=f"subnet-{zone}", zone=zone, tags=usual) for zone in zones)
    left, found = dict(free), []
    for one in known:
        count = left.get(one.zone, 0) if one.zone in free else one.free_addresses
        left[one.zone] = 0
        found.append({"id": one.id, "zone": one.zone, "tags": dict(one.tags), "freeAddresses": count})
    return found


def families(region: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """All types of the region whose names begin with one of these letters or families. Raises InputError."""
    names = [one.name for one in catalog.instance_types(region)]
    found: list[str] = []
    for text in wanted:
        mine = [name for name in names if name.startswith(text)] if text else []
        if not mine:
            near = nearest(text, names)
            remedy = (
                f"did you mean {near[0]}?" if near else "give families or types, such as m,c,r or m5.large"
            )
            message = f"no instance type of {region} begins with {text!r}"
            raise InputError(message, source="--types", remedy=remedy)
        found += mine
    return tuple(dict.fromkeys(found))


def recovery(result: Result, after: int) -> Recovery:
    """Read from what was played."""
    begins = result.start + after
    running: dict[str, bool] = {}
    waiting: dict[str, str] = {}  # pods without a node -> the scheduler's last word
    curve: list[tuple[int, int]] = []
    launched = 0
    failed: Counter[str] = Counter()
    count = before = 0
    for record in result.records:
        changed = _follow(record, running, waiting)
        if record["t"] < begins:
            count += changed
            before = count
            continue
        if changed:
            count += changed
            curve.append((record["t"], count))
        launched += record["kind"] == "instance.started" and bool(record.get("claim"))
        if record["kind"] == "instance.launchFailed":
            failed[record["message"].removeprefix("with fleet error(s), ") or record["reason"]] += 1
    low = min((level for _, level in curve), default=before)
    lost = max(0, before - low)
    bottom = next((at for at, level in curve if level == low), begins)
    back: dict[int, float | None] = {}
    for share in _SHARES:
        wanted = before - lost + -(-lost * share // 100)
        at = next((at for at, level in curve if at >= bottom and level >= wanted), None)
        back[share] = (at - begins) / SECOND if at is not None and lost else None if lost else 0.0
    words = {pod: text for pod, text in waiting.items() if text}
    held = tuple(sorted(pod for pod, text in words.items() if any(part in text for part in _VOLUMES)))
    then = Meter(result.start, result.end).read(_until(result.records, begins), begins)
    now = Meter(result.start, result.end).read(result.records, result.end)
    return Recovery(
        before,
        lost,
        back,
        max(0, before - count),
        dict(Counter(_reason(text) for text in words.values()).most_common()),
        held,
        dollars(then.hourly),
        dollars(now.hourly),
        launched,
        dict(failed.most_common()),
    )


def _until(records: Iterable[Record], end: int) -> list[Record]:
    return [record for record in records if record["t"] < end]


def _follow(record: Record, running: dict[str, bool], waiting: dict[str, str]) -> int:
    """Take the record in; by how much the number of running pods changed."""
    pod = record.get("pod", "")
    match record["kind"]:
        case "pod.created":
            waiting[pod] = ""
        case "pod.unschedulable":
            waiting[pod] = record.get("message", "")
        case "pod.bound":
            waiting.pop(pod, None)
        case "pod.running" if not running.get(pod):
            running[pod] = True
            return 1
        case "pod.evicted" | "pod.deleted" | "pod.finished":
            if record["kind"] == "pod.deleted":
                waiting.pop(pod, None)
            return -int(running.pop(pod, False))
    return 0


def _reason(text: str) -> str:
    """What the filters say, without the counts of nodes and what preemption would."""
    reasons = text.partition(": ")[2].partition(". no new claims")[0].partition(". preemption")[0]
    parts = (part.strip().partition(" ")[2] for part in reasons.rstrip(".").split(","))
    return ", ".join(dict.fromkeys(part for part in parts if part)) or text
