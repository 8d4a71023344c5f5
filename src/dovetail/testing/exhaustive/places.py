"""Every node that pods may be put on: existing ones, and each offering with all its labels decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from dovetail.api.core import Pod
from dovetail.model import labels
from dovetail.model.affinity import affinity_rules
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import Placement
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.ports import HostPort, port_error
from dovetail.model.problem import ExistingNode, Pool
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, add, fits, subtract
from dovetail.model.selector import Selector
from dovetail.model.spread import spread_rules
from dovetail.verify.existing import cluster_view
from dovetail.verify.sold import World
from dovetail.verify.worlds import Catalogue, node_keys, runs_on

# Labels that every node of ours gets by itself: never written on a claim.
_GIVEN = frozenset({labels.REGISTERED, labels.INITIALIZED, labels.NODEPOOL, labels.HOSTNAME})
_NEW = "a new node"


@dataclass(frozen=True, slots=True)
class Site:
    """A node that can be bought: one offering, with one value for each label that some rule looks at."""

    pool: Pool
    kind: InstanceType
    offering: Offering
    labels: Mapping[str, str]
    decided: tuple[Requirement, ...]  # what a claim asks for, so that the node gets these labels
    price: int  # nano-dollars per hour of the node, all parts of it
    room: Resources  # for pods: allocatable, less daemons
    ports: tuple[HostPort, ...]  # taken by daemons

    @property
    def reservation(self) -> str:
        return self.offering.reservation_id


def domain_keys(catalogue: Catalogue) -> frozenset[str]:
    """The labels whose values are domains of some rule between pods, host names aside."""
    problem = catalogue.problem
    every = [*problem.pods, *(pod for node in problem.nodes for pod in node.pods)]
    keys = {rule.key for pod in every for rule in spread_rules(pod)}
    for pod in every:
        rules = affinity_rules(pod)
        keys |= {rule.key for rule in (*rules.affinity, *rules.anti_affinity)}
    return frozenset(labels.ALIASES.get(key, key) for key in keys) - {labels.HOSTNAME}


def sites(catalogue: Catalogue) -> Iterator[Site]:
    """All of them, pool by pool."""
    facts = [catalogue.facts_of(pod) for pod in catalogue.problem.pods]
    looked_at = node_keys([*facts, *(daemon.facts for daemon in catalogue.daemons)])
    keys = sorted((looked_at | domain_keys(catalogue) | {labels.ZONE, labels.REGION}) - _GIVEN)
    for pool in catalogue.problem.pools:
        for chosen in _choices(catalogue, pool, keys, facts):
            asked = pool.requirements.add(*chosen)
            stamped = {**pool.labels, **{item.key: item.any_value() for item in chosen}}
            for kind in pool.instance_types:
                for world in catalogue.worlds_of_type(pool, asked, stamped, kind.name):
                    yield from _sites(catalogue, pool, chosen, world, keys)


def _choices(
    catalogue: Catalogue, pool: Pool, keys: Sequence[str], facts: Sequence[PodFacts]
) -> Iterator[tuple[Requirement, ...]]:
    """Values for the labels that neither a type nor an offering decides but a claim may."""
    sold = {item.key for kind in pool.instance_types for item in kind.requirements}
    sold |= {
        item.key for kind in pool.instance_types for sale in kind.offerings for item in sale.requirements
    }
    ways: list[list[Requirement | None]] = []
    for key in keys:
        if key in sold or key in pool.labels:
            continue
        found = pool.requirements.by_key.get(key)
        if found is not None and not found.complement:
            ways.append([Requirement.new(key, "In", (value,)) for value in sorted(found.values)] or [None])
        elif found is not None or key in catalogue.problem.options.well_known:
            named = sorted(value for value in _mentioned(key, facts) if found is None or found.has(value))
            some = [Requirement.new(key, "In", (value,)) for value in named]
            ways.append([*some, None])
    for way in product(*ways):
        yield tuple(item for item in way if item is not None)


def _mentioned(key: str, facts: Sequence[PodFacts]) -> set[str]:
    rules = [item.node_rule for item in facts]
    selectors: list[Selector] = [rule.selector for rule in rules]
    selectors += [term.labels for rule in rules for term in rule.terms or ()]
    return {
        value
        for selector in selectors
        for item in selector.expressions or ()
        if item.key == key
        for value in item.values
    }


def _sites(
    catalogue: Catalogue, pool: Pool, chosen: tuple[Requirement, ...], world: World, keys: Sequence[str]
) -> Iterator[Site]:
    known = {key: values for key, values in world.possible.items() if len(values) == 1}
    several = [key for key in keys if len(world.possible.get(key, ())) > 1]
    if world.offering.capacity_type == labels.RESERVED and world.offering.reservation_capacity < 1:
        return
    for values in product(*(world.possible[key] for key in several)):
        node = {key: value[0] for key, value in known.items()}
        node.update(zip(several, values, strict=True))
        room: Resources = catalogue.allocatable(world.instance_type)
        ports: tuple[HostPort, ...] = ()
        for daemon in catalogue.daemons:
            if runs_on(daemon, pool.taints, _NEW, node):
                room = subtract(room, daemon.facts.requests)
                ports += daemon.facts.ports
        pinned = [Requirement.new(key, "In", (node[key],)) for key in keys if key in node]
        price = world.offering.price + catalogue.problem.extra(pool)
        decided = (*chosen, *pinned, *_sale(world))
        yield Site(pool, world.instance_type, world.offering, node, decided, price, room, ports)


def _sale(world: World) -> Iterator[Requirement]:
    """What distinguishes the offering from the type's others."""
    for item in world.offering.requirements:
        if not item.complement and item.values:
            yield item
    if not world.offering.reservation_id:
        yield Requirement.new(labels.CAPACITY_TYPE, "In", (world.offering.capacity_type,))


def lets_in(catalogue: Catalogue, pod: Pod, site: Site) -> bool:
    """True iff the pod may run on the site when alone there, however much it asks for."""
    facts = catalogue.facts_of(pod)
    node = NodeView(_NEW, site.labels, add(facts.requests, {"pods": 1}), taints=site.pool.taints)
    view = ClusterView([node], catalogue.problem.namespaces, catalogue.problem.volumes)
    return not Placement(pod, view).alone(node)


def free_ports(facts: Sequence[PodFacts], taken: tuple[HostPort, ...]) -> bool:
    """True iff the pods' host ports clash neither with each other nor with those that are taken."""
    if any(item.ports and taken and port_error(item.ports, taken) for item in facts):
        return False
    return not any(a.ports and b.ports and port_error(a.ports, b.ports) for a, b in combinations(facts, 2))


def holds(catalogue: Catalogue, node: ExistingNode, pods: Sequence[Pod]) -> bool:
    """True iff an existing node takes all the pods, one after another, and still has room for its daemons."""
    view = cluster_view(catalogue, [node])
    load: Resources = {}
    for pod in pods:
        if Placement(pod, view).alone(view.nodes[node.name]):
            return False
        view.add_pod(pod, node.name)
        load = add(load, catalogue.facts_of(pod).requests)
    return fits(load, free_room(catalogue, node))


def free_room(catalogue: Catalogue, node: ExistingNode) -> Resources:
    """What pods may still use of an existing node: less what runs there, and what its daemons will take."""
    room: Resources = subtract(node.allocatable, cluster_view(catalogue, [node]).nodes[node.name].used)
    owners = (pod.metadata.controller() for pod in node.pods)
    present = {owner.name for owner in owners if owner is not None and owner.kind == "DaemonSet"}
    for daemon in catalogue.daemons:
        there = daemon.name.rpartition("/")[2] in present
        if not there and runs_on(daemon, node.taints, node.name, node.labels):
            room = subtract(room, daemon.facts.requests)
    return room


def asked_of(site: Site) -> Requirements:
    """A claim that can only become this site's node, its type aside."""
    return site.pool.requirements.add(*site.decided)
