"""Every node that the cloud may make of a planned claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from dovetail.api.core import Pod, Taint
from dovetail.api.meta import Meta
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.filters import PodFacts
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.solve.plan import PlannedClaim
from dovetail.solve.problem import Pool, Problem


@dataclass(frozen=True, slots=True)
class World:
    """One type in one offering, with the values that each label of the node may have."""

    instance_type: InstanceType
    offering: Offering
    possible: Mapping[str, tuple[str, ...]]

    def labels(self, keys: Iterable[str]) -> Iterator[dict[str, str]]:
        """Every label set that the node may have, reduced to these keys."""
        known = [key for key in keys if key in self.possible]
        for values in product(*(self.possible[key] for key in known)):
            yield dict(zip(known, values, strict=True))


@dataclass(frozen=True, slots=True)
class Daemon:
    """The pod that a DaemonSet puts on each of its nodes."""

    name: str
    facts: PodFacts


class Catalogue:
    """A problem, with lookups that the checks share."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.pools = {pool.name: pool for pool in problem.pools}
        self.pods = {pod.key: pod for pod in problem.pods}
        self._facts: dict[str, PodFacts] = {}
        self._open: dict[tuple[str, Requirements], dict[str, list[Offering]]] = {}

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
        if key not in self._facts:
            self._facts[key] = PodFacts.of(self.pods[key], self.problem.volumes)
        return self._facts[key]

    def offerings(self, pool: Pool, requirements: Requirements) -> Mapping[str, list[Offering]]:
        """Type -> offerings that are available and meet the requirements, instance type aside."""
        asked = Requirements.of(item for item in requirements if item.key != labels.INSTANCE_TYPE)
        key = (pool.name, asked)
        if key not in self._open:
            self._open[key] = {
                item.name: [
                    offering
                    for offering in item.offerings
                    if offering.available and not asked.intersects(offering.requirements)
                ]
                for item in pool.instance_types
                if not asked.intersects(item.requirements)
            }
        return self._open[key]

    def worlds(self, claim: PlannedClaim) -> list[World]:
        """Every (type, offering) that the cloud may pick for the claim, in the plan's order of types."""
        pool = self.pools[claim.pool]
        types = {item.name: item for item in pool.instance_types}
        open_offerings = self.offerings(pool, claim.requirements)
        return [
            World(types[name], offering, possible_labels(pool, claim, types[name], offering))
            for name in claim.instance_types
            for offering in open_offerings.get(name, ())
        ]


def possible_labels(
    pool: Pool, claim: PlannedClaim, instance_type: InstanceType, offering: Offering
) -> dict[str, tuple[str, ...]]:
    """Label -> values that a node of this claim, type and offering may carry."""
    possible: dict[str, tuple[str, ...]] = {}
    for item in claim.requirements:
        # A label that only the claim asks for is stamped with one value.
        stamped = claim.labels.get(item.key) or item.any_value()
        if stamped:
            possible[item.key] = (stamped,)
    for source in (instance_type.requirements, offering.requirements):
        for item in source:
            allowed = claim.requirements.get(item.key).intersection(item)
            if not allowed.complement:
                possible[item.key] = tuple(sorted(allowed.values))
    certain = {
        **pool.labels,
        **{key: value for key, value in claim.labels.items() if key not in possible},
        labels.REGISTERED: "true",
        labels.INITIALIZED: "true",
        labels.NODEPOOL: pool.name,
        labels.INSTANCE_TYPE: instance_type.name,
        labels.HOSTNAME: claim.name,
    }
    possible.update({key: (value,) for key, value in certain.items()})
    # Kubelets still set the older names of these labels beside the current ones.
    possible.update({old: possible[key] for old, key in labels.ALIASES.items() if key in possible})
    return {key: values for key, values in possible.items() if values}


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
