"""Launch templates and fleets of the twin."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from dovetail.base.clock import Clock
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fleet_errors import FleetError
from dovetail.cloud.aws.launch import Document
from dovetail.cloud.aws.memory.account import Account, by_id, identifier
from dovetail.cloud.aws.memory.fleet import NO_TEMPLATE, Fulfilment, Slot, Target, slots, target
from dovetail.cloud.aws.memory.machines import Machines, instance_id
from dovetail.cloud.aws.memory.market import Market
from dovetail.cloud.aws.shapes import FleetAnswer, FleetInstances, Instance, LaunchTemplate
from dovetail.model import labels


class Place(Protocol):
    """Where instances start."""

    account: Account
    market: Market
    machines: Machines

    def free_addresses(self, subnet: str) -> int:
        """Those that a subnet has left."""


class Launches:
    """`templates` by name, with their data."""

    def __init__(self, clock: Clock, seed: int, place: Place) -> None:
        self.templates: dict[str, tuple[LaunchTemplate, Document]] = {}
        self._clock = clock
        self._seed = seed
        self._place = place
        self._fleets: dict[str, tuple[str, FleetAnswer]] = {}  # by token: the request, its answer
        self._count = 0
        # Told how many instances a fleet asks for; answers how many it does not get, None for no change.
        self.withheld: Callable[[int], int | None] = lambda _: None

    def add_template(self, request: Document) -> None:
        """Raises AwsError when the name is taken."""
        name = request["LaunchTemplateName"]
        if name in self.templates:
            code = "InvalidLaunchTemplateName.AlreadyExistsException"
            raise AwsError("CreateLaunchTemplate", code, "Launch template name already in use.")
        self._count += 1
        made = identifier("lt", self._place.account.region, name, str(self._count))
        tags = _tags(request, "launch-template")
        self.templates[name] = LaunchTemplate(made, name, tags), request["LaunchTemplateData"]

    def drop_template(self, name: str) -> None:
        """Raises AwsError when there is none."""
        if name not in self.templates:
            message = "The specified launch template does not exist."
            raise AwsError("DeleteLaunchTemplate", NO_TEMPLATE, message)
        del self.templates[name]

    def fleet(self, request: Document, token: str) -> FleetAnswer:
        """Start what there is capacity for; what was answered to a token before is answered again."""
        text = json.dumps(request, sort_keys=True)
        known = self._fleets.get(token) if token else None
        if known is None:
            self._count += 1
            entity = token or str(self._count)
            known = self._fleets[entity] = text, self._fulfil(request, target(request), entity)
        elif known[0] != text:
            message = "The request uses the same client token as a previous, but non-identical request."
            raise AwsError("CreateFleet", "IdempotentParameterMismatch", message)
        return known[1]

    def _fulfil(self, request: Document, wanted: Target, entity: str) -> FleetAnswer:
        place = self._place
        templates = {name: data for name, (_, data) in self.templates.items()}
        offered = slots(request, wanted.capacity_type, templates, by_id(place.account.subnets))
        work = Fulfilment(offered, wanted, place.market, self._free, self._clock.now())
        made: dict[int, tuple[Slot, list[str]]] = {}
        withheld = self.withheld(wanted.count)
        for number in range(wanted.count - (withheld or 0)):
            slot = work.next()
            if slot is None:
                break
            ids = made.setdefault(slot.number, (slot, []))[1]
            ids.append(self._start(slot, request, f"{entity}/{number}"))
        if withheld is not None:
            work.refuse()
        return FleetAnswer(
            identifier("fleet", place.account.region, entity),
            tuple(_given(slot, ids) for slot, ids in made.values()),
            tuple(_error(*item) for item in work.errors),
        )

    def _free(self, slot: Slot) -> tuple[int, int | None]:
        place = self._place
        known = (item for item in place.account.reservations if item.id == slot.reservation)
        left = next((place.machines.left(item) for item in known), 0) if slot.reservation else None
        return place.free_addresses(slot.subnet.id), left

    def _start(self, slot: Slot, request: Document, entity: str) -> str:
        cards = slot.data.get("NetworkInterfaces", ())
        placement = slot.data.get("Placement", {})
        instance = Instance(
            id=instance_id(self._seed, entity),
            state="pending",
            instance_type=slot.pool[1],
            zone=slot.pool[2],
            zone_id=slot.subnet.zone_id,
            launched=self._clock.now(),
            spot=slot.pool[0] == labels.SPOT,
            image=slot.image,
            subnet=slot.subnet.id,
            vpc=slot.subnet.vpc,
            security_groups=frozenset(group for card in cards for group in card.get("Groups", ())),
            reservation=slot.reservation,
            tenancy=placement.get("Tenancy", "default"),
            profile=slot.data.get("IamInstanceProfile", {}).get("Name", ""),
            placement_group=self._group(placement.get("GroupId", "")),
            partition=placement.get("PartitionNumber"),
            efa_interfaces=sum(card.get("InterfaceType", "").startswith("efa") for card in cards),
            tags={**_tags(request, "instance"), **self._marks(slot, entity)},
        )
        self._place.machines.start(instance, slot.pool, slot.addresses)
        return instance.id

    def _marks(self, slot: Slot, entity: str) -> dict[str, str]:
        """The tags that EC2 itself gives to instances of a fleet."""
        return {
            "aws:ec2:fleet-id": identifier("fleet", self._place.account.region, entity.rpartition("/")[0]),
            "aws:ec2launchtemplate:id": self.templates[slot.template][0].id,
            "aws:ec2launchtemplate:version": "1",
        }

    def _group(self, identifier: str) -> str:
        """The name of the placement group with that id."""
        known = (item.name for item in self._place.account.placement_groups if item.id == identifier)
        return next(known, "")


def _given(slot: Slot, ids: list[str]) -> FleetInstances:
    capacity_type, name, zone = slot.pool
    spot = capacity_type == labels.SPOT
    return FleetInstances(tuple(ids), name, zone, spot, slot.subnet.id, slot.image)


def _error(slot: Slot, code: str, message: str) -> FleetError:
    capacity_type, name, zone = slot.pool
    return FleetError(code, message, capacity_type, name, zone, slot.subnet.id)


def _tags(request: Document, kind: str) -> dict[str, str]:
    return {
        tag["Key"]: tag["Value"]
        for item in request.get("TagSpecifications", ())
        if item["ResourceType"] == kind
        for tag in item["Tags"]
    }
