"""Manifests change: which nodes drift, when the last one is replaced, and what holds it up.

What holds it up is found by playing it again with one thing changed: a disruption budget or a pool's budget
that lets twice as many go, or a window in which nothing goes left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import SECOND
from dovetail.base.yaml_writing import inline
from dovetail.reading import Manifest
from dovetail.simulate.analysis.log import Record

_SHARES = (50, 90, 100)
_HOLDS = ("Pdb", "budget", "do-not-disrupt")  # other reasons to wait pass by themselves
_NUMBER = re.compile(r"(\d+)(%?)")


@dataclass(frozen=True, slots=True)
class Course:
    """How it went. Seconds after the change; None: not by the end."""

    nodes: int  # there before
    drifted: int
    by_pool: Mapping[str, int]  # of the drifted ones
    done: int  # of the drifted ones, by the end
    at: Mapping[int, float | None]  # percent of the drifted ones replaced -> when
    blocked: Mapping[str, int]  # why nodes had to wait, in the words of their events -> nodes
    vcpus_before: int
    vcpus_peak: int  # since the change, old and new nodes together


@dataclass(frozen=True, slots=True)
class Alternative:
    """One thing that could be otherwise. `settings` as `dovetail compare --set` takes them."""

    what: str
    setting: str


def course(records: Sequence[Record], start: int, after: int, vcpus: Mapping[str, int]) -> Course:
    """Read from what was played. `vcpus` of an instance type, by name."""
    begins = start + after
    pools: dict[str, str] = {}  # claim -> pool, of those that are there
    old: dict[str, str] = {}
    drifted: dict[str, int] = {}
    gone: dict[str, int] = {}
    running: dict[str, int] = {}  # instance -> vCPUs
    blocked: dict[str, set[str]] = {}
    before = peak = total = 0
    for record in records:
        late = record["t"] >= begins
        if late and not old:
            old, before, peak = dict(pools), total, total
        match record["kind"]:
            case "claim.created":
                pools[record["claim"]] = record.get("pool", "")
            case "claim.deleted":
                pools.pop(record["claim"], None)
                if record["claim"] in drifted:
                    gone[record["claim"]] = record["t"]
            case "claim.condition" if late and record["type"] == "Drifted" and record["status"] == "True":
                if record["claim"] in old:
                    drifted.setdefault(record["claim"], record["t"])
            case "instance.started" if record.get("claim"):
                running[record["instance"]] = vcpus.get(record["instanceType"], 0)
                total += running[record["instance"]]
            case "instance.terminated":
                total -= running.pop(record["instance"], 0)
            case "event" if late and record["reason"] == "DisruptionBlocked":
                kind, _, name = record["object"].partition("/")
                if kind in ("NodeClaim", "NodePool") and any(part in record["message"] for part in _HOLDS):
                    blocked.setdefault(record["message"], set()).add(name)
        if late:
            peak = max(peak, total)
    times = sorted(gone.values())
    at: dict[int, float | None] = {}
    for share in _SHARES:
        number = -(-len(drifted) * share // 100)
        at[share] = 0.0 if not number else None
        if 0 < number <= len(times):
            at[share] = (times[number - 1] - begins) / SECOND
    return Course(
        len(old),
        len(drifted),
        dict(Counter(old[claim] for claim in drifted)),
        len(times),
        at,
        {text: len(names) for text, names in sorted(blocked.items(), key=lambda one: -len(one[1]))},
        before,
        peak,
    )


def alternatives(manifests: Sequence[Manifest]) -> Iterator[Alternative]:
    """One for each budget of pods and of pools."""
    for item in manifests:
        name = item.written[1]
        if isinstance(item.object, PodDisruptionBudget):
            spec = item.document["spec"]
            if "maxUnavailable" in spec:
                value = _doubled(spec["maxUnavailable"])
                yield _set(f"PodDisruptionBudget {name} lets {value} go", "maxUnavailable", value, item)
            elif isinstance(spec.get("minAvailable"), int) and spec["minAvailable"] > 1:
                value = spec["minAvailable"] - 1
                yield _set(f"PodDisruptionBudget {name} keeps {value}", "minAvailable", value, item)
        elif isinstance(item.object, NodePool):
            yield from _of_pool(item)


def _of_pool(pool: Manifest) -> Iterator[Alternative]:
    name = pool.written[1]
    budgets: list[dict[str, Any]] = pool.document["spec"].get("disruption", {}).get("budgets") or [
        {"nodes": "10%"}
    ]
    always = [one for one in budgets if "schedule" not in one]
    if len(always) < len(budgets):
        text = f"NodePool {name} has no windows"
        yield _set(text, "disruption.budgets", always or [{"nodes": "10%"}], pool)
    if always:
        wider = [
            {**one, "nodes": str(_doubled(one.get("nodes", "10%")))} if "schedule" not in one else one
            for one in budgets
        ]
        least = ", ".join(one["nodes"] for one in wider if "schedule" not in one)
        yield _set(f"NodePool {name} lets {least} go", "disruption.budgets", wider, pool)


def _set(what: str, path: str, value: object, item: Manifest) -> Alternative:
    kind, key = item.written
    return Alternative(what, f"{kind}/{key}.spec.{path}={inline(value)}")


def _doubled(value: int | str) -> int | str:
    found = _NUMBER.fullmatch(str(value))
    if found is None:
        return value
    if found[2]:
        return f"{min(100, 2 * max(1, int(found[1])))}%"
    return 2 * max(1, int(found[1]))
