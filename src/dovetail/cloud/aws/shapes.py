"""What AWS answers, as far as it is read.

Instants are nanoseconds since the epoch, prices nano-dollars per hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.cloud.aws.fleet_errors import FleetError

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
    public_by_default: bool = False  # True iff instances get a public address unasked
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
    private_dns: str = ""
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
