"""A cluster whose pods and nodes come and go for days or months, and what the controller keeps of them.

Batch jobs come in waves, each with a run of its own that its pods select: its nodes are labelled with it,
serve nothing else, and go when it is over. Deployments stand and are rolled out anew; a DaemonSet is on every
node; the cloud takes nodes back now and then. All of it is made, and ends, in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.workloads import Deployment, Job, ReplicaSet
from dovetail.base.clock import HOUR, SECOND
from dovetail.cloud.aws import provider
from dovetail.cloud.aws.memory import Account, MemoryAws, Options
from dovetail.cloud.aws.memory.market import MarketOptions
from dovetail.cloud.interruption import InterruptionKind
from dovetail.kube.memory.server import MemoryServer
from dovetail.kube.memory.store import Change
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.settings import Settings
from dovetail.simulate.aws import CloudOnAws
from dovetail.simulate.clock import VirtualClock
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import NodeNames, from_claim
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.latency import Distribution
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.workloads.runner import Workloads
from dovetail.testing.census import memoised, words
from dovetail.testing.manifests import node_class

DAY = 24 * HOUR
START = 1_772_409_600 * SECOND
REGION, CLUSTER = "us-east-1", "life"
RUN = "batch.example/run"
_BATCH = "batch"  # a namespace without budgets: the server looks through all pods of one that has some
TYPES = ("m5.4xlarge", "m5.2xlarge", "c5.4xlarge")
_PER_NODE = 15  # pods of a wave: they ask for 1 vCPU, and m5.4xlarge has 16
_ADDRESSES = 60_000  # of each subnet: a thousand nodes take more than the usual 4,000
_WORK_PER_SECOND = 2_000_000
_LATENCIES = {
    "boot": Distribution(30 * SECOND, 0.0),
    "ready": Distribution(8 * SECOND, 0.0),
    "pull": Distribution(3 * SECOND, 0.0),
    "start": Distribution(SECOND, 0.0),
    "stop": Distribution(2 * SECOND, 0.0),
}


@dataclass(frozen=True, slots=True)
class Course:
    """How much comes and goes. `lasts` is how long a wave's pods work, in nanoseconds."""

    waves: int = 24  # a day
    wave: int = 300  # pods of one
    lasts: int = 46 * HOUR
    deployments: int = 10
    replicas: int = 60
    rollouts: int = 4  # of each Deployment a day
    interruptions: int = 4  # a day
    policy: str = "WhenEmpty"

    @property
    def standing(self) -> int:
        """Nodes of waves that there are at a time, about."""
        return self.waves * -(-self.wave // _PER_NODE) * self.lasts // DAY


class Quiet:
    """An event log that keeps nothing."""

    def record(self, kind: str, /, **fields: object) -> None:
        """See EventLog."""


class Life:
    """One cluster and its controller. `start`, let time pass, then `stop`.

    `gone` has the names, UIDs and ids of all that came and went.
    """

    def __init__(self, clock: VirtualClock, course: Course) -> None:
        self.clock = clock
        self.course = course
        self.gone: set[str] = set()
        self.deleted: dict[Any, int] = {Pod: 0, Node: 0, NodeClaim: 0}  # by kind
        self.server = MemoryServer(clock, history=1_000)
        self.server.observe(self._changed)
        log = Quiet()
        account = Account.usual(REGION, CLUSTER)
        subnets = tuple(replace(item, free_addresses=_ADDRESSES) for item in account.subnets)
        account = replace(account, subnets=subnets, roles=account.roles | {"nodes"}, queues=(CLUSTER,))
        aws = MemoryAws(clock, 1, account, Options(market=MarketOptions(only=frozenset(TYPES))))
        self.cloud = CloudOnAws(
            aws, clock, log, provider.Options(CLUSTER, zonal_shift=True), version="1.33", queue=CLUSTER
        )
        client = self.server.client("karpenter")
        self.metrics = PrometheusMetrics()
        planner = InlinePlanner(clock, _WORK_PER_SECOND)
        self.ports = Ports(client, self.cloud.provider, clock, log, planner, self.metrics, self.cloud.queue)
        self.operator = Operator(self.ports, Settings(solve_deadline=SECOND // 20))
        world = self.server.client()
        self._kubelets = Kubelets(world, clock, NodeOptions(1, _LATENCIES))
        self._parts: dict[str, Coroutine[Any, Any, None]] = {
            "garbage collection": self.server.run_gc(),
            "disruption budgets": self.server.run_disruption(),
            "kubelets": self._kubelets.run(),
            "scheduler": Scheduler(world, clock, 1).run(),
            "workloads": Workloads(world, clock, log, seed=1).run(),
            "aws": aws.run(),
        }
        names = NodeNames(REGION, 1)
        self.cloud.on_started(
            lambda instance, claim: self._kubelets.switch_on(
                from_claim(instance, claim, name=names.draw(instance.provider_id), seed=1)
            )
        )
        self.cloud.on_terminated(lambda instance: self._kubelets.switch_off(instance.provider_id))
        self._tasks: list[asyncio.Task[None]] = []
        self._acting: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """The controller and the world around it, then everything that comes and goes."""
        loop = asyncio.get_running_loop()
        self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _BATCH}})
        self.server.create(node_class(CLUSTER))
        self.server.create(_pool("batch", self.course.policy, [{"key": RUN, "operator": "Exists"}]))
        self.server.create(_pool("web", self.course.policy, []))
        self.server.create(_agent())
        await self.cloud.start()
        self._tasks = [loop.create_task(part, name=name) for name, part in self._parts.items()]
        self._acting = [
            loop.create_task(self.operator.run(), name="operator"),
            loop.create_task(self.cloud.provider.run(), name="provider"),
        ]
        self._comings = [
            loop.create_task(self._waves(), name="waves"),
            loop.create_task(self._rollouts(), name="rollouts"),
            loop.create_task(self._interruptions(), name="interruptions"),
            loop.create_task(self._scrapes(), name="scrapes"),
        ]

    async def end(self) -> None:
        """Nothing comes any more, and what is there goes: pods, nodes, and the pools too."""
        for task in self._comings:
            task.cancel()
        client = self.server.client()
        for kind in (Job, Deployment):
            for item in (await client.list(kind)).items:
                await client.delete(kind, item.metadata.name, item.metadata.namespace)

    async def scrape(self) -> int:
        """What Prometheus does: all figures are made. Answers how many bytes."""
        figures = await self.operator.figures.text()
        return sum(map(len, figures)) + len(self.metrics.exposition())

    def count(self, kind: type[Any]) -> int:
        """How many of the kind there are."""
        return len(self.server.store.table(kind).records)

    def owners(self) -> Mapping[str, Sequence[object]]:
        """What the controller is made of, for a census. The planner's caches are in "remembered"."""
        operator = self.operator
        context = operator._context
        informers = operator.watches._informers.values()
        return {
            "watched objects": [operator.state, *informers],
            "events": [context.recorder],
            "metrics": [self.metrics],
            "figures": [operator.figures],
            "provider": [self.ports.provider, self.ports.interruptions],
            "controllers": [
                operator.state._callbacks,
                context.made,
                context,
                operator,
                *self._acting,
            ],
            "remembered answers": memoised(),
        }

    def _changed(self, change: Change[Any]) -> None:
        kind, document = change.after.kind, change.after.document
        if change.type == "DELETED" and kind in self.deleted:
            meta, found = document["metadata"], {document["metadata"]["uid"], document["metadata"]["name"]}
            identifier = document.get("status", {}).get("providerID", "")
            found.update(word for word in words(identifier) if word.startswith("i-"))
            if kind is Pod and meta["name"].startswith("agent"):
                found = {meta["uid"], meta["name"]}
            self.gone |= found
            self.deleted[kind] += 1

    async def _waves(self) -> None:
        number, course = 0, self.course
        while course.waves:
            self.server.create(_wave(f"run-{number:05}", course.wave, course.lasts))
            number += 1
            await self.clock.sleep(DAY // course.waves)
            for job in (await self.server.client().list(Job)).items:
                if job.status.succeeded >= course.wave:
                    await self.server.client().delete(Job, job.metadata.name, _BATCH)

    async def _rollouts(self) -> None:
        client, course = self.server.client(), self.course
        names = [f"web-{number}" for number in range(course.deployments)]
        for name in names:
            self.server.create(_deployment(name, course.replicas))
            self.server.create(_pdb(name))
        number = 0
        while names and course.rollouts:
            name = names[number % len(names)]
            await self.clock.sleep(DAY // (course.rollouts * len(names)))
            for old in (await client.list(ReplicaSet)).items:
                if not old.spec.replicas:
                    await client.delete(ReplicaSet, old.metadata.name, "default")
            marks = {"metadata": {"annotations": {"rolled-out": str(number)}}}
            await client.patch(Deployment, name, "default", merge={"spec": {"template": marks}})
            number += 1

    async def _interruptions(self) -> None:
        while self.course.interruptions:
            await self.clock.sleep(DAY // self.course.interruptions)
            found = await self.cloud.list()
            if found:
                oldest = min(found, key=lambda item: (item.created, item.provider_id))
                self.cloud.interrupt(oldest.provider_id, InterruptionKind.SPOT)

    async def _scrapes(self) -> None:
        while True:
            await self.clock.sleep(HOUR)
            await self.scrape()


def _pool(name: str, policy: str, more: list[dict[str, Any]]) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        *more,
    ]
    template: dict[str, Any] = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    template["spec"]["taints"] = [{"key": f"example/{name}", "effect": "NoSchedule"}]
    template["spec"]["expireAfter"] = "48h"  # longer than a wave, so that what stands is replaced too
    disruption = {"consolidationPolicy": policy, "consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": disruption},
    }


def _spec(pool: str, cpu: str, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "containers": [{"name": "main", "image": f"{pool}:1", "resources": resources}],
        "tolerations": [{"key": f"example/{pool}", "operator": "Exists"}],
        **more,
    }


def _wave(name: str, pods: int, lasts: int) -> dict[str, Any]:
    annotations = {"simulation.dovetail.dev/duration": f"{lasts // SECOND}s"}
    spec = _spec("batch", "1", nodeSelector={RUN: name}, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": _BATCH},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    own = {"app": name}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": own},
    }
    spec = _spec("web", "500m", topologySpreadConstraints=[spread])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }


def _pdb(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": "20%", "selector": {"matchLabels": {"app": name}}},
    }


def _agent() -> dict[str, Any]:
    own = {"app": "agent"}
    spec = _spec("agent", "100m") | {"tolerations": [{"operator": "Exists"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": own},
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }
