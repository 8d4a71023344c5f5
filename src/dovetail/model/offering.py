"""What a provider sells: instance types and, per zone and capacity type, offerings with a price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.base.memo import by_identity
from dovetail.model.devices import NO_DEVICES, TemplateDevices
from dovetail.model.labels import RESERVED
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST, Resources, bounded, subtract


@dataclass(frozen=True, slots=True)
class Offering:
    """One instance type in one zone with one capacity type."""

    zone: str
    capacity_type: str
    price: int  # nano-dollars per hour
    requirements: Requirements  # zone, capacity type and whatever else distinguishes offerings
    available: bool = True  # False while launches come to nothing; a reservation that is full is well
    reservation_id: str = ""
    reservation_capacity: int = 0  # instances left in the reservation; 0 where not reserved
    estimated: bool = False  # True iff the price is our estimate, not a published one
    # What an instance takes of what offerings share, such as the vCPUs of a quota: (name, amount).
    draws: tuple[tuple[str, int], ...] = ()
    unpriced: bool = False  # True iff it would be available if a price were known
    # What the cloud asks where `price` is a NodeOverlay's; 0 where it is the same, or unknown.
    list_price: int = 0

    @property
    def asked(self) -> int:
        """What the cloud asks, whatever an overlay says, as far as that is known."""
        return self.list_price or self.price

    @property
    def launchable(self) -> bool:
        """True iff an instance may start: it is available, and no reservation that is full."""
        return self.available and (self.capacity_type != RESERVED or self.reservation_capacity > 0)


def affordable(offering: Offering, left: Mapping[str, int]) -> bool:
    """True iff there is enough left of all that an instance draws on; what is not named has no known end."""
    for name, amount in offering.draws:  # noqa: SIM110  all() takes three times as long, for two of them
        if left.get(name, amount) < amount:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the system keeps of a node's capacity."""

    kube_reserved: Resources = field(default_factory=dict)
    system_reserved: Resources = field(default_factory=dict)
    eviction_threshold: Resources = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type as a node pool sees it. `requirements` are its labels, DoesNotExist where it has none.

    Its capacity is less than LARGEST of anything, whatever a catalog or the volumes of a node class say.
    """

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Resources
    overhead: Overhead = field(default_factory=Overhead)
    devices: TemplateDevices = NO_DEVICES  # what claims for devices find on its nodes

    def __post_init__(self) -> None:
        if any(amount >= LARGEST for amount in self.capacity.values()):
            object.__setattr__(self, "capacity", bounded(self.capacity))

    def allocatable(self) -> dict[str, int]:
        """Capacity less all overhead, less than LARGEST; may be negative for the tiniest types."""
        return allocatable(self.capacity, self.overhead)


def allocatable(capacity: Resources, overhead: Overhead) -> dict[str, int]:
    """What `InstanceType.allocatable` answers."""
    rest = subtract(capacity, overhead.kube_reserved)
    rest = subtract(rest, overhead.system_reserved)
    return bounded(subtract(rest, overhead.eviction_threshold))


@by_identity(64)
def by_name(types: tuple[InstanceType, ...]) -> Mapping[str, InstanceType]:
    """The first of each name, in their order."""
    found: dict[str, InstanceType] = {}
    for kind in types:
        found.setdefault(kind.name, kind)
    return found
