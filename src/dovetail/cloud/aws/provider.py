"""The provider for AWS, on the AWS port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE, Clock
from dovetail.base.errors import CreateFailed, InputError, InstanceNotFound, InsufficientCapacity
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metrics
from dovetail.cloud import catalog
from dovetail.cloud.aws.api import Aws, Ec2
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.instance.fleet import Fleets
from dovetail.cloud.aws.instance.instances import FRESH, Instances, provider_id
from dovetail.cloud.aws.instance.launcher import Launcher, Order
from dovetail.cloud.aws.instance.orphans import Orphans
from dovetail.cloud.aws.instance.reading import Reader, Terms, made
from dovetail.cloud.aws.instancetype.market import Market, NodeOptions, Wanted
from dovetail.cloud.aws.launchtemplate.store import KeptTemplates
from dovetail.cloud.aws.launchtemplate.template import image_on
from dovetail.cloud.aws.metrics import Figures
from dovetail.cloud.aws.nodeclass import resolver
from dovetail.cloud.aws.nodeclass.drift import Made, drift
from dovetail.cloud.aws.nodeclass.resolver import ClassResolver, Resolved, Surroundings
from dovetail.cloud.aws.quota.shared import Commons
from dovetail.cloud.aws.subnet import SubnetBook
from dovetail.cloud.aws.zonalshift import Shifts
from dovetail.cloud.choice import SpotRange
from dovetail.cloud.interruption import Impairment, instance_id
from dovetail.cloud.provider import (
    Instance,
    Machines,
    NodeClasses,
    NodeClassResolution,
    Overlay,
    Supply,
    as_sold,
    check_ready,
)
from dovetail.cloud.repair import EKS_POLICIES, EKS_REBOOT_POLICIES
from dovetail.cloud.unavailable import UnavailableOfferings
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.repair import RepairPolicies

PRICES = 12 * HOUR
SWEEP = 10 * MINUTE
# How long EC2 may fail to show an instance that it has just launched.
_APPEARS = MINUTE
_GROUP = EC2NodeClass.API_VERSION.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the controller that the provider heeds."""

    cluster: str
    node: NodeOptions = field(default_factory=NodeOptions)
    isolated_vpc: bool = False
    reserved_capacity: bool = True
    spot: SpotRange | None = None  # which spot offerings a launch tries first; None for all
    zonal_shift: bool = False
    reboots: bool = False  # nodes that a reboot may mend are rebooted, not replaced
    classes: resolver.Options = field(default_factory=resolver.Options)


class AwsCloud:
    """Implements `cloud.provider.Provider`. `start` it before the first call; `run` keeps it fresh."""

    node_class_kinds: tuple[tuple[str, str], ...] = ((_GROUP, EC2NodeClass.KIND),)

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        log: EventLog,
        surroundings: Callable[[Market], Awaitable[Surroundings]],
        options: Options,
        metrics: Metrics | None = None,
    ) -> None:
        self._aws = aws
        self._clock = clock
        self._log = log
        self._options = options
        self.repair_policies: RepairPolicies = EKS_REBOOT_POLICIES if options.reboots else EKS_POLICIES
        self._market = Market(aws, clock, options.node)
        self._around = surroundings
        self._resolver = ClassResolver(aws, clock, self.surroundings, options.classes)
        self._shifts = Shifts(aws, options.cluster)
        figures = Figures(metrics, lambda: self._market.sold.zone_ids)
        self._instances = Instances(
            aws.ec2, clock, options.cluster, figures, lambda: self._shifts.zones(self._market.sold)
        )
        self._unavailable = UnavailableOfferings()
        self._kept = KeptTemplates(aws.ec2, clock, options.cluster)
        book = SubnetBook(aws.ec2, clock)
        self._commons = Commons(aws, clock, book, lambda: self._market.sold)
        self._orphans = Orphans(aws.ec2, self._instances, clock, options.cluster)
        self._launcher = Launcher(
            Fleets(aws.ec2, clock, figures),
            self._orphans,
            self._kept,
            book,
            self._unavailable,
            lambda: self._market.sold,
            clock=clock,
            log=log,
            figures=figures,
            reserved_capacity=options.reserved_capacity,
            spot=options.spot,
        )
        self._resolved = Resolved(clock)
        self.classes: NodeClasses = _Classes(
            self._resolver,
            self._resolved,
            self._commons,
            self.surroundings,
            (self._market.forget, self._launcher.forget),
        )
        self.supply: Supply = _Supply(
            self._commons, self._shifts, self._market, self._unavailable, self._launcher, clock
        )
        self.machines: Machines = _Machines(self._instances, self._orphans, aws.ec2)
        self._launched: dict[str, Instance] = {}  # by id: this process's own, until they show their tags
        self._appears: dict[str, int] = {}  # of these, until when EC2 may not show them, by monotonic time

    async def start(self) -> None:
        """Fetch types and prices once; what cannot be fetched is taken from the packaged catalogue."""
        await self._market.refresh(self._failed, prices_on_demand=not self._options.isolated_vpc)
        await self._commons.refresh(self._failed)

    async def run(self) -> None:
        """Hear of prices, quotas, addresses and shifted zones, take unused templates away, for ever.

        What AWS did not answer of types and prices is asked for again ten minutes later.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_fresh(), name="aws: prices and launch templates")
            tasks.create_task(self._commons.run(self._failed), name="aws: quotas and addresses")
            if self._options.zonal_shift:
                tasks.create_task(self._shifts.run(self._clock, self._failed), name="aws: zonal shifts")

    async def _keep_fresh(self) -> None:
        fetched_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(SWEEP)
            try:
                await self._kept.sweep()
            except AwsError as error:
                self._failed(error)
            if self._clock.monotonic() - fetched_at >= PRICES:
                fetched_at = self._clock.monotonic()
                await self.start()
            else:
                await self._market.retry(self._failed)

    async def surroundings(self) -> Surroundings:
        """The cluster that nodes join. Raises AwsError, ApiError."""
        return await self._around(self._market)

    def instance_types(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        """See the port. Offerings that refused a launch a short while ago are unavailable."""
        avoided = self._unavailable.active(self._clock.monotonic()) | self._shifts.pools(self._market.sold)
        if node_class is None:
            return self._market.types(Wanted(None), avoided)
        found = self._resolved.last(node_class.metadata.name)
        return self._market.types_of(node_class, found, self._commons.drawn(node_class), avoided)

    def volume_price(self, node_class: EC2NodeClass | None) -> int:
        """See the port."""
        try:
            return catalog.volume_price(self._aws.region, node_class)
        except InputError:
            return 0  # such a class has no types either

    async def create(
        self, claim: NodeClaim, node_class: EC2NodeClass, overlay: Overlay = as_sold
    ) -> Instance:
        """See the port."""
        check_ready(node_class)
        try:
            resolution = await self.classes.resolve(node_class)
            stage = (await self.surroundings()).stage
            types = self._commons.reachable(overlay(self.instance_types(node_class)), claim)
            order = Order(claim, node_class, resolution, stage, types, self._commons.each(node_class))
            launched = await self._launcher.launch(order)
        except AwsError as error:
            self._not_launched(claim, error.code, str(error))
            raise CreateFailed(str(error), error.code) from error
        except InsufficientCapacity as error:
            self._not_launched(claim, "InsufficientCapacity", str(error))
            raise
        launched = replace(launched, offering=replace(launched.offering, price=launched.offering.asked))
        instance = made(launched, claim, node_class, self._aws.region, self.volume_price(node_class))
        instance = replace(instance, created=self._clock.now())
        self._launched[launched.id] = instance
        self._appears[launched.id] = self._clock.monotonic() + _APPEARS
        self._commons.launched(launched.id, launched.kind.name, launched.offering)
        self._log.record(
            "instance.started",
            instance=instance.provider_id,
            claim=instance.claim,
            instanceType=instance.instance_type,
            zone=instance.zone,
            capacityType=instance.capacity_type,
            price=instance.price,
            volumes=instance.volumes,
            estimated=launched.offering.estimated,
        )
        return instance

    async def delete(self, provider_id: str) -> None:
        """See the port."""
        if await self._instances.end(instance_id(provider_id)):
            self._commons.ended()

    async def get(self, provider_id: str) -> Instance:
        """See the port."""
        identifier = instance_id(provider_id)
        found = await self._instances.find(identifier)
        if found is not None:
            return self._reader().read(found)
        fresh = self._fresh(identifier)
        if fresh is None:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return fresh

    async def list(self) -> Sequence[Instance]:
        """See the port; those that were launched just now and do not show yet are among them."""
        found = await self._instances.all()
        there = {item.id for item in found}
        late = {key: one for key in self._launched if key not in there and (one := self._fresh(key))}
        self._launched = {key: one for key, one in self._launched.items() if key in there or key in late}
        self._appears = {key: self._appears[key] for key in self._launched}
        return [*map(self._reader().read, found), *late.values()]

    async def drifted(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """See the port."""
        found = await self._instances.find(instance_id(claim.status.provider_id), fresh=FRESH)
        if found is None:
            raise InstanceNotFound(f"there is no instance {claim.status.provider_id}")
        now = self._resolved.recent(node_class) or await self.classes.resolve(node_class)
        kind = self._kind(found.instance_type, node_class)
        image = image_on(kind, now.images) if kind is not None else None
        was = Made(found.image, found.subnet, found.security_groups, found.reservation, found.placement_group)
        return drift(claim, node_class, was, now, image.id if image else "")

    def known_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str | None:  # noqa: ARG002 - of none
        """See the port."""
        return None

    def _fresh(self, identifier: str) -> Instance | None:
        """One that this process launched just now: EC2 may not show it yet."""
        own = self._launched.get(identifier)
        return own if own is not None and self._clock.monotonic() < self._appears[identifier] else None

    def _reader(self) -> Reader:
        def terms(class_name: str, instance_type: str) -> Terms:
            node_class = self._resolved.node_class(class_name)
            return Terms(node_class, self._kind(instance_type, node_class), self.volume_price(node_class))

        return Reader(self._aws.region, self._launched, terms)

    def _kind(self, name: str, node_class: EC2NodeClass | None) -> InstanceType | None:
        return self._market.named(self.instance_types(node_class)).get(name)

    def _not_launched(self, claim: NodeClaim, reason: str, message: str) -> None:
        self._log.record("instance.launchFailed", claim=claim.metadata.name, reason=reason, message=message)

    def _failed(self, error: AwsError) -> None:
        self._log.record("reconcile.failed", controller="aws", key=error.action, message=str(error))


class _Classes:
    """Implements NodeClasses."""

    def __init__(
        self,
        resolver: ClassResolver,
        resolved: Resolved,
        commons: Commons,
        surroundings: Callable[[], Awaitable[Surroundings]],
        others: tuple[Callable[[str], None], ...],
    ) -> None:
        """`others` forget classes, by name, as well."""
        self._resolver = resolver
        self._resolved = resolved
        self._commons = commons
        self._surroundings = surroundings
        self._others = others

    async def resolve(self, node_class: EC2NodeClass) -> NodeClassResolution:
        found = await self._resolver.resolve(node_class)
        self._resolved.note(node_class, found)
        self._commons.resolved(node_class, found, (await self._surroundings()).stage)
        return found

    async def release(self, node_class: EC2NodeClass) -> None:
        await self._resolver.release(node_class)

    def forget(self, node_class: str) -> None:
        for forget in (self._resolver.forget, self._resolved.forget, self._commons.forget, *self._others):
            forget(node_class)

    async def tidy(self, in_use: frozenset[str]) -> None:
        await self._resolver.tidy(in_use)


class _Supply:
    """Implements Supply: vCPUs of quotas, addresses of subnets, zonal shifts, memory that machines had."""

    def __init__(
        self,
        commons: Commons,
        shifts: Shifts,
        market: Market,
        unavailable: UnavailableOfferings,
        launcher: Launcher,
        clock: Clock,
    ) -> None:
        self._commons = commons
        self._shifts = shifts
        self._market = market
        self._unavailable = unavailable
        self._launcher = launcher
        self._clock = clock

    def left(self) -> Mapping[str, int]:
        return self._commons.left()

    def shifted_zones(self) -> Mapping[str, str]:
        return self._shifts.zones(self._market.sold)

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        self._market.seen.note(instance_type, image, memory)

    def out_of_capacity(self, claim: NodeClaim) -> None:
        found = claim.metadata.labels
        kind, name, zone = (
            found.get(key, "") for key in (labels.CAPACITY_TYPE, labels.INSTANCE_TYPE, labels.ZONE)
        )
        place = found.get(labels.RESERVATION_ID, zone)
        self._unavailable.mark([(kind, name, place)], self._clock.monotonic())

    def lacks_spot_role(self, claim: NodeClaim) -> bool:
        return self._launcher.lacks_spot_role(claim)


class _Machines:
    """Implements Machines."""

    def __init__(self, instances: Instances, orphans: Orphans, ec2: Ec2) -> None:
        self._instances = instances
        self._orphans = orphans
        self._ec2 = ec2

    async def recover_orphans(self, owned: Callable[[], Collection[str]]) -> None:
        await self._orphans.look(owned)

    def orphans(self) -> Collection[str]:
        return self._orphans.waiting()

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        return await self._instances.mark(claim, node)

    async def impairments(self) -> Sequence[Impairment]:
        return [
            Impairment(provider_id(check.zone, check.instance), check.category, check.since)
            for check in await self._ec2.describe_instance_status()
        ]

    async def reboot(self, provider_id: str, operation: str) -> None:  # noqa: ARG002 - EC2 has no token for it
        await self._instances.reboot(instance_id(provider_id))
