"""Everything that is computed once per problem: tables, pod classes, nodes, topology counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.api.core import Toleration
from dovetail.model.arrays import Amounts, Axis, Mask
from dovetail.model.daemons import Daemon
from dovetail.model.labels import HOSTNAME
from dovetail.model.matching import ports_conflict, untolerated
from dovetail.model.pod_rules import Rules
from dovetail.model.ports import HostPort
from dovetail.model.problem import WORK_PER_SECOND, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.budget import CELLS, SolveBudget
from dovetail.solve.instance.existing_nodes import Nodes, Present, repelling
from dovetail.solve.instance.interchangeable import interchangeable
from dovetail.solve.instance.interning import Interner
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.pool_table import PoolTable, reserve
from dovetail.solve.instance.shared_quotas import SharedQuotas, limited_pools
from dovetail.solve.instance.topology import SPREAD, DomainOf, GroupKey, Pins, Topology


@dataclass(frozen=True, slots=True)
class Place:
    """A way to host something on a new node: which pools, which pinned labels, and about what it costs."""

    pools: tuple[int, ...]
    pins: Pins
    estimate: float  # nano-dollars per hour for its share of the best node


class Instance:
    """A problem, encoded."""

    def __init__(self, problem: Problem, work: SolveBudget, *, strict: bool = False) -> None:
        self.problem = problem
        self.work = work
        self.well_known = problem.options.well_known
        self.topology = Topology(problem.namespaces)
        soft = any(
            taint.effect == "PreferNoSchedule"
            for taints in (*(pool.taints for pool in problem.pools), *(node.taints for node in problem.nodes))
            for taint in taints
        )
        interner = Interner(
            problem.options,
            self.topology,
            problem.volumes,
            soft_taints_exist=soft,
            reading=work.clock.reading,
            seconds=max(1, work.rest // WORK_PER_SECOND),
        )
        repelled = repelling(problem.nodes, self.topology)
        self.axis = Axis({"cpu", "memory", "pods", *interner.read(problem.pods), *_of_daemons(problem)})
        self.left_out = tuple(interner.left_out)  # pods that there is no time for
        self.pod_classes: list[PodClass] = interner.pod_classes(self.axis)
        vectors = np.array([each.vector for each in self.pod_classes], np.int64).reshape(
            -1, len(self.axis.names)
        )
        pods = np.array([len(pod_class.pods) for pod_class in self.pod_classes], dtype=np.float64)
        self._total = pods @ vectors.astype(np.float64)  # what all pods ask for
        daemons = [Daemon(item, self.axis) for item in problem.daemonsets]
        self.tables = [
            PoolTable(pool, index, self.axis, problem.extra(pool), problem.commons)
            for index, pool in enumerate(problem.pools)
        ]
        self.overhead: list[Amounts] = []
        self.ports: list[tuple[HostPort, ...]] = []
        for table in self.tables:
            taken, ports = reserve(table, daemons, self.well_known)
            table.reserve(taken)
            table.foresee(vectors)
            self.overhead.append(taken)
            self.ports.append(ports)
        asked = self.pod_classes, self.topology
        self.commons = SharedQuotas(problem, self.tables, asked, strict=strict)
        self.tight, self.loose = limited_pools(self.tables, asked, strict=strict)
        self.tiers = _tiers(problem)
        self.nodes = Nodes(problem, self.axis, daemons)
        self.present = Present(self.nodes, self.topology)
        # Per pool, which part of each type all pods together fill: a node larger than that is paid for whole.
        self._capacities = [  # (R, T)
            np.ascontiguousarray(np.maximum(table.capacity, 1).T, dtype=np.float64) for table in self.tables
        ]
        self._filled = [
            np.clip((self._total[:, None] / capacity).max(axis=0, initial=0.0), 1e-12, 1.0)
            for capacity in self._capacities
        ]
        self._reached: dict[tuple[object, ...], list[str]] = {}
        self._places: dict[tuple[object, ...], list[Place]] = {}
        self._certain: dict[tuple[str, int, Requirements], int] = {}  # values that all columns have, or -1
        self._tolerated: dict[tuple[int, tuple[Toleration, ...], bool], bool] = {}
        # Per pool what packing may fill of each type, and what it was worked out for last.
        self.diverse: dict[int, tuple[bytes, Amounts]] = {}
        # Spreads whose owners all have the same domains on new nodes.
        self.uniform: frozenset[int] = frozenset()
        # Pools whose limits allow one more node of some type.
        self.buying = [pool for pool in range(len(self.tables)) if self._may_buy(pool)]
        self.present.count(repelled)
        self._open_universes()
        self.before = [
            (dict(group.matched), dict(group.owners), dict(group.universe), group.closed)
            for group in self.topology.groups
        ]

    @cached_property
    def interchangeable(self) -> tuple[tuple[int, ...], frozenset[int]]:
        """Per pod class the first that it may change places with in a plan, and groups that are idle then."""
        keys = {group.id.key for group in self.topology.groups}
        domains = {key: len(set().union(*(table.domains(key) for table in self.tables))) for key in keys}
        return interchangeable(self.pod_classes, self.topology.groups, self.before, domains)

    def reset(self, opened: Mapping[GroupKey, tuple[str, ...]]) -> None:
        """As if nothing had been placed; `opened`: domains that other nodes will open, per spread."""
        self.nodes.reset()
        for group, (matched, owners, universe, closed) in zip(self.topology.groups, self.before, strict=True):
            group.closed, group.running = closed, None
            group.matched, group.owners, group.universe = matched.copy(), owners.copy(), universe.copy()
        if opened:
            for group in self.topology.groups:
                group.universe.update(dict.fromkeys(opened.get(group.id, ())))

    def suits(self, pool: int, wanted: Requirements, rules: Rules) -> bool:
        """True iff the pool's taints and labels let such a pod in."""
        table = self.tables[pool]
        memo = pool, rules.tolerations, rules.soft_taints
        tolerated = self._tolerated.get(memo)
        if tolerated is None:
            taint = untolerated(table.pool.taints, rules.tolerations, soft=rules.soft_taints)
            tolerated = self._tolerated[memo] = taint is None
        if not tolerated:
            return False
        if any(key not in table.base.by_key and key not in self.well_known for key in rules.needed()):
            return False
        return table.base.suits(wanted, self.well_known)

    def suits_pinned(self, pool: int, demands: Requirements, pins: Pins, rules: Rules) -> bool:
        """As `suits`, on a node with these pins. A pin alone asks nothing of a pool that does not name it."""
        base = self.tables[pool].base.by_key
        known = tuple([(key, value) for key, value in pins if key in base or key in self.well_known])
        return self.suits(pool, Requirements.of((*demands, *pinned(known))), rules)

    def columns(self, pool: int, wanted: Requirements, vector: Amounts) -> Mask:
        """The pool's columns that meet the demands and hold the requests, shape (C,)."""
        table = self.tables[pool]
        self.work.spend(1 + len(table.offerings) // CELLS)
        mask: Mask = table.usable(wanted) & table.fits(vector)[table.column_type]
        return mask

    def certain_value(self, key: str, pool: int, requirements: Requirements, types: tuple[int, ...]) -> str:
        """The value of a label that a node of these types has for certain; '' if there may be several."""
        table, memo = self.tables[pool], (key, pool, requirements)
        codes, values = table.combinations((key,))
        usable = table.usable(requirements)
        code = self._certain.get(memo)
        if code is None:
            code = self._certain[memo] = _only(codes[usable])
        if code < 0:  # the requirements leave a choice, and so does each type, or none does
            first, end = np.searchsorted(table.column_type, (types[0], types[0] + 1)).tolist()
            code = _only(codes[first:end][usable[first:end]])
            if code >= 0:
                code = _only(codes[usable & np.isin(table.column_type, types)])
        return values[code][0] if code >= 0 else ""

    def places(
        self, pools: tuple[int, ...], wanted: Requirements, vector: Amounts, keys: tuple[str, ...]
    ) -> list[Place]:
        """Ways to host such requests on a new node of these pools: one per combination of pins."""
        memo = (pools, wanted, vector.tobytes(), keys)
        known = self._places.get(memo)
        if known is None:
            found: dict[Pins, tuple[tuple[int, ...], float]] = {}
            for pool in pools:
                for pins, estimate in self._combinations(pool, wanted, vector, keys).items():
                    at, least = found.get(pins, ((), estimate))
                    found[pins] = (*at, pool), min(least, estimate)
            known = [Place(at, pins, estimate) for pins, (at, estimate) in found.items()]
            known.sort(key=lambda place: (place.estimate, place.pins))
            self._places[memo] = known
        return known

    def _combinations(
        self, pool: int, wanted: Requirements, vector: Amounts, keys: tuple[str, ...]
    ) -> dict[Pins, float]:
        table = self.tables[pool]
        self.work.spend(1 + len(table.offerings) // CELLS)
        if not keys:
            return {(): 0.0} if (table.usable(wanted) & table.fits(vector)[table.column_type]).any() else {}
        share = (vector[:, None] / self._capacities[pool]).max(axis=0, initial=0.0) / self._filled[pool]
        least = table.least(wanted, keys, table.fits(vector), share)
        _, values = table.combinations(keys)
        combined = table.base.add(*wanted)
        found: dict[Pins, float] = {}
        for code in np.flatnonzero(np.isfinite(least)).tolist():
            for pins in expanded(tuple(zip(keys, values[code], strict=True)), combined):
                found[pins] = min(float(least[code]), found.get(pins, np.inf))
        return found

    def _open_universes(self) -> None:
        """Domains that hold a spread down: those of nodes that count, and those that a new node may open."""
        spreads = [index for index, group in enumerate(self.topology.groups) if group.id.kind == SPREAD]
        groups = {index: self.topology.groups[index] for index in spreads}
        hosts = {index for index in spreads if groups[index].id.key == HOSTNAME}
        self._count_on_nodes(index for index in spreads if index not in hosts)
        open_hosts: set[int] = set()
        reached: dict[int, set[tuple[str, ...]]] = {}
        for pod_class in self.pod_classes:
            owned = dict.fromkeys(index for level in pod_class.levels for index in level.owned)
            for index in owned:
                if index in hosts and index not in open_hosts:
                    if any(self._new_nodes(pod_class, (), pod_class.vector)):
                        open_hosts.add(index)
                elif index in groups and index not in hosts:
                    domains = self.reachable(pod_class, groups[index].id.key)
                    groups[index].universe.update(dict.fromkeys(domains))
                    reached.setdefault(index, set()).add(tuple(domains))
        self.uniform = frozenset(index for index, domains in reached.items() if len(domains) == 1)
        closed = sorted(hosts - open_hosts)
        self._count_on_nodes(closed)
        for index in closed:
            groups[index].closed = True

    def _count_on_nodes(self, spreads: Iterable[int]) -> None:
        """The domains of the nodes that count are there, whether or not pods are."""
        for index in spreads:
            self.topology.groups[index].universe.update(self.present.domains(index))

    def reachable(self, pod_class: PodClass, key: str, beside: Amounts | None = None) -> list[str]:
        """The values of the label that new nodes for such a pod may have, sorted.

        `beside`: what else must find place on the node, (R,).
        """
        last = pod_class.levels[-1].rules
        rules = last.tolerations, last.soft_taints, last.needed()
        vector = pod_class.vector if beside is None else pod_class.vector + beside
        memo = (key, pod_class.required, vector.tobytes(), *rules)
        known = self._reached.get(memo)
        if known is None:
            known = sorted({place.pins[0][1] for place in self._new_nodes(pod_class, (key,), vector)} - {""})
            self._reached[memo] = known
        return known

    def _new_nodes(self, pod_class: PodClass, keys: tuple[str, ...], vector: Amounts) -> Iterator[Place]:
        """What may be bought for such a pod once it gave up all that it can."""
        last = pod_class.levels[-1].rules
        for pool in self.buying:
            for wanted in pod_class.required:
                if self.suits(pool, wanted, last):
                    yield from self.places((pool,), wanted, vector, keys)

    def _may_buy(self, pool: int) -> bool:
        table = self.tables[pool]
        return table.pool.limits is None or bool(table.within.any())

    def free_of_ports(self, pool: int, ports: tuple[HostPort, ...]) -> bool:
        """True iff no daemon of the pool's nodes takes one of these host ports."""
        return not ports or not ports_conflict(ports, self.ports[pool])


def _only(codes: Amounts) -> int:
    """The one that all of these are; -1 if they differ or there is none."""
    return int(codes[0]) if len(codes) and (codes == codes[0]).all() else -1


def pinned(pins: Pins) -> list[Requirement]:
    """Pins as requirements on a claim."""
    return [Requirement.new(key, "In", (value,)) for key, value in pins if value]


def lookup(pins: Pins) -> DomainOf:
    """Pins as a function; '' for what is not pinned."""
    values = dict(pins)
    return lambda key: values.get(key, "")


def expanded(pins: Pins, requirements: Requirements) -> list[Pins]:
    """Pins with each label that the pool leaves a choice of set to each of its values."""
    ways: list[Pins] = [()]
    for key, value in pins:
        found = requirements.by_key.get(key)
        choice = [value]
        if not value and found is not None and not found.complement and len(found) > 1:
            choice = sorted(found.values)
        ways = [(*way, (key, each)) for way in ways for each in choice]
    return ways


def _tiers(problem: Problem) -> list[tuple[int, ...]]:
    """Pools of equal weight, the heaviest first; within a tier, price decides."""
    tiers: list[tuple[int, ...]] = []
    for index, pool in enumerate(problem.pools):
        if tiers and problem.pools[tiers[-1][0]].weight == pool.weight:
            tiers[-1] = (*tiers[-1], index)
        else:
            tiers.append((index,))
    return tiers


def _of_daemons(problem: Problem) -> set[str]:
    return {
        name
        for item in problem.daemonsets
        for container in item.spec.template.spec.containers
        for name in container.resources.requests
    }
