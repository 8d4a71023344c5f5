"""A whole cluster in virtual time: API server, cloud, nodes, scheduler, workloads, and Dovetail itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from dovetail.api.admission import admit
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud import catalog
from dovetail.cloud.provider import Instance
from dovetail.controllers.brakes.brakes import BrakeOptions
from dovetail.controllers.brakes.rate import Rate
from dovetail.disrupt.pause import read_pause
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.offering import parse_dollars
from dovetail.model.problem import Problem
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.settings import FeatureGates, Settings
from dovetail.simulate.apply import apply
from dovetail.simulate.interruptions import interrupt
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import NodeNames, from_claim
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.nodegroup import Place, members, start
from dovetail.simulate.observer import Observer
from dovetail.simulate.scenario import Scenario
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.surroundings import interruptions, simulated_cloud
from dovetail.simulate.trace import play
from dovetail.simulate.violations import Violation, Watchdog
from dovetail.simulate.volumes import Volumes
from dovetail.simulate.workloads.runner import Workloads
from dovetail.solve.plan import Plan
from dovetail.solve.verify import verify
from dovetail.units.duration import parse_duration


class Cluster:
    """Composes the parts of one scenario. `prepare`, then `run`."""

    def __init__(self, scenario: Scenario, clock: Clock, log: EventLog) -> None:
        self._scenario = scenario
        self._clock = clock
        self._log = log
        self._names = NodeNames(scenario.file.region, scenario.seed)
        self.cloud = simulated_cloud(scenario, clock, log)
        self.server = MemoryServer(clock, admit=admit, seed=scenario.seed)
        self.server.observe(Observer(log).observe)
        self._watchdog = Watchdog(clock.now)
        self.server.observe(lambda *change: self._report(self._watchdog.change(*change)))
        taints = {taint.key: parse_duration(taint.after) for taint in scenario.file.startup_taints}
        self._kubelets = Kubelets(
            self.server.client("kubelet"), clock, NodeOptions(scenario.seed, scenario.latencies, taints)
        )
        zones = tuple(catalog.zones(scenario.file.region))
        self._volumes = Volumes(self.server.client("volumes"), zones, scenario.seed)
        self._scheduler = Scheduler(
            self.server.client("scheduler"), clock, scenario.seed, bind_volumes=self._volumes.bind
        )
        self._workloads = Workloads(
            self.server.client("workloads"), clock, log, seed=scenario.seed, curves=scenario.curves
        )
        client = self.server.client("karpenter")
        planner = InlinePlanner(clock, scenario.file.settings.work_per_second)
        queue = self.cloud.queue if scenario.file.settings.interruption_queue else None
        ports = Ports(client, self.cloud, clock, log, planner, MemoryMetrics(), queue)
        self._operator = Operator(ports, self._settings())
        self.cloud.on_started(self._switch_on)
        self.cloud.on_terminated(lambda instance: self._kubelets.switch_off(instance.provider_id))

    async def prepare(self) -> None:
        """Everything that is there before the first moment; raises InputError for what cannot be."""
        apply(self.server, self._scenario.manifests)
        file = self._scenario.file
        types = {item.name: item for item in self.cloud.instance_types(None)}
        place = Place(
            file.region,
            types,
            self._names,
            self._scenario.seed,
            volumes=self.cloud.volume_price(None),
            source=self._scenario.source,
        )
        groups = [members(group, place, path=f"nodeGroups[{i}]") for i, group in enumerate(file.node_groups)]
        for group in groups:
            for machine in start(group, self._log):
                await self._kubelets.join(machine)

    async def run(self) -> None:
        """All parts, for ever; the first that fails ends it."""
        async with asyncio.TaskGroup() as tasks:
            for name, part in self._parts():
                tasks.create_task(part, name=name)

    def finish(self) -> None:
        """The end of the simulation: what only shows now, such as pods that were forgotten."""
        known = len(self._watchdog.found)
        self._report(self._watchdog.finish()[known:])

    def _parts(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        yield "garbage collection", self.server.run_gc()
        yield "disruption budgets", self.server.run_disruption()
        yield "kubelets", self._kubelets.run()
        yield "volumes", self._volumes.run()
        yield "scheduler", self._scheduler.run()
        yield "workloads", self._workloads.run()
        yield "dovetail", self._operator.run()
        yield "watchdog", self._watch_instances()
        planned = interruptions(self._scenario)
        yield "interruptions", interrupt(self._clock, self.cloud, self._scenario.seed, planned)
        if self._scenario.visits and self._scenario.file.trace is not None:
            namespace = self._scenario.file.trace.namespace
            yield "trace", play(self.server.client("trace"), self._clock, self._scenario.visits, namespace)

    def _settings(self) -> Settings:
        given = self._scenario.file.settings
        return Settings(
            batch_idle_duration=parse_duration(given.batch_idle_duration),
            batch_max_duration=parse_duration(given.batch_max_duration),
            solve_deadline=parse_duration(given.solve_deadline) if given.solve_deadline else None,
            preference_policy=given.preference_policy,
            min_values_policy=given.min_values_policy,
            spot_diversity=given.spot_diversity,
            spot_tolerance=given.spot_tolerance,
            node_surcharge=parse_dollars(repr(given.node_surcharge)),
            brakes=BrakeOptions(
                pause=read_pause(given.pause),
                launches=Rate.parse(given.launch_limit) if given.launch_limit else None,
                moves=Rate.parse(given.move_limit) if given.move_limit else None,
                forceful=given.forceful_budget,
                confirmed=given.confirm_termination,
            ),
            minimum_saving=given.minimum_saving,
            gates=FeatureGates(
                node_repair=given.feature_gates.node_repair,
                spot_to_spot_consolidation=given.feature_gates.spot_to_spot_consolidation,
            ),
            on_plan=self._check_plan,
        )

    def _check_plan(self, problem: Problem, plan: Plan) -> None:
        """Every plan is held against the rules by a checker that knows nothing of the solver."""
        self._report(verify(problem, plan))

    def _report(self, violations: Iterable[Violation]) -> None:
        for found in violations:
            self._log.record("violation", rule=found.rule, subject=found.subject, message=found.message)

    async def _watch_instances(self) -> None:
        while True:
            await self._clock.sleep(MINUTE)
            self._report(self._watchdog.instances(await self.cloud.list()))

    def _switch_on(self, instance: Instance, claim: NodeClaim) -> None:
        name = self._names.draw(instance.provider_id)
        self._kubelets.switch_on(from_claim(instance, claim, name=name, seed=self._scenario.seed))
