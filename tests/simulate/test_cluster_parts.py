"""Kubelets, scheduler and workload controllers together, on an embedded API server, without an autoscaler."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail.api.admission import admit
from dovetail.api.core import Node, Pod, Taint
from dovetail.base.clock import MINUTE, SECOND
from dovetail.kube.memory.server import MemoryServer
from dovetail.model import labels
from dovetail.simulate.analysis.log import JsonlLog, Record
from dovetail.simulate.analysis.observer import Observer
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import Machine
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.time.clock import VirtualClock, run_virtual

GIBIBYTE = 1024**3
LATENCIES = {
    "boot": Distribution(30 * SECOND, 0.0),
    "ready": Distribution(8 * SECOND, 0.0),
    "pull": Distribution(3 * SECOND, 0.0),
    "start": Distribution(SECOND, 0.0),
    "stop": Distribution(2 * SECOND, 0.0),
}


def machine(name: str, zone: str = "a", *, cpu: int = 4000, taints: tuple[Taint, ...] = ()) -> Machine:
    room = {"cpu": cpu, "memory": 16 * GIBIBYTE, "pods": 30}
    marks = {labels.HOSTNAME: name, labels.ZONE: zone}
    return Machine(f"aws:///{zone}/i-{name}", name, marks, taints, room, room)


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    annotations = spec.pop("annotations", {})
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    container = {"name": "main", "image": spec.pop("image", "web:1"), "resources": resources}
    meta = {"name": name, "namespace": "default", "labels": {"app": "web"}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


class World:
    """A cluster of kubelets and a scheduler; `play` runs a script on it and answers the log's records."""

    def __init__(self, clock: VirtualClock, startup_taints: dict[str, int] | None = None) -> None:
        self.clock = clock
        self.log = JsonlLog(clock)
        self.server = MemoryServer(clock, admit=admit)
        self.server.observe(Observer(self.log).changed)
        self.client = self.server.client()
        options = NodeOptions(1, LATENCIES, startup_taints or {})
        self.kubelets = Kubelets(self.client, clock, options)
        self.scheduler = Scheduler(self.client, clock, 1)
        loop = asyncio.get_running_loop()
        self.tasks = [
            loop.create_task(part.run(), name=type(part).__name__) for part in (self.kubelets, self.scheduler)
        ]

    def times(self, kind: str, **fields: object) -> list[float]:
        """Seconds since the start at which such records were written."""
        return [record["t"] / SECOND for record in self.records(kind, **fields)]

    def records(self, kind: str, **fields: object) -> list[Record]:
        wanted = {"kind": kind, **fields}.items()
        return (
            [record for record in self.log.records if wanted <= record.items()]
            if fields
            else [record for record in self.log.records if record["kind"] == kind]
        )


def test_a_machine_boots_and_its_pods_start() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        world.server.create(pod("a"))
        world.server.create(pod("b"))
        await clock.sleep(SECOND)
        assert [r["pod"] for r in world.records("pod.unschedulable")] == ["default/a", "default/b"]
        world.kubelets.switch_on(machine("n1"))
        await clock.sleep(MINUTE)
        assert world.times("node.created") == [31.0]
        assert world.times("node.ready") == [39.0]
        assert [t - 39 < 11 for t in world.times("pod.bound")] == [True, True]
        bound, running = world.times("pod.bound"), world.times("pod.running")
        # Both wait for one pull of their image.
        assert running == [bound[0] + 4.0, bound[0] + 4.0]
        node = await world.client.get(Node, "n1")
        assert node.spec.taints == ()

    run_virtual(main)


def test_taints_stay_until_they_are_removed() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, {"agent/not-ready": 5 * SECOND})
        taints = tuple(Taint(key=key, effect="NoSchedule") for key in ("agent/not-ready", "team"))
        world.kubelets.switch_on(machine("n1", taints=taints))
        world.server.create(pod("a", tolerations=[{"key": "team", "operator": "Exists"}]))
        world.server.create(pod("b"))
        await clock.sleep(MINUTE)
        node = await world.client.get(Node, "n1")
        assert [taint.key for taint in node.spec.taints] == ["team"]
        assert [r["pod"] for r in world.records("pod.bound")] == ["default/a"]
        assert world.times("pod.bound")[0] >= 43.0
        last = world.records("pod.unschedulable", pod="default/b")[-1]
        assert "untolerated taint(s)" in last["message"] or "untolerated taint" in last["message"]

    run_virtual(main)


def test_pods_complete_and_stop() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await world.kubelets.join(machine("n1"))
        done = {"simulation.dovetail.dev/duration": "20s"}
        world.server.create(pod("job", annotations=done, restartPolicy="Never"))
        world.server.create(pod("web"))
        world.server.create(pod("stubborn", terminationGracePeriodSeconds=1))
        await clock.sleep(10 * SECOND)
        await world.client.delete(Pod, "web", "default")
        await world.client.delete(Pod, "stubborn", "default")
        assert (await world.client.get(Pod, "web", "default")).deleting
        await clock.sleep(MINUTE)
        start = world.times("pod.running", pod="default/job")[0]
        assert world.times("pod.finished", pod="default/job", phase="Succeeded") == [start + 20.0]
        assert world.times("pod.deleted", pod="default/web") == [12.0]
        assert world.times("pod.deleted", pod="default/stubborn") == [11.0]

    run_virtual(main)


def test_an_instance_that_vanishes_takes_its_node_along() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        one = machine("n1")
        await world.kubelets.join(one)
        world.server.create(pod("a"))
        await clock.sleep(10 * SECOND)
        world.kubelets.switch_off(one.provider_id)
        await clock.sleep(42 * SECOND)
        node = await world.client.get(Node, "n1")
        assert node.status.conditions[0].status == "Unknown"
        assert [taint.key for taint in node.spec.taints] == ["node.kubernetes.io/unreachable"]
        await clock.sleep(10 * SECOND)
        assert world.times("node.deleted") == [55.0]

    run_virtual(main)


def test_the_scheduler_spreads_and_respects_priority() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        for name, zone in (("n1", "a"), ("n2", "b")):
            await world.kubelets.join(machine(name, zone, cpu=2000))
        world.server.create(pod("low-1"))
        world.server.create(pod("low-2"))
        gated = pod("gated", schedulingGates=[{"name": "hold"}])
        world.server.create(gated)
        world.server.create(pod("other", schedulerName="mine"))
        await clock.sleep(SECOND)
        assert sorted(r["node"] for r in world.records("pod.bound")) == ["n1", "n2"]
        assert len(world.records("pod.unschedulable")) == 0
        world.server.create(pod("big", cpu="2"))
        await clock.sleep(SECOND)
        message = world.records("pod.unschedulable", pod="default/big")[0]["message"]
        assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        await world.client.delete(Pod, "low-1", "default")
        await clock.sleep(20 * SECOND)
        freed = world.times("pod.deleted", pod="default/low-1")[0]
        assert freed <= world.times("pod.bound", pod="default/big")[0] <= freed + 1.1

    run_virtual(main)


def test_an_eviction_is_no_deletion() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await world.kubelets.join(machine("n1"))
        for name in ("a", "b"):
            world.server.create(pod(name))
        await clock.sleep(10 * SECOND)
        await world.client.evict("a", "default")
        await world.client.delete(Pod, "b", "default")
        await clock.sleep(10 * SECOND)
        evicted = {"pod": "default/a", "node": "n1", "reason": "EvictionByEvictionAPI"}
        assert len(world.records("pod.evicted")) == len(world.records("pod.evicted", **evicted)) == 1
        assert world.times("pod.deleted") == [12.0, 12.0]

    run_virtual(main)
