"""Every node that the cloud may make of a planned claim."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import product

from msgspec.structs import replace

from dovetail.api.core import Pod, Taint
from dovetail.api.meta import Meta
from dovetail.base.memo import by_identity
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.filters import PodFacts
from dovetail.model.offering import InstanceType, Offering, affordable
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources, total
from dovetail.model.taints import HARD_EFFECTS, untolerated

_ALIKE = 8  # pods of one owner that a further one is compared with


@dataclass(frozen=True, slots=True)
class World:
    """One type in one offering, with the values that each label of the node may have."""

    instance_type: InstanceType
    offering: Offering
    possible: Mapping[str, tuple[str, ...]]


class Offer:
    """Every node that the cloud may make of a claim, and what follows from them alone."""

    def __init__(self, worlds: list[World], allocatable: Callable[[InstanceType], Mapping[str, int]]) -> None:
        self.worlds = worlds
        self._allocatable = allocatable
        self._distinct: dict[tuple[str, ...], list[dict[str, str]]] = {}
        self._values: dict[str, frozenset[tuple[str, ...]]] = {}
        self._rooms: dict[Hashable, list[Room]] = {}

    @cached_property
    def prices(self) -> Mapping[str, int]:
        """Type -> its cheapest offering, in nano-dollars per hour, without what a node costs besides."""
        found: dict[str, int] = {}
        for world in self.worlds:
            name = world.instance_type.name
            found[name] = min(world.offering.price, found.get(name, world.offering.price))
        return found

    @cached_property
    def dearest(self) -> int:
        return max(world.offering.price for world in self.worlds)

    @cached_property
    def choices(self) -> frozenset[tuple[str, str, str, int]]:
        """(type, zone, capacity type, price)"""
        return frozenset(
            (
                world.instance_type.name,
                world.offering.zone,
                world.offering.capacity_type,
                world.offering.price,
            )
            for world in self.worlds
        )

    def distinct(self, keys: Iterable[str]) -> list[dict[str, str]]:
        """Every label set that the node may have, reduced to these keys."""
        order = tuple(sorted(keys))
        if order not in self._distinct:
            self._distinct[order] = _distinct(self.worlds, order)
        return self._distinct[order]

    def values(self, key: str) -> frozenset[tuple[str, ...]]:
        """What the nodes may have of a label: per world the values that are possible, () for none."""
        if key not in self._values:
            self._values[key] = frozenset({world.possible.get(key, ()) for world in self.worlds})
        return self._values[key]

    def rooms(self, daemons: Sequence[Daemon], taints: Sequence[Taint], name: str) -> list[Room]:
        """Its types by the DaemonSets that put a pod on a node of this name with these taints.

        A type whose offerings differ in that is in several. Where no daemon looks at the name, all share one.
        """
        by_name = any(
            term.fields.expressions for item in daemons for term in item.facts.node_rule.terms or ()
        )
        key = (tuple(taints), name if by_name else "")
        if key not in self._rooms:
            order = sorted(node_keys(item.facts for item in daemons))
            same: dict[str, list[World]] = {}
            for world in self.worlds:
                same.setdefault(world.instance_type.name, []).append(world)
            found: dict[tuple[int, ...], list[InstanceType]] = {}
            for some in same.values():
                nodes = _distinct(some, order)
                sets = {
                    tuple(i for i, item in enumerate(daemons) if runs_on(item, taints, name, node))
                    for node in nodes
                }
                for chosen in sets:
                    found.setdefault(chosen, []).append(some[0].instance_type)
            self._rooms[key] = [
                Room(tuple(daemons[i] for i in chosen), tuple(kinds), self._allocatable)
                for chosen, kinds in found.items()
            ]
        return self._rooms[key]


def _distinct(worlds: list[World], keys: Sequence[str]) -> list[dict[str, str]]:
    if not keys:
        return [{}] if worlds else []
    found: set[tuple[tuple[str, str], ...]] = set()
    for choice in {tuple(world.possible.get(key, ()) for key in keys) for world in worlds}:
        known = [(key, values) for key, values in zip(keys, choice, strict=True) if values]
        names = [key for key, _ in known]
        found.update(
            tuple(zip(names, values, strict=True)) for values in product(*(values for _, values in known))
        )
    return [dict(items) for items in sorted(found)]


@dataclass(frozen=True, slots=True)
class Daemon:
    """The pod that a DaemonSet puts on each of its nodes."""

    name: str
    facts: PodFacts


@dataclass(frozen=True)
class Room:
    """Types of node on which the same daemons run."""

    daemons: tuple[Daemon, ...]
    kinds: tuple[InstanceType, ...]
    allocatable: Callable[[InstanceType], Mapping[str, int]]
    _least: dict[str, int] = field(default_factory=dict)

    @cached_property
    def asked(self) -> Resources:
        """What the daemons ask for together."""
        return total(item.facts.requests for item in self.daemons)

    def least(self, name: str) -> int:
        """The least of a resource that one of the types leaves to pods and daemons."""
        if name not in self._least:
            self._least[name] = min(self.allocatable(kind).get(name, 0) for kind in self.kinds)
        return self._least[name]


def attached(pod: Pod) -> bool:
    """True iff some volume of the pod has a say in where it runs. Most pods have but credentials."""
    return any(one.persistent_volume_claim or one.ephemeral or one.csi for one in pod.spec.volumes)


def _sharing(pods: Iterable[Pod]) -> Iterator[Pod]:
    """The pods, of which those that are alike share their spec and their labels, as replicas do.

    Each is compared with others of its owner. The volume with its credentials, which has a name of its own in
    each pod that comes from a server, is left out.
    """
    seen: dict[Hashable, list[Pod]] = {}
    for pod in pods:
        meta, spec = pod.metadata, pod.spec
        owner = meta.controller()
        if spec.volumes and not attached(pod):
            spec = replace(spec, volumes=())
        some = seen.setdefault((meta.namespace, owner.name if owner else "", len(meta.labels)), [])
        like = next(
            (one for one in some[:_ALIKE] if one.spec == spec and one.metadata.labels == meta.labels), None
        )
        if like is None:
            pod = pod if spec is pod.spec else replace(pod, spec=spec)
            some.append(pod)
        elif like.spec is not pod.spec or like.metadata.labels is not meta.labels:
            pod = replace(pod, spec=like.spec, metadata=replace(meta, labels=like.metadata.labels))
        yield pod


class Catalogue:
    """A problem, with lookups that the checks share."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.pools = {pool.name: pool for pool in problem.pools}
        self.pods = {pod.key: pod for pod in _sharing(problem.pods)}
        self._facts: dict[str, PodFacts] = {}
        # By the identity of spec and labels, which the problem holds: pods of one workload share them.
        self._alike: dict[tuple[int, int, str], PodFacts] = {}
        self._allocatable: dict[str, dict[str, int]] = {}
        self._offers: dict[Hashable, Offer] = {}
        self._of_claim: dict[int, tuple[PlannedClaim, Offer]] = {}  # by identity
        self._of_type: dict[tuple[str, Requirements, tuple[tuple[str, str], ...]], _Worlds] = {}
        # Per pool, requirements and label: types with the values that a node of one could have.
        self.openings: dict[tuple[str, Requirements, str], list[tuple[InstanceType, frozenset[str]]]] = {}
        self._open: dict[tuple[str, Requirements], Mapping[str, list[Offering]]] = {}

    @cached_property
    def daemons(self) -> tuple[Daemon, ...]:
        return tuple(
            Daemon(
                item.key,
                PodFacts.of(
                    Pod(
                        metadata=Meta(name=item.metadata.name, namespace=item.metadata.namespace),
                        spec=item.spec.template.spec,
                    ),
                    self.problem.volumes,
                ),
            )
            for item in self.problem.daemonsets
        )

    @cached_property
    def _repelling(self) -> tuple[AffinityRule, ...]:
        bound = [pod for node in self.problem.nodes for pod in node.pods]
        rules = {rule for pod in (*self.problem.pods, *bound) for rule in affinity_rules(pod).anti_affinity}
        return tuple(rules)

    def repelled(self, facts: PodFacts) -> bool:
        """True iff some pod's required anti-affinity means this pod."""
        namespaces = self.problem.namespaces
        return any(rule.matches(facts.namespace, facts.labels, namespaces) for rule in self._repelling)

    def facts(self, key: str) -> PodFacts:
        """A pending pod with its rules resolved."""
        return self.facts_of(self.pods[key])

    def facts_of(self, pod: Pod) -> PodFacts:
        """Any pod of the problem with its rules resolved, once however often it is asked for."""
        known = self._facts.get(pod.key)
        if known is None or known.pod is not pod:
            known = self._facts[pod.key] = self._resolved(pod)
        return known

    def _resolved(self, pod: Pod) -> PodFacts:
        if attached(pod):
            return PodFacts.of(pod, self.problem.volumes)
        key = (id(pod.spec), id(pod.metadata.labels), pod.metadata.namespace)
        like = self._alike.get(key)
        if like is None:
            like = self._alike[key] = PodFacts.of(pod, self.problem.volumes)
        return PodFacts(pod, like.requests, like.node_rule, like.ports, like.spread, like.affinity, {})

    def offerings(self, pool: Pool, requirements: Requirements) -> Mapping[str, list[Offering]]:
        """Type -> offerings that are available and meet the requirements, instance type aside."""
        asked = _without_type(requirements)
        key, commons = (pool.name, asked), self.problem.commons
        if key not in self._open:
            found = _sold(pool.instance_types).offerings(asked)
            if commons:
                found = {
                    name: [offering for offering in some if affordable(offering, commons)]
                    for name, some in found.items()
                }
            self._open[key] = found
        return self._open[key]

    def offer(self, claim: PlannedClaim) -> Offer:
        """What the cloud may make of the claim. Claims that ask for the same share it."""
        known = self._of_claim.get(id(claim))
        if known is None:
            known = self._of_claim[id(claim)] = claim, self._offer(claim)
        return known[1]

    def _offer(self, claim: PlannedClaim) -> Offer:
        key = (claim.pool, claim.requirements, tuple(sorted(claim.labels.items())), claim.instance_types)
        if key not in self._offers:
            pool = self.pools[claim.pool]
            worlds = self._worlds(pool, claim.requirements, claim.labels)
            self._offers[key] = Offer(
                [world for name in claim.instance_types for world in worlds(name)], self.allocatable
            )
        return self._offers[key]

    def worlds(self, claim: PlannedClaim) -> list[World]:
        """Every (type, offering) that the cloud may pick for the claim, in the plan's order of types."""
        return self.offer(claim).worlds

    def worlds_of_type(
        self, pool: Pool, requirements: Requirements, stamped: Mapping[str, str], name: str
    ) -> list[World]:
        """The offerings of one type that meet the requirements. Claims that ask for the same share them."""
        return self._worlds(pool, requirements, stamped)(name)

    def _worlds(
        self, pool: Pool, requirements: Requirements, stamped: Mapping[str, str]
    ) -> Callable[[str], list[World]]:
        asked, commons = _without_type(requirements), self.problem.commons
        key = (pool.name, asked, tuple(sorted(stamped.items())))
        if key not in self._of_type:  # all of them are kept for as long as this plan is looked at
            certain = tuple(sorted({**pool.labels, labels.NODEPOOL: pool.name}.items()))
            self._of_type[key] = _sold(pool.instance_types).worlds(certain, *key[1:])
        every = self._of_type[key].of
        if not commons:
            return every
        return lambda name: [world for world in every(name) if affordable(world.offering, commons)]

    def types(self, pool: Pool) -> Mapping[str, InstanceType]:
        """The pool's types by name."""
        return _sold(pool.instance_types).by_name

    def allocatable(self, kind: InstanceType) -> Mapping[str, int]:
        """What pods may use of the type."""
        if kind.name not in self._allocatable:
            self._allocatable[kind.name] = kind.allocatable()
        return self._allocatable[kind.name]


class _Sold:
    """What a pool's provider sells, with what follows from it alone: the same for plan after plan."""

    def __init__(self, kinds: tuple[InstanceType, ...]) -> None:
        self.by_name = {kind.name: kind for kind in kinds}
        self.offerings = lru_cache(maxsize=8)(self._offerings)
        # 2 KiB for each offering: with all of a region's types 10 MiB for each set of requirements.
        self.worlds = lru_cache(maxsize=2)(partial(_Worlds, self))

    def _offerings(self, asked: Requirements) -> dict[str, list[Offering]]:
        """Type -> what of it is available and meets the requirements."""
        ways = {one.requirements for kind in self.by_name.values() for one in kind.offerings}  # a few
        suits = {terms: asked.overlaps(terms) for terms in ways}
        return {
            kind.name: [
                offering for offering in kind.offerings if offering.available and suits[offering.requirements]
            ]
            for kind in self.by_name.values()
            if asked.overlaps(kind.requirements)
        }


class _Worlds:
    """The worlds of all types for one set of labels and requirements; of each once it is asked for."""

    def __init__(
        self,
        sold: _Sold,
        certain: tuple[tuple[str, str], ...],
        asked: Requirements,
        stamped: tuple[tuple[str, str], ...],
    ) -> None:
        self._sold, self._asked = sold, asked
        # What the requirements of an offering allow: most types are offered in the same ways.
        self._terms: dict[Requirements, dict[str, tuple[str, ...]]] = {}
        self._certain, self._stamped = dict(certain), dict(stamped)
        self._known: dict[str, list[World]] = {}

    def of(self, name: str) -> list[World]:
        if name not in self._known:
            kind = self._sold.by_name.get(name)
            offered = self._sold.offerings(self._asked).get(name, ())
            self._known[name] = [] if kind is None else self._made(kind, offered)
        return self._known[name]

    def _made(self, kind: InstanceType, offerings: Sequence[Offering]) -> list[World]:
        """Each offering with the values that each label may have, but for the host name, not known yet."""
        certain = {
            **self._certain,
            labels.REGISTERED: "true",
            labels.INITIALIZED: "true",
            labels.INSTANCE_TYPE: kind.name,
        }
        asked, stamped = self._asked, self._stamped
        # A label that only the claim asks for is stamped with one value.
        base = {item.key: _some(stamped.get(item.key) or item.any_value()) for item in asked}
        base.update({key: (value,) for key, value in stamped.items()})
        base.update(_allowed(asked, kind.requirements))
        found = []
        for offering in offerings:
            terms = offering.requirements
            if terms not in self._terms:
                self._terms[terms] = _allowed(asked, terms)
            possible = {**base, **self._terms[terms]}
            possible.update({key: (value,) for key, value in certain.items()})
            # Kubelets still set the older names of these labels beside the current ones.
            possible.update({old: possible[key] for old, key in labels.ALIASES.items() if key in possible})
            found.append(World(kind, offering, {key: values for key, values in possible.items() if values}))
        return found


_sold = by_identity(2)(_Sold)


@lru_cache(maxsize=1_024)  # 2 KiB each, as model/requirement.py has them
def _without_type(requirements: Requirements) -> Requirements:
    return Requirements.of(item for item in requirements if item.key != labels.INSTANCE_TYPE)


def _allowed(asked: Requirements, sold: Requirements) -> dict[str, tuple[str, ...]]:
    found = {}
    for key, item in sold.by_key.items():
        allowed = asked.by_key[key].intersection(item) if key in asked.by_key else item
        if not allowed.complement:
            found[key] = tuple(sorted(allowed.values))
    return found


def _some(value: str) -> tuple[str, ...]:
    return (value,) if value else ()


def node_keys(facts: Iterable[PodFacts]) -> frozenset[str]:
    """The node labels that these pods' selectors and node affinities look at."""
    keys: set[str] = set()
    for item in facts:
        keys |= item.node_rule.selector.keys
        for term in item.node_rule.terms or ():
            keys |= term.labels.keys
    return frozenset(keys)


def runs_on(daemon: Daemon, taints: Iterable[Taint], name: str, node: Mapping[str, str]) -> bool:
    """True iff the DaemonSet puts a pod on a node with these taints, this name and these labels."""
    hard = [item for item in taints if item.effect in HARD_EFFECTS]
    if untolerated(hard, daemon.facts.pod.spec.tolerations):
        return False
    return daemon.facts.node_rule.matches(name, node)
