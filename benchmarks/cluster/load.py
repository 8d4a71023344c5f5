"""Objects for a real API server to hold: nodes, and pods that stand on them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from dovetail.kube.http.client import HttpClient
from dovetail.kube.http.transport import Request

_AT_ONCE = 48
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
_KINDS = 200  # different pods; the others are copies


def nodes(count: int) -> Iterator[dict[str, Any]]:
    """Nodes with 16 CPUs in three zones, Ready."""
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    for index in range(count):
        name, zone = f"node-{index:05}", f"test-zone-{'abc'[index % 3]}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-02T10:00:00Z"}]
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": room, "allocatable": room, "conditions": conditions},
        }


def pods(count: int, nodes: int) -> Iterator[dict[str, Any]]:
    """Pods as workloads have them, of 200 kinds, each on one of the nodes."""
    for index in range(count):
        kind = index % _KINDS
        app = f"app-{kind:03}"
        env = [{"name": f"SETTING_{item}", "value": f"value {item} of {app}"} for item in range(10)]
        requests = {"cpu": f"{100 + kind}m", "memory": f"{128 + kind}Mi"}
        container = {"image": f"{app}:1", "env": env, "resources": {"requests": requests}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{app}-{index:06}", "labels": {"app": app, "team": f"team-{kind % 20}"}},
            "spec": {
                "nodeName": f"node-{index % nodes:05}",
                "containers": [{"name": "main", **container}, {"name": "sidecar", **container}],
            },
        }


async def create(client: HttpClient, path: str, documents: Iterable[dict[str, Any]]) -> None:
    """Create all of them, some at once."""
    waiting = iter(documents)

    async def work() -> None:
        for document in waiting:
            await client.transport.ask(Request("POST", path, body=document))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(work())
