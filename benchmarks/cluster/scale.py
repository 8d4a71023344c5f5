"""From nothing to many nodes: how long pods wait for theirs, and what the controller uses meanwhile."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cluster.meter import cpu_seconds, family, resident_mib, share
from dovetail.api.core import Node, Pod
from dovetail.kube.client import EventType
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.kube.informer import Informer
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually

_PER_NODE = 10  # pods that fill a node of 16 CPUs
_DEPLOYMENTS = 5
_SETTLE_SECONDS = 30.0  # until nodes and pods that are bound have reported it
# Something to stand on: a scheduler without any node tries its pods by back-off alone.
_POOL = """
apiVersion: v1
kind: Node
metadata: {name: system}
spec: {taints: [{key: system, effect: NoSchedule}]}
status: {allocatable: {cpu: "2", memory: 8Gi, pods: "110"}}
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["16"]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
  disruption: {consolidateAfter: Never}
"""
_DEPLOYMENT = """
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: load-{index}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: load-{index}}}}}
  template:
    metadata: {{labels: {{app: load-{index}}}}}
    spec:
      containers:
      - {{name: main, image: pause, resources: {{requests: {{cpu: 1500m, memory: {memory}Mi}}}}}}
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """Seconds from when a pod was seen to when it was seen with a node; the controller's CPU and memory."""

    pods: int
    nodes: int
    bound: int
    p50: float
    p90: float
    longest: float
    seconds: float  # until the last pod was bound
    cpu: float
    peak_mib: float
    idle_cpu: float  # share of one core once all pods are bound


class _Waits:
    """Follows pods from their creation to their node, and the most memory of the controller."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    def take(self, change: EventType, pod: Pod) -> None:
        uid, now = pod.metadata.uid, time.monotonic()
        if change != "DELETED":
            self.created.setdefault(uid, now)
            if pod.spec.node_name:
                self.bound.setdefault(uid, now - self.created[uid])


def measure(pods: int, *, tuned: bool, limit: float, idle: float, qps: int) -> Scale:
    """On a control plane of its own; `limit` and `idle`: seconds until all are bound, and after.

    `qps`: requests per second that the controller may send; 0: as it does by default.
    """
    with ControlPlane(build(), tuned=tuned) as plane, tempfile.TemporaryDirectory() as folder:
        define(plane)
        plane.run("kubectl", "apply", "-f", "-", stdin=_POOL)
        more = ("--kube-client-qps", str(qps), "--kube-client-burst", str(qps)) if qps else ()
        with Controller(plane, Path(folder), *more) as controller:
            eventually(lambda: controller.asked("/readyz"), lambda found: found == (200, "ok"))
            eventually(lambda: controller.lines("leading"), bool)
            found = asyncio.run(_play(plane, controller.pid, pods, limit))
            time.sleep(_SETTLE_SECONDS)
            return replace(found, idle_cpu=share(controller.pid, idle))


async def _play(plane: ControlPlane, pid: int, pods: int, limit: float) -> Scale:
    waits, peak = _Waits(), 0.0
    async with connect(Kubeconfig([plane.kubeconfig]).access()) as client:
        watching = asyncio.ensure_future(Informer(client, Pod, waits.take).run())
        before, begun = cpu_seconds(family(pid)), time.monotonic()
        await asyncio.to_thread(plane.run, "kubectl", "apply", "-f", "-", stdin=_deployments(pods))
        while len(waits.bound) < pods and time.monotonic() - begun < limit:
            await asyncio.sleep(0.5)
            peak = max(peak, resident_mib(family(pid)))
        seconds = time.monotonic() - begun
        used = cpu_seconds(family(pid)) - before
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        nodes = await _nodes(client)
    ordered = sorted(waits.bound.values()) or [0.0]
    return Scale(
        pods=pods,
        nodes=nodes,
        bound=len(waits.bound),
        p50=ordered[len(ordered) // 2],
        p90=ordered[len(ordered) * 9 // 10],
        longest=ordered[-1],
        seconds=seconds,
        cpu=used,
        peak_mib=peak,
        idle_cpu=0.0,
    )


async def _nodes(client: HttpClient) -> int:
    return len((await client.list(Node, labels="karpenter.sh/nodepool")).items)


def _deployments(pods: int) -> str:
    share, rest = divmod(pods, _DEPLOYMENTS)
    return "".join(
        _DEPLOYMENT.format(index=index, replicas=share + (index < rest), memory=512 + 256 * index)
        for index in range(_DEPLOYMENTS)
    )
