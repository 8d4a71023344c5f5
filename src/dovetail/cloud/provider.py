"""The provider's port: AWS and kwok buy, `listed` only looks, `simulated` is played with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.meta import condition
from dovetail.base.errors import CreateFailed, InsufficientCapacity, NodeClassNotReady
from dovetail.cloud.interruption import Impairment
from dovetail.model.offering import InstanceType
from dovetail.model.repair import RepairPolicies
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources

# What NodeOverlays make of a pool's types.
Overlay = Callable[[tuple[InstanceType, ...]], tuple[InstanceType, ...]]


def as_sold(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """No overlay."""
    return types


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that the provider runs for this cluster."""

    provider_id: str  # "aws:///<zone>/<instance id>"
    instance_type: str
    zone: str
    capacity_type: str
    price: int  # nano-dollars per hour, as charged for the instance and its volumes
    image_id: str
    created: int  # nanoseconds since the epoch
    claim: str = ""  # name of the NodeClaim it was launched for
    volumes: int = 0  # nano-dollars per hour, the part of the price that is for volumes
    reservation_id: str = ""
    terminating: bool = False
    labels: dict[str, str] = field(default_factory=dict)  # every label that the launch decided
    annotations: dict[str, str] = field(default_factory=dict)  # for the claim: what class it was made from
    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolvedSubnet:
    """A subnet that a node class selects."""

    id: str
    zone: str
    zone_id: str
    free: int | None = field(default=None, compare=False)  # addresses at that moment, where that is known


@dataclass(frozen=True, slots=True)
class ResolvedSecurityGroup:
    """A security group that a node class selects."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """A machine image that a node class selects; `requirements` say which types it boots on."""

    id: str
    name: str
    requirements: Requirements = field(default_factory=Requirements)
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedReservation:
    """A capacity reservation that a node class selects."""

    id: str
    instance_type: str
    zone: str
    owner: str  # an account
    criteria: str  # open or targeted
    kind: str = "default"  # or capacity-block
    state: str = "active"  # or expiring
    interruptible: bool = False
    ends: int | None = None  # nanoseconds since the epoch
    left: int = 0  # instances that may still start in it


@dataclass(frozen=True, slots=True)
class ResolvedPlacementGroup:
    """The placement group that a node class selects."""

    id: str
    name: str
    strategy: str  # cluster, spread or partition
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class Unready:
    """Why a condition of a class is not True: False says what is wrong, Unknown that it is not known."""

    condition: str
    reason: str
    message: str
    status: str = "False"


@dataclass(frozen=True, slots=True)
class NodeClassResolution:
    """What the selectors of a node class match at this moment."""

    subnets: tuple[ResolvedSubnet, ...] = ()  # most free addresses first, then by id
    security_groups: tuple[ResolvedSecurityGroup, ...] = ()  # by id
    images: tuple[ResolvedImage, ...] = ()  # newest first
    # Tag keys that exist on the account's subnets and groups, sorted: for hints when nothing matches.
    subnet_tag_keys: tuple[str, ...] = ()
    security_group_tag_keys: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()  # (reason, message): what the schema lets in and nodes do not
    unsupported_alias: str = ""  # why the alias has no images for this Kubernetes version; '' when it has
    image_hint: str = ""  # why no image was found, where that is known
    reservations: tuple[ResolvedReservation, ...] = ()  # by id
    placement_group: ResolvedPlacementGroup | None = None
    instance_profile: str = ""  # what nodes are launched with; '' where the provider has none
    unready: tuple[Unready, ...] = ()  # what else stands in the way, at most one per condition


class NodeClasses(Protocol):
    """What a provider finds and makes in its account for node classes."""

    async def resolve(self, node_class: Any) -> NodeClassResolution:
        """What the class's selectors match. Nothing matching is an answer, not an error."""

    async def release(self, node_class: Any) -> None:
        """Take away what was made for the class itself. Called until it returns, before the class is gone."""

    def forget(self, node_class: str) -> None:
        """The class of that name is gone: nothing that is known of it is needed any more."""

    async def tidy(self, in_use: frozenset[str]) -> None:
        """Take away instance profiles that were made for classes and are not among those in use, by name."""


class Supply(Protocol):
    """What is known of the supply besides the offerings of types, and what its users find out of it."""

    def left(self) -> Mapping[str, int]:
        """What is left of what offerings draw on, by name, as far as it is known now. Never raises."""

    def shifted_zones(self) -> Mapping[str, str]:
        """Name and id of zones that the cluster is shifted away from: nothing is launched there."""

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """A machine of that type and image turned out to have so many bytes of memory."""

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """The cloud takes the claim's instance back: offerings like it are not available for a while."""

    def lacks_spot_role(self, claim: NodeClaim) -> bool:
        """True iff spot was refused to the claim as the account may not have the role for it. Told once."""


REJECTED = "reboot rejected by the cloud provider"  # why follows


class Machines(Protocol):
    """What a provider knows of instances that run, and writes on them."""

    async def recover_orphans(self, owned: Callable[[], Collection[str]]) -> None:
        """Look for instances that an earlier process launched and could not write down: `create` gives them
        to claims that would launch the same. Called, with the provider ids that claims have, before `create`
        is; only the first time something happens.
        """

    def orphans(self) -> Collection[str]:
        """Provider ids of such instances that `create` may still give away. Never raises."""

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        """Write on the claim's instance whose it is and which node; answers annotations that say so.

        Empty where there is nothing to write. Raises InstanceNotFound.
        """

    async def impairments(self) -> Sequence[Impairment]:
        """Instances of this cluster that fail a status check of the cloud or have an event announced."""

    async def reboot(self, provider_id: str, operation: str) -> None:
        """Ask for a reboot; that it happened shows in the boot id of the node.

        `operation` is the same when the same reboot is asked for again. InstanceNotFound, RebootRefused:
        there will be none. Other errors: the caller asks again.
        """


class Provider(Protocol):
    """What Dovetail needs of a cloud. Errors are CloudErrors; each method says who retries.

    A provider has its own kinds of node classes, which no other provider can read. What stands in `classes`,
    `supply` and `machines` not every cloud has: `cloud.inert` has answers for those that do without.
    """

    node_class_kinds: tuple[tuple[str, str], ...]  # (group, kind) of the node classes that are its own
    repair_policies: RepairPolicies  # when its nodes are past help
    classes: NodeClasses
    supply: Supply
    machines: Machines

    def instance_types(self, node_class: Any) -> tuple[InstanceType, ...]:
        """All types for nodes of that class, with present prices and availability. Never raises.

        Answers the same objects until something changed, so that callers may cache by identity.
        """

    def volume_price(self, node_class: Any) -> int:
        """Nano-dollars per hour of the volumes that each node of that class gets, whatever its type.

        None asks for a node without a class. Never raises.
        """

    async def create(self, claim: NodeClaim, node_class: Any, overlay: Overlay = as_sold) -> Instance:
        """Launch one instance that meets the claim's requirements, cheapest capacity first.

        It is chosen by the prices, and has the resources, that `overlay` makes of types; its own price stays.

        InsufficientCapacity and NodeClassNotReady: the caller deletes the claim. CreateFailed: it retries.
        """

    async def delete(self, provider_id: str) -> None:
        """Ask for termination. InstanceNotFound once the instance is gone; until then, call again."""

    async def get(self, provider_id: str) -> Instance:
        """Raises InstanceNotFound."""

    async def list(self) -> Sequence[Instance]:
        """Every instance of this cluster, terminated ones excepted."""

    async def drifted(self, claim: NodeClaim, node_class: Any) -> str:
        """In one word, what the class would launch otherwise now than the claim's instance is; "" if nothing.

        Raises InstanceNotFound.
        """

    def known_drift(self, claim: NodeClaim, node_class: Any) -> str | None:
        """What `drifted` would answer, where that takes no call; None where it has to be asked."""


def check_ready(node_class: NodeClass) -> None:
    """Raises what a launch from a class that is not ready comes back with."""
    if node_class.deleting:
        raise InsufficientCapacity(f"node class {node_class.metadata.name} is terminating")
    ready = condition(node_class.status.conditions, "Ready")
    if ready is None or ready.status == "Unknown":
        raise CreateFailed("NodeClass readiness is unknown", reason="NodeClassReadinessUnknown")
    if ready.status == "False":
        raise NodeClassNotReady(ready.message)
