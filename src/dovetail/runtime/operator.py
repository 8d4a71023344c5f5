"""The composition of Dovetail: one state, one recorder, all controllers, started in a fixed order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

from dovetail.api.gangs import GANG_KINDS
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.clock import Clock
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metrics
from dovetail.cloud.interruption import InterruptionQueue
from dovetail.cloud.provider import Provider
from dovetail.cluster.state import State
from dovetail.controllers.brakes.brakes import Brakes
from dovetail.controllers.buffers import Buffers
from dovetail.controllers.capacitybuffer import CapacityBuffers
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.annotations import DoNotDisrupt
from dovetail.controllers.disruption.consolidatable import Consolidatable
from dovetail.controllers.disruption.consolidation import Consolidation
from dovetail.controllers.disruption.deletioncosts import DeletionCosts, take_back
from dovetail.controllers.disruption.disrupt import Disruption
from dovetail.controllers.disruption.drifted import Drifted
from dovetail.controllers.disruption.efficiency import Efficiency
from dovetail.controllers.disruption.execute import Execution
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.podevents import PodEvents
from dovetail.controllers.disruption.whatif import WhatIf
from dovetail.controllers.gangs import RunningGangs
from dovetail.controllers.interruption import InstanceStatus, Interruptions
from dovetail.controllers.lifetimes import Lifetimes
from dovetail.controllers.node.evict import EvictionQueue
from dovetail.controllers.node.repair import LegacyNodeRepair
from dovetail.controllers.node.terminate import NodeTermination
from dovetail.controllers.nodeclaim.collect import ClaimCollection, InstanceCollection
from dovetail.controllers.nodeclaim.consistency import Consistency
from dovetail.controllers.nodeclaim.discover import Discovery
from dovetail.controllers.nodeclaim.expire import NodeClaimExpiration
from dovetail.controllers.nodeclaim.lifecycle import NodeClaimLifecycle
from dovetail.controllers.nodeclaim.reboot import Reboots
from dovetail.controllers.nodeclaim.reserved import ReservedClaims
from dovetail.controllers.nodeclaim.tag import NodeClaimTagging
from dovetail.controllers.nodeclass.collect import ProfileCollection
from dovetail.controllers.nodeclass.hash import NodeClassHash
from dovetail.controllers.nodeclass.readiness import NodeClassReadiness, PlainReadiness
from dovetail.controllers.nodeoverlay import NodeOverlays
from dovetail.controllers.nodepool.counter import NodePoolCounter
from dovetail.controllers.nodepool.hash import NodePoolHash
from dovetail.controllers.nodepool.readiness import NodePoolReadiness
from dovetail.controllers.nodepool.registrationhealth import RegistrationHealth, RegistrationObserver
from dovetail.controllers.nodepool.zonalshift import ZonalShifts
from dovetail.controllers.ondemand import OnDemandShares
from dovetail.controllers.overlays import Overlays
from dovetail.controllers.panics import Panics
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.provisioning.metrics import ProvisioningMetrics
from dovetail.controllers.provisioning.nominate import Nominator
from dovetail.controllers.provisioning.provision import Provisioner
from dovetail.controllers.provisioning.trigger import Batcher, NodeTrigger, PodTrigger
from dovetail.controllers.static import MinimumNodes, StaticCapacity
from dovetail.controllers.storedversions import StoredVersions
from dovetail.controllers.surges import Surges
from dovetail.controllers.transitions import Transitions
from dovetail.controllers.unreadables import Unreadables
from dovetail.cost.store import Store
from dovetail.kube.client import Client
from dovetail.kube.recorder import Recorder
from dovetail.runtime.costs import CostRecord, ListPrice
from dovetail.runtime.figures.figures import ClusterFigures
from dovetail.runtime.metered import CONTROLLER, Metered
from dovetail.runtime.methods import methods
from dovetail.runtime.settings import Settings
from dovetail.runtime.usage import UsageSource
from dovetail.runtime.watches import Watches

Part = tuple[str, Callable[[], Awaitable[None]]]


@dataclass(frozen=True, slots=True)
class CostBook:
    """The record of costs; see runtime/costs.py. `keep` in nanoseconds."""

    store: Store
    keep: int
    listed: ListPrice
    usage: UsageSource | None = None  # asked what pods use


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of one operator: real in production, twins in simulations and tests."""

    client: Client
    provider: Provider
    clock: Clock
    log: EventLog
    planner: Planner
    metrics: Metrics
    interruptions: InterruptionQueue | None = None  # without one, only status checks show broken machines
    # Unexpected errors cost the object they are about, as in production; else the first one ends everything.
    forgiving: bool = False
    costs: CostBook | None = None  # where what ran is kept


class Operator:
    """Everything that runs in one controller process. `run` ends only with an error.

    One that waits to lead may `watch` meanwhile, so that it can `act` at once.
    """

    def __init__(self, ports: Ports, settings: Settings) -> None:
        client, clock, log = ports.client, ports.clock, ports.log
        provider = Metered(ports.provider, clock, ports.metrics)
        recorder = Recorder(client, clock)
        self._panics = Panics(log, ports.metrics, recorder, strict=not ports.forgiving)
        self.state = State(
            client,
            clock,
            node_class_kinds=provider.node_class_kinds,
            nomination_window=settings.nomination_window,
            watch_synced=self._watch_synced,
            default_constraints=settings.default_constraints,
            buffers=settings.gates.capacity_buffer,
            overlays=settings.gates.node_overlay,
            devices=settings.dynamic_resources,
            surges=settings.surge,
            gangs=settings.gangs,
            on_error=self._panics.caught,
        )
        unreadables = Unreadables(
            log, ports.metrics, self._panics, lambda kind: self.watches.unreadable(kind)
        )
        self.watches = Watches(
            client,
            self.state.kinds,
            self.state.apply,
            clock=clock,
            log=log,
            metrics=ports.metrics,
            on_unreadable=unreadables.notice,
            optional=GANG_KINDS,
        )
        surges = Surges(
            client, clock, log, self.state, recorder, ports.metrics, self._panics, enabled=settings.surge
        )
        brakes = Brakes(settings.brakes, clock, self.state)
        self._context = Context(
            client,
            provider,
            clock,
            log,
            self.state,
            recorder,
            ports.metrics,
            brakes,
            self._panics,
            buffers=Buffers(enabled=settings.gates.capacity_buffer),
            overlays=Overlays(enabled=settings.gates.node_overlay),
            surges=surges,
            gangs=RunningGangs(self.state) if settings.gangs else None,
            writes_costs=settings.gates.pod_deletion_cost_management,
            shared_limits=settings.shared_limits,
        )
        self.figures = ClusterFigures(self._context, pods_and_nodes=settings.cluster_figures)
        self._planner = ports.planner
        self._costs = ports.costs
        self._interruptions = ports.interruptions
        self._settings = settings

    async def run(self) -> None:
        """Watch and act, for ever; the first part that fails ends it."""
        async with asyncio.TaskGroup() as tasks:
            acting = self.act()
            tasks.create_task(self.watch(), name="watches")
            tasks.create_task(acting, name="controllers")

    async def watch(self) -> None:
        """Keep the state up to date, for ever."""
        await self.watches.run()

    async def act(self) -> None:
        """All controllers, for ever, from when the state knows every kind; what it has is new to them.

        Before that a pool would be without its class, and a node without its claim.
        """
        await self.watches.wait_synced()
        parts = tuple(self._parts())
        self.state.replay()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._panics.run(), name="events of unexpected errors")
            for name, part in parts:
                here = copy_context()
                here.run(CONTROLLER.set, name)
                kept = self._panics.keep(name, self._context.clock, part)
                tasks.create_task(kept, name=name, context=here)

    def _watch_synced(self) -> bool:
        return self.watches.synced

    def _parts(self) -> Iterator[Part]:
        """In the order in which changes reach them."""
        context = self._context
        yield "metrics.nodepool", Lifetimes(context).queue.run
        yield "status", Transitions(context).queue.run
        if self._settings.migrate_versions:
            yield "storedversions", StoredVersions(context).run
        if self._costs is not None:
            book = self._costs
            record = CostRecord(context, book.store, book.keep, book.listed, book.usage)
            yield "costs", record.run
            if book.usage is not None:
                yield "usage", record.measure
        yield from self._classes_and_pools()
        yield from self._claims()
        yield "pod.ondemand", OnDemandShares(context, enabled=self._settings.on_demand_shares).queue.run
        batcher = Batcher(
            context.clock, self._settings.batch_idle_duration, self._settings.batch_max_duration
        )
        yield "provisioner.trigger.pod", PodTrigger(context, batcher).queue.run
        yield "provisioner.trigger.node", NodeTrigger(context, batcher).queue.run
        if context.buffers.enabled:
            buffers = CapacityBuffers(context, batcher)
            yield "capacitybuffer", buffers.queue.run
            yield "capacitybuffer.room", buffers.room.run
        provisioning = self._settings.provisioning()
        intake = Intake(context, provisioning.solver)
        provisioner = Provisioner(context, batcher, self._planner, provisioning)
        yield "provisioner", provisioner.run
        yield "pod.room", provisioner.room.queue.run
        options = self._settings.consolidation()
        moves = MoveBook(context, options.moves_per_pod)
        execution = Execution(context, moves)
        what_if = WhatIf(context, self._planner, intake, provisioning.deadline)
        reserving = Intake(context, provisioning.solver, reserves=True) if context.buffers.enabled else intake
        consolidation = Consolidation(context, self._planner, reserving, moves, options)
        if self._settings.gates.static_capacity:
            yield (
                "static",
                StaticCapacity(context, ProvisioningMetrics(context.metrics, context.waits)).queue.run,
            )
        yield "minimum", MinimumNodes(context, ProvisioningMetrics(context.metrics, context.waits)).queue.run
        if not self._settings.plain_plans:
            yield (
                "disruption.efficiency",
                Efficiency(context, self._planner, intake, self._settings.efficiency_period).run,
            )
        if context.writes_costs:
            costs = DeletionCosts(context)
            yield "pod.deletioncost", costs.queue.run
            yield "pod.deletioncost.rank", costs.run
        else:
            yield "pod.deletioncost", partial(take_back, context)
        yield "disruption.queue", execution.run
        asked = tuple(methods(context, self._settings, what_if, moves, consolidation))
        yield "disruption", Disruption(context, execution, asked).run

    def _classes_and_pools(self) -> Iterator[Part]:
        context, health = self._context, RegistrationHealth()
        self._registrations = RegistrationObserver(context, health)
        if any(kind == EC2NodeClass.KIND for _, kind in context.provider.node_class_kinds):
            yield "nodeclass.hash", NodeClassHash(context).queue.run
            yield "nodeclass", NodeClassReadiness(context).queue.run
            yield "nodeclass.garbagecollection", ProfileCollection(context).queue.run
        else:
            yield "nodeclass", PlainReadiness(context).queue.run
        if self._settings.gates.node_overlay:
            yield "nodeoverlay", NodeOverlays(context).queue.run
        yield "nodepool.hash", NodePoolHash(context).queue.run
        yield "nodepool.readiness", NodePoolReadiness(context, health).queue.run
        yield "nodepool.registrationhealth", self._registrations.queue.run
        yield "arczonalshift", ZonalShifts(context).run
        yield "nodepool.counter", NodePoolCounter(context).run

    def _claims(self) -> Iterator[Part]:
        context = self._context
        self._discovery = Discovery(context)
        nominator = Nominator(
            context, enabled=self._settings.nominate_pods, holds=not self._settings.plain_plans
        )
        lifecycle = NodeClaimLifecycle(context, on_outcome=self._registrations.notice, held=nominator.held)
        yield "pod.nomination", nominator.queue.run
        yield "node.opening", nominator.openings.run
        yield "nodeclaim.lifecycle", lifecycle.run
        yield "capacityreservation", ReservedClaims(context).run
        evictions = EvictionQueue(context)
        yield "eviction-queue", evictions.run
        yield "node.termination", NodeTermination(context, evictions).run
        yield "nodeclaim.reboot", Reboots(context, evictions).queue.run
        if self._settings.gates.node_repair and self._settings.legacy_node_repair:
            yield "node.health", LegacyNodeRepair(context).run
        if self._interruptions is not None:
            yield "interruption", Interruptions(context, self._interruptions).run
        yield "interruption.instancestatus", InstanceStatus(context).run
        yield "nodeclaim.expiration", NodeClaimExpiration(context).run
        yield "nodeclaim.tagging", NodeClaimTagging(context).queue.run
        yield "nodeclaim.consistency", Consistency(context).run
        yield "nodeclaim.garbagecollection", ClaimCollection(context).run
        yield "instance.garbagecollection", InstanceCollection(context).run
        yield "nodeclaim.podevents", PodEvents(context).queue.run
        yield "pod.donotdisrupt", DoNotDisrupt(context).queue.run
        yield "nodeclaim.disruption", Consolidatable(context).queue.run
        yield "nodeclaim.drift", Drifted(context).queue.run
