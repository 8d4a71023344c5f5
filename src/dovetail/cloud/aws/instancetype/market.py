"""What the region sells at which price, as AWS says; as packaged until it has, and where it does not.

`wanted` says, of what a class resolves to, which types are asked for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import is_

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from dovetail.base.clock import Clock
from dovetail.base.errors import InputError
from dovetail.cloud import catalog
from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instance.request import RESERVED_SHARE
from dovetail.cloud.aws.instancetype.discovered import SeenMemory
from dovetail.cloud.aws.pricing import latest
from dovetail.cloud.aws.quota.quotas import Addresses, drawing
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.devices import SHARING, devices
from dovetail.cloud.catalog.offerings import with_given_spot_prices, with_spot_prices
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.choice import Pool
from dovetail.cloud.provider import NodeClassResolution, ResolvedImage, ResolvedPlacementGroup
from dovetail.cloud.unavailable import without
from dovetail.model import labels
from dovetail.model.devices import NO_DEVICES
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirement, Requirements

_TYPE = labels.AWS + "capacity-reservation-type"
_INTERRUPTIBLE = labels.AWS + "capacity-reservation-interruptible"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A capacity reservation that a class selects."""

    id: str
    instance_type: str
    zone: str
    zone_id: str
    kind: str  # default or capacity-block
    left: int  # instances that may still start in it
    interruptible: bool = False


def with_reservations(item: InstanceType, reservations: Iterable[Reservation]) -> InstanceType:
    """The type with an offering more per reservation of it, and with the labels that those may give."""
    own = [one for one in reservations if one.instance_type == item.name]
    if not own:
        return item
    price = max((one.price for one in item.offerings if one.capacity_type == labels.ON_DEMAND), default=0)
    offerings = tuple(_offering(one, price // RESERVED_SHARE) for one in own)
    values = {
        labels.CAPACITY_TYPE: (*item.requirements.get(labels.CAPACITY_TYPE).values, labels.RESERVED),
        labels.RESERVATION_ID: tuple(one.id for one in own),
        _TYPE: tuple({one.kind: None for one in own}),
        _INTERRUPTIBLE: tuple({_flag(one.interruptible): None for one in own}),
    }
    terms = {key: Requirement.new(key, "In", found) for key, found in values.items()}
    requirements = Requirements({**item.requirements.by_key, **terms})
    return replace(item, requirements=requirements, offerings=(*item.offerings, *offerings))


def _offering(one: Reservation, price: int) -> Offering:
    terms = {
        labels.ZONE: one.zone,
        labels.ZONE_ID: one.zone_id,
        labels.CAPACITY_TYPE: labels.RESERVED,
        labels.RESERVATION_ID: one.id,
        _TYPE: one.kind,
        _INTERRUPTIBLE: _flag(one.interruptible),
    }
    return Offering(
        zone=one.zone,
        capacity_type=labels.RESERVED,
        price=price,
        requirements=Requirements.from_labels(terms),
        reservation_id=one.id,
        reservation_capacity=one.left,
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"


Zones = tuple[tuple[str, str], ...]  # (name, id)


@dataclass(frozen=True, slots=True)
class Sold:
    """Everything at one moment. `spot` is None until spot prices have been fetched."""

    records: Mapping[str, TypeRecord] = field(default_factory=dict)
    zones: Mapping[str, frozenset[str]] = field(default_factory=dict)  # names, by type
    zone_ids: Mapping[str, str] = field(default_factory=dict)
    on_demand: Mapping[str, int] = field(default_factory=dict)
    estimates: frozenset[str] = frozenset()  # types whose price on demand is one
    spot: Mapping[tuple[str, str], int] | None = None


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What of a node's room and devices the controller's settings decide."""

    vm_memory_overhead_percent: float = 0.075
    reserved_enis: int = 0
    gpu_devices: bool = False  # types have GPUs that pods may claim
    efa_devices: bool = False  # and EFAs


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose types are asked for: a class, and what it resolves to. Zones None are all of the region."""

    node_class: EC2NodeClass | None
    zones: Zones | None = None
    reservations: tuple[Reservation, ...] = ()
    images: tuple[ResolvedImage, ...] = ()  # newest first
    addresses: tuple[Addresses, ...] = ()  # that a node takes, per zone
    placement: ResolvedPlacementGroup | None = None


@dataclass(slots=True)
class _Known:
    """The answer for a class, in steps: `made` of all but memory and refusals, `base` of all but refusals."""

    asked: Wanted  # last
    key: tuple[EC2NodeClassSpec | None, str, Wanted, Sold]
    made: tuple[InstanceType, ...]
    seen: int  # the version of the memory that `base` has
    base: tuple[InstanceType, ...]
    avoided: frozenset[Pool]
    types: tuple[InstanceType, ...]


class Market:
    """The types of a class stay the same objects until something about them changed."""

    def __init__(self, aws: Aws, clock: Clock, options: NodeOptions) -> None:
        self._aws = aws
        self._clock = clock
        self._options = options
        self._known: dict[str, _Known] = {}
        # By the name of a class what it was last asked for with, and what that stands for: each look at a
        # claim for drift asks twice.
        self._asked: dict[str, tuple[tuple[object, ...], Wanted]] = {}
        self._named: tuple[tuple[InstanceType, ...], Mapping[str, InstanceType]] = ((), {})
        self._due: list[Callable[[], Awaitable[Sold]]] = []  # questions that have had no answer
        self.sold = _packaged(aws.region)
        self.seen = SeenMemory(clock)

    async def refresh(self, failed: Callable[[AwsError], None], *, prices_on_demand: bool = True) -> None:
        """Ask for everything; what cannot be fetched stays as it was, and `failed` gets the error.

        `prices_on_demand` False leaves the Pricing API alone, which isolated VPCs do not reach.
        """
        self._due = [self._types, self._zones, self._offered, self._spot]
        if prices_on_demand:
            self._due.append(self._prices)
        await self.retry(failed)

    async def retry(self, failed: Callable[[AwsError], None]) -> None:
        """Ask again for what could not be fetched the last time."""
        steps, self._due = self._due, []
        for step in steps:
            try:
                fetched = await step()
            except AwsError as error:
                self._due.append(step)
                failed(error)
                continue
            if fetched != self.sold:
                self.sold = fetched

    def types_of(
        self,
        node_class: EC2NodeClass,
        found: NodeClassResolution | None,
        drawn: tuple[Addresses, ...],
        avoided: frozenset[Pool],
    ) -> tuple[InstanceType, ...]:
        """Those of a class that resolves to this; `drawn`: of its subnets."""
        name, asked = node_class.metadata.name, (node_class, found, drawn, self.sold)
        before, known = self._asked.get(name, ((), None))
        if known is None or not all(map(is_, before, asked)):
            known = wanted(node_class, found, self.sold.zone_ids, drawn)
            self._asked[name] = asked, known
        return self.types(known, avoided)

    def types(self, wanted: Wanted, avoided: frozenset[Pool]) -> tuple[InstanceType, ...]:
        """The types of a class, less the pools to avoid; none if the class cannot be read."""
        node_class = wanted.node_class
        name = node_class.metadata.name if node_class else ""
        known, seen = self._known.get(name), self.seen.version
        same = known is not None and known.asked is wanted and known.key[-1] is self.sold
        if known is None or not same or known.seen != seen:
            # Of the class only its spec matters, and how GPUs are shared: its status changes all the time.
            spec = node_class.spec if node_class else None
            key = spec, self._sharing(node_class), replace(wanted, node_class=None), self.sold
            if known is None or known.key != key or known.seen != seen:
                made = known.made if known is not None and known.key == key else self._make(wanted)
                base = self.seen.applied(made, wanted.images)
                known = self._known[name] = _Known(wanted, key, made, seen, base, frozenset(), base)
            known.asked, known.key = wanted, key
        if known.avoided != avoided:
            known.avoided = avoided
            known.types = without(known.base, avoided)
        return known.types

    def forget(self, node_class: str) -> None:
        """The class of that name is gone."""
        self._known.pop(node_class, None)
        self._asked.pop(node_class, None)

    def named(self, types: tuple[InstanceType, ...]) -> Mapping[str, InstanceType]:
        """The types by their names; those asked for last are remembered."""
        if self._named[0] is not types:
            self._named = types, {item.name: item for item in types}
        return self._named[1]

    def _make(self, wanted: Wanted) -> tuple[InstanceType, ...]:
        sold, region, options = self.sold, self._aws.region, self._options
        places = tuple(sorted(sold.zone_ids.items())) if wanted.zones is None else wanted.zones
        try:
            settings = NodeSettings.of(
                wanted.node_class,
                vm_memory_overhead_percent=options.vm_memory_overhead_percent,
                reserved_enis=options.reserved_enis,
                placement=wanted.placement.strategy if wanted.placement else "",
            )
            made = []
            for name, record in sorted(sold.records.items()):
                where = tuple(place for place in places if place[0] in sold.zones.get(name, ()))
                if where and catalog.runs(record, settings) and settings.os_on(record.arch):
                    price = sold.on_demand.get(name, 0)
                    listed = name not in sold.estimates
                    item = catalog.make(
                        record, settings, region=region, zones=where, on_demand=price, listed=listed
                    )
                    found = devices(
                        name, wanted.node_class, gpus=options.gpu_devices, efas=options.efa_devices
                    )
                    item = item if found is NO_DEVICES else replace(item, devices=found)
                    item = with_reservations(self._priced(item), wanted.reservations)
                    made.append(drawing(_placed(item, wanted.placement), record, wanted.addresses))
        except InputError:
            # The class's own conditions say what is wrong with it; it has no types until then.
            return ()
        return tuple(made)

    def _sharing(self, node_class: EC2NodeClass | None) -> str:
        if node_class is None or not self._options.gpu_devices:
            return ""
        return node_class.metadata.annotations.get(SHARING, "")

    def _priced(self, item: InstanceType) -> InstanceType:
        """With spot prices as they were fetched; a pool without one is not for sale."""
        spot, given = self.sold.spot, store.given_spot(self._aws.region)
        item = item if spot is None else with_spot_prices(item, spot)
        return with_given_spot_prices(item, given) if given else item

    async def _types(self) -> Sold:
        records = await self._aws.ec2.describe_instance_types()
        return replace(self.sold, records={record.name: record for record in records})

    async def _zones(self) -> Sold:
        try:
            found = await self._aws.ec2.describe_availability_zones()
        except AwsError as error:
            if error.refusal is not Refusal.UNAUTHORIZED:
                raise
            # Karpenter's own policies do not allow it. Nodes can be only where there are subnets.
            subnets = await self._aws.ec2.describe_subnets(())
            return replace(self.sold, zone_ids={subnet.zone: subnet.zone_id for subnet in subnets})
        return replace(self.sold, zone_ids={zone.name: zone.id for zone in found})

    async def _offered(self) -> Sold:
        zones: dict[str, set[str]] = {}
        for name, zone in await self._aws.ec2.describe_instance_type_offerings():
            zones.setdefault(name, set()).add(zone)
        return replace(self.sold, zones={name: frozenset(found) for name, found in zones.items()})

    async def _spot(self) -> Sold:
        history = await self._aws.ec2.describe_spot_price_history(self._clock.now())
        return replace(self.sold, spot=latest(history))

    async def _prices(self) -> Sold:
        prices = {**await self._aws.pricing.on_demand(), **store.given_prices(self._aws.region)}
        left = frozenset(self.sold.estimates - prices.keys())
        return replace(self.sold, on_demand={**self.sold.on_demand, **prices}, estimates=left)


def _packaged(region: str) -> Sold:
    """What the packaged catalogue has of the region; nothing of one that it does not know."""
    try:
        rows = list(store.sold(region))
        zones = catalog.zones(region)
    except InputError:
        return Sold()
    return Sold(
        {record.name: record for record, _, _ in rows},
        {record.name: frozenset(places) for record, places, _ in rows},
        zones,
        {record.name: price for record, _, price in rows if price},
        frozenset(store.estimates(region)),
        live.spot() if (live := store.live(region)) is not None else None,
    )


def wanted(
    node_class: EC2NodeClass,
    found: NodeClassResolution | None,
    zone_ids: Mapping[str, str],
    drawn: tuple[Addresses, ...] = (),
) -> Wanted:
    """What the class stands for; None where this process has not looked yet. `drawn`: of its subnets."""
    if found is None:
        return Wanted(node_class, _as_found_before(node_class))
    zones = tuple(sorted({(item.zone, item.zone_id) for item in found.subnets}))
    return Wanted(node_class, zones, _reserved(found, zone_ids), found.images, drawn, found.placement_group)


def _placed(item: InstanceType, group: ResolvedPlacementGroup | None) -> InstanceType:
    """With the labels of nodes that start in the group. Which partition one comes to EC2 decides, unless the
    launch does.
    """
    if group is None:
        return item
    of_group = [Requirement.new(labels.PLACEMENT_GROUP, "In", (group.id,))]
    if group.partitions:
        numbers = tuple(str(number + 1) for number in range(group.partitions))
        of_group.append(Requirement.new(labels.PARTITION, "In", numbers))
    return replace(item, requirements=item.requirements.add(*of_group))


def _as_found_before(node_class: EC2NodeClass) -> Zones:
    """The zones of the class's subnets as an earlier process found them."""
    return tuple(sorted({(item["zone"], item.get("zoneID", "")) for item in node_class.status.subnets}))


def _reserved(found: NodeClassResolution, zone_ids: Mapping[str, str]) -> tuple[Reservation, ...]:
    """What the class selected; a block that ends soon takes no more nodes."""
    return tuple(
        Reservation(
            item.id,
            item.instance_type,
            item.zone,
            zone_ids.get(item.zone, ""),
            item.kind,
            item.left if item.state == "active" else 0,
            item.interruptible,
        )
        for item in found.reservations
    )
