"""What a solver answers: one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Taint
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources

MOST_TYPES = 600  # that a claim lists, as Karpenter's do


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A node to buy. The first type and offering are the cheapest; the cloud may pick any that is listed."""

    name: str  # unique within the plan: "<pool>-<index>"
    pool: str
    pods: tuple[str, ...]  # "namespace/name", sorted
    requirements: Requirements  # as written on the NodeClaim, instance types included
    instance_types: tuple[str, ...]  # cheapest first, at most MOST_TYPES
    requests: Resources  # pods and the least daemonset overhead of the listed types
    instance_type: str  # the cheapest offering's
    zone: str
    capacity_type: str
    price: int  # nano-dollars per hour of a node of that offering, all parts of it
    worst: int  # the same of the dearest offering of any listed type
    volumes: int = 0  # the part of the price that is for volumes
    surcharge: int = 0  # the part that the settings add to every node
    price_estimated: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    min_values_relaxed: bool = False
    likely: int | None = None  # as the price, of what a fleet is likely to choose; None if not looked at
    # Where pods are not nominated: the node's turn to open, from 1 on. 0: that is open.
    opens: int = 0
    drivers: tuple[str, ...] = ()  # whose devices of the node its pods claim; sorted

    @property
    def instance_price(self) -> int:
        """Nano-dollars per hour of the offering alone."""
        return self.price - self.volumes - self.surcharge


# The reason of a pod that was not looked at: one more plan may well have a place for it.
OUT_OF_TIME = "the time for the plan was over before it was this pod's turn"
# How the reasons of a pod begin that a pool has a node for, but no more of them.
LIMITED = "all available instance types exceed limits for nodepool"
NODES_LIMITED = "node limits have been exhausted for nodepool"
USED_UP = "not enough is left of"  # a reservation, the addresses of a subnet
# Of a pool that has for the pod only reservations of which nothing is left; and if it is one of several.
ALL_FULL = "all compatible reserved offerings are full and no on-demand or spot fallback is available"
ONE_FULL = "the only compatible reserved offering is full; falling through to other NodePools"
# Of a plan that may buy nothing: no pool is asked why it has no node for the pod.
NO_ROOM = "no node has room for it, and nothing is to be bought"


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """A pod that is left over, and the first rule that fails per pool."""

    pod: str
    reason: str  # the words of the event, without "Failed to schedule pod, "
    pools: Mapping[str, str] = field(default_factory=dict)
    # Of a pod that others of its gang leave without a place: what of the gang; `pools` are of those others.
    gang: str = ""

    @property
    def untried(self) -> bool:
        """True iff the search did not come to it: one more plan may well have a place for it."""
        return self.reason == OUT_OF_TIME

    @property
    def limited(self) -> bool:
        """True iff a pool would have a node for it, if there might be one more."""
        return bool(self.limiting)

    @property
    def limiting(self) -> tuple[str, ...]:
        """The pools that would have a node for it, if there might be one more."""
        ends = LIMITED, NODES_LIMITED, USED_UP
        return tuple(name for name, text in self.pools.items() if text.startswith(ends))


@dataclass(frozen=True, slots=True)
class Cost:
    """Nano-dollars per hour of what the plan buys."""

    hourly: int  # if the cloud has the cheapest that each claim lists
    lower_bound: int  # no plan that places the same pods costs less

    @property
    def gap(self) -> float:
        """Share of the cost that is not proven necessary, 0.0 to 1.0."""
        return 1 - self.lower_bound / self.hourly if self.hourly else 0.0


# How a proof was found.
NOTHING = "nothing"  # there is no proof but that prices are not negative
DEAREST_POD = "dearest pod"  # some node has to hold one particular pod
RELAXATION = "relaxation"  # worths of pods by the resources that they take
COLUMNS = "columns"  # worths of pods by what whole nodes can hold
WHOLE_NUMBERS = "whole numbers"  # an integer program: no whole nodes do for less
BETWEEN_PODS = "rules between pods"  # the same, domain by domain, with what pods ask of each other


@dataclass(frozen=True, slots=True)
class Worth:
    """What each of some pods, which no rule distinguishes, is worth in a proof."""

    pods: tuple[str, ...]  # those that the proof counts; the first one stands for all
    each: int  # nano-dollars per hour
    pools: tuple[str, ...] = ()  # NodePools of which nodes may be bought for them; sorted


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Of some pods of a proof, `most` together fit on one node, whatever its size."""

    name: str
    most: int
    pods: tuple[int, ...]  # positions in the proof's `worth`; all pods of each count
    price: int = 0  # nano-dollars per hour that the relaxation pays for the rule


@dataclass(frozen=True, slots=True)
class LimitPrice:
    """What a proof adds to the price of nodes that take of a NodePool's limit: for all that is left of it
    `price`, and for a part of it that part.
    """

    pool: str
    resource: str  # "nodes" for their number
    left: int  # before the plan, in the units of model/resources; more than 0
    price: int  # nano-dollars per hour


@dataclass(frozen=True, slots=True)
class Proof:
    """Why no plan that places the same pods, and keeps what the plan promised them, costs less than `bound`.

    Promised is the weight of the NodePool that a node is bought from for a pod, and every preference that
    was kept. To check the proof: take an offering that can be bought for one of the pods listed,
    that is, it is in one of the pod's `pools` and the pod can be on it. Then no set of pods listed that fits
    there is worth more than a node of the offering costs, `rules` and `apart` included, whatever pools they
    are to be bought from. And none that fits into free room is worth more than `absorbed` says. So what is
    bought costs at least what all the pods are worth together, less what free room absorbs: that is `bound`
    or more. A pod that is not listed is worth nothing. Where `limits` have a price, a node costs so much more
    in that sum as it takes of them, and all that is left of them is taken off the bound. Where a limit
    refuses a type by the end of the plan, the pods on nodes of its pool are promised that they stay on nodes
    of pools of that weight at least.

    With "whole numbers" the worths prove `linear` alone. The rest follows from an integer program: over the
    number of nodes per offering, which as one together hold their pods, or over all sets of pods that a
    plan for less can use, those which cost less than `bound - linear` beyond their worth. Either keeps to
    what is left of NodePools' limits, and the latter buys no node but for a pod that lists its pool. With
    "rules between pods" it is a program as well: nodes per offering, pods per offering and node, and of
    every rule of the pods what holds in the end; `testing.between` writes it anew from the rules alone.
    """

    bound: int = 0  # nano-dollars per hour
    linear: int = 0  # what the worths prove; with every other method the bound itself
    method: str = NOTHING
    worth: tuple[Worth, ...] = ()
    # Node name, or reservation id for all its machines together -> nano-dollars per hour; 0 if not named.
    absorbed: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[NodeRule, ...] = ()
    apart: tuple[tuple[int, int], ...] = ()  # positions in `worth` that share no node, beyond the rules
    limits: tuple[LimitPrice, ...] = ()  # those that have a price


@dataclass(frozen=True, slots=True)
class Plan:
    """Where every pending pod goes. Tuples are sorted by name, so equal plans compare equal."""

    claims: tuple[PlannedClaim, ...] = ()
    existing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # node -> pods "ns/name"
    unschedulable: tuple[Unschedulable, ...] = ()
    cost: Cost = field(default_factory=lambda: Cost(0, 0))
    relaxed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # pod -> preferences given up
    proof: Proof = field(default_factory=Proof)  # of the cost's lower bound
    work: int = 0  # units of the budget that were used

    @property
    def left(self) -> tuple[str, ...]:
        """The pods that have no place."""
        return tuple(item.pod for item in self.unschedulable)

    @property
    def untried(self) -> tuple[str, ...]:
        """Those of them that the search did not come to."""
        return tuple(item.pod for item in self.unschedulable if item.untried)

    @property
    def refused(self) -> tuple[str, ...]:
        """The others of them: no place was found for these."""
        return tuple(item.pod for item in self.unschedulable if not item.untried)


@dataclass(frozen=True, slots=True)
class Step:
    """What is known of a plan after a phase of the search. Money in nano-dollars per hour."""

    phase: str
    work: int  # units so far
    cost: int
    bound: int
    nodes: int
    left: int  # pods without a place
    columns: int  # patterns that column generation found so far
    moves: int  # that were tried so far
    given_up: bool = False  # True iff the deadline came within the phase
