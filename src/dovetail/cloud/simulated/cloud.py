"""Instances of a simulated cloud: launched after a while, billed, terminated after a while."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import Clock
from dovetail.base.errors import InputError, InstanceNotFound, InsufficientCapacity
from dovetail.base.eventlog import EventLog
from dovetail.base.memo import by_identity
from dovetail.base.streams import stream
from dovetail.cloud import catalog
from dovetail.cloud.aws.nodeclass.drift import Made, class_stamp, drift
from dovetail.cloud.aws.nodeclass.validation import Validator
from dovetail.cloud.choice import Candidate, Pool, Request, choose
from dovetail.cloud.inert import Inert
from dovetail.cloud.interruption import Impairment, InterruptionKind
from dovetail.cloud.provider import Instance, NodeClassResolution, Provider
from dovetail.cloud.readiness import check_ready
from dovetail.cloud.repair import EKS_POLICIES, RepairPolicy
from dovetail.cloud.simulated.account import Account, image_for, resolve
from dovetail.cloud.simulated.delays import Delays
from dovetail.cloud.simulated.fleet import attempts
from dovetail.cloud.simulated.interruptions import Interrupter
from dovetail.cloud.simulated.pools import Pools
from dovetail.cloud.simulated.refusals import fleet_errors, reachable
from dovetail.cloud.simulated.types import TypeView, only
from dovetail.cloud.twin import Limit, MemoryQueue
from dovetail.cloud.unavailable import UnavailableOfferings, single_values
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts

NO_CAPACITY = "InsufficientInstanceCapacity"
NO_ADDRESS = "InsufficientFreeAddressesInSubnet"


@by_identity(8)
def _by_name(types: tuple[InstanceType, ...]) -> dict[str, InstanceType]:
    return {item.name: item for item in types}


@dataclass(slots=True)
class _Machine:
    instance: Instance
    claim: NodeClaim
    made: Made
    pool: Pool
    ending: asyncio.Task[None] | None = None  # set iff termination was asked for
    impairment: Impairment | None = None


class SimulatedCloud(Inert):
    """Implements `cloud.provider.Provider` in the time of the clock it is given.

    `types` replaces the catalogue (then node classes do not shape the types, and volumes are free); `sold`
    names the only types of the catalogue that there are. Every
    draw is keyed by the claim or the instance it is for, so that one launch never shifts another's luck.
    """

    node_class_kinds: tuple[tuple[str, str], ...] = (
        (EC2NodeClass.API_VERSION.partition("/")[0], EC2NodeClass.KIND),
    )
    repair_policies: tuple[RepairPolicy, ...] = EKS_POLICIES

    def __init__(
        self,
        clock: Clock,
        seed: int,
        log: EventLog,
        *,
        region: str,
        types: tuple[InstanceType, ...] | None = None,
        account: Account | None = None,
        sold: Collection[str] = (),
        limits: Iterable[Limit] = (),
        delays: Delays | None = None,
    ) -> None:
        self._clock = clock
        self._seed = seed
        self._log = log
        self._region = region
        self._account = account or Account.usual(region, "demo")
        self._delays = delays or Delays()
        self._pools = Pools(limits)
        self._unavailable = UnavailableOfferings()
        self._validator = Validator()
        self._view = TypeView(only(self._catalogued, sold) if types is None else lambda _: types)
        self._sells_volumes = types is None
        self._machines: dict[str, _Machine] = {}  # by provider id, in order of launch
        self._launches: Counter[str] = Counter()  # calls per claim: a second call is another instance
        self._addresses: Counter[str] = Counter()  # in use, per subnet id
        self._asked: list[Callable[[str, Sequence[Instance]], object]] = []
        self._started: list[Callable[[Instance, NodeClaim], None]] = []
        self._terminated: list[Callable[[Instance], None]] = []
        self.queue = MemoryQueue(clock)
        self._interrupter = Interrupter(clock, log, self.queue, self._lose)

    @property
    def provider(self) -> Provider:
        """What controllers see of it."""
        return self

    async def start(self) -> None:
        """There is nothing to be heard of first."""

    def parts(self) -> tuple[()]:
        """Nothing has to run beside it."""
        return ()

    def upkeep(self) -> tuple[()]:
        """It keeps nothing that grows old."""
        return ()

    def on_asked(self, callback: Callable[[str, Sequence[Instance]], object]) -> None:
        """Called with the claim's name and all instances that there are when a launch is asked for."""
        self._asked.append(callback)

    def on_started(self, callback: Callable[[Instance, NodeClaim], None]) -> None:
        """Called right after an instance came into being, before `create` returns."""
        self._started.append(callback)

    def on_terminated(self, callback: Callable[[Instance], None]) -> None:
        """Called once an instance is gone."""
        self._terminated.append(callback)

    def instance_types(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        """See the port. Offerings that refused a launch within the last three minutes are unavailable."""
        return self._view.types(node_class, self._unavailable.active(self._clock.now()))

    def volume_price(self, node_class: EC2NodeClass | None) -> int:
        """See the port."""
        try:
            return catalog.volume_price(self._region, node_class) if self._sells_volumes else 0
        except InputError:
            # Such a class has no types either.
            return 0

    async def resolve(self, node_class: EC2NodeClass) -> NodeClassResolution:
        """See the port."""
        faults = tuple((fault.reason, fault.message) for fault in self._validator.faults(node_class))
        return replace(resolve(node_class, self._account, self._addresses), faults=faults)

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Instance:
        """See the port."""
        check_ready(node_class)
        name = claim.metadata.name
        for tell in self._asked:
            tell(name, [machine.instance for machine in self._machines.values()])
        self._launches[name] += 1
        call = f"{name}/{self._launches[name]}"
        request = Request(Requirements.read(claim.spec.requirements), amounts(claim.spec.resources.requests))
        try:
            found = choose(self.instance_types(node_class), request).candidates()
        except InsufficientCapacity as error:
            self._failed(name, NO_CAPACITY, str(error))
            raise
        await self._clock.sleep(self._delays.launch.draw(self._seed, call, "launch delay"))
        resolution = resolve(node_class, self._account, self._addresses)
        found = reachable(found, resolution)
        chosen, subnet = self._allocate(found, call, name, resolution)
        instance = self._instance(chosen, call, claim, resolution)
        volumes, stamp = self.volume_price(node_class), class_stamp(node_class)
        instance = replace(instance, price=instance.price + volumes, volumes=volumes, annotations=stamp)
        groups = frozenset(group.id for group in resolution.security_groups)
        made = Made(instance.image_id, subnet, groups)
        self._machines[instance.provider_id] = _Machine(instance, claim, made, chosen.pool)
        self._pools.take(chosen.pool)
        self._addresses[subnet] += 1
        self._log.record(
            "instance.started",
            instance=instance.provider_id,
            claim=name,
            instanceType=instance.instance_type,
            zone=instance.zone,
            capacityType=instance.capacity_type,
            price=instance.price,
            volumes=instance.volumes,
            estimated=chosen.offering.estimated,
        )
        for callback in self._started:
            callback(instance, claim)
        return instance

    async def delete(self, provider_id: str) -> None:
        """See the port. The bill runs until the instance is gone."""
        machine = self._machine(provider_id)
        if machine.ending is None:
            machine.instance = replace(machine.instance, terminating=True)
            machine.ending = asyncio.get_running_loop().create_task(
                self._end(machine), name=f"cloud: terminate {provider_id}"
            )

    async def get(self, provider_id: str) -> Instance:
        """See the port."""
        return self._machine(provider_id).instance

    async def list(self) -> Sequence[Instance]:
        """See the port; in order of launch."""
        return [machine.instance for machine in self._machines.values()]

    async def drifted(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """See the port."""
        machine = self._machine(claim.status.provider_id)
        now = resolve(node_class, self._account, self._addresses)
        kind = _by_name(self.instance_types(node_class)).get(machine.instance.instance_type)
        image = image_for(kind, now.images) if kind is not None else ""
        return drift(claim, node_class, machine.made, now, image)

    async def impairments(self) -> Sequence[Impairment]:
        """See the port."""
        return [one.impairment for one in self._machines.values() if one.impairment is not None]

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """See the port."""
        machine = self._machines.get(claim.status.provider_id)
        if machine is not None:
            self._unavailable.mark([machine.pool], self._clock.now())

    def interrupt(self, provider_id: str, kind: InterruptionKind) -> None:
        """Something happens to the instance: a message comes through the queue, and then what it says."""
        self._interrupter.interrupt(provider_id, kind)

    def impair(self, provider_id: str, category: str) -> None:
        """From now on a status check of the instance fails, or an event is announced for it."""
        machine = self._machine(provider_id)
        machine.impairment = Impairment(provider_id, category, self._clock.now())

    def _lose(self, provider_id: str) -> None:
        """The instance is gone from one moment to the next."""
        machine = self._machines.get(provider_id)
        if machine is not None:
            if machine.ending is not None:
                machine.ending.cancel()
            self._gone(machine)

    def _machine(self, provider_id: str) -> _Machine:
        machine = self._machines.get(provider_id)
        if machine is None:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return machine

    async def _end(self, machine: _Machine) -> None:
        provider_id = machine.instance.provider_id
        await self._clock.sleep(self._delays.terminate.draw(self._seed, provider_id, "termination delay"))
        self._gone(machine)

    def _gone(self, machine: _Machine) -> None:
        provider_id = machine.instance.provider_id
        del self._machines[provider_id]
        self._pools.give_back(machine.pool)
        self._addresses[machine.made.subnet] -= 1
        self._log.record("instance.terminated", instance=provider_id)
        for callback in self._terminated:
            callback(machine.instance)

    def _allocate(
        self, found: tuple[Candidate, ...], call: str, claim: str, resolution: NodeClassResolution
    ) -> tuple[Candidate, str]:
        """The first offering that gives an instance, and its subnet; those that refuse are avoided for now.

        Raises InsufficientCapacity when all refuse.
        """
        now = self._clock.now()
        refused: dict[Pool, str] = {}
        try:
            for candidate in attempts(found, self._seed, call, lambda pool: self._pools.room(pool, now)):
                subnet = self._subnet(candidate.offering.zone, resolution)
                if not subnet:
                    refused[candidate.pool] = NO_ADDRESS
                elif self._pools.room(candidate.pool, now) == 0:
                    refused[candidate.pool] = NO_CAPACITY
                else:
                    return candidate, subnet
        finally:
            self._unavailable.mark(refused, now)
        reason = next(iter(refused.values()))
        message = fleet_errors(refused)
        self._failed(claim, reason, message)
        raise InsufficientCapacity(message)

    def _subnet(self, zone: str, resolution: NodeClassResolution) -> str:
        """The class's subnet of the zone with the most free addresses; '' when none has one."""
        free = {
            subnet.id: subnet.free_addresses - self._addresses[subnet.id] for subnet in self._account.subnets
        }
        # The resolution is sorted by free addresses already.
        return next((one.id for one in resolution.subnets if one.zone == zone and free[one.id] > 0), "")

    def _instance(
        self, chosen: Candidate, call: str, claim: NodeClaim, resolution: NodeClassResolution
    ) -> Instance:
        kind, offering = chosen.instance_type, chosen.offering
        digits = stream(self._seed, call, "instance id").getrandbits(64)
        return Instance(
            provider_id=f"aws:///{offering.zone}/i-0{digits:016x}",
            instance_type=kind.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price=offering.price,
            image_id=image_for(kind, resolution.images),
            created=self._clock.now(),
            claim=claim.metadata.name,
            reservation_id=offering.reservation_id,
            labels={
                **single_values(kind.requirements),
                **single_values(offering.requirements),
                labels.REGION: self._region,
            },
            capacity=kind.capacity,
            allocatable=kind.allocatable(),
        )

    def _failed(self, claim: str, reason: str, message: str) -> None:
        self._log.record("instance.launchFailed", claim=claim, reason=reason, message=message)

    def _catalogued(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        if node_class is None:
            return catalog.instance_types(self._region)
        subnets = resolve(node_class, self._account, {}).subnets
        zones = {subnet.zone: subnet.zone_id for subnet in subnets}
        return catalog.instance_types(self._region, node_class, zones=zones)
