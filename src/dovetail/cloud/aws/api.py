"""The AWS port: exactly the calls that Dovetail makes, and what AWS answers, as far as it is read.

Behind it stands AWS itself (`live`) or an AWS in memory (`fake`). Every method may raise AwsError. Lists are
whole: paging is the business of what stands behind. Calls that change something answer before the change
shows in Describe calls; a caller that needs it asks again. Instants are nanoseconds since the epoch, prices
nano-dollars per hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dovetail.cloud.aws.amifamily.images import Filter, ImageQuery
from dovetail.cloud.aws.instance.fleet_errors import FleetError
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.aws.quota.quotas import Quotas
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.interruption import Letter

Tags = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Zone:
    """An availability zone, or a local one."""

    name: str
    id: str
    kind: str = "availability-zone"


@dataclass(frozen=True, slots=True)
class Subnet:
    id: str
    vpc: str
    zone: str
    zone_id: str
    free_addresses: int
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    id: str
    name: str
    vpc: str
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """A machine image. `arch` is EC2's word, x86_64 or arm64."""

    id: str
    name: str
    arch: str
    created: str  # RFC 3339
    owner: str
    deprecated_from: str = ""  # RFC 3339; "" for never
    volumes: Mapping[str, int] = field(default_factory=dict)  # device -> least GiB
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine as DescribeInstances has it."""

    id: str
    state: str  # pending, running, shutting-down, terminated, stopping, stopped
    instance_type: str
    zone: str
    zone_id: str
    launched: int
    spot: bool
    image: str
    subnet: str = ""
    vpc: str = ""
    security_groups: frozenset[str] = frozenset()  # ids
    reservation: str = ""  # id of the capacity reservation that it runs in
    tenancy: str = "default"
    profile: str = ""  # ARN of the instance profile
    efa_interfaces: int = 0
    placement_group: str = ""  # its name
    partition: int | None = None
    state_reason: str = ""  # a code such as Client.UserInitiatedShutdown
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusCheck:
    """A status check that fails, or an event that is announced."""

    instance: str
    category: str  # instance_status, system_status or event_status
    since: int
    zone: str = ""


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    id: str
    name: str
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetInstances:
    """Instances that one override of a fleet request gave."""

    ids: tuple[str, ...]
    instance_type: str
    zone: str
    spot: bool
    subnet: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """What a fleet of type instant came to. Fewer instances than asked for is no error of the call."""

    id: str
    instances: tuple[FleetInstances, ...] = ()
    errors: tuple[FleetError, ...] = ()


@dataclass(frozen=True, slots=True)
class SpotPrice:
    instance_type: str
    zone: str
    price: int
    at: int


@dataclass(frozen=True, slots=True)
class CapacityReservation:
    id: str
    instance_type: str
    zone: str
    zone_id: str
    owner: str
    kind: str  # default or capacity-block
    state: str
    total: int
    left: int
    criteria: str  # open or targeted
    interruptible: bool = False
    ends: int | None = None
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    id: str
    name: str
    strategy: str  # cluster, spread or partition
    state: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class InstanceProfile:
    name: str
    arn: str
    path: str
    roles: tuple[str, ...] = ()  # names
    tags: Tags = field(default_factory=dict)
    created: int = 0


@dataclass(frozen=True, slots=True)
class EksCluster:
    name: str
    endpoint: str
    ca_bundle: str  # base64
    version: str  # "1.33"
    cidr: str  # of services
    vpc: str = ""
    arn: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    account: str
    arn: str


class Ec2(Protocol):
    """Requests given as documents are in the API's own spelling. Filters are ANDed, their values ORed."""

    async def describe_availability_zones(self) -> Sequence[Zone]:
        """Every zone that the account may use."""

    async def describe_instance_types(self) -> Sequence[TypeRecord]:
        """Every type that a Kubernetes node can run on (hvm; x86_64 or arm64)."""

    async def describe_instance_type_offerings(self) -> Sequence[tuple[str, str]]:
        """(type, zone) pairs that the region sells."""

    async def describe_spot_price_history(self, since: int) -> Sequence[SpotPrice]:
        """Prices of Linux spot instances that were in force at `since` or came later."""

    async def describe_subnets(self, filters: Sequence[Filter]) -> Sequence[Subnet]:
        """Subnets of any VPC of the account."""

    async def describe_security_groups(self, filters: Sequence[Filter]) -> Sequence[SecurityGroup]:
        """Security groups of any VPC of the account."""

    async def describe_images(self, query: ImageQuery) -> Sequence[Image]:
        """Deprecated images included."""

    async def describe_capacity_reservations(
        self, filters: Sequence[Filter]
    ) -> Sequence[CapacityReservation]:
        """Those that are active, of the account or shared with it."""

    async def describe_placement_groups(self, filters: Sequence[Filter]) -> Sequence[PlacementGroup]:
        """Filters `group-id` and `group-name` exist."""

    async def describe_launch_templates(self, filters: Sequence[Filter]) -> Sequence[LaunchTemplate]:
        """Filters `launch-template-name` and `tag:KEY` exist."""

    async def create_launch_template(self, request: Document, *, dry_run: bool = False) -> None:
        """EXISTS when the name is taken. With `dry_run` nothing happens if it would be allowed."""

    async def delete_launch_template(self, name: str) -> None:
        """NOT_FOUND when there is none."""

    async def create_fleet(self, request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
        """A fleet of type instant. The same token and request again answer the same fleet, at no cost.

        With `dry_run` nothing happens if it would be allowed, and the answer is an empty one.
        """

    async def run_instances(self, request: Document) -> None:
        """Only ever a dry run: nothing happens if it would be allowed."""

    async def describe_instances(
        self, filters: Sequence[Filter] = (), *, ids: Sequence[str] = ()
    ) -> Sequence[Instance]:
        """Instances that meet the filters; `ids` are those to ask for, NOT_FOUND if one does not exist."""

    async def describe_instance_status(self) -> Sequence[StatusCheck]:
        """Status checks that fail and events that are announced, in the whole region."""

    async def terminate_instances(self, ids: Sequence[str]) -> None:
        """NOT_FOUND if one of them does not exist: then none is terminated."""

    async def reboot_instances(self, ids: Sequence[str]) -> None:
        """Asked for, not done yet. NOT_FOUND if one of them does not exist: then none is rebooted."""

    async def create_tags(self, resources: Sequence[str], tags: Mapping[str, str]) -> None:
        """Resources of any kind, by id."""


class Ssm(Protocol):
    async def get_parameter(self, name: str) -> str:
        """NOT_FOUND when there is none."""


class Iam(Protocol):
    async def get_instance_profile(self, name: str) -> InstanceProfile:
        """NOT_FOUND when there is none."""

    async def list_instance_profiles(self, path: str) -> Sequence[InstanceProfile]:
        """Those whose path begins so; tags are not part of the answer."""

    async def create_instance_profile(self, name: str, path: str, tags: Mapping[str, str]) -> InstanceProfile:
        """EXISTS when the name is taken."""

    async def delete_instance_profile(self, name: str) -> None:
        """Its roles have to be gone before."""

    async def add_role_to_instance_profile(self, name: str, role: str) -> None:
        """`role` is a name without a path. NOT_FOUND when there is no such role."""

    async def remove_role_from_instance_profile(self, name: str, role: str) -> None:
        """NOT_FOUND when there is no such role or profile."""

    async def tag_instance_profile(self, name: str, tags: Mapping[str, str]) -> None:
        """Tags that are there stay."""


class Eks(Protocol):
    async def describe_cluster(self, name: str) -> EksCluster:
        """NOT_FOUND when there is none."""


class Sqs(Protocol):
    async def get_queue_url(self, name: str) -> str:
        """NOT_FOUND when there is none."""

    async def receive(self, url: str) -> Sequence[Letter]:
        """At most ten; waits up to twenty seconds for the first."""

    async def delete(self, url: str, letters: Sequence[Letter]) -> None:
        """At most ten. They do not come again."""


class ZonalShift(Protocol):
    """Amazon Application Recovery Controller."""

    async def shifted(self, cluster: str) -> Sequence[str]:
        """Ids of zones that the cluster (its ARN) is shifted away from. NOT_FOUND if it takes no part."""


class ServiceQuotas(Protocol):
    async def vcpus(self) -> Quotas:
        """vCPUs that the account may run at once, per capacity type and family of types."""


class Pricing(Protocol):
    async def on_demand(self) -> Mapping[str, int]:
        """Price per type in the region, on demand, Linux, shared tenancy."""


class Sts(Protocol):
    async def get_caller_identity(self) -> Identity:
        """Who we are."""


class Aws(Protocol):
    """One account in one region."""

    @property
    def region(self) -> str: ...
    @property
    def ec2(self) -> Ec2: ...
    @property
    def ssm(self) -> Ssm: ...
    @property
    def iam(self) -> Iam: ...
    @property
    def eks(self) -> Eks: ...
    @property
    def sqs(self) -> Sqs: ...
    @property
    def zonal_shift(self) -> ZonalShift: ...
    @property
    def quotas(self) -> ServiceQuotas: ...
    @property
    def pricing(self) -> Pricing: ...
    @property
    def sts(self) -> Sts: ...
