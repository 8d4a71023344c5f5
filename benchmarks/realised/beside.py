"""A burst beside the same one with Karpenter's heuristics: what it costs, and what is kept of its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.realised.run import EARLY, Record, hourly, realised, simulated, spent
from benchmarks.realised.workloads import BURST_MINUTES, HOST, HOUR_MINUTES, ZONES, Document, workload
from dovetail.units.money import NANO_DOLLARS

POLICIES = OURS, KARPENTERS = "dovetail", "karpenter"


def play_beside(run: tuple[str, int], *, minutes: int = HOUR_MINUTES - BURST_MINUTES) -> dict[str, Any]:
    """One workload, by name, on one seed. Of both: dollars that the first 15 minutes cost, $/h then and at
    the end, pods that were astray then, and seconds until 99 % of the pods were bound.
    """
    name, seed = run
    row: dict[str, Any] = {"workload": name, "seed": seed}
    for policy in POLICIES:
        result, burst = simulated(run, policy=policy, minutes=minutes)
        records, late = result.records, burst + EARLY
        row[policy] = {
            "spent": spent(records, burst, late) / NANO_DOLLARS,
            "after": hourly(records, burst, late) / NANO_DOLLARS,
            "end": hourly(records, burst, result.end) / NANO_DOLLARS,
            "astray": astray(records, workload(name).burst, late),
            "p99": realised(records, burst, result.end).p99,
        }
    return row


def astray(records: Iterable[Record], burst: Sequence[Document], until: int) -> int:
    """Pods that are, at that instant, where their own rules, required or wished, would not have them: beyond
    the skew of a spread, over all zones for sale and nodes that could be bought, and beyond the first on a
    node where they wish to be apart. Pure.

    kube-scheduler looks at zones that have nodes only, and a wish gives way to what is there when a pod's
    turn comes. So a cluster may be cheaper because it keeps less.
    """
    apps, places, zones = _standing(records, until)
    found = 0
    for deployment in burst:
        if deployment["kind"] == "Deployment":
            app, spec = deployment["metadata"]["name"], deployment["spec"]["template"]["spec"]
            nodes = [node for pod, node in places.items() if apps[pod] == app]
            found += sum(_beyond(nodes, zones, rule) for rule in spec.get("topologySpreadConstraints", ()))
            rules = spec.get("affinity", {}).get("podAntiAffinity", {})
            for _ in rules.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
                found += len(nodes) - len(set(nodes))
    return found


def _beyond(nodes: Sequence[str], zones: Mapping[str, str], rule: Document) -> int:
    host = rule["topologyKey"] == HOST
    counts = Counter(nodes if host else (zones[node] for node in nodes))
    least = 0 if host else min(counts[zone] for zone in ZONES)
    return sum(max(0, count - least - rule["maxSkew"]) for count in counts.values())


def _standing(
    records: Iterable[Record], until: int
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    """The app of each pod, the node of each that is bound, and the zone of each node."""
    apps: dict[str, str] = {}
    places: dict[str, str] = {}
    zones: dict[str, str] = {}
    for r in records:
        if r["t"] > until:
            break
        if r["kind"] == "node.created":
            zones[r["node"]] = r["zone"]
        elif r["kind"] == "pod.created":
            apps[r["pod"]] = r["labels"].get("app", "")
        elif r["kind"] == "pod.bound":
            places[r["pod"]] = r["node"]
        elif r["kind"] == "pod.deleted":
            places.pop(r["pod"], None)
    return apps, places, zones
