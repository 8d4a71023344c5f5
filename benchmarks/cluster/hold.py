"""A controller beside many pods: its memory while they come and go, and its CPU while nothing happens.

Nodes and pods are objects without a kubelet, so that the machine does little else than the API server and the
controller. Pods are deleted and made anew at a steady rate.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster.load import NODES, PODS, create, nodes, pods
from benchmarks.cluster.meter import cpu_seconds, family, resident_mib, share
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.kube.http.transport import Request
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually

_QPS = 1e6
_AT_ONCE = 16
_SYNC_SECONDS = 300.0
_SETTLE_SECONDS = 20.0  # after the churn, before what is used by doing nothing is measured


@dataclass(frozen=True, slots=True)
class Hold:
    """Memory in MiB, of the controller and its solver; CPU as a share of one core."""

    pods: int
    nodes: int
    sync_seconds: float  # from the start of the process until it is ready
    synced_mib: float
    churn_seconds: float
    replaced: int  # pods that were deleted and made anew
    churn_cpu: float
    peak_mib: float
    idle_seconds: float
    idle_cpu: float
    idle_mib: float


def measure(pod_count: int, node_count: int, *, churn: float, rate: float, idle: float) -> Hold:
    """On a control plane of its own; `churn` and `idle` in seconds, `rate` in pods per second."""
    plane = ControlPlane(build(), nodes=False, controllers="serviceaccount")
    with plane, tempfile.TemporaryDirectory() as folder:
        define(plane)
        asyncio.run(_load(plane, pod_count, node_count))
        begun = time.monotonic()
        with Controller(plane, Path(folder)) as controller:
            eventually(
                lambda: controller.asked("/readyz"), lambda found: found == (200, "ok"), seconds=_SYNC_SECONDS
            )
            synced = time.monotonic() - begun
            first = resident_mib(family(controller.pid))
            replaced, churned, peak = asyncio.run(
                _churn(plane, controller.pid, _endless(pod_count, node_count), seconds=churn, rate=rate)
            )
            time.sleep(_SETTLE_SECONDS)
            idled = share(controller.pid, idle)
            left = resident_mib(family(controller.pid))
    return Hold(
        pods=pod_count,
        nodes=node_count,
        sync_seconds=synced,
        synced_mib=first,
        churn_seconds=churn,
        replaced=replaced,
        churn_cpu=churned,
        peak_mib=max(first, peak, left),
        idle_seconds=idle,
        idle_cpu=idled,
        idle_mib=left,
    )


def _endless(pod_count: int, node_count: int) -> Iterator[dict[str, Any]]:
    while True:
        yield from pods(pod_count, node_count)


async def _load(plane: ControlPlane, pod_count: int, node_count: int) -> None:
    async with connect(Kubeconfig([plane.kubeconfig]).access(), qps=_QPS, burst=int(_QPS)) as client:
        await create(client, NODES, nodes(node_count))
        await create(client, PODS, pods(pod_count, node_count))


async def _churn(
    plane: ControlPlane, pid: int, documents: Iterator[dict[str, Any]], *, seconds: float, rate: float
) -> tuple[int, float, float]:
    """How many pods were replaced, the share of a core that it took the controller, and its most memory."""
    peak, replaced = 0.0, 0
    begun, before = time.monotonic(), cpu_seconds(family(pid))
    until, turns = begun + seconds, enumerate(documents)
    async with connect(Kubeconfig([plane.kubeconfig]).access(), qps=_QPS, burst=int(_QPS)) as client:

        async def work() -> None:
            nonlocal replaced
            for index, document in turns:
                await asyncio.sleep(begun + index / rate - time.monotonic())
                if time.monotonic() > until:
                    return
                await _replace(client, document)
                replaced += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(work())
            while time.monotonic() < until:
                await asyncio.sleep(0.5)
                peak = max(peak, resident_mib(family(pid)))
    return replaced, (cpu_seconds(family(pid)) - before) / seconds, peak


async def _replace(client: HttpClient, document: dict[str, Any]) -> None:
    path = f"{PODS}/{document['metadata']['name']}"
    await client.transport.ask(Request("DELETE", path, body={"gracePeriodSeconds": 0}))
    await client.transport.ask(Request("POST", PODS, body=document))
