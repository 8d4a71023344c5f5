"""A cluster whose pods and nodes come and go for days or months, and what the controller keeps of them.

Batch jobs come in waves, each with a run of its own that its pods select: its nodes are labelled with it,
serve nothing else, and go when it is over. Deployments stand and are rolled out anew; a DaemonSet is on every
node; the cloud takes nodes back now and then. Guests come with objects of every kind, and leave with all of
them. All of it is made, and ends, in virtual time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dovetail.api.core import Event, Namespace, PersistentVolume
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import Deployment, Job, ReplicaSet
from dovetail.base.clock import HOUR, SECOND
from dovetail.base.errors import NotFound
from dovetail.cloud.aws import provider
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.market import MarketOptions
from dovetail.cloud.interruption import InterruptionKind
from dovetail.kube.memory.server import MemoryServer
from dovetail.kube.memory.store import Change
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.settings import Settings
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.simulate.environment.volumes import Volumes
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import NodeNames, from_claim
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.time.clock import VirtualClock
from dovetail.simulate.workloads.runner import Workloads
from dovetail.testing.census import memoised, words
from dovetail.testing.guests import BATCH, KINDS, RUN, agent, guest, node_class, pool, wave, website

DAY = 24 * HOUR
START = 1_772_409_600 * SECOND
REGION, CLUSTER = "us-east-1", "life"
TYPES = ("m5.4xlarge", "m5.2xlarge", "c5.4xlarge")
_PER_NODE = 15  # pods of a wave: they ask for 1 vCPU, and m5.4xlarge has 16
_GUEST, _WEB = "guest-", "web-"
_NEVER_GONE = (Event,)  # the server forgets events by itself, without a watch event
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
    guests: int = 4  # a day
    stay: int = 9 * HOUR  # of a guest
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

    `gone` has the names, UIDs and ids of all that came and went, each with its kind.
    """

    def __init__(self, clock: VirtualClock, course: Course) -> None:
        self.clock = clock
        self.course = course
        self.gone: dict[str, str] = {}
        self.deleted: Counter[Any] = Counter()  # by kind
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
        volumes = Volumes(world, [subnet.zone for subnet in subnets], 1)
        self._parts: dict[str, Coroutine[Any, Any, None]] = {
            "garbage collection": self.server.run_gc(),
            "disruption budgets": self.server.run_disruption(),
            "kubelets": self._kubelets.run(),
            "scheduler": Scheduler(world, clock, 1, bind_volumes=volumes.bind).run(),
            "volumes": volumes.run(),
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
        self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BATCH}})
        self.server.create(node_class(CLUSTER))
        self.server.create(pool("for-batch", self.course.policy, [{"key": RUN, "operator": "Exists"}]))
        self.server.create(pool("for-web", self.course.policy, []))
        self.server.create(agent())
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
            loop.create_task(self._guests(), name="guests"),
            loop.create_task(self._scrapes(), name="scrapes"),
        ]

    async def end(self) -> None:
        """Nothing comes any more, and what is there goes: pods, nodes, guests, and the pools too."""
        for task in self._comings:
            task.cancel()
        client = self.server.client()
        for space in (await client.list(Namespace)).items:
            if space.metadata.name.startswith(_GUEST):
                await self._leave(space.metadata.name)
            elif space.metadata.name.startswith(_WEB):
                await client.delete(Namespace, space.metadata.name)
        for kind in (Job, NodePool):
            for item in (await client.list(kind)).items:
                if not item.deleting:
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
        if change.type == "DELETED" and kind not in _NEVER_GONE:
            meta = document["metadata"]
            identifier = document.get("status", {}).get("providerID", "")
            found = [word for word in words(identifier) if word.startswith("i-")]
            self.gone.update(dict.fromkeys((meta["uid"], meta["name"], *found), kind.KIND))
            self.deleted[kind] += 1

    async def _waves(self) -> None:
        number, course = 0, self.course
        while course.waves:
            self.server.create(wave(f"run-{number:05}", course.wave, course.lasts))
            number += 1
            await self.clock.sleep(DAY // course.waves)
            for job in (await self.server.client().list(Job)).items:
                if job.status.succeeded >= course.wave:
                    await self.server.client().delete(Job, job.metadata.name, BATCH)

    async def _rollouts(self) -> None:
        client, course = self.server.client(), self.course
        names = [f"{_WEB}{number}" for number in range(course.deployments)]
        for name in names:
            for document in website(name, course.replicas):
                self.server.create(document)
        number = 0
        while names and course.rollouts:
            name = names[number % len(names)]
            await self.clock.sleep(DAY // (course.rollouts * len(names)))
            for old in (await client.list(ReplicaSet)).items:
                if not old.spec.replicas:
                    await client.delete(ReplicaSet, old.metadata.name, old.metadata.namespace)
            marks = {"metadata": {"annotations": {"rolled-out": str(number)}}}
            await client.patch(Deployment, name, name, merge={"spec": {"template": marks}})
            number += 1

    async def _interruptions(self) -> None:
        while self.course.interruptions:
            await self.clock.sleep(DAY // self.course.interruptions)
            found = await self.cloud.list()
            if found:
                oldest = min(found, key=lambda item: (item.created, item.provider_id))
                self.cloud.interrupt(oldest.provider_id, InterruptionKind.SPOT)

    async def _guests(self) -> None:
        number, there = 0, dict[str, int]()
        while self.course.guests:
            await self.clock.sleep(DAY // self.course.guests)
            for name in [name for name, until in there.items() if until <= self.clock.now()]:
                del there[name]
                await self._leave(name)
            name = f"{_GUEST}{number:05}"
            for document in guest(name, CLUSTER):
                self.server.create(document)
            there[name] = self.clock.now() + self.course.stay
            number += 1

    async def _leave(self, name: str) -> None:
        """The guest takes everything along at once."""
        client = self.server.client()
        for item in (await client.list(PersistentVolume)).items:
            if item.spec.storage_class_name.startswith(name):
                await client.delete(PersistentVolume, item.metadata.name)
        for kind, ending in reversed(KINDS):
            with suppress(NotFound):
                await client.delete(kind, name + ending, name if kind.NAMESPACED else "")

    async def _scrapes(self) -> None:
        while True:
            await self.clock.sleep(HOUR)
            await self.scrape()
