"""Every node that the cloud may make of a planned claim."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from msgspec.structs import replace

from dovetail.api.core import Pod, PodSpec, Taint
from dovetail.api.meta import Meta
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.cluster_view import PodFacts
from dovetail.model.offering import InstanceType
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, fits, total
from dovetail.model.selector import EVERYTHING, NodeRule
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.verify.sold import Codes, Labels, Sold, World, Worlds, sold
from dovetail.verify.violation import Violation

_ALIKE = 8  # pods of one owner that a further one is compared with


class Offer:
    """Every node that the cloud may make of a claim, and what follows from them alone."""

    def __init__(self, worlds: Worlds, names: tuple[str, ...], wanted: Requirement) -> None:
        self._worlds, self._names, self._wanted = worlds, names, wanted
        listed = np.zeros(len(worlds.sold.kinds), dtype=np.bool_)
        listed[[worlds.sold.position[name] for name in names if name in worlds.sold.position]] = True
        self._rows = np.flatnonzero(listed[worlds.types])  # of the worlds
        self._distinct: dict[tuple[str, ...], list[dict[str, str]]] = {}
        self._values: dict[str, frozenset[tuple[str, ...]]] = {}
        self._rooms: dict[Hashable, list[Room]] = {}
        self._right: set[Hashable] = set()

    def once(self, rule: Hashable, check: Callable[[], Iterator[Violation]]) -> Iterator[Violation]:
        """What a rule has against a claim of this offer; one that has nothing against it is not asked again.

        `rule` names all that it looks at besides the offer and the names of claims.
        """
        if rule in self._right:
            return
        found = list(check())
        yield from found
        if not found:
            self._right.add(rule)

    @property
    def worlds(self) -> Iterator[World]:
        """In the plan's order of types."""
        return (world for name in self._names for world in self._worlds.of(name))

    @cached_property
    def first(self) -> World:
        """Of the cheapest type that can be had."""
        return next(self.worlds)

    @cached_property
    def prices(self) -> Mapping[str, int]:
        """Type -> its cheapest offering, in nano-dollars per hour, without what a node costs besides."""
        cheapest = self._worlds.cheapest
        return {name: cheapest[name] for name in self._names if name in cheapest}

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the types that the claim lists."""
        return tuple(
            f"{name} has no available offering that it could use"
            if name not in self.prices
            else f"lists {name}, but its requirements rule it out"
            for name in self._names
            if name not in self.prices or not self._wanted.has(name)
        )

    @cached_property
    def in_order(self) -> bool:
        """True iff the types are listed cheapest first."""
        listed = list(self.prices.values())
        return listed == sorted(listed)

    @cached_property
    def cheapest(self) -> int:
        return min(self.prices.values())

    @cached_property
    def dearest(self) -> int:
        return int(self._worlds.prices[self._rows].max())

    def has(self, name: str, zone: str, capacity_type: str, price: int) -> bool:
        """True iff there is such an offering among them."""
        return name in self.prices and any(
            (item.zone, item.capacity_type, item.price) == (zone, capacity_type, price)
            for item in self._worlds.offered(name)
        )

    def distinct(self, keys: Iterable[str]) -> list[dict[str, str]]:
        """Every label set that the node may have, reduced to these keys."""
        order = tuple(sorted(keys))
        if order not in self._distinct:
            codes, ways = self._worlds.together(order)
            found = {
                way for code in np.bincount(codes[self._rows]).nonzero()[0].tolist() for way in ways[code]
            }
            self._distinct[order] = [dict(items) for items in sorted(found)]
        return self._distinct[order]

    def values(self, key: str) -> frozenset[tuple[str, ...]]:
        """What the nodes may have of a label: per world the values that are possible, () for none."""
        if key not in self._values:
            codes, values = self._worlds.column(key)
            self._values[key] = frozenset(
                values[code] for code in np.bincount(codes[self._rows]).nonzero()[0].tolist()
            )
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
            order = tuple(sorted(node_keys(item.facts for item in daemons)))
            codes, ways = self._worlds.together(order)
            mine, types = codes[self._rows], self._worlds.types[self._rows]
            found: dict[tuple[int, ...], set[int]] = {}
            for code in np.bincount(mine).nonzero()[0].tolist():
                sets = {
                    tuple(i for i, item in enumerate(daemons) if runs_on(item, taints, name, node))
                    for node in map(dict, ways[code])
                }
                for chosen in sets:
                    found.setdefault(chosen, set()).update(types[mine == code].tolist())
            self._rooms[key] = [
                Room.of([daemons[i] for i in chosen], self._worlds.sold, some)
                for chosen, some in found.items()
            ]
        return self._rooms[key]


@dataclass(frozen=True, slots=True)
class Daemon:
    """The pod that a DaemonSet puts on each of its nodes."""

    name: str
    facts: PodFacts


@dataclass(frozen=True, slots=True)
class Room:
    """Types of node on which the same daemons run; `types` are their positions."""

    daemons: tuple[Daemon, ...]
    asked: Resources  # by the daemons together
    sold: Sold
    types: Codes
    least: dict[str, int] = field(
        default_factory=dict
    )  # of a resource on any of them, where it was asked for

    @staticmethod
    def of(daemons: Sequence[Daemon], goods: Sold, types: Iterable[int]) -> Room:
        """For these daemons on these types."""
        asked = total(item.facts.requests for item in daemons)
        return Room(tuple(daemons), asked, goods, np.array(sorted(types), dtype=np.int64))

    def short(self, asked: Resources) -> list[str]:
        """The types that do not hold this together with the daemons.

        What only daemons ask for is no concern, however much it is.
        """
        load = {name: amount + self.asked.get(name, 0) for name, amount in asked.items() if amount > 0}
        for name in load.keys() - self.least.keys():
            self.least[name] = int(self.sold.room(name)[self.types].min())
        if all(amount <= self.least[name] for name, amount in load.items()):
            return []
        positions = self.types.tolist()
        return [self.sold.kinds[one].name for one in positions if not fits(load, self.sold.rooms[one])]


def attached(pod: Pod) -> bool:
    """True iff some volume of the pod has a say in where it runs. Most pods have but credentials."""
    return any(one.persistent_volume_claim or one.ephemeral or one.csi for one in pod.spec.volumes)


def _sharing(pods: Iterable[Pod]) -> Iterator[Pod]:
    """The pods, of which those that are alike share their spec and their labels, as replicas do.

    Each is compared with others of its owner. The volume with its credentials, which has a name of its own in
    each pod that comes from a server, is left out.
    """
    seen: dict[Hashable, list[Pod]] = {}
    plain: dict[int, PodSpec] = {}  # by the identity of those that the problem holds
    for pod in pods:
        meta = pod.metadata
        owner = meta.controller()
        spec = plain.get(id(pod.spec))
        if spec is None:
            spec = replace(pod.spec, volumes=()) if pod.spec.volumes and not attached(pod) else pod.spec
            plain[id(pod.spec)] = spec
        some = seen.setdefault((meta.namespace, owner.name if owner else "", len(meta.labels)), [])
        like = next(
            (
                one
                for one in some[:_ALIKE]
                if (one.spec is spec or one.spec == spec)
                and (one.metadata.labels is meta.labels or one.metadata.labels == meta.labels)
            ),
            None,
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
        # By the identity of spec and labels, which the pods hold: those of one workload share them.
        self._alike: dict[tuple[int, int, str], PodFacts] = {}
        self._templates: dict[tuple[int, int, str], int | None] = {}
        self._template_of: dict[str, int | None] = {}  # by the key of a pod
        self._samples: dict[int, PodFacts] = {}  # by template
        self._sold: dict[str, Sold] = {}  # by pool
        self._allocatable: dict[int, dict[str, int]] = {}  # by the identity of types, which the problem holds
        self._offers: dict[Hashable, Offer] = {}
        self._of_claim: dict[int, tuple[PlannedClaim, Offer]] = {}  # by identity
        self._of_type: dict[tuple[str, Requirements, Labels], Worlds] = {}
        # Per pool, requirements and label: types with the values that a node of one could have.
        self.openings: dict[tuple[str, Requirements, str], list[tuple[InstanceType, frozenset[str]]]] = {}

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
        bound = {rule for node in self.problem.nodes for pod in node.pods for rule in _anti_affinity(pod)}
        pending = {rule for pod in self.pods for rule in self.like(pod).affinity.anti_affinity}
        return tuple(bound | pending)

    def repelled(self, facts: PodFacts) -> bool:
        """True iff some pod's required anti-affinity means this pod."""
        namespaces = self.problem.namespaces
        return any(rule.matches(facts.namespace, facts.labels, namespaces) for rule in self._repelling)

    def facts(self, key: str) -> PodFacts:
        """A pending pod with its rules resolved."""
        known = self._facts.get(key)
        return self.facts_of(self.pods[key]) if known is None else known

    def facts_of(self, pod: Pod) -> PodFacts:
        """Any pod of the problem with its rules resolved, once however often it is asked for."""
        known = self._facts.get(pod.key)
        if known is None or known.pod is not pod:
            known = self._facts[pod.key] = self._resolved(pod)
        return known

    def template(self, key: str) -> int | None:
        """Equal for pending pods that are made of one template: rules on one node judge them alike.

        None where names count: of one with a volume of its own, or that asks for a node by its name.
        """
        if key in self._template_of:
            return self._template_of[key]
        pod = self.pods[key]
        made_of = _made_of(pod)
        if made_of not in self._templates:
            named = attached(pod) or looks_at_names(self.facts(key).node_rule)
            self._templates[made_of] = None if named else len(self._templates)
        template = self._template_of[key] = self._templates[made_of]
        return template

    def like(self, key: str) -> PodFacts:
        """A pending pod as `facts` has it, or another of its template: rules judge them alike."""
        template = self.template(key)
        if template is None:
            return self.facts(key)
        found = self._samples.get(template)
        if found is None:
            found = self._samples[template] = self.facts(key)
        return found

    def _resolved(self, pod: Pod) -> PodFacts:
        if attached(pod):
            return PodFacts.of(pod, self.problem.volumes)
        key = _made_of(pod)
        like = self._alike.get(key)
        if like is None:
            like = self._alike[key] = PodFacts.of(pod, self.problem.volumes)
        return PodFacts(pod, like.requests, like.node_rule, like.ports, like.spread, like.affinity, {})

    def offer(self, claim: PlannedClaim) -> Offer:
        """What the cloud may make of the claim. Claims that ask for the same share it."""
        known = self._of_claim.get(id(claim))
        if known is None:
            known = self._of_claim[id(claim)] = claim, self._offer(claim)
        return known[1]

    def _offer(self, claim: PlannedClaim) -> Offer:
        key = (claim.pool, claim.requirements, tuple(sorted(claim.labels.items())), claim.instance_types)
        if key not in self._offers:
            worlds = self._worlds(self.pools[claim.pool], claim.requirements, claim.labels)
            wanted = claim.requirements.get(labels.INSTANCE_TYPE)
            self._offers[key] = Offer(worlds, claim.instance_types, wanted)
        return self._offers[key]

    def worlds(self, claim: PlannedClaim) -> Iterator[World]:
        """Every (type, offering) that the cloud may pick for the claim, in the plan's order of types."""
        return self.offer(claim).worlds

    def worlds_of_type(
        self, pool: Pool, requirements: Requirements, stamped: Mapping[str, str], name: str
    ) -> list[World]:
        """The offerings of one type that meet the requirements. Claims that ask for the same share them."""
        return list(self._worlds(pool, requirements, stamped).of(name))

    def _worlds(self, pool: Pool, requirements: Requirements, stamped: Mapping[str, str]) -> Worlds:
        asked, commons = without_type(requirements), self.problem.commons
        key = (pool.name, asked, tuple(sorted(stamped.items())))
        if key not in self._of_type:  # all of them are kept for as long as this plan is looked at
            certain = tuple(sorted({**pool.labels, labels.NODEPOOL: pool.name}.items()))
            left = tuple(sorted(commons.items()))
            self._of_type[key] = self.sold(pool).worlds(certain, *key[1:], left)
        return self._of_type[key]

    def sold(self, pool: Pool) -> Sold:
        """What the pool's provider sells."""
        if pool.name not in self._sold:
            self._sold[pool.name] = sold(pool.instance_types)
        return self._sold[pool.name]

    def allocatable(self, kind: InstanceType) -> Mapping[str, int]:
        """What pods may use of the type."""
        found = self._allocatable.get(id(kind))  # two pools may sell one type with other room
        if found is None:
            found = self._allocatable[id(kind)] = kind.allocatable()
        return found


def _made_of(pod: Pod) -> tuple[int, int, str]:
    return id(pod.spec), id(pod.metadata.labels), pod.metadata.namespace


def _anti_affinity(pod: Pod) -> tuple[AffinityRule, ...]:
    return affinity_rules(pod).anti_affinity


def looks_at_names(rule: NodeRule) -> bool:
    """True iff it asks for nodes by their names."""
    return any(term.fields != EVERYTHING for term in rule.terms or ())


@lru_cache(maxsize=1_024)  # 2 KiB each, as model/requirement.py has them
def without_type(requirements: Requirements) -> Requirements:
    """What is required of everything but the instance type."""
    return Requirements.of(item for item in requirements if item.key != labels.INSTANCE_TYPE)


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
