"""resource.k8s.io/v1: device classes, claims for devices, and slices in which drivers publish devices.

Older versions of the group (v1beta1, v1beta2) have the same kinds in other shapes; they are not read.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from dovetail.api.core import NodeSelector
from dovetail.api.meta import Object, Part
from dovetail.units.quantity import Quantity

GROUP = "resource.k8s.io"
VERSION = f"{GROUP}/v1"

EXACT_COUNT = "ExactCount"
ALL = "All"

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class CelSelector(Part, frozen=True, kw_only=True):
    expression: str


class DeviceSelector(Part, frozen=True, kw_only=True):
    cel: CelSelector | None = None


class DeviceClassSpec(Part, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = VERSION
    KIND: ClassVar[str] = "DeviceClass"
    PLURAL: ClassVar[str] = "deviceclasses"
    NAMESPACED: ClassVar[bool] = False

    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(Part, frozen=True, kw_only=True):
    requests: dict[str, Quantity] = {}


class ExactDeviceRequest(Part, frozen=True, kw_only=True):
    """What `exactly` holds."""

    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 | None = None  # the server makes it 1 for ExactCount
    admin_access: bool = False
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Part, frozen=True, kw_only=True):
    """One alternative of `firstAvailable`; in results it is called `request/subrequest`."""

    name: str
    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(Part, frozen=True, kw_only=True):
    """Exactly one of the two forms, or one that this version does not know."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Part, frozen=True, kw_only=True):
    requests: tuple[str, ...] = ()  # names of requests, or `request/subrequest`; empty: all
    match_attribute: str | None = None  # a fully qualified name
    distinct_attribute: str | None = None


class DeviceClaim(Part, frozen=True, kw_only=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(Part, frozen=True, kw_only=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Part, frozen=True, kw_only=True):
    """One device that a claim was given."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str = msgspec.field(name="shareID", default="")  # of a device that claims share
    consumed_capacity: dict[str, Quantity] = {}


class DeviceResults(Part, frozen=True, kw_only=True):
    results: tuple[DeviceResult, ...] = ()


class Allocation(Part, frozen=True, kw_only=True):
    devices: DeviceResults = DeviceResults()
    node_selector: NodeSelector | None = None  # where the devices can be used; None: anywhere


class Consumer(Part, frozen=True, kw_only=True):
    """What may use the claim: a pod where `resource` is pods and `api_group` is empty."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class ResourceClaimStatus(Part, frozen=True, kw_only=True):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = VERSION
    KIND: ClassVar[str] = "ResourceClaim"
    PLURAL: ClassVar[str] = "resourceclaims"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Part, frozen=True, kw_only=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True, kw_only=True):
    """What the resource claim controller makes a pod's own claims from; the controller never reads it."""

    API_VERSION: ClassVar[str] = VERSION
    KIND: ClassVar[str] = "ResourceClaimTemplate"
    PLURAL: ClassVar[str] = "resourceclaimtemplates"

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceAttribute(Part, frozen=True, kw_only=True):
    """One value, of one type."""

    integer: Int64 | None = msgspec.field(name="int", default=None)
    boolean: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None  # semver 2.0.0


class CapacityRange(Part, frozen=True, kw_only=True):
    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityPolicy(Part, frozen=True, kw_only=True):
    default: Quantity | None = None  # what a claim uses that asks for nothing; None: all there is
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Part, frozen=True, kw_only=True):
    value: Quantity
    request_policy: CapacityPolicy | None = None


class Counter(Part, frozen=True, kw_only=True):
    value: Quantity


class CounterSet(Part, frozen=True, kw_only=True):
    name: str
    counters: dict[str, Counter] = {}


class CounterConsumption(Part, frozen=True, kw_only=True):
    counter_set: str
    counters: dict[str, Counter] = {}


class Device(Part, frozen=True, kw_only=True):
    """Names of attributes and capacity have a domain (`gpu.example.com/model`), or are of the driver's."""

    name: str
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Part, frozen=True, kw_only=True):
    name: str
    generation: Int64
    resource_slice_count: Int64


class ResourceSliceSpec(Part, frozen=True, kw_only=True):
    """One part of a pool; where its devices can be used is one of the four fields after `pool`."""

    driver: str
    pool: ResourcePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = VERSION
    KIND: ClassVar[str] = "ResourceSlice"
    PLURAL: ClassVar[str] = "resourceslices"
    NAMESPACED: ClassVar[bool] = False

    spec: ResourceSliceSpec
