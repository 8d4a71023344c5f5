"""A whole cluster in virtual time: API server, cloud, nodes, scheduler, workloads, and Dovetail itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from dovetail.api.admission import admit
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, Clock
from dovetail.base.errors import InputError, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.cloud import catalog
from dovetail.cloud.catalog.devices import EFA_DRIVER, devices
from dovetail.cloud.provider import Instance, Provider
from dovetail.cloud.simulated import SimulatedCloud
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.controllers.planner import Planner
from dovetail.kube.memory.server import MemoryServer
from dovetail.model import labels
from dovetail.model.devices import TemplateDevices
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.settings import Settings
from dovetail.simulate.analysis.observer import Observer
from dovetail.simulate.clusterautoscaler.loop import ClusterAutoscaler, cluster_autoscaler
from dovetail.simulate.devices.claims import ResourceClaims
from dovetail.simulate.devices.drivers import Drivers
from dovetail.simulate.environment.cloud import cloud_of, interruptions
from dovetail.simulate.environment.initial_nodes import InitialNodes
from dovetail.simulate.environment.interruptions import Interruptible, interrupt
from dovetail.simulate.environment.nodegroup import groups, place_of, start
from dovetail.simulate.environment.volumes import Volumes
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.faults.trouble import Trouble, joins, limits
from dovetail.simulate.karpenter.planner import KarpenterPlanner, rival_settings
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import NodeNames, from_claim
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.scenario.history import play_history
from dovetail.simulate.scenario.manifests import apply, make_changes
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.settings import operator_settings
from dovetail.simulate.scenario.trace import play
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.slow import SlowClient
from dovetail.simulate.violations import Shared, Violation, Watchdog
from dovetail.simulate.violations.audit import AuditedClient, AuditedLog
from dovetail.simulate.workloads.runner import Workloads
from dovetail.units.duration import parse_duration
from dovetail.verify import verify

_NODE_CLASS = f"{EC2NodeClass.API_VERSION.partition('/')[0]}/{EC2NodeClass.KIND.lower()}"  # a label of nodes


class Cluster:
    """Composes the parts of one scenario. `prepare`, then `run`."""

    def __init__(
        self, scenario: Scenario, clock: Clock, log: EventLog, *, faults: Faults | None = None
    ) -> None:
        file, seed = scenario.file, scenario.seed
        self._scenario = scenario
        self._clock = clock
        self._log = log
        self._dice = Dice(faults, seed, clock, log) if faults is not None else None
        self._names = NodeNames(file.region, seed)
        short = limits(faults, file.region, seed) if faults is not None else ()
        self.cloud = cloud_of(scenario, clock, log, short)
        self._selling: Provider = self.cloud.provider  # as the process knows it that began last
        # Its rivals from another house neither have NodePools nor take over their nodes.
        begun = () if file.settings.policy == "cluster-autoscaler" else scenario.nodes
        self._initial = InitialNodes(begun, clock, seed) if begun else None
        self.server = MemoryServer(clock, admit=self._initial.admitted if self._initial else admit, seed=seed)
        self.server.observe(Observer(log).changed)
        self._watchdog = Watchdog(
            clock.now,
            quiet_from=faults.over if faults is not None else 0,
            several=self._overlap,
            gangs=file.settings.gangs,
            shared=Shared(read_shared_limits(file.settings.shared_limits.text(), ""), self._sold),
        )
        # The promises are Dovetail's: a rival made others.
        self._ours = file.settings.policy == "dovetail"
        if self._ours:
            self.server.observe(lambda change: self._report(self._watchdog.change(change)))
        taints = {taint.key: parse_duration(taint.after) for taint in file.startup_taints}
        self._kubelets = Kubelets(
            self.server.client("kubelet"), clock, NodeOptions(seed, scenario.latencies, taints)
        )
        self._volumes = Volumes(self.server.client("volumes"), tuple(catalog.zones(file.region)), seed)
        self._patch_time = parse_duration(file.settings.patch_time or "0s")
        scheduling = SlowClient(self.server, "scheduler", mean=self._patch_time, seed=seed)
        self._claiming = not file.settings.ignore_dra_requests
        self._scheduler = Scheduler(
            scheduling, clock, seed, bind_volumes=self._volumes.bind, devices=self._claiming
        )
        self._workloads = Workloads(
            self.server.client("workloads"), clock, log, seed=seed, curves=scenario.curves
        )
        self.cloud.on_started(self._switch_on)
        self.cloud.on_asked(self._launching)
        self.cloud.on_terminated(self._switch_off)
        self.cloud.on_rebooted(self._kubelets.reboot)
        self._trouble: Trouble | None = None
        self._rival: ClusterAutoscaler | None = None

    async def prepare(self) -> None:
        """Everything that is there before the first moment; raises InputError for what cannot be."""
        given = self._scenario.manifests
        later = [one for one in given if isinstance(one.object, Pod)] if self._initial is not None else []
        apply(self.server, [one for one in given if not isinstance(one.object, Pod)] if later else given)
        await self.cloud.start()
        place = place_of(self._scenario, self.cloud.provider, self._names)
        members = groups(self._scenario, place)
        for group in members:
            for machine in start(group, self._log):
                await self._kubelets.join(machine)
        if self._initial is not None and isinstance(self.cloud, SimulatedCloud):
            await self._initial.begin(self.server, self.cloud, self._kubelets, self._names)
            apply(self.server, later)  # some of them on these nodes
        if self._scenario.file.settings.policy == "cluster-autoscaler":
            client = self.server.client("cluster-autoscaler")
            self._rival = cluster_autoscaler(
                self._scenario, place, members, self._kubelets, client, self._clock, self._log
            )

    async def run(self) -> None:
        """All parts, for ever; the first that fails ends it. Raises InputError for manifests that are refused
        while it plays.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, part in self._parts():
                    tasks.create_task(part, name=name)
        except ExceptionGroup as several:
            refused, others = several.split(InputError)
            if refused is None or others is not None:
                raise
            first: Exception = refused
            while isinstance(first, ExceptionGroup):
                first = first.exceptions[0]
            raise first from None

    def finish(self) -> None:
        """The end of the simulation: what only shows now, such as pods that were forgotten."""
        if not self._ours:
            return
        known = len(self._watchdog.found)
        self._report(self._watchdog.finish()[known:])
        self._log.record("checked", invariants=self._watchdog.checks)

    def _parts(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        yield "garbage collection", self.server.run_gc()
        yield "disruption budgets", self.server.run_disruption()
        yield "kubelets", self._kubelets.run()
        yield "volumes", self._volumes.run()
        yield "scheduler", self._scheduler.run()
        yield "workloads", self._workloads.run()
        if self._claiming:
            yield "resource claims", ResourceClaims(self.server.client("resource-claims")).run()
            drivers = Drivers(self.server.client("drivers"), self._clock, self._devices)
            yield "drivers of devices", drivers.run()
        yield from self.cloud.parts()
        concerned: Interruptible = self.cloud
        if self._rival is not None:
            yield "cluster autoscaler", self._rival.run()
            concerned = self._rival.instances
        else:
            yield from self._dovetail()
            yield "watchdog", self._watch_instances()
        planned = interruptions(self._scenario)
        yield "interruptions", interrupt(self._clock, concerned, self._scenario.seed, planned)
        yield "changes", make_changes(self._clock, self.server, self._log, self._scenario.changes)
        if self._scenario.history:
            yield "history", play_history(self._clock, self.server, self._log, self._scenario.history)
        if self._scenario.visits and self._scenario.file.trace is not None:
            namespace = self._scenario.file.trace.namespace
            yield "trace", play(self.server.client("trace"), self._clock, self._scenario.visits, namespace)

    def _dovetail(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The controllers; with faults, what goes wrong as well."""
        file = self._scenario.file
        settings = operator_settings(file.settings, self._scenario.duration, self._check_plan)
        client = AuditedClient(
            self.server,
            "karpenter",
            self._watchdog,
            self._report,
            mean=self._patch_time,
            seed=self._scenario.seed,
        )
        planner: Planner = InlinePlanner(self._clock, file.settings.work_per_second)
        if file.settings.policy == "karpenter":
            planner = KarpenterPlanner(self._clock, file.settings.work_per_second)
            settings = rival_settings(settings)
        queue = self.cloud.queue if file.settings.interruption_queue else None
        log = AuditedLog(self._log, self._report)
        provider, metrics = self.cloud.provider, MemoryMetrics()
        ports = Ports(client, provider, self._clock, log, planner, metrics, queue, forgiving=True)
        if self._dice is None:
            yield "dovetail", self._begun(ports, settings).run()
            yield from self.cloud.upkeep()
            return
        self._trouble = Trouble(
            self._dice,
            self.cloud,
            ports,
            self.server,
            lambda made: self._begun(made, settings),
            ended=self._process_ended,
        )
        yield from self._trouble.parts(self._kubelets, file.region)

    def _begun(self, ports: Ports, settings: Settings) -> Operator:
        self._selling = ports.provider  # each process reads prices for itself
        return Operator(ports, settings)

    def _process_ended(self, why: str) -> None:
        self._report((Violation("process", "dovetail", f"ended with {why}"),))

    def _check_plan(self, problem: Problem, plan: Plan) -> None:
        """Every plan is held against the rules by a checker that knows nothing of the solver."""
        if not self._ours:
            return
        self._watchdog.planned((pod.key for pod in problem.pods), plan.left)
        self._report(verify(problem, plan))

    def _report(self, violations: Iterable[Violation]) -> None:
        if not self._ours:
            return
        for found in violations:
            self._log.record("violation", rule=found.rule, subject=found.subject, message=found.message)

    async def _watch_instances(self) -> None:
        while True:
            await self._clock.sleep(MINUTE)
            self._report(self._watchdog.instances(await self.cloud.list()))

    def _devices(self, node: Node) -> TemplateDevices:
        """What drivers find on the node's machine: EFAs where they were asked for."""
        meta = node.metadata
        node_class: EC2NodeClass | None = None
        with suppress(NotFound):
            node_class = self.server.record(EC2NodeClass, meta.labels.get(_NODE_CLASS, "")).view
        attached = EFA_DRIVER in meta.annotations.get(labels.REQUESTED_DRIVERS, "").split(",")
        return devices(meta.labels.get(labels.INSTANCE_TYPE, ""), node_class, gpus=True, efas=attached)

    def _sold(self, claim: NodeClaim) -> tuple[tuple[InstanceType, ...], int]:
        """Of what the cloud would make a claim now, at which prices, and what its volumes would cost."""
        node_class: EC2NodeClass | None = None
        with suppress(NotFound):
            node_class = self.server.record(EC2NodeClass, claim.spec.node_class_ref.name).view
        return self._selling.instance_types(node_class), self._selling.volume_price(node_class)

    def _overlap(self) -> bool:
        return self._trouble is not None and self._trouble.several

    def _launching(self, claim: str, instances: Sequence[Instance]) -> None:
        if not self._overlap():
            self._report(self._watchdog.launch(claim, instances))

    def _switch_off(self, instance: Instance) -> None:
        self._watchdog.ended(instance.provider_id)
        self._kubelets.switch_off(instance.provider_id)

    def _switch_on(self, instance: Instance, claim: NodeClaim) -> None:
        if self._dice is not None and not joins(self._dice, instance):
            return
        name = self._names.draw(instance.provider_id)
        self._kubelets.switch_on(from_claim(instance, claim, name=name, seed=self._scenario.seed))
