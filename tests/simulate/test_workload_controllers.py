"""The workload controllers on the embedded API server, with real kubelets and pods bound to one big node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dovetail.api.core import Node, PersistentVolumeClaim, Pod
from dovetail.api.workloads import Deployment, HorizontalPodAutoscaler, Job, ReplicaSet, StatefulSet
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import Conflict, NotFound
from dovetail.kube.client import Client
from dovetail.kube.informer import Informer
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import Machine
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.traffic import Burst, Curve, ServiceTraffic, curve
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.simulate.workloads.pods import ready
from dovetail.simulate.workloads.runner import Workloads
from dovetail.units.timestamp import parse_rfc3339

START = parse_rfc3339("2026-03-02T12:00:00Z")
NAMES = ("launch", "boot", "ready", "pull", "start", "stop", "terminate")
ROOM = {"cpu": 1_000_000, "memory": 10**15, "pods": 10_000}


@dataclass(slots=True)
class Cluster:
    server: MemoryServer
    client: Client
    clock: VirtualClock
    log: JsonlLog
    kubelets: Kubelets

    async def passes(self, seconds: float) -> None:
        await self.clock.sleep(round(seconds * SECOND))

    async def pods(self, prefix: str = "") -> list[Pod]:
        found = (await self.client.list(Pod)).items
        return [pod for pod in found if pod.metadata.name.startswith(prefix) and not pod.deleting]

    async def join(self, name: str) -> None:
        await self.kubelets.join(
            Machine(
                provider_id=f"aws:///a/{name}",
                node=name,
                labels={"kubernetes.io/hostname": name},
                capacity=ROOM,
                allocatable=ROOM,
            )
        )


Story = Callable[[Cluster], Awaitable[None]]


def play(story: Story, *, curves: tuple[Curve, ...] = (), bind: bool = True, seed: int = 1) -> JsonlLog:
    async def main(clock: VirtualClock) -> JsonlLog:
        server = MemoryServer(clock)
        client = server.client()
        log = JsonlLog(clock)
        latencies = {name: Distribution(2 * SECOND, 0.0) for name in NAMES}
        kubelets = Kubelets(client, clock, NodeOptions(seed=seed, latencies=latencies))
        workloads = Workloads(client, clock, log, seed=seed, curves=curves)
        tasks = [asyncio.ensure_future(work) for work in (kubelets.run(), workloads.run(), server.run_gc())]
        if bind:
            tasks.append(asyncio.ensure_future(_bind_all(client)))
        cluster = Cluster(server, client, clock, log, kubelets)
        await cluster.join("n1")
        await story(cluster)
        server.check()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return log

    return run_virtual(main, start=START)


async def _bind_all(client: Client) -> None:
    """Bind every pod that is not pinned to a node to n1, at once."""
    waiting: asyncio.Queue[Pod] = asyncio.Queue()

    def changed(change: str, pod: Pod) -> None:
        if change != "DELETED" and not pod.spec.node_name:
            waiting.put_nowait(pod)

    following = asyncio.ensure_future(Informer(client, Pod, changed).run())
    try:
        while True:
            pod = await waiting.get()
            try:
                await client.bind(pod.metadata.name, pod.metadata.namespace, "n1")
            except (NotFound, Conflict):
                continue
    finally:
        following.cancel()


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never" if version == "batch/v1" else "Always",
            "containers": [
                {
                    "name": "c",
                    "image": "app:1",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                }
            ],
        },
    }
    common = {} if version == "batch/v1" else {"selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**common, "template": template, **spec},
    }


def test_a_deployment_scales_and_rolls() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "web", replicas=4))
        await cluster.passes(10)
        first = await cluster.pods()
        (replica_set,) = (await cluster.client.list(ReplicaSet)).items
        assert len(first) == 4
        assert all(pod.metadata.labels["pod-template-hash"] in replica_set.metadata.name for pod in first)
        assert all(pod.metadata.name.startswith(f"{replica_set.metadata.name}-") for pod in first)
        deployment = await cluster.client.get(Deployment, "web", "default")
        assert (deployment.status.replicas, deployment.status.ready_replicas) == (4, 4)
        image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}]
        await cluster.client.patch(Deployment, "web", "default", json=image)
        for _ in range(60):
            await cluster.passes(1)
            pods = await cluster.pods()
            assert len(pods) <= 5
            assert sum(ready(pod) for pod in pods) >= 3
        assert {pod.spec.containers[0].image for pod in pods} == {"app:2"}
        assert len(pods) == 4
        await cluster.client.patch(Deployment, "web", "default", merge={"spec": {"replicas": 1}})
        await cluster.passes(10)
        assert len(await cluster.pods()) == 1
        await cluster.client.delete(Deployment, "web", "default")
        await cluster.passes(60)
        assert await cluster.pods() == []

    play(story)


def test_a_deleted_pod_is_replaced_once() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "web", replicas=3))
        await cluster.passes(10)
        before = {pod.metadata.name for pod in await cluster.pods()}
        gone = sorted(before)[0]
        await cluster.client.delete(Pod, gone, "default")
        await cluster.passes(30)
        after = {pod.metadata.name for pod in await cluster.pods()}
        assert len(after) == 3
        assert before - after == {gone}

    play(story)


@pytest.mark.parametrize(("policy", "seconds"), [("OrderedReady", [0, 5, 9]), ("Parallel", [0, 0, 0])])
def test_a_stateful_set_starts_in_its_order(policy: str, seconds: list[int]) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]

    async def story(cluster: Cluster) -> None:
        cluster.server.create(
            workload("StatefulSet", "db", replicas=3, podManagementPolicy=policy, volumeClaimTemplates=claims)
        )
        await cluster.passes(60)
        pods = await cluster.pods()
        assert [pod.metadata.name for pod in pods] == ["db-0", "db-1", "db-2"]
        starts = [parse_rfc3339(pod.metadata.creation_timestamp) for pod in pods]
        assert [round((start - starts[0]) / SECOND) > 0 for start in starts] == [s > 0 for s in seconds]
        assert pods[1].spec.volumes[0].persistent_volume_claim is not None
        assert pods[1].spec.volumes[0].persistent_volume_claim.claim_name == "data-db-1"
        await cluster.client.patch(StatefulSet, "db", "default", merge={"spec": {"replicas": 1}})
        await cluster.passes(60)
        assert [pod.metadata.name for pod in await cluster.pods()] == ["db-0"]
        kept = (await cluster.client.list(PersistentVolumeClaim)).items
        assert [claim.metadata.name for claim in kept] == ["data-db-0", "data-db-1", "data-db-2"]

    play(story)


def test_daemons_follow_the_nodes() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("DaemonSet", "agent"))
        await cluster.passes(5)
        assert len(await cluster.pods()) == 1
        await cluster.join("n2")
        await cluster.passes(5)
        assert len(await cluster.pods()) == 2
        cluster.kubelets.switch_off("aws:///a/n2")
        await cluster.client.delete(Node, "n2")
        await cluster.passes(120)
        assert len(await cluster.pods()) == 1

    play(story, bind=False)


def test_pods_of_a_node_that_vanished_are_collected() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "web", replicas=2))
        await cluster.passes(10)
        before = {pod.metadata.uid for pod in await cluster.pods()}
        cluster.kubelets.switch_off("aws:///a/n1")
        await cluster.client.delete(Node, "n1")
        await cluster.passes(90)
        assert before.isdisjoint(pod.metadata.uid for pod in await cluster.pods())

    play(story)


def test_jobs_complete_and_cron_jobs_keep_their_history() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Job", "once", completions=3, parallelism=2))
        template = {"spec": workload("Job", "tick")["spec"]}
        cron = workload("CronJob", "tick", schedule="*/5 * * * *", jobTemplate=template)
        del cron["spec"]["template"]
        cluster.server.create(cron)
        await cluster.passes(30)
        assert len(await cluster.pods("once")) == 2
        await cluster.passes(180)
        job = await cluster.client.get(Job, "once", "default")
        assert (job.status.succeeded, job.status.active) == (3, 0)
        assert job.status.conditions[0].type == "Complete"
        await cluster.passes(30 * 60)
        ticks = [job for job in (await cluster.client.list(Job)).items if job.metadata.name != "once"]
        minutes = [(START + offset * MINUTE) // MINUTE for offset in (20, 25, 30)]
        assert [job.metadata.name for job in ticks] == [f"tick-{minute}" for minute in minutes]

    play(story)


def test_what_a_job_has_done_stays_done_when_its_node_takes_the_pods_along() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Job", "once", completions=3, parallelism=2))
        await cluster.passes(70)
        (done, *_) = [pod for pod in await cluster.pods("once") if pod.status.phase == "Succeeded"]
        await cluster.client.delete(Pod, done.metadata.name, "default", grace_period_seconds=0)
        await cluster.passes(120)
        job = await cluster.client.get(Job, "once", "default")
        assert (job.status.succeeded, job.status.conditions[0].type) == (3, "Complete")
        assert len(await cluster.pods("once")) == 2

    play(story)


TRAFFIC = ServiceTraffic(
    service="web",
    deployment="default/web",
    base=20,
    cost_per_request="100m",
    bursts=(Burst(at="12:05", lasts="10m", add=180),),
)
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 20,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}


def rush(cluster_seed: int) -> tuple[JsonlLog, list[int]]:
    sizes: list[int] = []

    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "web", replicas=2))
        cluster.server.create(HPA)
        for minutes in (4, 8, 13):
            await cluster.passes(minutes * 60)
            sizes.append((await cluster.client.get(Deployment, "web", "default")).spec.replicas)
            if minutes == 8:
                autoscaler = await cluster.client.get(HorizontalPodAutoscaler, "web", "default")
                limited = {item.type: (item.status, item.reason) for item in autoscaler.status.conditions}
                assert limited["ScalingLimited"] == ("True", "TooManyReplicas")

    return play(story, curves=(curve(TRAFFIC, "UTC"),), seed=cluster_seed), sizes


def test_an_autoscaler_follows_the_traffic() -> None:
    log, sizes = rush(1)
    # 20 requests/s of 100 ms are 2 cores: four pods at 50 %. 200 would need forty, the maximum is twenty.
    assert sizes == [4, 20, 4]
    limited = [record["limited"] for record in log.records if record["kind"] == "hpa"]
    assert True in limited
    over = sum(record["over"] for record in log.records if record["kind"] == "traffic")
    assert over > 0


def test_the_same_seed_gives_the_same_log() -> None:
    assert rush(3)[0].sha256() == rush(3)[0].sha256()
