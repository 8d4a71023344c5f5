"""What the nodes of a pool add up to, and whether that breaks its limits."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.cluster.nodes import Machine, capacity
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

NODES = "nodes"
# What the status of a pool names even where it is 0.
BASE: Resources = {CPU: 0, MEMORY: 0, PODS: 0, EPHEMERAL_STORAGE: 0, NODES: 0}


def usage_by_pool(machines: Iterable[Machine]) -> dict[str, dict[str, int]]:
    """Pool name -> capacity of these machines, `nodes` included; give it those that are to count."""
    return total((machine.pool, capacity(machine)) for machine in machines if machine.pool)


def total(parts: Iterable[tuple[str, Resources]]) -> dict[str, dict[str, int]]:
    """The same, of the pool and the capacity of each machine."""
    found: dict[str, dict[str, int]] = {}
    for pool, amounts in parts:
        used = found.setdefault(pool, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount
        used[NODES] = used.get(NODES, 0) + 1
    return found


def exceeded(usage: Resources, limits: Resources) -> tuple[str, int, int] | None:
    """The first resource whose use is above its limit, with both; being equal is fine."""
    for name in sorted(limits):
        if usage.get(name, 0) > limits[name]:
            return name, usage.get(name, 0), limits[name]
    return None
