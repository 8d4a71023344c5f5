"""What a solver is asked: one frozen value, the whole of its input but for the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from dovetail.api.core import Pod, Taint, Toleration
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.workloads import DaemonSet
from dovetail.base.clock import SECOND
from dovetail.base.defaults import SPOT_DIVERSITY, SPOT_TOLERANCE
from dovetail.model.devices import ClusterDevices, claims_devices
from dovetail.model.gangs import Gang
from dovetail.model.occupancy import Occupancy, occupancy
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST, Resources
from dovetail.model.shared_limits import Drawn, SharedLimit
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.model.volumes import VolumeIndex


@dataclass(frozen=True, slots=True)
class Pool:
    """A NodePool that may launch nodes now (ready, dynamic, not deleting)."""

    name: str
    node_class_ref: NodeClassRef
    requirements: Requirements  # spec.requirements and template labels, intersected
    labels: Mapping[str, str]  # template labels, as stamped on nodes
    instance_types: tuple[InstanceType, ...]  # all of the provider's for this pool, unfiltered
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    weight: int = 0
    limits: Resources | None = None  # None: unlimited; may hold the key "nodes"
    usage: Resources = field(default_factory=dict)  # capacity of its non-deleting nodes, "nodes" included
    volumes: int = 0  # nano-dollars per hour for the volumes of one node
    shared: Drawn = ()  # quota and resource of each shared limit that its nodes count for


@dataclass(frozen=True, slots=True)
class ExistingNode:
    """A node, or a node claim whose node has not come up yet (`in_flight`)."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]  # those that pods must tolerate: startup and ephemeral ones are left out
    allocatable: Resources  # less than LARGEST of anything
    capacity: Resources
    pods: tuple[Pod, ...] = ()  # bound, not terminal, daemon pods included
    pool: str = ""
    initialized: bool = True
    in_flight: bool = False
    volume_limits: Mapping[str, int] = field(default_factory=dict)  # CSI driver -> attachable volumes
    _occupancy: Occupancy | None = field(default=None, init=False, repr=False, compare=False)
    # The last names of resources that were asked for, with what is free of each.
    _free: tuple[tuple[str, ...], list[int]] = field(default=((), []), init=False, repr=False, compare=False)

    @property
    def occupancy(self) -> Occupancy:
        """What follows from its labels and pods, worked out once: what-ifs share their nodes."""
        if self._occupancy is None:
            object.__setattr__(self, "_occupancy", occupancy(self.name, self.labels, self.pods))
            assert self._occupancy is not None
        return self._occupancy

    def free(self, names: tuple[str, ...]) -> list[int]:
        """What its pods leave of each of these resources, within LARGEST. Most questions ask for the same."""
        known, amounts = self._free
        if known is not names and known != names:
            requests = self.occupancy.requests
            rest = [self.allocatable.get(name, 0) - requests.get(name, 0) for name in names]
            amounts = [max(-LARGEST, min(amount, LARGEST)) for amount in rest]
            object.__setattr__(self, "_free", (names, amounts))
        return amounts

    def lets_in(self, alternatives: Iterable[Requirements], tolerations: Sequence[Toleration]) -> bool:
        """True iff its labels and hard taints let pods run there that demand one of these."""
        hard = (taint for taint in self.taints if taint.effect in HARD_EFFECTS)
        return not untolerated(hard, tolerations) and any(map(self.occupancy.labels.suits, alternatives))

    def without_room(self) -> ExistingNode:
        """The node with nothing free: its pods count wherever pods are counted."""
        full = replace(self, allocatable={})
        object.__setattr__(full, "_occupancy", self.occupancy)
        return full

    def __reduce__(self) -> tuple[object, ...]:
        """Without what follows."""
        return ExistingNode, tuple(getattr(self, item.name) for item in fields(self) if item.init)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that change what a plan may be."""

    respect_preferences: bool = True  # --preference-policy
    strict_min_values: bool = True  # --min-values-policy
    well_known: frozenset[str] = frozenset()  # label keys that need not be defined by a pool
    spot_diversity: int = SPOT_DIVERSITY  # --spot-diversity; 1 asks for none
    spot_tolerance: int = SPOT_TOLERANCE  # --spot-tolerance
    node_surcharge: int = 0  # --node-surcharge: nano-dollars per hour that every node costs besides
    gangs: bool = True  # --gangs: pods that need each other have places together, or none
    shared_limits: tuple[SharedLimit, ...] = ()  # --shared-limits


@dataclass(frozen=True, slots=True)
class Problem:
    """Pending pods, and all they may be placed on. Nothing in it is ever changed."""

    pods: tuple[Pod, ...]
    pools: tuple[Pool, ...]  # by weight descending, then name descending
    nodes: tuple[ExistingNode, ...] = ()
    daemonsets: tuple[DaemonSet, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # name -> labels
    volumes: VolumeIndex = field(default_factory=VolumeIndex)
    options: Options = field(default_factory=Options)
    gangs: tuple[Gang, ...] = ()  # of these pods; a plan has places for enough of each, or for none
    # What is left of what offerings draw on, by name; without an entry it is not known to end.
    commons: Mapping[str, int] = field(default_factory=dict)
    # The devices that pods may claim, and their claims; None: pods that claim devices are left out.
    devices: ClusterDevices | None = None
    # False iff only room on the nodes counts: what is sold says which domains there could be, no more. Pods
    # that nodes would be bought for are left, and others may count on where they would have gone.
    buys: bool = True
    # False iff only what the pods must cost is asked, as far as it is proven at once: none has a place then.
    places: bool = True

    @property
    def claims_devices(self) -> bool:
        """True iff pods claim devices, and it is known which there are."""
        return self.devices is not None and any(map(claims_devices, self.pods))

    def extra(self, pool: Pool) -> int:
        """Nano-dollars per hour that a node of the pool costs besides its instance."""
        return pool.volumes + self.options.node_surcharge


# What one core of an ordinary machine gets through: measured 0.6 to 1.1 million on the benchmarks' problems.
WORK_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """Counted work, so that a plan does not depend on the machine's mood.

    One unit is about one candidate examined (a pod shape against a node or a type). A deadline maps to
    WORK_PER_SECOND units a second; virtual time charges the units used as time. The default is one second.
    """

    work: int = WORK_PER_SECOND

    @classmethod
    def within(cls, nanoseconds: int, rate: int = WORK_PER_SECOND) -> Budget:
        """What a machine that gets through `rate` units a second does in that time; at least one unit."""
        return cls(max(1, rate * nanoseconds // SECOND))


Ask = Callable[[Problem, int], Plan]  # a plan with so much work

# Where a question takes several plans, those after the first have what work it left, and at least this part
# of all of it.
_SHARE = 4


class Questions:
    """Plans one after the other, out of one budget."""

    def __init__(self, work: int, ask: Ask) -> None:
        self._work = work
        self._ask = ask
        self.used = 0

    def plan(self, problem: Problem) -> Plan:
        plan = self._ask(problem, max(self._work - self.used, self._work // _SHARE, 1))
        self.used += plan.work
        return plan
