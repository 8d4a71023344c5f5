"""One claim's way to an instance: choice, launch templates, subnets, fleet, and what its errors teach."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import Clock
from dovetail.base.errors import CloudError, CreateFailed, InputError, InsufficientCapacity
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws.amifamily.userdata import LARGE_BYTES, MOST_BYTES
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.instance.fleet import Fleets, Share
from dovetail.cloud.aws.instance.fleet_errors import FleetError, failure, refusals
from dovetail.cloud.aws.instance.orphans import Orphan, Orphans
from dovetail.cloud.aws.instance.request import fleet_request
from dovetail.cloud.aws.instancetype.market import Sold
from dovetail.cloud.aws.launchtemplate.store import KeptTemplates
from dovetail.cloud.aws.launchtemplate.template import Launch, Stage, Template, launch_from, templates
from dovetail.cloud.aws.metrics import Figures
from dovetail.cloud.aws.subnet import SubnetBook
from dovetail.cloud.catalog.labels import TENANCY
from dovetail.cloud.choice import Choice, Pool, Request, SpotRange, choose, too_few
from dovetail.cloud.provider import NodeClassResolution
from dovetail.cloud.unavailable import FULL, FULL_FOR, UnavailableOfferings, single_values, without
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.model.resources import PODS, amounts

T = TypeVar("T")
_NO_TEMPLATE = "InvalidLaunchTemplateName.NotFoundException"
# Launches that are remembered, with their types. In a burst most ask for what another one asked for: of 179
# nodes for 1,500 pods 48 did not.
_REMEMBERED = 128
_UNTOLD = 10_000  # of those that nobody asked about, such as claims that went meanwhile


@dataclass(frozen=True, slots=True)
class Order:
    """A claim, the class that it names, and what both stand for at this moment."""

    claim: NodeClaim
    node_class: EC2NodeClass
    resolution: NodeClassResolution
    stage: Stage
    types: tuple[InstanceType, ...]
    each: int = 1  # addresses that the launch takes


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch came to."""

    id: str
    kind: InstanceType
    offering: Offering
    image: str
    subnet: str
    profile: str  # name of its instance profile


@dataclass(frozen=True, slots=True)
class _Prepared:
    launch: Launch
    choice: Choice
    templates: tuple[Template, ...]


class Launcher:
    """`reserved_capacity` is the feature gate; `spot` says which spot is tried first, None for all."""

    def __init__(
        self,
        fleets: Fleets,
        orphans: Orphans,
        kept: KeptTemplates,
        subnets: SubnetBook,
        unavailable: UnavailableOfferings,
        sold: Callable[[], Sold],
        *,
        clock: Clock,
        log: EventLog,
        figures: Figures,
        reserved_capacity: bool = True,
        spot: SpotRange | None = None,
    ) -> None:
        self._fleets = fleets
        self._orphans = orphans
        self._kept = kept
        self._subnets = subnets
        self._unavailable = unavailable
        self._sold = sold
        self._clock = clock
        self._log = log
        self._figures = figures
        self._reserved_capacity = reserved_capacity
        self._spot = spot
        # UIDs of claims that spot was refused to, until that was told.
        self._without_role: dict[str, None] = {}
        self._large: dict[str, int] = {}  # bytes of user data that were reported, by class
        # By what they follow from. Types are told by their ids: those of a choice are kept alive with it.
        self._choices: dict[Hashable, tuple[tuple[InstanceType, ...], Choice]] = {}
        self._templates: dict[Hashable, tuple[tuple[object, ...], tuple[Template, ...]]] = {}

    async def launch(self, order: Order) -> Launched:
        """Raises InsufficientCapacity, CreateFailed, AwsError."""
        found = await self._orphans.take(lambda orphan: self._would_give(order, orphan))
        if found is not None:
            (kind,) = _only(order.types, Orphan(found, ""))
            profile = order.resolution.instance_profile
            return Launched(found.id, kind, kind.offerings[0], found.image, found.subnet, profile)
        prepared = self._prepare(order, self._spot)
        self._remark(prepared)
        share = await self._fleet(order, prepared)
        if share.given is None and prepared.choice.shortened:
            order, prepared, share = await self._beyond(order, prepared, share)
        if share.given is None:
            raise failure(share.errors)
        given = share.given
        capacity_type = labels.SPOT if given.spot else prepared.launch.capacity_type
        zone = given.zone or next(
            (one.zone for one in order.resolution.subnets if one.id == given.subnet), ""
        )
        kind, offering = _bought(order.types, prepared.choice, (capacity_type, given.instance_type, zone))
        profile = order.resolution.instance_profile
        return Launched(share.instance, kind, offering, given.image, given.subnet, profile)

    def lacks_spot_role(self, claim: NodeClaim) -> bool:
        """See Supply."""
        return self._without_role.pop(claim.metadata.uid, self) is None

    def forget(self, node_class: str) -> None:
        """The class of that name is gone."""
        self._large.pop(node_class, None)
        self._choices.clear()
        self._templates.clear()
        self._figures.no_user_data(node_class)

    async def _beyond(
        self, order: Order, prepared: _Prepared, share: Share
    ) -> tuple[Order, _Prepared, Share]:
        """The launch once more, with all that does not refuse: dearer spot is better than a claim that has to
        be planned anew, once for every few types. Raises AwsError.
        """
        if not isinstance(failure(share.errors), InsufficientCapacity):
            return order, prepared, share
        avoided = self._unavailable.active(self._clock.monotonic())
        rest = replace(order, types=without(order.types, avoided))
        try:
            wider = self._prepare(rest, None)
        except CloudError:
            return order, prepared, share
        found = await self._fleet(rest, wider)
        return rest, wider, replace(found, errors=(*share.errors, *found.errors))

    def _prepare(self, order: Order, spot: SpotRange | None) -> _Prepared:
        choice = self._choose(order, spot)
        launch = launch_from(
            order.claim,
            order.node_class,
            order.resolution,
            order.stage,
            pool=order.claim.metadata.labels.get(labels.NODEPOOL, ""),
            capacity_type=choice.capacity_type,
            reserved_capacity=self._reserved_capacity,
        )
        try:
            return _Prepared(launch, choice, self._made(launch, choice))
        except InputError as error:
            raise CreateFailed(str(error), "LaunchTemplateInvalid") from error

    def _choose(self, order: Order, spot: SpotRange | None) -> Choice:
        spec = order.claim.spec
        requests = amounts(spec.resources.requests)
        key = tuple(map(id, order.types)), spec.requirements, frozenset(requests.items()), spot
        if key not in self._choices:
            choice = choose(order.types, Request(Requirements.read(spec.requirements), requests), spot)
            _remember(self._choices, key, (order.types, choice))
        return self._choices[key][1]

    def _made(self, launch: Launch, choice: Choice) -> tuple[Template, ...]:
        """The templates of a launch: nothing else of it counts but what the key has."""
        records = self._sold().records
        spec, kept = launch.claim.spec, (choice, launch.node_class, records)
        key = (
            *map(id, kept),
            *(launch.cluster, launch.region, frozenset(launch.tags.items()), launch.expressions),
            *(launch.images, launch.security_groups, launch.instance_profile, launch.placement_group),
            launch.partitions,
            *(launch.reserved_enis, launch.reserved_capacity, launch.capacity_type),
            *(frozenset(launch.claim.metadata.labels.items()), spec.taints, spec.startup_taints),
        )
        if key not in self._templates:
            _remember(self._templates, key, (kept, templates(launch, choice, records)))
        return self._templates[key][1]

    def _remark(self, prepared: _Prepared) -> None:
        """Say what is odd about a launch that is about to be made; of a class each size once."""
        launch, choice = prepared.launch, prepared.choice
        name = launch.node_class.metadata.name
        size = max(item.user_data_bytes for item in prepared.templates)
        self._figures.user_data(name, size)
        if size > LARGE_BYTES and self._large.get(name) != size:
            self._large[name] = size
            self._log.record("class.largeUserData", nodeClass=name, bytes=size, most=MOST_BYTES)
        if too_few(choice, launch.requirements):
            self._log.record("launch.fewTypes", claim=launch.claim.metadata.name, types=len(choice.types))

    def _would_give(self, order: Order, orphan: Orphan) -> bool:
        """Whether the launch could have given that very instance."""
        only = _only(order.types, orphan)
        names: set[str] = set()
        for claim in _as_before(order.claim, only):
            with suppress(CloudError):
                prepared = self._prepare(replace(order, claim=claim, types=only), self._spot)
                names.update(template.name for template in prepared.templates)
        return orphan.template in names

    async def _fleet(self, order: Order, prepared: _Prepared) -> Share:
        """One fleet, and what it teaches. Raises AwsError."""
        share = await self._ask(order, prepared)
        if _templates_missing(share):
            # They were deleted since they were made.
            self._kept.forget(prepared.templates)
            share = await self._ask(order, prepared)
        self._learn(share.errors, prepared.choice, order.claim)
        return share

    async def _ask(self, order: Order, prepared: _Prepared) -> Share:
        """One fleet. What of its templates is not there any more is an error of the share."""
        launch, choice, made = prepared.launch, prepared.choice, prepared.templates
        await self._kept.ensure(made, launch)
        zones = {one.offering.zone for one in choice.candidates()}
        pods = min(item.capacity.get(PODS, 1) for item in choice.types)
        chosen = await self._subnets.choose(order.resolution.subnets, zones, pods)
        taken = ""
        try:
            request = fleet_request(launch, choice, made, chosen, self._sold().on_demand)
            share = await self._fleets.launch(request, order.claim.metadata.uid or order.claim.metadata.name)
            taken = share.given.subnet if share.given is not None else ""
            return share
        except AwsError as error:
            if error.code != _NO_TEMPLATE:
                raise
            return Share("", None, (FleetError(error.code, error.message, "", "", ""),))
        finally:
            self._subnets.settle(chosen, pods, taken, order.each)

    def _learn(self, errors: tuple[FleetError, ...], choice: Choice, claim: NodeClaim) -> None:
        """What refused is avoided for a while, and of reservations no other than the one that was asked for.

        One that is full is well, and has nothing left until its instances are counted again.
        """
        if not errors:  # as nearly always: no candidate need be looked at
            return
        found, now = refusals(errors), self._clock.monotonic()
        # EC2 calls such launches on demand.
        reserved = {
            (kind, one.instance_type.name, one.offering.zone): (
                labels.RESERVED,
                one.instance_type.name,
                one.offering.reservation_id,
            )
            for one in choice.candidates()
            if one.offering.reservation_id
            for kind in (labels.ON_DEMAND, labels.RESERVED)
        }
        full = [(FULL, *reserved[pool][1:]) if pool in reserved else pool for pool in found.full]
        pools = [reserved.get(pool, pool) for pool in found.pools]
        self._unavailable.mark(pools, now)
        self._unavailable.mark(full, now, FULL_FOR)
        if found.no_spot:
            self._without_role[claim.metadata.uid] = None
            if len(self._without_role) > _UNTOLD:
                del self._without_role[next(iter(self._without_role))]
            zones = self._sold().zones
            self._unavailable.mark(((labels.SPOT, name, zone) for name in zones for zone in zones[name]), now)
        self._subnets.full(found.subnets)


def _remember(known: dict[Hashable, T], key: Hashable, answer: T) -> None:
    """Once too many are remembered all are forgotten: their types are old by then."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = answer


def bought_labels(kind: InstanceType, offering: Offering) -> dict[str, str]:
    """What a launch decides of a node's labels, but for region and tenancy."""
    return {**single_values(kind.requirements), **single_values(offering.requirements)}


def _templates_missing(share: Share) -> bool:
    return share.given is None and any(error.code == _NO_TEMPLATE for error in share.errors)


def _as_before(claim: NodeClaim, types: tuple[InstanceType, ...]) -> Iterator[NodeClaim]:
    """As the claim may have been when it was launched: what was bought may stand in its labels since.

    One instance is of one type, however many the claim wants to choose from.
    """
    spec = claim.spec
    plain = tuple(msgspec.structs.replace(item, min_values=None) for item in spec.requirements)
    claim = msgspec.structs.replace(claim, spec=msgspec.structs.replace(spec, requirements=plain))
    yield claim
    for kind in types:
        bought = bought_labels(kind, kind.offerings[0])
        kept = {
            key: value
            for key, value in claim.metadata.labels.items()
            if key not in (*bought, labels.REGION, TENANCY)
        }
        yield msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, labels=kept))


def _only(types: tuple[InstanceType, ...], orphan: Orphan) -> tuple[InstanceType, ...]:
    """The instance's type with the offering that it came of, used up or not; none where it is not sold."""
    one = orphan.instance
    place = orphan.capacity_type, one.zone, one.reservation
    return tuple(
        replace(kind, offerings=(replace(offering, available=True, reservation_capacity=1),))
        for kind in types
        if kind.name == one.instance_type
        for offering in kind.offerings
        if (offering.capacity_type, offering.zone, offering.reservation_id) == place
    )


def _bought(types: tuple[InstanceType, ...], choice: Choice, pool: Pool) -> tuple[InstanceType, Offering]:
    """What was bought. An answer to an older request may be of something that is not offered any more."""
    capacity_type, name, zone = pool
    wanted = [one.offering for one in choice.candidates() if one.instance_type.name == name]
    for kind in types:
        if kind.name == name:
            for offering in (*wanted, *kind.offerings):
                if (offering.capacity_type, offering.zone) == (capacity_type, zone):
                    return kind, offering
    raise CreateFailed(f"{name} in {zone} was launched, but is not offered", "LaunchFailed")
