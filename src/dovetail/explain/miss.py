"""What an explanation is made of: frozen values, for tables and JSON alike."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Change:
    """One thing about the pod or its pool that could be otherwise; `change.apply` makes it so."""

    kind: str  # tolerate, label, request, limit, shared-limit, pool-label, topology, ports, min-values
    words: str  # as an order: "tolerate dedicated=gpu:NoSchedule"
    name: str = ""  # the label, the resource, the taint's key, or the kind of topology rule
    value: str = ""  # the taint's value, the label's value to allow, or the topology rule's label
    pool: str = ""  # the NodePool, where it is the pool that changes
    effect: str = ""  # the taint's effect
    amount: int = 0  # the new request, what the limit must be, or what is added to a shared one


@dataclass(frozen=True, slots=True)
class Miss:
    """A rule that stands between a pod and a place."""

    # limit, quota, pool, taint, label, volume, ports, spread, affinity, anti-affinity, resource, offer,
    # min-values; volume-limit on nodes that are there
    rule: str
    name: str  # the label, resource, or taint that it is about
    text: str  # one phrase for people, with amounts
    change: Change | None = None  # what would lift it, where one thing would


@dataclass(frozen=True, slots=True)
class Offer:
    """A type that could hold the pod, as it is sold."""

    instance_type: str
    zone: str
    capacity_type: str
    price: int  # nano-dollars per hour of the whole node
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """What would have to be otherwise for the pod to have a place: tried by solving again."""

    changes: tuple[Change, ...]  # all of them together; mostly one
    place: str  # "on a new m5.xlarge in z-a, $0.1920/h"


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """One pool's answer to a pod. Invariant: `misses` is empty iff `offer` is there."""

    pool: str
    offer: Offer | None = None  # the cheapest that could hold it
    misses: tuple[Miss, ...] = ()  # what the type that comes nearest fails
    ways: tuple[Way, ...] = ()  # single changes that would do

    @property
    def text(self) -> str:
        """The nearest miss in one phrase."""
        return "; ".join(item.text for item in self.misses)


@dataclass(frozen=True, slots=True)
class NodesVerdict:
    """What existing nodes and those of the plan say to a pod."""

    total: int = 0
    reasons: tuple[tuple[str, int], ...] = ()  # first rule that fails -> nodes, most first
    open: tuple[str, ...] = ()  # nodes that would take it
    nearest: str = ""  # the node that comes nearest
    misses: tuple[Miss, ...] = ()  # what it fails


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every pool and every node about one pod."""

    pools: tuple[PoolVerdict, ...] = ()
    nodes: NodesVerdict = field(default_factory=NodesVerdict)

    @property
    def refused(self) -> bool:
        """True iff nothing would take it."""
        return not self.nodes.open and all(item.offer is None for item in self.pools)
