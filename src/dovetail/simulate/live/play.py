"""Playing a scenario on a real cluster from its start to its end.

What cannot be played there is refused before anything is done to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Event, Node, NodeSpec, NodeStatus, Pod, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Meta, Object
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, Conflict, InputError, NotFound
from dovetail.cloud.aws.provider import AwsCloud
from dovetail.cloud.kwok.machine import PLAYED
from dovetail.cloud.provider import Instance
from dovetail.kube.client import Client, EventType
from dovetail.kube.http.access import Access
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.informer import Informer
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.model.resources import quantities
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.process import ProcessPlanner
from dovetail.runtime.process.clock import WallClock
from dovetail.runtime.process.greet import greet, has_definitions
from dovetail.simulate.analysis.log import JsonlLog, Meter
from dovetail.simulate.analysis.observer import Observer
from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.simulate.environment.cloud import cloud_of
from dovetail.simulate.environment.nodegroup import groups, place_of, start
from dovetail.simulate.kubelet.machine import Machine, NodeNames, from_claim
from dovetail.simulate.live.objects import Objects
from dovetail.simulate.run import Listener, Result
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.settings import operator_settings
from dovetail.verify import verify

_COMING = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")


class Machines:
    """Each instance becomes a Node after `boot`, and takes pods after `ready`.

    kwok's nodes are Ready as soon as they exist. What holds pods off until then is the taint that the
    machines of a cloud have until its node controller has seen them.
    """

    def __init__(
        self, client: Client, clock: Clock, latencies: Mapping[str, Distribution], names: NodeNames, seed: int
    ) -> None:
        self._client = client
        self._clock = clock
        self._latencies = latencies
        self._names = names
        self._seed = seed
        self._boots: dict[str, asyncio.Task[None]] = {}  # by provider id

    def switch_on(self, instance: Instance, claim: NodeClaim) -> None:
        """The instance has started."""
        name = self._names.draw(instance.provider_id)
        machine = from_claim(instance, claim, name=name, seed=self._seed)
        boot = self._boot(machine)
        self._boots[instance.provider_id] = asyncio.get_running_loop().create_task(boot, name=f"boot {name}")

    def switch_off(self, instance: Instance) -> None:
        """The instance is gone, perhaps before it was a node."""
        boot = self._boots.pop(instance.provider_id, None)
        if boot is not None:
            boot.cancel()

    async def stop(self) -> None:
        """Those that still boot become no nodes any more."""
        boots = [*self._boots.values()]
        self._boots.clear()
        for boot in boots:
            boot.cancel()
        await asyncio.gather(*boots, return_exceptions=True)

    async def join(self, machine: Machine) -> None:
        """A machine that was on long before: its node is Ready at once. Raises ApiError."""
        await self._client.create(_node(machine))

    async def _boot(self, machine: Machine) -> None:
        await self._wait("boot", machine)
        await self._insist(lambda: self._create(machine))
        await self._wait("ready", machine)
        await self._insist(lambda: self._untaint(machine.node))

    async def _wait(self, purpose: str, machine: Machine) -> None:
        latency = self._latencies[purpose]
        await self._clock.sleep(latency.draw(self._seed, machine.provider_id, purpose))

    async def _insist(self, write: Callable[[], Awaitable[None]]) -> None:
        """Until it succeeds, or there is nothing to write to any more."""
        while True:
            try:
                return await write()
            except (AlreadyExists, NotFound):
                return None
            except Conflict:
                continue
            except ApiError:
                await self._clock.sleep(SECOND)

    async def _create(self, machine: Machine) -> None:
        await self._client.create(_node(machine, _COMING))

    async def _untaint(self, name: str) -> None:
        node = await self._client.get(Node, name)
        taints = [encode(taint) for taint in node.spec.taints if taint.key != _COMING.key]
        version = {"resourceVersion": node.metadata.resource_version}
        await self._client.patch(Node, name, merge={"metadata": version, "spec": {"taints": taints}})


def _node(machine: Machine, *taints: Taint) -> Node:
    return Node(
        metadata=Meta(
            name=machine.node, labels={**machine.labels, PLAYED: "fake"}, annotations={PLAYED: "fake"}
        ),
        spec=NodeSpec(provider_id=machine.provider_id, taints=(*machine.taints, *taints)),
        status=NodeStatus(capacity=quantities(machine.capacity), allocatable=quantities(machine.allocatable)),
    )


_PLAYED_KINDS: tuple[type[Object], ...] = (Node, NodePool, NodeClaim)


def check_scenario(scenario: Scenario) -> None:
    """Raises InputError for a section that only virtual time can play."""
    file = scenario.file
    for name, given in (
        ("traffic", file.traffic),
        ("trace", file.trace),
        ("shortages", file.shortages),
        ("interruptions", file.interruptions),
        ("startupTaints", file.startup_taints),
        ("history", file.history),
        ("nodes", file.nodes),
    ):
        if given:
            raise InputError(
                "a real cluster cannot play this section",
                source=scenario.source,
                path=name,
                remedy="leave --kubeconfig out, or take a scenario of manifests and changes alone",
            )


async def check_cluster(client: HttpClient) -> None:
    """Raises InputError for a cluster that is in use: its nodes and pools would be played with."""
    for kind in _PLAYED_KINDS:
        found = (await client.list(kind)).items
        if found:
            raise InputError(
                f"the cluster has {kind.PLURAL} already, such as {found[0].metadata.name}",
                source=client.transport.access.server,
                remedy="give an empty cluster, such as the one that `make control-plane` starts",
            )


# Claims before nodes: a Node names its claim in no other way than by its instance.
_WATCHED_KINDS: tuple[type[Object], ...] = (NodeClaim, Node, Pod, Event)


class Watching:
    """Informers that feed an Observer, also with what is there at the start: the cluster is empty."""

    def __init__(self, client: Client, observer: Observer) -> None:
        self._observer = observer
        self._known: dict[tuple[type[Object], str], Any] = {}
        self._informers = [Informer(client, kind, self._take) for kind in _WATCHED_KINDS]

    def parts(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """One for each kind, for ever."""
        for kind, informer in zip(_WATCHED_KINDS, self._informers, strict=True):
            yield f"log {kind.PLURAL}", informer.run()

    async def synced(self) -> None:
        """Return once all first lists were taken in."""
        for informer in self._informers:
            await informer.wait_synced()

    def _take(self, change: EventType, obj: Object) -> None:
        key, document = (type(obj), obj.key), encode(obj)
        old = self._known.pop(key, None)
        if change != "DELETED":
            self._known[key] = document
        self._observer.observe(change, document, old)


_STEP = SECOND  # between two looks at how things stand


async def play_live(
    scenario: Scenario, access: Access, *, events: Path | None = None, listener: Listener | None = None
) -> Result:
    """Play it in the machine's own time, and take away whatever it made.

    Raises InputError for a scenario or a cluster that it cannot be played with.
    """
    check_scenario(scenario)
    async with connect(access) as client, ProcessPlanner() as planner:
        await greet(client.transport)
        await has_definitions(client.transport, AwsCloud.node_class_kinds)
        await check_cluster(client)
        with JsonlLog(WallClock(), events) as log:
            return await _Live(scenario, client, planner, log).play(listener)


class _Live:
    """Composes the parts of one run."""

    def __init__(
        self, scenario: Scenario, client: HttpClient, planner: ProcessPlanner, log: JsonlLog
    ) -> None:
        file, seed = scenario.file, scenario.seed
        self._scenario = scenario
        self._clock = WallClock()
        self._log = log
        names = NodeNames(file.region, seed)
        self._machines = Machines(client, self._clock, scenario.latencies, names, seed)
        self._cloud = cloud = cloud_of(scenario, self._clock, log)
        cloud.on_started(self._machines.switch_on)
        cloud.on_terminated(self._machines.switch_off)
        self._groups = groups(scenario, place_of(scenario, cloud.provider, names))
        self._watching = Watching(client, Observer(log))
        self._objects = Objects(client, self._clock, log)
        ports = Ports(client, cloud.provider, self._clock, log, planner, MemoryMetrics())
        # Looked at when all is over: pods wait here as long as the checker takes, and no controller has one.
        self._plans: list[tuple[Problem, Plan]] = []
        settings = operator_settings(file.settings, scenario.duration, lambda *made: self._plans.append(made))
        self._operator = Operator(ports, settings)

    async def play(self, listener: Listener | None) -> Result:
        """The whole scenario; whatever it made is taken away in any case."""
        begun = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(part, name=name) for name, part in self._parts()]
                scenario = await self._begun()
                running.append(tasks.create_task(self._objects.change(scenario.changes), name="changes"))
                await self._until_the_end(scenario, listener)
                for task in running:
                    task.cancel()
        finally:
            await self._machines.stop()
            await self._objects.remove()
        return self._result(scenario, time.perf_counter() - begun)

    def _parts(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        yield from self._watching.parts()
        yield from self._cloud.parts()
        yield from self._cloud.upkeep()
        yield "dovetail", self._operator.run()

    async def _begun(self) -> Scenario:
        """The scenario from now on, with its manifests applied."""
        await self._cloud.start()
        await self._watching.synced()
        while not self._operator.state.watch_synced():
            await self._clock.sleep(SECOND // 10)
        now = self._clock.now()
        for group in self._groups:
            for machine in start(group, self._log):
                await self._machines.join(machine)
        await self._objects.apply(self._scenario.manifests)
        late = now - self._scenario.start
        changes = tuple(replace(one, at=one.at + late) for one in self._scenario.changes)
        return replace(self._scenario, start=now, changes=changes)

    async def _until_the_end(self, scenario: Scenario, listener: Listener | None) -> None:
        end = scenario.start + scenario.duration
        meter = Meter(scenario.start, end)
        while (now := self._clock.now()) < end:
            await self._clock.sleep(min(_STEP, end - now))
            if listener is not None:
                listener(meter.read(self._log.records, self._clock.now()))

    def _result(self, scenario: Scenario, wall: float) -> Result:
        start, end = scenario.start, scenario.start + scenario.duration
        # What came while the parts stopped and everything was taken away is no history.
        records = [record for record in self._log.records if record["t"] <= end]
        records += self._violations(end)
        run = Run(
            scenario=scenario.file.name,
            seed=scenario.seed,
            start=start,
            end=end,
            sha256=self._log.sha256(),
            wall_seconds=wall,
            assumptions=tuple(str(item) for item in scenario.assumptions),
            terms=scenario.terms,
        )
        return Result(scenario, tuple(records), start, end, run.sha256, wall, summarize(records, run))

    def _violations(self, end: int) -> Iterator[dict[str, Any]]:
        """Records of what breaks a rule in the plans that were made."""
        for problem, plan in self._plans:
            for found in verify(problem, plan):
                about = {"rule": found.rule, "subject": found.subject, "message": found.message}
                yield {"t": end, "kind": "violation", **about}
