"""How fast a controller takes the cluster in: its first lists, then changes, and what it holds them in.

The API server is loaded first. Then one process that does nothing else than the controller's watches do its
first sync (list, decode, index). For changes, a watch begins at the version before the last pods came: the
server then sends them as fast as it can, and each is decoded and taken into the state.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks.cluster.load import NODES, PODS, create, nodes, pods
from benchmarks.cluster.meter import resident_mib
from dovetail.api.core import Namespace, Pod
from dovetail.cloud.kwok import KwokCloud
from dovetail.cluster.state import State, watched
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.kube.informer import Informer
from dovetail.runtime.process.clock import WallClock
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane

_QPS = 1e6
_CHANGES = 20_000  # at most; of many more, a server does not keep the first until the last have come


@dataclass(frozen=True, slots=True)
class Intake:
    """Seconds are wall seconds unless they say CPU; memory is that of the whole process."""

    pods: int
    nodes: int
    load_seconds: float
    sync_seconds: float
    sync_cpu: float
    resident_mib: float
    events: int
    watch_seconds: float
    watch_cpu: float

    @property
    def per_second(self) -> float:
        return self.events / self.watch_seconds

    @property
    def per_cpu_second(self) -> float:
        return self.events / self.watch_cpu


def measure(pod_count: int, node_count: int) -> Intake:
    """On a control plane of its own."""
    with ControlPlane(build(), nodes=False, controllers="serviceaccount") as plane:
        define(plane)
        version, load_seconds = asyncio.run(_load(plane.kubeconfig, pod_count, node_count))
        changes = min(pod_count, _CHANGES)
        watch = _child("watch", plane.kubeconfig, version, str(changes))
        sync = _child("sync", plane.kubeconfig)
    return Intake(
        pods=pod_count,
        nodes=node_count,
        load_seconds=load_seconds,
        sync_seconds=sync["seconds"],
        sync_cpu=sync["cpu"],
        resident_mib=sync["mib"],
        events=changes,
        watch_seconds=watch["seconds"],
        watch_cpu=watch["cpu"],
    )


async def _load(kubeconfig: Path, pod_count: int, node_count: int) -> tuple[str, float]:
    """The version before the last pods came, and how long all of it took."""
    begun = time.monotonic()
    async with _client(kubeconfig) as client:
        await create(client, NODES, nodes(node_count))
        documents = pods(pod_count, node_count)
        await create(client, PODS, islice(documents, max(0, pod_count - _CHANGES)))
        version = (await client.list(Namespace)).resource_version
        await create(client, PODS, documents)
    return version, time.monotonic() - begun


def _client(kubeconfig: Path) -> AbstractAsyncContextManager[HttpClient]:
    return connect(Kubeconfig([kubeconfig]).access(), qps=_QPS, burst=int(_QPS))


def _child(*arguments: object) -> dict[str, float]:
    """In a fresh process, whose memory is that of the one thing."""
    command = (sys.executable, "-m", "benchmarks.cluster.intake", *map(str, arguments))
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, float])


async def _watch(client: HttpClient, version: str, count: int) -> None:
    state = State(client, WallClock(), node_class_kinds=KwokCloud.node_class_kinds)
    seen = 0
    async for event in client.watch(Pod, resource_version=version):
        if event.object is not None and event.type != "BOOKMARK":
            state.apply(event.type, event.object)
            seen += 1
        if seen == count:
            return


async def _sync(client: HttpClient) -> State:
    state = State(client, WallClock(), node_class_kinds=KwokCloud.node_class_kinds)
    informers = [Informer(client, kind, state.apply) for kind in watched(KwokCloud.node_class_kinds)]
    tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
    for informer in informers:
        await informer.wait_synced()
    for task in tasks:
        task.cancel()
    return state


async def _main(what: str, kubeconfig: Path, version: str = "", count: str = "") -> None:
    async with _client(kubeconfig) as client:
        begun, cpu = time.monotonic(), time.process_time()
        kept = await (_sync(client) if what == "sync" else _watch(client, version, int(count)))
        figures = {
            "seconds": time.monotonic() - begun,
            "cpu": time.process_time() - cpu,
            "mib": resident_mib([os.getpid()]),
        }
        print(msgspec.json.encode(figures).decode())
        del kept


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
