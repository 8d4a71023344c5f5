"""What a bound is about: which pods, what may be bought for them, and what costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np

from dovetail.model.requirement import Requirements
from dovetail.solve.bounds.node_rules import NodeRules, node_rules
from dovetail.solve.bounds.reach import cut, reach_of
from dovetail.solve.bounds.sites import Sites, sites_of
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.packing.market import Market, market
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import ENDLESS, NODES
from dovetail.solve.supply.world import World

# (shape, level, tier) -> pods: what of a plan is promised to whom.
Kinds = Mapping[tuple[int, int, int], list[str]]


class Placement(NamedTuple):
    """Pods of one shape and level with a place in a plan."""

    shape: int
    level: int
    pools: tuple[int, ...]  # that a node could be bought from for them; none on one that is there already
    pods: Sequence[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a scope's kinds, offerings and free rooms are in the world."""

    kinds: tuple[tuple[int, int], ...]  # (shape, the last level of it that keeps the promises)
    sites: Sites
    site: Amounts  # (C,)
    own: Mask  # (S, C): whether a node may be bought there for the kind's sake
    reserved: Amounts  # (N,) column of the reservation; -1 for an existing node, which come first


@dataclass(frozen=True, slots=True)
class Scope:
    """S kinds of pods that are all placed, C offerings that are sold without end, N rooms that are free.

    Rules that count pods per node are further resources. Invariant: every kind has a pod, and an offering
    that may be bought for it.
    """

    shapes: tuple[int, ...]  # per kind: index of the world's shape
    pods: tuple[tuple[str, ...], ...]  # per kind
    pools: tuple[tuple[str, ...], ...]  # per kind: where a node may be bought for its sake
    vectors: Amounts  # (S, R)
    feasible: Mask  # (S, C): on nodes bought for others as well; offerings with labels decided
    room: Amounts  # (C, R)
    price: Amounts  # (C,) nano-dollars per hour
    conflict: Mask  # (S, S): cannot share a node; on the diagonal: one at most
    free: Amounts  # (N, R), not negative
    allowed: Mask  # (S, N)
    free_names: tuple[str, ...]  # node or reservation; a reservation's machines have one name
    rules: tuple[str, ...]  # names of the last resources, which are rules
    most: Amounts  # of those resources on every node
    origin: Origin | None = None
    # What a node takes of NodePools' limits (C, L), and the rest of them (L,); None without limits.
    limits: tuple[Amounts, Amounts] | None = None

    @property
    def demand(self) -> Amounts:
        """Pods per kind, (S,)."""
        return np.array([len(pods) for pods in self.pods], dtype=np.int64)

    def market(self) -> Market:
        """What is for sale, thinned out."""
        own = None if self.origin is None else self.origin.own
        what = self.feasible, self.room, self.price, self.vectors, self.conflict, self.demand
        return market(*what, own=own, limits=self.limits)

    def unthinned(self) -> Market:
        """All that is for sale, in any order; pairs that cannot share a node are no resources."""
        every = np.arange(len(self.price))
        room, takes = np.maximum(self.room, 0), self.feasible.T
        own = takes if self.origin is None else self.origin.own.T
        limits = self.limits or (np.zeros((len(every), 0), dtype=np.int64), np.zeros(0, dtype=np.int64))
        what = self.vectors, self.conflict, self.demand
        return Market(every, room, self.price, takes, *what, own, *limits)


def scope_of(world: World, columns: Columns, free: Amounts, kinds: Kinds) -> Scope:
    """The scope of a plan: all plans that keep at least its promises.

    That is: no pod gives up more preferences than it does there, and for none a node is bought from a pool of
    less weight. `free` (nodes, R) is the room on existing nodes before anything was placed. Reserved capacity
    is paid for already: as much of it as there is counts as free.
    """
    limited = any(table.pool.limits is not None for table in world.tables)
    sites = sites_of(world, columns, asked_by(world, kinds))
    reach = reach_of(world, columns, sites, kinds)
    own = reach.own & ~columns.reserved[sites.column]
    of_use: Mask = np.asarray(own.any(axis=1), dtype=np.bool_)
    kinds = {kind: kinds[kind] for kind, useful in zip(list(kinds), of_use.tolist(), strict=True) if useful}
    own, anywhere, on_nodes = own[of_use], reach.anywhere[of_use], reach.nodes[of_use]
    rules = node_rules(world, [(shape, level) for shape, level, _ in kinds])
    bought = np.flatnonzero(own.any(axis=0))
    rooms = list(_free(columns, free))
    width = len(world.axis.names)
    vectors = np.array([world.shapes[shape].vector for shape, _, _ in kinds], dtype=np.int64)
    room = np.array([room for _, room, _ in rooms], dtype=np.int64).reshape(len(rooms), width)
    reserved = [column for _, _, column in rooms if column >= 0]
    bought_column = sites.column[bought]
    return Scope(
        shapes=tuple(shape for shape, _, _ in kinds),
        pods=tuple(tuple(pods) for pods in kinds.values()),
        pools=_pools(world, columns.pool[sites.column], own),
        vectors=np.concatenate([vectors.reshape(len(kinds), width), rules.takes], axis=1),
        feasible=cut(anywhere, bought),
        room=_widened(columns.room[bought_column], rules),
        price=columns.price[bought_column],
        conflict=rules.conflict,
        free=_widened(room, rules),
        allowed=np.concatenate([on_nodes, _anyhow(anywhere, sites, reserved)], axis=1),
        free_names=tuple(
            [node.name for node in world.nodes.nodes] + [columns.reservation[each] for each in reserved]
        ),
        rules=rules.names,
        most=rules.most,
        origin=Origin(
            kinds=tuple((shape, level) for shape, level, _ in kinds),
            sites=sites,
            site=bought,
            own=cut(own, bought),
            reserved=np.array([column for _, _, column in rooms], dtype=np.int64),
        ),
        limits=_limits(world, columns, sites.column[bought]) if limited else None,
    )


def kinds_placed(world: World, placed: Iterable[Placement], *, binding: bool) -> Kinds:
    """(shape, level, tier) -> pods. The tier is the last whose pools count: of pods on nodes that are there
    the first that has a node for them, -1 if none has.

    `binding`: whether pools' limits refuse what they allowed before the plan.
    Where limits refuse something, who gets the better pool is anybody's guess, and so is who gives up
    preferences where anybody does: then nothing is promised.
    """
    placed = list(placed)
    shapes = world.shapes
    lossless = not any(shapes[each.shape].levels[each.level].lost for each in placed)
    tier_of = {pool: index for index, tier in enumerate(world.tiers) for pool in tier}
    found: dict[tuple[int, int, int], list[str]] = {}
    alike: dict[tuple[int, int], int] = {}  # (shape, level) -> the level that counts
    first: dict[tuple[int, int], int] = {}  # (shape, level) -> the first tier of use
    for each in placed:
        if (level := alike.get(each[:2], -1)) < 0:
            shape = shapes[each.shape]
            level = _last_alike(shape, each.level) if lossless or not binding else len(shape.levels) - 1
            alike[each[:2]] = level
        if binding:
            tier = len(world.tiers)
        elif each.pools:
            tier = tier_of[each.pools[0]]
        else:
            if (each.shape, level) not in first:
                first[each.shape, level] = _first_of_use(world, shapes[each.shape], level)
            tier = first[each.shape, level]
        found.setdefault((each.shape, level, tier), []).extend(each.pods)
    return {kind: sorted(found[kind]) for kind in sorted(found)}


def _first_of_use(world: World, shape: Shape, level: int) -> int:
    """The first tier with a node for such pods if they give up no more than there; -1 if none has one."""
    if len(world.tiers) == 1:
        return 0
    for index, pools in enumerate(world.tiers):
        for number in range(level + 1):
            step = shape.levels[number]
            for pool in pools:
                if world.free_of_ports(pool, shape.ports) and any(
                    world.suits(pool, wanted, step.rules) and world.columns(pool, wanted, shape.vector).any()
                    for wanted in step.alternatives
                ):
                    return index
    return -1


def _last_alike(shape: Shape, level: int) -> int:
    """The last level where no more is lost."""
    most = shape.levels[level].lost
    return max(number for number in range(len(shape.levels)) if shape.levels[number].lost <= most)


def _free(columns: Columns, free: Amounts) -> Iterator[tuple[str, Amounts, int]]:
    """(name, room, column or -1), existing nodes first."""
    for room in np.maximum(free, 0):
        yield "", room, -1
    for index in np.flatnonzero(columns.reserved).tolist():
        for _ in range(columns.left.get(columns.reservation[index], 0)):
            yield columns.reservation[index], np.maximum(columns.room[index], 0), index


def _rows(masks: list[Mask], width: int) -> Mask:
    return np.array(masks, dtype=np.bool_).reshape(len(masks), width)


def _widened(room: Amounts, rules: NodeRules) -> Amounts:
    return np.concatenate([np.maximum(room, 0), np.tile(rules.most, (len(room), 1))], axis=1)


def _limits(world: World, columns: Columns, some: Amounts) -> tuple[Amounts, Amounts]:
    """What a node of each of these columns takes of pools' limits at least (C, L), and what is left (L,)."""
    takes: list[Amounts] = []
    most: list[int] = []
    for table in world.tables:
        limits = table.pool.limits or {}
        mine = columns.pool[some] == table.index
        for name in sorted(limits):
            sizes = [1 if name == NODES else kind.capacity.get(name, 0) for kind in table.types]
            size = np.zeros(len(some), dtype=np.int64)
            size[mine] = np.array(sizes, dtype=np.int64)[columns.type[some][mine]]
            takes.append(size)
            most.append(min(max(0, limits[name] - table.pool.usage.get(name, 0)), ENDLESS))
    return np.array(takes, dtype=np.int64).reshape(len(most), len(some)).T, np.array(most, dtype=np.int64)


def _pools(world: World, pool: Amounts, own: Mask) -> tuple[tuple[str, ...], ...]:
    """Per kind the names of the pools that it has sites (S, T) of; `pool` (T,)."""
    names = [table.pool.name for table in world.tables]
    some = [own[:, pool == table.index].any(axis=1).tolist() for table in world.tables]
    return tuple(tuple(compress(names, row)) for row in zip(*some, strict=True))


def asked_by(world: World, kinds: Iterable[tuple[int, int, int]]) -> Iterator[Requirements]:
    """All demands on labels that one of the kinds may have."""
    for shape, level, _ in kinds:
        for step in world.shapes[shape].levels[: level + 1]:
            yield from step.alternatives


def _anyhow(feasible: Mask, sites: Sites, some: list[int]) -> Mask:
    """Of sites (S, T) to some of the columns: feasible with some labels."""
    masks: list[Mask] = [np.any(feasible[:, sites.column == column], axis=1) for column in some]
    return _rows(masks, len(feasible)).T
