"""Instances of a simulated cloud: launched after a while, billed, terminated after a while.

A launch is refused where there is no capacity; a machine that is taken away is announced in a queue first, as
the real cloud does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import is_

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import CreateFailed, InputError, InstanceNotFound, InsufficientCapacity
from dovetail.base.eventlog import EventLog
from dovetail.base.memo import by_identity
from dovetail.base.streams import stream
from dovetail.cloud import catalog, eventbridge
from dovetail.cloud.aws.nodeclass.drift import Made, class_stamp, drift
from dovetail.cloud.aws.nodeclass.validation import Validator
from dovetail.cloud.catalog.labels import TENANCY, tenancy
from dovetail.cloud.choice import Candidate, Pool, Request, SpotRange, by_price_and_depth, choose
from dovetail.cloud.inert import EndlessSupply, NoSelectors, PlainMachines
from dovetail.cloud.inmemory import Delay, InstanceEvents, Limit, MemoryQueue, Uniform
from dovetail.cloud.interruption import ENDS_AFTER, Impairment, InterruptionKind, instance_id
from dovetail.cloud.provider import (
    Instance,
    Machines,
    NodeClasses,
    NodeClassResolution,
    Overlay,
    Provider,
    Supply,
    as_sold,
    check_ready,
)
from dovetail.cloud.repair import EKS_POLICIES, EKS_REBOOT_POLICIES
from dovetail.cloud.simulated.account import Account, image_for, resolve
from dovetail.cloud.unavailable import UnavailableOfferings, single_values, without
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.repair import RepairPolicies
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts


@dataclass(frozen=True, slots=True)
class Delays:
    """How long calls take to have their effect."""

    launch: Delay = field(default_factory=lambda: Uniform(3 * SECOND // 2, 4 * SECOND))
    terminate: Delay = field(default_factory=lambda: Uniform(25 * SECOND, 60 * SECOND))


class Pools:
    """Instances per pool against the limits. Without a limit a pool never runs dry."""

    def __init__(self, limits: Iterable[Limit] = ()) -> None:
        self._limits = tuple(limits)
        self._running: Counter[Pool] = Counter()

    def room(self, pool: Pool, now: int) -> int | None:
        """How many more instances the pool gives; None for any number."""
        tightest = min((one.capacity for one in self._limits if one.concerns(pool, now)), default=None)
        return None if tightest is None else max(0, tightest - self._running[pool])

    def take(self, pool: Pool) -> None:
        """One more instance runs in the pool."""
        self._running[pool] += 1

    def give_back(self, pool: Pool) -> None:
        """One instance fewer runs in the pool."""
        self._running[pool] -= 1


_SHOWN = 5


def reachable(found: tuple[Candidate, ...], resolution: NodeClassResolution) -> tuple[Candidate, ...]:
    """The candidates in zones where the class has a subnet; raises CreateFailed without any."""
    zones = {subnet.zone for subnet in resolution.subnets}
    kept = tuple(candidate for candidate in found if candidate.offering.zone in zones)
    if not kept:
        wanted = ", ".join(sorted({candidate.offering.zone for candidate in found}))
        raise CreateFailed(f"the node class has no subnet in {wanted}", reason="SubnetResolutionFailed")
    return kept


def fleet_errors(refused: Mapping[Pool, str]) -> str:
    """What the pools that refused had to say."""
    shown = [f"{reason}: {kind} in {zone} ({how})" for (how, kind, zone), reason in refused.items()]
    rest = len(shown) - _SHOWN
    more = f"; and {rest} more" if rest > 0 else ""
    return f"with fleet error(s), {'; '.join(shown[:_SHOWN])}{more}"


# What a class could have if nothing were short. May raise InputError for a class that cannot be read.
Source = Callable[[EC2NodeClass | None], tuple[InstanceType, ...]]


@dataclass(slots=True)
class _Known:
    spec: EC2NodeClassSpec | None
    base: tuple[InstanceType, ...]
    avoided: frozenset[Pool]
    types: tuple[InstanceType, ...]


class TypeView:
    """Answers the same tuple as long as neither the class nor the avoided pools changed.

    Types whose offerings are untouched stay the same objects even then.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[str, _Known] = {}

    def types(self, node_class: EC2NodeClass | None, avoided: frozenset[Pool]) -> tuple[InstanceType, ...]:
        """The class's types, with `avoided` offerings unavailable; none for a class that cannot be read."""
        name = node_class.metadata.name if node_class else ""
        spec = node_class.spec if node_class else None
        known = self._known.get(name)
        if known is None or known.spec != spec:
            base = self._read(node_class)
            known = _Known(spec, base, frozenset(), base)
            self._known[name] = known
        if known.avoided != avoided:
            known.avoided = avoided
            known.types = without(known.base, avoided)
        return known.types

    def _read(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        try:
            return self._source(node_class)
        except InputError:
            # The class's own conditions say what is wrong with it; it has no types until then.
            return ()


def only(source: Source, names: Collection[str]) -> Source:
    """The source with the types of these names alone; with all of its types if none is named."""
    if not names:
        return source
    return lambda node_class: tuple(item for item in source(node_class) if item.name in names)


def attempts(
    found: Iterable[Candidate], seed: int, claim: str, room: Callable[[Pool], int | None]
) -> Iterator[Candidate]:
    """The order in which offerings are tried.

    On-demand and reserved: the lowest price; zones of one price in an order drawn per claim. Spot: price and
    capacity together, see `_by_price_and_depth`.
    """
    left = list(found)
    if left and left[0].offering.capacity_type == labels.SPOT:
        yield from _by_price_and_depth(left, seed, room)
        return
    zones = sorted({candidate.offering.zone for candidate in left})
    stream(seed, claim, "zone order").shuffle(zones)
    yield from sorted(
        left, key=lambda one: (one.offering.price, one.instance_type.name, zones.index(one.offering.zone))
    )


def depth(seed: int, pool: Pool) -> int:
    """How deep a spot pool is, 1 to 100: drawn once per type and zone, the same for a whole simulation."""
    _, instance_type, zone = pool
    return stream(seed, f"{instance_type}/{zone}", "spot depth").randint(1, 100)


def _by_price_and_depth(
    left: list[Candidate], seed: int, room: Callable[[Pool], int | None]
) -> Iterator[Candidate]:
    """The first by price and depth, then again without it. A limited pool is no deeper than what is left."""
    depths = {}
    for candidate in left:
        free = room(candidate.pool)
        drawn = depth(seed, candidate.pool)
        depths[candidate.pool] = drawn if free is None else min(drawn, free)
    while left:
        order = by_price_and_depth({candidate.pool: depths[candidate.pool] for candidate in left})
        ranks = [order(candidate.pool, candidate.offering.price) for candidate in left]
        choice = left[ranks.index(min(ranks))]
        left.remove(choice)
        yield choice


class Interrupter:
    """Interrupts instances: warns, and ends those that the cloud really takes.

    `lose` gets the provider id of an instance that is gone from now on. Without a queue nothing is announced.
    """

    def __init__(
        self, clock: Clock, log: EventLog, queue: MemoryQueue | None, lose: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._log = log
        self._queue = queue
        self._lose = lose
        self._ends: set[asyncio.Task[None]] = set()

    def interrupt(self, provider_id: str, kind: InterruptionKind) -> None:
        """It happens now."""
        now = self._clock.now()
        self._log.record("instance.interrupted", instance=provider_id, kind=str(kind))
        if self._queue is not None:
            self._queue.send(eventbridge.write(kind, instance_id(provider_id), now))
        after = ENDS_AFTER.get(kind)
        if after:
            task = asyncio.get_running_loop().create_task(
                self._end(provider_id, after), name=f"cloud: take {provider_id} away"
            )
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)
        elif after is not None:
            self._lose(provider_id)

    async def _end(self, provider_id: str, after: int) -> None:
        await self._clock.sleep(after)
        self._lose(provider_id)


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
    # What its drift was worked out from last, and what that was.
    drift: tuple[tuple[object, ...], str] = ((), "")


class _Classes(NoSelectors):
    """Implements NodeClasses; `taken` counts addresses in use per subnet id."""

    def __init__(self, account: Account, taken: Mapping[str, int]) -> None:
        self._account = account
        self._taken = taken
        self._validator = Validator()

    async def resolve(self, node_class: EC2NodeClass) -> NodeClassResolution:
        faults = tuple((fault.reason, fault.message) for fault in self._validator.faults(node_class))
        return replace(resolve(node_class, self._account, self._taken), faults=faults)


class _Supply(EndlessSupply):
    """Implements Supply."""

    def __init__(
        self, machines: Mapping[str, _Machine], unavailable: UnavailableOfferings, clock: Clock
    ) -> None:
        self._machines = machines
        self._unavailable = unavailable
        self._clock = clock

    def out_of_capacity(self, claim: NodeClaim) -> None:
        machine = self._machines.get(claim.status.provider_id)
        if machine is not None:
            self._unavailable.mark([machine.pool], self._clock.now())


class _Machines(PlainMachines):
    """Implements Machines."""

    def __init__(self, machines: Mapping[str, _Machine], log: EventLog) -> None:
        self._machines = machines
        self._log = log
        self.on_rebooted: list[Callable[[str], None]] = []

    async def impairments(self) -> Sequence[Impairment]:
        return [one.impairment for one in self._machines.values() if one.impairment is not None]

    async def reboot(self, provider_id: str, operation: str) -> None:  # noqa: ARG002 - the time tells them apart
        machine = self._machines.get(provider_id)
        if machine is None or machine.ending is not None:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        self._log.record("instance.rebooted", instance=provider_id)
        for callback in self.on_rebooted:
            callback(provider_id)


class SimulatedCloud(InstanceEvents):
    """Implements `cloud.provider.Provider` in the time of the clock it is given.

    `types` replaces the catalogue (then node classes do not shape the types, and volumes are free); `sold`
    names the only types of the catalogue that there are; `spot` says which spot offerings launches try first,
    None for all; `reboots`: nodes that a reboot may mend are rebooted instead of replaced. Every draw is
    keyed by the claim or the instance it is for, so that one launch never shifts another's luck.
    """

    node_class_kinds: tuple[tuple[str, str], ...] = (
        (EC2NodeClass.API_VERSION.partition("/")[0], EC2NodeClass.KIND),
    )

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
        spot: SpotRange | None = None,
        reboots: bool = False,
    ) -> None:
        super().__init__()
        self.repair_policies: RepairPolicies = EKS_REBOOT_POLICIES if reboots else EKS_POLICIES
        self._clock = clock
        self._seed = seed
        self._log = log
        self._region = region
        self._account = account or Account.usual(region, "demo")
        self._delays = delays or Delays()
        self._spot = spot
        self._pools = Pools(limits)
        self._unavailable = UnavailableOfferings()
        self._view = TypeView(only(self._catalogued, sold) if types is None else lambda _: types)
        self._sells_volumes = types is None
        self._machines: dict[str, _Machine] = {}  # by provider id, in order of launch
        self._launches: Counter[str] = Counter()  # calls per claim: a second call is another instance
        self._addresses: Counter[str] = Counter()  # in use, per subnet id
        self.queue = MemoryQueue(clock)
        self._interrupter = Interrupter(clock, log, self.queue, self._lose)
        self.classes: NodeClasses = _Classes(self._account, self._addresses)
        self.supply: Supply = _Supply(self._machines, self._unavailable, clock)
        rebooting = _Machines(self._machines, log)
        self.machines: Machines = rebooting
        self._rebooted = rebooting.on_rebooted

    @property
    def provider(self) -> Provider:
        """What controllers see of it."""
        return self

    async def start(self) -> None:
        """There is nothing to fetch first."""

    def parts(self) -> tuple[()]:
        """Nothing has to run beside it."""
        return ()

    def upkeep(self) -> tuple[()]:
        """It keeps nothing that grows old."""
        return ()

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

    async def create(
        self, claim: NodeClaim, node_class: EC2NodeClass, overlay: Overlay = as_sold
    ) -> Instance:
        """See the port."""
        check_ready(node_class)
        name = claim.metadata.name
        for observe in self._asked:
            observe(name, [machine.instance for machine in self._machines.values()])
        self._launches[name] += 1
        call = f"{name}/{self._launches[name]}"
        request = Request(Requirements.read(claim.spec.requirements), amounts(claim.spec.resources.requests))
        types = overlay(self.instance_types(node_class))
        try:
            choice = choose(types, request, self._spot)
        except InsufficientCapacity as error:
            self._failed(name, NO_CAPACITY, str(error))
            raise
        await self._clock.sleep(self._delays.launch.draw(self._seed, call, "launch delay"))
        resolution = resolve(node_class, self._account, self._addresses)
        found = reachable(choice.candidates(), resolution)

        def beyond() -> tuple[Candidate, ...]:
            if not choice.shortened:
                return ()
            tried = {one.pool for one in found}
            every = reachable(choose(types, request).candidates(), resolution)
            return tuple(one for one in every if one.pool not in tried)

        chosen, subnet = self._allocate((lambda: found, beyond), call, name, resolution)
        instance = self._instance(chosen, call, claim, resolution)
        instance = replace(instance, price=chosen.offering.asked)
        instance = self._begin(instance, claim, node_class, chosen, subnet, resolution)
        for callback in self._started:
            callback(instance, claim)
        return instance

    def adopt(self, claim: NodeClaim, node_class: EC2NodeClass, since: int) -> Instance:
        """An instance of the claim's one offering that has run since then, before all that is played.

        Nothing is asked for, so nothing takes time or is short. Raises CloudError where it is not sold.
        """
        resolution = resolve(node_class, self._account, self._addresses)
        wanted = Request(Requirements.read(claim.spec.requirements), {})
        (chosen, *_) = reachable(choose(self.instance_types(node_class), wanted).candidates(), resolution)
        subnet = next(one.id for one in resolution.subnets if one.zone == chosen.offering.zone)
        name = claim.metadata.name
        instance = replace(self._instance(chosen, f"{name}/0", claim, resolution), created=since)
        return self._begin(instance, claim, node_class, chosen, subnet, resolution, since=since)

    def _begin(
        self,
        instance: Instance,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        chosen: Candidate,
        subnet: str,
        resolution: NodeClassResolution,
        **more: int,
    ) -> Instance:
        """It runs and is billed from now on; the instance with its price."""
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
            claim=claim.metadata.name,
            instanceType=instance.instance_type,
            zone=instance.zone,
            capacityType=instance.capacity_type,
            price=instance.price,
            volumes=instance.volumes,
            estimated=chosen.offering.estimated,
            **more,
        )
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
        return self._drift(self._machine(claim.status.provider_id), claim, node_class)

    def known_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str | None:
        """See the port; of an instance that is gone `drifted` says so."""
        machine = self._machines.get(claim.status.provider_id)
        return self._drift(machine, claim, node_class) if machine is not None else None

    def _drift(self, machine: _Machine, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        types = self.instance_types(node_class)
        subject = claim, node_class, types
        if not (machine.drift[0] and all(map(is_, machine.drift[0], subject))):
            now = resolve(node_class, self._account, self._addresses)
            kind = _by_name(types).get(machine.instance.instance_type)
            image = image_for(kind, now.images) if kind is not None else ""
            machine.drift = subject, drift(claim, node_class, machine.made, now, image)
        return machine.drift[1]

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
        self,
        turns: Iterable[Callable[[], tuple[Candidate, ...]]],
        call: str,
        claim: str,
        resolution: NodeClassResolution,
    ) -> tuple[Candidate, str]:
        """The first offering that gives an instance, and its subnet; those that refuse are avoided for now.

        Each turn's are asked for if those of all before refuse. Raises InsufficientCapacity when all do.
        """
        now = self._clock.now()
        refused: dict[Pool, str] = {}
        try:
            order = (
                attempts(turn(), self._seed, call, lambda pool: self._pools.room(pool, now)) for turn in turns
            )
            for candidate in chain.from_iterable(order):
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
                TENANCY: tenancy(Requirements.read(claim.spec.requirements)),
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
