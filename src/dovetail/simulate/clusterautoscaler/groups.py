"""Auto scaling groups: so many instances of one type as were asked for, after a while, without a word
about why not; spread over zones, by their own will.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.api.core import Node, NodeSpec, NodeStatus
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import MINUTE, Clock
from dovetail.base.eventlog import EventLog
from dovetail.base.streams import stream
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.provider import Instance
from dovetail.cloud.simulated.cloud import Interrupter
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.resources import quantities
from dovetail.simulate.environment.nodegroup import Member, Place, member
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import Machine
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.schema import NodeGroup

_RETRY = MINUTE  # how soon a group asks again for what no zone had
_CHECKED = ("instance_status", "system_status")  # a group replaces an instance that fails these checks


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as the scenario has it: its type, an offering per zone, its bounds."""

    file: NodeGroup
    kind: InstanceType
    offerings: tuple[Offering, ...]
    place: Place
    least: int
    most: int

    @property
    def name(self) -> str:
        return self.file.name


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What groups act on: machines are switched on and off, and capacity is short where `limits` say so."""

    clock: Clock
    log: EventLog
    kubelets: Kubelets
    limits: tuple[Limit, ...]
    seed: int
    latency: Distribution  # from a raise of the target until the instance starts
    terminate: Distribution
    unregistered: float = 0.0  # share of instances whose nodes never join


class AutoScalingGroup:
    """One group. `target` is what was asked for, `members` the machines that run, by node name."""

    def __init__(self, spec: GroupSpec, members: Sequence[Member], around: Surroundings) -> None:
        self.spec = spec
        self.target = len(members)
        self.members = {item.machine.node: item for item in members}
        self.former: set[str] = set()  # nodes whose instances the group had, and ended or lost
        self._around = around
        self._drawn = len(members)  # instances so far: each has luck of its own
        self._tasks: set[asyncio.Task[None]] = set()
        self._templates: dict[str, Node] = {}  # by zone

    @property
    def missing(self) -> int:
        """Instances that were asked for and do not run yet."""
        return max(0, self.target - len(self.members))

    def raise_to(self, target: int) -> None:
        """Ask for more instances; each starts after the group's latency, where a zone has capacity."""
        for _ in range(target - self.target):
            self._ask()
        self.target = target

    def _ask(self) -> None:
        index, self._drawn = self._drawn, self._drawn + 1
        self._spawn(self._start(index), f"{self.spec.name} {index}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def lower_to(self, target: int) -> None:
        """Give up instances that were asked for and did not start."""
        self.target = max(target, len(self.members))

    def remove(self, node: str) -> None:
        """Terminate the instance of a node; the target goes down with it."""
        self.target -= 1
        self._end(node)

    def replace(self, node: str) -> None:
        """Terminate the instance of a node and start another, as a group does when its checks fail."""
        self._end(node)
        self._ask()

    def lose(self, node: str) -> None:
        """The instance is gone from one moment to the next; the group starts another."""
        self._gone(self._out(node))
        self._ask()

    async def keep_zones_even(self) -> None:
        """For ever: while a zone has two instances more than another, start one there, end the oldest here.

        Nothing drains it, and no PodDisruptionBudget is asked.
        """
        while True:
            await self._around.clock.sleep(MINUTE)
            if self.missing:
                continue
            offering = self._emptiest(self._around.clock.now())
            counts = Counter(item.offering.zone for item in self.members.values())
            if offering is None or not counts or max(counts.values()) - counts[offering.zone] < 2:
                continue
            index, self._drawn = self._drawn, self._drawn + 1
            asked = self._around.clock.now()
            await self._latency(index)
            self._begin(index, offering, asked)
            full = max(counts, key=lambda zone: counts[zone])
            oldest = next((n for n, item in self.members.items() if item.offering.zone == full), None)
            if oldest is not None and len(self.members) > self.target:
                self._around.log.record("group.rebalanced", group=self.spec.name, node=oldest)
                self._end(oldest)

    def _end(self, node: str) -> None:
        self._spawn(self._terminate(self._out(node)), f"terminate {node}")

    def _out(self, node: str) -> Machine:
        self.former.add(node)
        return self.members.pop(node).machine

    async def _terminate(self, machine: Machine) -> None:
        around = self._around
        await around.clock.sleep(around.terminate.draw(around.seed, machine.provider_id, "terminate"))
        self._gone(machine)

    def _gone(self, machine: Machine) -> None:
        self._around.kubelets.switch_off(machine.provider_id)
        self._around.log.record("instance.terminated", instance=machine.provider_id)

    async def _start(self, index: int) -> None:
        around, asked = self._around, self._around.clock.now()
        await self._latency(index)
        while len(self.members) < self.target:
            offering = self._emptiest(around.clock.now())
            if offering is not None:
                self._begin(index, offering, asked)
                return
            around.log.record("group.short", group=self.spec.name, instanceType=self.spec.kind.name)
            await around.clock.sleep(_RETRY)

    async def _latency(self, index: int) -> None:
        around = self._around
        await around.clock.sleep(
            around.latency.draw(around.seed, f"node group {self.spec.name} {index}", "group")
        )

    def _begin(self, index: int, offering: Offering, asked: int) -> None:
        around, spec = self._around, self.spec
        made = member(spec.file, spec.kind, offering, spec.place, index)
        machine = made.machine
        self.members[machine.node] = made
        around.log.record(
            "instance.started",
            instance=machine.provider_id,
            claim=f"{spec.name}/{machine.node}",
            node=machine.node,
            asked=asked,
            instanceType=spec.kind.name,
            zone=offering.zone,
            capacityType=offering.capacity_type,
            price=offering.price + made.volumes,
            volumes=made.volumes,
            estimated=offering.estimated,
        )
        if stream(around.seed, machine.provider_id, "joins").random() >= around.unregistered:
            around.kubelets.switch_on(machine)

    def _emptiest(self, now: int) -> Offering | None:
        """The zone with capacity that has fewest members; the first of equals."""
        counts = Counter(item.offering.zone for item in self.members.values())
        name = self.spec.kind.name
        open_ = [
            offering
            for offering in self.spec.offerings
            if not any(
                limit.capacity == 0 and limit.concerns((offering.capacity_type, name, offering.zone), now)
                for limit in self._around.limits
            )
        ]
        return min(open_, key=lambda offering: counts[offering.zone], default=None)

    @property
    def price(self) -> int:
        """Of a new instance, nano-dollars an hour."""
        return self._next().price

    def _next(self) -> Offering:
        return self._emptiest(self._around.clock.now()) or self.spec.offerings[0]

    def template(self) -> Node:
        """What a new node looks like: like a member in the zone that is next."""
        offering = self._next()
        known = self._templates.get(offering.zone)
        if known is None:
            machine = member(self.spec.file, self.spec.kind, offering, self.spec.place, -1).machine
            known = self._templates[offering.zone] = Node(
                metadata=Meta(name=f"template-node-for-{self.spec.name}", labels=dict(machine.labels)),
                spec=NodeSpec(taints=machine.taints),
                status=NodeStatus(
                    capacity=quantities(machine.capacity),
                    allocatable=quantities(machine.allocatable),
                    conditions=(Condition(type="Ready", status="True"),),
                ),
            )
        return known


class GroupInstances:
    """What happens to the instances of groups: the part of a cloud that a scenario's interruptions need."""

    def __init__(self, groups: Sequence[AutoScalingGroup], clock: Clock, log: EventLog) -> None:
        self._groups = groups
        self._log = log
        # Groups learn of the end of an instance, and of nothing that only announces it: there is no queue.
        self.interrupt = Interrupter(clock, log, None, self._lose).interrupt

    async def list(self) -> Sequence[Instance]:
        """Those that run, by group and age."""
        return [
            Instance(
                provider_id=item.machine.provider_id,
                instance_type=item.instance_type.name,
                zone=item.offering.zone,
                capacity_type=item.offering.capacity_type,
                price=item.offering.price + item.volumes,
                image_id="",
                created=0,
            )
            for group in self._groups
            for item in group.members.values()
        ]

    def impair(self, provider_id: str, category: str) -> None:
        """An instance whose status check fails is replaced; announced events are not looked at."""
        group, node = self._member(provider_id)
        if group is not None and category in _CHECKED:
            self._log.record("group.replaces", group=group.spec.name, node=node, check=category)
            group.replace(node)

    def _lose(self, provider_id: str) -> None:
        group, node = self._member(provider_id)
        if group is not None:
            group.lose(node)

    def _member(self, provider_id: str) -> tuple[AutoScalingGroup | None, str]:
        for group in self._groups:
            for node, item in group.members.items():
                if item.machine.provider_id == provider_id:
                    return group, node
        return None, ""
