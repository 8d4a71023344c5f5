"""Pods whose node has gone: nothing stops them any more, so they are removed at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, Conflict, NotFound
from dovetail.simulate.workloads.base import Means

PERIOD = 20 * SECOND
QUARANTINE = 40 * SECOND  # a node may be missing for a moment while it is registered anew


def orphans(
    pods: Iterable[Pod], nodes: frozenset[str], missing: dict[str, int], now: int
) -> tuple[tuple[Pod, ...], dict[str, int]]:
    """Pods bound to a node that has been missing for the quarantine, and since when each node is missing."""
    bound = [pod for pod in pods if pod.spec.node_name and pod.spec.node_name not in nodes]
    since = {pod.spec.node_name: missing.get(pod.spec.node_name, now) for pod in bound}
    return tuple(pod for pod in bound if now - since[pod.spec.node_name] >= QUARANTINE), since


async def collect_orphans(means: Means) -> None:
    """Look every period, for ever."""
    missing: dict[str, int] = {}
    while True:
        await means.clock.sleep(PERIOD)
        nodes = frozenset(node.metadata.name for node in means.view.all(Node))
        gone, missing = orphans(means.view.all(Pod), nodes, missing, means.clock.now())
        for pod in gone:
            options: dict[str, Any] = {"uid": pod.metadata.uid, "grace_period_seconds": 0}
            try:
                await means.client.delete(Pod, pod.metadata.name, pod.metadata.namespace, **options)
            except (NotFound, Conflict):
                means.view.forget(pod)
            except ApiError:
                continue  # the next look tries again
