"""The composition of an observer: two states, and what would be done, reported instead of done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

from dovetail.api.gangs import GANG_KINDS
from dovetail.api.meta import Object
from dovetail.cluster.state import State
from dovetail.controllers.brakes.brakes import Brakes
from dovetail.controllers.buffers import Buffers
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.consolidation import Consolidation
from dovetail.controllers.disruption.efficiency import Efficiency
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.whatif import WhatIf
from dovetail.controllers.nodeoverlay import NodeOverlays
from dovetail.controllers.observation.disruptions import ObservedDisruption
from dovetail.controllers.observation.launches import ObservedLaunches
from dovetail.controllers.observation.rival import Rival
from dovetail.controllers.observation.room import ObservedRoom
from dovetail.controllers.observation.tally import Tally, table
from dovetail.controllers.overlays import Overlays
from dovetail.controllers.panics import Panics
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.provisioning.trigger import Batcher, PodTrigger
from dovetail.kube.client import EventType
from dovetail.kube.readonly import ReadOnlyClient, SilentRecorder
from dovetail.runtime.costs import CostRecord
from dovetail.runtime.methods import methods
from dovetail.runtime.operator import Part, Ports
from dovetail.runtime.settings import Settings
from dovetail.runtime.watches import Watches


class Observation:
    """What an Operator is for a controller that acts. Its client cannot write.

    `on_figures` is called every `every` nanoseconds, after the figures were brought up to date.
    """

    def __init__(self, ports: Ports, settings: Settings, on_figures: Callable[[], None], every: int) -> None:
        self._client = ReadOnlyClient(ports.client)
        self._ports = ports
        self._settings = settings
        self._on_figures = on_figures
        self._every = every
        self._recorder = SilentRecorder(self._client, ports.clock)
        self._panics = Panics(ports.log, ports.metrics, self._recorder, strict=not ports.forgiving)
        self.state = self._state()
        # Has marks of what would be disrupted, which plans for pods that wait must not know.
        self._imagined = self._state()
        # What NodeOverlays make of types, as each of the two has it: they are evaluated on both.
        self._overlays, self._imagined_overlays = (
            Overlays(enabled=settings.gates.node_overlay) for _ in range(2)
        )
        self._buffers = Buffers(enabled=settings.gates.capacity_buffer)
        self.watches = Watches(
            self._client,
            self.state.kinds,
            self._apply,
            clock=ports.clock,
            log=ports.log,
            metrics=ports.metrics,
            optional=GANG_KINDS,
        )
        self.tally = Tally(ports.clock, ports.metrics)
        context = self._context(self._imagined)
        self._efficiency = Efficiency(
            context, ports.planner, self._intake(context), settings.efficiency_period
        )

    async def run(self) -> None:
        """All parts, for ever; the first that fails ends it."""
        parts = tuple(self._parts())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watches.run(), name="watches")
            for name, part in parts:
                tasks.create_task(self._panics.keep(name, self._ports.clock, part), name=name)

    def table(self) -> str:
        """The figures so far, to read."""
        self.tally.settle()
        return table(self.tally, self._efficiency.latest)

    def _parts(self) -> Iterator[Part]:
        ports, settings = self._ports, self._settings
        context = self._context(self.state)
        if settings.gates.node_overlay:
            for each in (context, self._context(self._imagined)):
                yield "observer.nodeoverlay", NodeOverlays(each, tells=False).queue.run
        if ports.costs is not None:  # a file of its own, which is no part of the cluster
            book = ports.costs
            record = CostRecord(context, book.store, book.keep, book.listed, book.usage)
            yield "observer.costs", record.run
            if book.usage is not None:
                yield "observer.usage", record.measure
        Rival(context, self.tally)
        batcher = Batcher(ports.clock, settings.batch_idle_duration, settings.batch_max_duration)
        yield "observer.trigger.pod", PodTrigger(context, batcher).queue.run
        launches = ObservedLaunches(context, batcher, ports.planner, settings.provisioning(), self.tally)
        yield "observer.launches", launches.run
        yield "observer.disruption", self._disruption().run
        yield "observer.efficiency", self._efficiency.run
        yield "observer.report", self._report

    def _disruption(self) -> ObservedDisruption:
        context, planner = self._context(self._imagined), self._ports.planner
        options, intake = self._settings.consolidation(), self._intake(context)
        reserving = Intake(context, self._settings.provisioning().solver, reserves=context.buffers.enabled)
        what_if = WhatIf(context, planner, intake, options.deadline)
        moves = MoveBook(context, options.moves_per_pod)
        consolidation = Consolidation(context, planner, reserving, moves, options)
        asked = tuple(methods(context, self._settings, what_if, moves, consolidation))
        room = ObservedRoom(context, planner, intake, self._settings.provisioning().deadline)
        return ObservedDisruption(context, asked, self.tally, room)

    async def _report(self) -> None:
        while True:
            await self._ports.clock.sleep(self._every)
            self.tally.settle()
            self._on_figures()

    def _state(self) -> State:
        return State(
            self._client,
            self._ports.clock,
            node_class_kinds=self._ports.provider.node_class_kinds,
            nomination_window=self._settings.nomination_window,
            watch_synced=self.synced,
            default_constraints=self._settings.default_constraints,
            buffers=self._settings.gates.capacity_buffer,
            overlays=self._settings.gates.node_overlay,
            devices=self._settings.dynamic_resources,
            gangs=self._settings.gangs,
            on_error=self._panics.caught,
        )

    def synced(self) -> bool:
        """True iff every first list has arrived."""
        return self.watches.synced

    def _apply(self, change: EventType, obj: Object) -> None:
        self.state.apply(change, obj)
        self._imagined.apply(change, obj)

    def _context(self, state: State) -> Context:
        ports = self._ports
        brakes = Brakes(replace(self._settings.brakes, launches=None, moves=None), ports.clock, state)
        return Context(
            self._client,
            ports.provider,
            ports.clock,
            ports.log,
            state,
            self._recorder,
            ports.metrics,
            brakes,
            self._panics,
            overlays=self._overlays if state is self.state else self._imagined_overlays,
            buffers=self._buffers,
            writes_costs=self._settings.gates.pod_deletion_cost_management,
            shared_limits=self._settings.shared_limits,
        )

    def _intake(self, context: Context) -> Intake:
        return Intake(context, self._settings.provisioning().solver)
