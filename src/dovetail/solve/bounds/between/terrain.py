"""Where pods may go, domain by domain: kinds of pods, what is sold in each domain, and nodes that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.bounds.node_rules import node_rules, owned_by
from dovetail.solve.bounds.reach import reach_of
from dovetail.solve.bounds.scope import Kinds, asked_by
from dovetail.solve.bounds.sites import State, sites_of
from dovetail.solve.demand.topology import SPREAD, NodeFilter
from dovetail.solve.packing.market import cliques
from dovetail.solve.supply.columns import Columns, undominated
from dovetail.solve.supply.encode import Amounts, Mask, PoolTable
from dovetail.solve.supply.world import World

ENDLESS = 1 << 40  # nodes where nothing is reserved


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that no rule can tell apart, at one level of relaxation."""

    shape: int
    level: int
    tier: int
    pods: tuple[str, ...]
    owned: frozenset[int]  # topology groups whose rules they obey, whatever else they give up
    matching: frozenset[int]  # groups that count them
    spread_keys: frozenset[str]  # labels that a node must have to count for their spreads


@dataclass(frozen=True, slots=True)
class Counting:
    """What a spread makes of the nodes of each site, all (K,). Open labels may leave all of it open."""

    surely: Mask  # it counts them
    never: Mask  # it does not count them
    foreign: Mask  # nor do they show that the domain is there: labels that are known keep them out

    def of(self, some: Amounts) -> Counting:
        """Of some of the sites."""
        return Counting(self.surely[some], self.never[some], self.foreign[some])

    def cut(self, some: Amounts, nodes: Counting) -> Counting:
        """Some of the sites, then nodes."""
        return Counting(
            np.concatenate([self.surely[some], nodes.surely]),
            np.concatenate([self.never[some], nodes.never]),
            np.concatenate([self.foreign[some], nodes.foreign]),
        )


@dataclass(frozen=True, slots=True)
class Terrain:
    """S kinds, K sites: offerings with every label decided that a rule looks at, then nodes that exist.

    Rules that count pods per node are further resources.
    """

    kinds: tuple[Kind, ...]
    feasible: Mask  # (S, K)
    own: Mask  # (S, K): a node may be bought there for the kind's own sake
    could: Mask  # (S, K): feasible if every preference were given up
    vectors: Amounts  # (S, R)
    conflict: Mask  # (S, S): cannot share a node
    room: Amounts  # (K, R)
    price: Amounts  # (K,) nano-dollars per hour
    most: Amounts  # (K,) nodes that there are
    before: Amounts  # (K,) the alike site of which there is a node before there is one here; -1 for none
    column: Amounts  # (K,) where an offering stands among all columns; -1 for nodes that exist
    domains: Mapping[str, tuple[str, ...]]  # per label, hostname apart: the value at each site; '' for none
    counting: Mapping[int, Counting]  # per spread
    unlimited: Mask  # (K,): one more node can be bought for certain

    @property
    def demand(self) -> Amounts:
        """Pods per kind, (S,)."""
        return np.array([len(kind.pods) for kind in self.kinds], dtype=np.int64)

    @property
    def bought(self) -> int:
        """The first so many sites are offerings."""
        return int(np.count_nonzero(self.column >= 0))

    def copies(self) -> Amounts:
        """How many pods of each kind alone a node of each site holds, at most the demand, (S, K)."""
        result = np.where(self.feasible, self.demand[:, None], 0)
        for row in range(self.vectors.shape[1]):
            need = self.vectors[:, row]
            asked = need > 0
            result[asked] = np.minimum(result[asked], self.room[:, row][None, :] // need[asked][:, None])
        return result

    def at(self, key: str) -> dict[str, list[int]]:
        """Sites by domain, those without one left out."""
        found: dict[str, list[int]] = {}
        for site, value in enumerate(self.domains[key]):
            if value:
                found.setdefault(value, []).append(site)
        return found


def terrain_of(world: World, columns: Columns, free: Amounts, found: Kinds) -> Terrain:
    """The terrain of a plan: of the pods that it places, by (shape, level, tier).

    `free` (nodes, R) is the room on existing nodes before anything was placed.
    """
    kinds = tuple(_kind(world, place, pods) for place, pods in found.items())
    concerned = sorted({index for kind in kinds for index in (*kind.owned, *kind.matching)})
    land = _Land(world, columns, found, concerned)
    reach = reach_of(world, columns, land.sites, found)
    anywhere, own, nodes = reach.anywhere, reach.own, reach.nodes
    last = [(kind.shape, len(world.shapes[kind.shape].levels) - 1, kind.tier) for kind in kinds]
    could = reach if last == list(found) else reach_of(world, columns, land.sites, last)
    useful = np.flatnonzero(own.any(axis=0))
    domains = land.domains(useful)
    # Spreads that count the same nodes are many where one pod has hundreds: each kind is looked at once.
    filters = {index: world.topology.groups[index].id.node_filter for index in land.spreads}
    counted = {wanted: land.counting(wanted, useful) for wanted in dict.fromkeys(filters.values())}
    counting = {index: counted[wanted] for index, wanted in filters.items()}
    kept = _kept(
        (anywhere[:, useful], own[:, useful]), domains, counted.values(), land.sites.column[useful], columns
    )
    some = useful[kept]
    column = land.sites.column[some]
    rules = _node_rules(world, kinds)
    room = np.maximum(np.concatenate([columns.room[column], free]), 0)
    left = [columns.left.get(columns.reservation[each], ENDLESS) for each in column.tolist()]
    none = np.zeros(len(free), dtype=np.int64)
    return Terrain(
        kinds=kinds,
        feasible=np.concatenate([anywhere[:, some], nodes], axis=1),
        own=np.concatenate([own[:, some], nodes], axis=1),
        could=np.concatenate([could.anywhere[:, some], could.nodes], axis=1),
        vectors=rules.vectors,
        conflict=rules.conflict,
        room=np.concatenate([room, np.tile(rules.most, (len(room), 1))], axis=1),
        price=np.concatenate([columns.price[column], none]),
        most=np.concatenate([np.array(left, dtype=np.int64), none + 1]),
        before=np.full(len(room), -1),
        column=np.concatenate([column, none - 1]),
        domains={
            key: (*(values[site] for site in kept.tolist()), *land.of_nodes(key))
            for key, values in domains.items()
        },
        counting={key: each.cut(kept, land.counting_nodes(key)) for key, each in counting.items()},
        unlimited=np.concatenate([_endless(world)[columns.pool[column]], none > 0]),
    )


def _endless(world: World) -> Mask:
    """Per pool: it has no limits, and nothing that it shares with others comes to an end."""
    endless = not world.commons.any
    return np.array([endless and table.pool.limits is None for table in world.tables], dtype=np.bool_)


def _table(rows: Sequence[Mask], width: int) -> Mask:
    return np.array(rows, dtype=np.bool_).reshape(len(rows), width)


def _kept(
    reach: tuple[Mask, Mask],
    domains: Mapping[str, Sequence[str]],
    counting: Iterable[Counting],
    column: Amounts,
    columns: Columns,
) -> Amounts:
    """The sites that no other one replaces for every kind and every rule; `reach` are two tables (S, K)."""
    marks = [*reach, *(np.stack([each.surely, each.never, each.foreign]) for each in counting)]
    for values in domains.values():
        codes = np.unique(values, return_inverse=True)[1]
        marks.append(codes[None, :] == np.arange(codes.max(initial=-1) + 1)[:, None])
    return undominated(
        np.concatenate(marks), columns.room[column], columns.price[column], columns.reserved[column]
    )


def _kind(world: World, place: tuple[int, int, int], pods: list[str]) -> Kind:
    shape, level, tier = place
    groups = world.topology.groups
    mine = owned_by(world, shape, level)
    keys = frozenset(groups[index].id.key for index in mine if groups[index].id.kind == SPREAD)
    return Kind(shape, level, tier, tuple(pods), mine, frozenset(world.shapes[shape].matching), keys)


@dataclass(frozen=True, slots=True)
class _NodeRules:
    """Resources with those that stand for rules on single nodes (S, R), and what a node has of these."""

    vectors: Amounts
    most: Amounts
    conflict: Mask


def _node_rules(world: World, kinds: Sequence[Kind]) -> _NodeRules:
    rules = node_rules(world, [(kind.shape, kind.level) for kind in kinds])
    groups = cliques(rules.conflict)
    alone = np.zeros((len(kinds), len(groups)), dtype=np.int64)
    for number, group in enumerate(groups):
        alone[group, number] = 1
    vectors = np.array([world.shapes[kind.shape].vector for kind in kinds], dtype=np.int64)
    return _NodeRules(
        np.concatenate([vectors.reshape(len(kinds), -1), rules.takes, alone], axis=1),
        np.concatenate([rules.most, np.ones(len(groups), dtype=np.int64)]),
        rules.conflict,
    )


class _Land:
    """What rules see of each site, and of each existing node."""

    def __init__(
        self,
        world: World,
        columns: Columns,
        kinds: Iterable[tuple[int, int, int]],
        concerned: Iterable[int],
    ) -> None:
        self._world = world
        self._columns = columns
        groups = {index: world.topology.groups[index] for index in concerned}
        self._keys = sorted({group.id.key for group in groups.values()} - {HOSTNAME})
        self.spreads = [index for index, group in groups.items() if group.id.kind == SPREAD]
        named = [
            Requirements.of((item,))
            for table in world.tables
            for key in self._keys
            for item in (table.base.by_key.get(key),)
            if item is not None and not item.complement
        ]
        self.sites = sites_of(world, columns, [*asked_by(world, kinds), *named])

    def domains(self, some: Amounts) -> dict[str, list[str]]:
        """Per label its value at each of some sites; hostnames and labels that may have any are left out."""
        found = {key: [self._value(site, key) for site in some.tolist()] for key in self._keys}
        return {
            key: [value for value in values if value is not None]
            for key, values in found.items()
            if None not in values
        }

    def of_nodes(self, key: str) -> list[str]:
        """The same on the existing nodes."""
        nodes = self._world.nodes
        return [nodes.domain(row, key) for row in range(len(nodes.nodes))]

    def counting(self, wanted: NodeFilter, some: Amounts) -> Counting:
        """What a spread that counts such nodes makes of some sites."""
        answers = []
        for site in some.tolist():
            column = int(self._columns.column[self.sites.column[site]])
            table = self._table(site)
            labels = table.base
            if wanted.alternatives:
                state = [Requirement.new(key, "In", (value,)) for key, value in self._state(site) if value]
                offering, kind = table.offerings[column], table.types[int(table.column_type[column])]
                labels = labels.add(*kind.requirements, *offering.requirements, *state)
            known = all(key in labels.by_key and len(labels.by_key[key]) == 1 for key in wanted.labels())
            well_known = self._world.well_known
            foreign = known and not replace(wanted, tolerations=None).accepts(labels, (), well_known)
            accepted = wanted.accepts(labels, table.pool.taints, well_known)
            tainted = not replace(wanted, alternatives=()).accepts(labels, table.pool.taints, well_known)
            answers.append((known and accepted, foreign or tainted, foreign))
        return Counting(*np.array(answers, dtype=np.bool_).reshape(len(some), 3).T)

    def counting_nodes(self, index: int) -> Counting:
        """What it makes of the existing nodes. Those with taints show that their domain is there."""
        world, wanted = self._world, self._world.topology.groups[index].id.node_filter
        by_labels = replace(wanted, tolerations=None)
        surely = np.array(world.present.counts(index), dtype=np.bool_)
        foreign = [not by_labels.accepts(labels, (), frozenset()) for labels in world.nodes.labels]
        return Counting(surely, ~surely, np.array(foreign, dtype=np.bool_))

    def _value(self, site: int, key: str) -> str | None:
        table = self._table(site)
        value = table.domains(key)[int(self._columns.column[self.sites.column[site]])]
        if value or (key not in table.base.by_key and key not in self._world.well_known):
            return value
        known = table.base.by_key.get(key)
        if known is None or known.complement:
            return None
        return dict(self._state(site)).get(key)

    def _table(self, site: int) -> PoolTable:
        return self._world.tables[int(self._columns.pool[self.sites.column[site]])]

    def _state(self, site: int) -> State:
        return self.sites.states[self._table(site).index][int(self.sites.state[site])]
