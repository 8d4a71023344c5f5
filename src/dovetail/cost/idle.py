"""Who causes idle: what of every node's cost no pod bears, by its cause, to the nano-dollar.

A node's life is cut where something changes. In each piece its idle has one of these causes:

    starting     it was paid for before it was ready
    ending       it was chosen to go, its pods were leaving
    empty        it held nothing but what runs on every node
    reserved     what the kubelet and the system keep (capacity less allocatable)
    unbalanced   one resource is full, the other cannot be used: whose requests fill the full one cause it
    forbidden    room that stays because the node may not be disrupted; the rule is named
    free         other room

The weights are exact integers; the parts of a node sum to its idle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dovetail.base.clock import MINUTE
from dovetail.cost.aggregate import NodeCost
from dovetail.cost.allocation import AllocationSet, proportional
from dovetail.cost.facts import Facts, Instance, PodRun, Workload

STARTING, ENDING, EMPTY, RESERVED = "starting", "ending", "empty", "reserved"
UNBALANCED, FORBIDDEN, FREE = "unbalanced", "forbidden", "free"
_SAID_AGAIN = 20 * MINUTE  # the controllers repeat themselves after 15 at the latest
_PAIR = (("cpu", "cpu", "ram"), ("ram", "memory", "cpu"))  # resource, its name in amounts, the other one


@dataclass(frozen=True, slots=True)
class Cause:
    """`detail`: the reason of the end, the rule that forbids, the group whose requests cause it, or ""."""

    kind: str
    detail: str = ""


_SENTENCES = {
    STARTING: "Nodes that were paid for and not ready yet",
    EMPTY: "Nodes with nothing but daemonsets on them",
    ENDING: "Nodes that were chosen to go",
    RESERVED: "Kept by the kubelet and the system",
    UNBALANCED: "One resource full, the other unusable",
    FORBIDDEN: "Room on nodes that could not be disrupted",
    FREE: "Other free room on nodes",
}


def sentence(cause: Cause) -> str:
    """A cause for people."""
    return f"{_SENTENCES[cause.kind]}{f': {cause.detail}' if cause.detail else ''}"


def causes(
    facts: Facts,
    allocated: AllocationSet,
    nodes: Sequence[NodeCost],
    group: Callable[[Workload, str], str],
) -> dict[Cause, int]:
    """Nano-dollars of idle by cause, dearest first; with what is allocated they sum to the bill.

    `allocated` and `nodes` as `ledger.allocations` made them; `group` names the group of a pod (its workload,
    its name).
    """
    borne: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in allocated:
        for resource in ("cpu", "ram", "gpu"):
            borne[one.properties.provider_id][resource] += one.cost[resource]
    pods: defaultdict[str, list[PodRun]] = defaultdict(list)
    for run in facts.pods:
        pods[run.instance].append(run)
    found: defaultdict[Cause, int] = defaultdict(int)
    for node in nodes:
        instance = facts.instances[node.provider_id]
        weights = _weights(instance, pods[instance.id], node, group)
        for resource, cost in node.cost.items():
            idle = cost - borne[instance.id][resource]
            if not idle:
                continue
            named = {str(index): weight for index, weight in enumerate(weights[resource].values())}
            kinds = list(weights[resource])
            parts = proportional(idle, named) or {"": idle}
            for index, part in parts.items():
                found[kinds[int(index)] if index else Cause(FREE)] += part
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0].kind, item[0].detail)))


def _weights(
    instance: Instance, runs: Sequence[PodRun], node: NodeCost, group: Callable[[Workload, str], str]
) -> dict[str, dict[Cause, int]]:
    """By resource: how much of it, times how long, is idle for which cause."""
    found: dict[str, dict[Cause, int]] = {"cpu": {}, "ram": {}, "gpu": {}}
    edges = {node.start, node.end}
    marks = [instance.ready, instance.ending, *(at for at, _ in instance.stays)]
    marks += [at for run in runs for at in (run.start, run.end)]
    edges.update(at for at in marks if at is not None and node.start < at < node.end)
    for start, end in pairwise(sorted(edges)):
        here = [run for run in runs if run.start <= start and (run.end is None or run.end >= end)]
        for resource, cause, amount in _piece(instance, here, (start, end), group):
            table = found[resource]
            table[cause] = table.get(cause, 0) + amount * (end - start)
    return found


def _piece(
    instance: Instance, here: Sequence[PodRun], span: tuple[int, int], group: Callable[[Workload, str], str]
) -> list[tuple[str, Cause, int]]:
    """Of one piece: (resource, cause, amount)."""
    at = span[0]
    asked: dict[str, int] = defaultdict(int)
    for run in here:
        requests, use = run.workload.requests(), run.mean_use(*span)
        for name in {**requests, **use}:
            asked[name] += max(requests.get(name, 0), use.get(name, 0))
    whole = _whole_cause(instance, here, at)
    gpu = Cause(FREE) if whole is None else whole
    found = [("gpu", gpu, 1)]
    free = {}
    for resource, name, _ in _PAIR:
        capacity = instance.capacity.get(name, 0)
        usable = min(capacity, instance.allocatable.get(name, capacity))
        left = max(0, usable - asked[name])
        free[resource] = left, max(1, usable)
        kept = min(capacity - usable, max(0, capacity - asked[name]))
        if whole is not None and whole.kind == STARTING:
            found.append((resource, whole, capacity))
            continue
        found.append((resource, Cause(RESERVED), kept))
        if whole is not None:
            found.append((resource, whole, left))
    if whole is not None:
        return found
    for resource, _, other in _PAIR:
        left, usable = free[resource]
        theirs, of = free[other]
        both = min(left, theirs * usable // of)  # what pods of the node's own shape could still use
        found.append((resource, _stay(instance, at), both))
        found += _unbalanced(resource, left - both, here, "memory" if resource == "cpu" else "cpu", group)
    return found


def _unbalanced(
    resource: str,
    left: int,
    here: Sequence[PodRun],
    full: str,
    group: Callable[[Workload, str], str],
) -> list[tuple[str, Cause, int]]:
    """Shared by what each group asks of the resource that is full."""
    shares: dict[str, int] = defaultdict(int)
    for run in here:
        shares[group(run.workload, run.name)] += run.workload.requests().get(full, 0)
    parts = proportional(left, shares) or {"": left}
    word = "CPU" if resource == "cpu" else "memory"
    return [
        (resource, Cause(UNBALANCED, f"{word} left over by requests of {name}" if name else ""), part)
        for name, part in parts.items()
    ]


def _whole_cause(instance: Instance, here: Sequence[PodRun], at: int) -> Cause | None:
    if instance.claim and (instance.ready is None or at < instance.ready):
        return Cause(STARTING)
    if instance.ending is not None and at >= instance.ending:
        return Cause(ENDING, instance.why)
    if all(run.workload.kind in ("daemonset", "node") for run in here):
        return Cause(EMPTY)
    return None


def _stay(instance: Instance, at: int) -> Cause:
    """What was last said to forbid it counts for a while: it is said again as long as it holds."""
    known = bisect_right([since for since, _ in instance.stays], at)
    if not known or at - instance.stays[known - 1][0] > _SAID_AGAIN:
        return Cause(FREE)
    return Cause(FORBIDDEN, instance.stays[known - 1][1])
