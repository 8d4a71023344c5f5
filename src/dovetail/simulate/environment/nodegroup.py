"""Static managed node groups: nodes that are there from the start, are billed, and are never scaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Taint
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.base.eventlog import EventLog
from dovetail.base.streams import stream
from dovetail.cloud.provider import Provider
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.simulate.kubelet.machine import Machine, NodeNames
from dovetail.simulate.scenario.document import suggest
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.schema import NodeGroup

_GROUP = "eks.amazonaws.com/nodegroup"
# Labels that every node of the cloud carries; the rest of a type's labels is Karpenter's own.
_CLOUD_LABELS = (labels.ARCH, labels.OS, labels.INSTANCE_TYPE, labels.REGION)


@dataclass(frozen=True, slots=True)
class Member:
    """One node of a group: its machine, and what it is billed by."""

    machine: Machine
    instance_type: InstanceType
    offering: Offering
    volumes: int  # nano-dollars per hour


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups live: the region, its types by name, and what names come from."""

    region: str
    types: Mapping[str, InstanceType]
    names: NodeNames
    seed: int
    # Nano-dollars per hour for the volumes of one node, by node class; "" is what a node has without one.
    volumes: Mapping[str, int] = field(default_factory=lambda: {"": 0})
    source: str = ""  # the scenario file, for messages


def groups(scenario: Scenario, place: Place) -> list[tuple[Member, ...]]:
    """The nodes of all node groups of a scenario. Raises InputError as `members` does."""
    file = scenario.file
    return [members(group, place, path=f"nodeGroups[{i}]") for i, group in enumerate(file.node_groups)]


def place_of(scenario: Scenario, cloud: Provider, names: NodeNames) -> Place:
    """Where the node groups of a scenario live."""
    file = scenario.file
    return Place(
        file.region,
        {item.name: item for item in cloud.instance_types(None)},
        names,
        scenario.seed,
        volumes={
            "": cloud.volume_price(None),
            **{item.metadata.name: cloud.volume_price(item) for item in _classes(scenario)},
        },
        source=scenario.source,
    )


def _classes(scenario: Scenario) -> list[EC2NodeClass]:
    found = (one.object for one in scenario.manifests)
    return [item for item in found if isinstance(item, EC2NodeClass)]


def members(group: NodeGroup, place: Place, *, path: str = "nodeGroups") -> tuple[Member, ...]:
    """The nodes of a group, spread over its zones in turn.

    Raises InputError when the type is not known or not sold in a zone of the group.
    """
    kind, sold = offerings(group, place, path=path)
    return tuple(member(group, kind, sold[i % len(sold)], place, i) for i in range(group.count))


def _kind(group: NodeGroup, place: Place, path: str) -> InstanceType:
    kind = place.types.get(group.instance_type)
    if kind is None:
        guess = suggest(group.instance_type, tuple(sorted(place.types)))
        guess = (
            guess if "did you mean" in guess else f"; `dovetail catalog --region {place.region}` lists them"
        )
        raise InputError(
            f"no instance type {group.instance_type!r} in {place.region}{guess}",
            source=place.source,
            path=f"{path}.instanceType",
        )
    return kind


def start(members: tuple[Member, ...], log: EventLog) -> Iterator[Machine]:
    """Record the instances, whose bill starts now, and yield their machines in order."""
    for member in members:
        log.record(
            "instance.started",
            instance=member.machine.provider_id,
            claim="",
            node=member.machine.node,
            instanceType=member.instance_type.name,
            zone=member.offering.zone,
            capacityType=member.offering.capacity_type,
            price=member.offering.price + member.volumes,
            volumes=member.volumes,
            estimated=member.offering.estimated,
        )
        yield member.machine


def offerings(
    group: NodeGroup, place: Place, *, path: str = "nodeGroups"
) -> tuple[InstanceType, tuple[Offering, ...]]:
    """A group's type, and what it is sold as in each of its zones. Raises InputError as `members` does."""
    kind = _kind(group, place, path)
    if group.node_class not in place.volumes:
        known = tuple(sorted(name for name in place.volumes if name))
        raise InputError(
            f"no manifest has the EC2NodeClass {group.node_class!r}{suggest(group.node_class, known)}",
            source=place.source,
            path=f"{path}.nodeClass",
        )
    return kind, tuple(_offering(group, kind, zone, place, path) for zone in group.zones)


def _offering(group: NodeGroup, kind: InstanceType, zone: str, place: Place, path: str) -> Offering:
    wanted = [o for o in kind.offerings if o.capacity_type == group.capacity_type and o.price > 0]
    for offering in wanted:
        if offering.zone == zone:
            return offering
    sold = ", ".join(sorted({offering.zone for offering in wanted})) or "none"
    raise InputError(
        f"{kind.name} is not sold as {group.capacity_type} in {zone!r}; zones with it: {sold}",
        source=place.source,
        path=f"{path}.zones",
    )


def member(group: NodeGroup, kind: InstanceType, offering: Offering, place: Place, index: int) -> Member:
    """Instance number `index` of a group, with a name that nothing else has."""
    draws = stream(place.seed, f"node group {group.name} {index}", "instance id")
    provider_id = f"aws:///{offering.zone}/i-{draws.getrandbits(68):017x}"
    name = place.names.draw(provider_id)
    cloud = {key: value for key, value in kind.requirements.labels().items() if key in _CLOUD_LABELS}
    zone = {
        key: value
        for key, value in offering.requirements.labels().items()
        if key in (labels.ZONE, labels.ZONE_ID)
    }
    capacity_label = group.capacity_type.upper().replace("-", "_")
    machine = Machine(
        provider_id=provider_id,
        node=name,
        labels={
            **cloud,
            **zone,
            labels.REGION: place.region,
            labels.HOSTNAME: name,
            _GROUP: group.name,
            labels.GROUP_CAPACITY_TYPE: capacity_label,
            **group.labels,
        },
        taints=tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in group.taints),
        capacity=kind.capacity,
        allocatable=kind.allocatable(),
    )
    return Member(machine, kind, offering, place.volumes[group.node_class])
