"""Playing a scenario on a real cluster from its start to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.cloud.aws.provider import AwsCloud
from dovetail.kube.http.access import Access
from dovetail.kube.http.client import HttpClient, connect
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.process import ProcessPlanner
from dovetail.runtime.process.clock import WallClock
from dovetail.runtime.process.greet import greet
from dovetail.simulate.kubelet.machine import NodeNames
from dovetail.simulate.live.machines import Machines
from dovetail.simulate.live.objects import Objects
from dovetail.simulate.live.refuse import check_cluster, check_scenario
from dovetail.simulate.live.watching import Watching
from dovetail.simulate.log import JsonlLog
from dovetail.simulate.nodegroup import groups, start
from dovetail.simulate.observer import Observer
from dovetail.simulate.progress import Meter
from dovetail.simulate.run import Listener, Result
from dovetail.simulate.scenario import Scenario
from dovetail.simulate.settings import operator_settings
from dovetail.simulate.summary import Run, summarize
from dovetail.simulate.surroundings import cloud_of
from dovetail.verify import verify

_STEP = SECOND  # between two looks at how things stand


async def play_live(
    scenario: Scenario, access: Access, *, events: Path | None = None, listener: Listener | None = None
) -> Result:
    """Play it in the machine's own time, and take away whatever it made.

    Raises InputError for a scenario or a cluster that it cannot be played with.
    """
    check_scenario(scenario)
    async with connect(access) as client, ProcessPlanner() as planner:
        await greet(client.transport, AwsCloud.node_class_kinds)
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
        self._groups = groups(scenario, cloud.provider, names)
        self._watching = Watching(client, Observer(log))
        self._objects = Objects(client, self._clock, log)
        ports = Ports(client, cloud.provider, self._clock, log, planner, MemoryMetrics())
        self._operator = Operator(ports, operator_settings(file.settings, self._check_plan))

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
        records = tuple(record for record in self._log.records if record["t"] <= end)
        run = Run(
            scenario=scenario.file.name,
            seed=scenario.seed,
            start=start,
            end=end,
            sha256=self._log.sha256(),
            wall_seconds=wall,
            assumptions=tuple(str(item) for item in scenario.assumptions),
        )
        return Result(scenario, records, start, end, run.sha256, wall, summarize(records, run))

    def _check_plan(self, problem: Problem, plan: Plan) -> None:
        for found in verify(problem, plan):
            self._log.record("violation", rule=found.rule, subject=found.subject, message=found.message)
