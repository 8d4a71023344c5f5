"""Auto scaling groups: so many instances of one type as were asked for, after a while, without a word
about why not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.api.core import Node, NodeSpec, NodeStatus
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import MINUTE, Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud.inmemory import Limit
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.resources import quantities
from dovetail.simulate.environment.nodegroup import Member, Place, member
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import Machine
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.schema import NodeGroup

_RETRY = MINUTE  # how soon a group asks again for what no zone had


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


class AutoScalingGroup:
    """One group. `target` is what was asked for, `members` the machines that run, by node name."""

    def __init__(self, spec: GroupSpec, members: Sequence[Member], around: Surroundings) -> None:
        self.spec = spec
        self.target = len(members)
        self.members = {item.machine.node: item for item in members}
        self._around = around
        self._drawn = len(members)  # instances so far: each has luck of its own
        self._starting: set[asyncio.Task[None]] = set()
        self._templates: dict[str, Node] = {}  # by zone

    @property
    def missing(self) -> int:
        """Instances that were asked for and do not run yet."""
        return max(0, self.target - len(self.members))

    def raise_to(self, target: int) -> None:
        """Ask for more instances; each starts after the group's latency, where a zone has capacity."""
        for _ in range(target - self.target):
            index, self._drawn = self._drawn, self._drawn + 1
            task = asyncio.get_running_loop().create_task(
                self._start(index), name=f"{self.spec.name} {index}"
            )
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
        self.target = target

    def lower_to(self, target: int) -> None:
        """Give up instances that were asked for and did not start."""
        self.target = max(target, len(self.members))

    def remove(self, node: str) -> None:
        """Terminate the instance of a node; the target goes down with it."""
        gone = self.members.pop(node)
        self.target -= 1
        asyncio.get_running_loop().create_task(self._terminate(gone.machine), name=f"terminate {node}")

    async def _terminate(self, machine: Machine) -> None:
        around = self._around
        await around.clock.sleep(around.terminate.draw(around.seed, machine.provider_id, "terminate"))
        around.kubelets.switch_off(machine.provider_id)
        around.log.record("instance.terminated", instance=machine.provider_id)

    async def _start(self, index: int) -> None:
        around, spec = self._around, self.spec
        entity, asked = f"node group {spec.name} {index}", around.clock.now()
        await around.clock.sleep(around.latency.draw(around.seed, entity, "group"))
        while len(self.members) < self.target:
            offering = self._emptiest(around.clock.now())
            if offering is None:
                around.log.record("group.short", group=spec.name, instanceType=spec.kind.name)
                await around.clock.sleep(_RETRY)
                continue
            made = member(spec.file, spec.kind, offering, spec.place, index)
            self.members[made.machine.node] = made
            around.log.record(
                "instance.started",
                instance=made.machine.provider_id,
                claim=f"{spec.name}/{made.machine.node}",
                node=made.machine.node,
                asked=asked,
                instanceType=spec.kind.name,
                zone=offering.zone,
                capacityType=offering.capacity_type,
                price=offering.price + made.volumes,
                volumes=made.volumes,
                estimated=offering.estimated,
            )
            around.kubelets.switch_on(made.machine)
            return

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

    def template(self) -> Node:
        """What a new node looks like: like a member in the zone that is next."""
        offering = self._emptiest(self._around.clock.now()) or self.spec.offerings[0]
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
