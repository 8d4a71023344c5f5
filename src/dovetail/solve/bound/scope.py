"""What a bound is about: which pods, what may be bought for them and where, and what costs nothing.

Labels that a pool leaves open are decided: pods that ask for different values of one label never share a
node, although every offering lets in each of them. Kinds of the same rules are looked at together, sizes at
once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from math import prod
from typing import NamedTuple

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.bound.node_rules import NodeRules, node_rules
from dovetail.solve.colgen.pricing_instance import Market, market
from dovetail.solve.instance.arrays import Amounts, Mask
from dovetail.solve.instance.instance import COLUMNS_PER_UNIT, World
from dovetail.solve.instance.limits import ENDLESS, NODES
from dovetail.solve.instance.offerings import Columns
from dovetail.solve.instance.pod_classes import Shape
from dovetail.solve.instance.pool_table import PoolTable

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


_MOST_STATES = 24  # per pool; where there would be more, its labels stay open
_MOST_CELLS = 100_000  # kinds of pods times sites

# One way to decide labels: (key, value) pairs; '' is every value that nobody asks for, and no label at all.
State = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sites:
    """T offerings with decided labels, pool by pool. A pool's sites are its columns once per state."""

    states: tuple[tuple[State, ...], ...]  # per pool
    column: Amounts  # (T,) where each stands among all offerings
    state: Amounts  # (T,) position among its pool's states


def sites_of(world: World, columns: Columns, asked: Iterable[Requirements]) -> Sites:
    """The sites that demands on labels tell apart."""
    wanted = list(dict.fromkeys(asked))
    states = [_states(table, wanted) for table in world.tables]
    size = sum(len(table.offerings) * len(each) for table, each in zip(world.tables, states, strict=True))
    if size * len(wanted) > _MOST_CELLS:
        states = [((),) for _ in world.tables]
    column, state = [], []
    for table, each in zip(world.tables, states, strict=True):
        mine = np.flatnonzero(columns.pool == table.index)
        column.append(np.tile(mine, len(each)))
        state.append(np.repeat(np.arange(len(each)), len(mine)))
    none = [np.zeros(0, dtype=np.int64)]
    return Sites(tuple(states), np.concatenate([*none, *column]), np.concatenate([*none, *state]))


def lets_in(state: State, wanted: Requirements) -> bool:
    """False only if no node with such labels meets the demands."""
    for key, value in state:
        item = wanted.by_key.get(key)
        if item is not None and not (item.has(value) if value else _unnamed(item)):
            return False
    return True


def in_states(states: Iterable[State], wanted: Requirements, mask: Mask) -> Mask:
    """Of one pool's sites those that meet the demands, if `mask` (C,) tells it of its columns."""
    parts = [mask if lets_in(state, wanted) else np.zeros_like(mask) for state in states]
    return np.concatenate(parts)


def _unnamed(item: Requirement) -> bool:
    """True iff a value that nobody names will do, or none."""
    return item.complement or not item.values


def _states(table: PoolTable, wanted: list[Requirements]) -> tuple[State, ...]:
    named: dict[str, dict[str, None]] = {}
    for each in wanted:
        for item in each:
            known = table.base.by_key.get(item.key)
            some = sorted(value for value in item.values if known is None or known.has(value))
            named.setdefault(item.key, {}).update(dict.fromkeys(some))
    ways: list[list[tuple[str, str]]] = []
    for key, values in sorted(named.items()):
        if values and key != HOSTNAME and "" in table.domains(key):
            ways.append([(key, value) for value in (*values, "")])
    count = prod([len(way) for way in ways])  # may be more than any float holds
    return tuple(product(*ways)) if count <= _MOST_STATES else ((),)


Kind = tuple[int, int, int]  # (shape, level, tier)


@dataclass(frozen=True, slots=True)
class Reach:
    """S kinds: nodes bought for their sake or for others, at T sites, and N nodes that exist."""

    own: Mask  # (S, T)
    anywhere: Mask  # (S, T)
    nodes: Mask  # (S, N)


def reach_of(world: World, columns: Columns, sites: Sites, kinds: Collection[Kind]) -> Reach:
    """Of kinds; only pools up to their tier count for their sake, up to the first of use where that is -1."""
    shapes = [world.shapes[shape] for shape, _, _ in kinds]
    numbers: dict[tuple[object, ...], int] = {}
    found: list[tuple[Mask, Mask, Mask]] = []
    rows = []
    for shape, (_, level, _) in zip(shapes, kinds, strict=True):
        key = (shape.ladder, level, shape.ports)
        if key not in numbers:
            numbers[key] = len(found)
            found.append(_labelled(world, sites, shape, level))
        rows.append(numbers[key])
    vectors = np.array([shape.vector for shape in shapes], dtype=np.int64)
    holds = columns.holds(vectors.reshape(len(shapes), len(world.axis.names)))
    holds = cut(holds, sites.column)
    world.work.spend(len(kinds) + holds.size // COLUMNS_PER_UNIT)
    earlier, anywhere, nodes = (
        np.array([each[part] for each in found], dtype=np.bool_).reshape(len(found), width)[rows]
        for part, width in enumerate((holds.shape[1], holds.shape[1], len(world.nodes.nodes)))
    )
    anywhere &= holds
    tiers = np.array([tier for _, _, tier in kinds], dtype=np.int64)
    own = _until(world, columns.pool[sites.column], tiers, (earlier & holds, anywhere))
    return Reach(own, anywhere, nodes)


def cut(table: Mask, columns: Amounts) -> Mask:
    """Some columns of a table, which is not copied where that is all of them."""
    every = len(columns) == table.shape[1] and bool((columns == np.arange(len(columns))).all())
    return table if every else np.take(table, columns, axis=1)


def _until(world: World, pool: Amounts, last: Amounts, what: tuple[Mask, Mask]) -> Mask:
    """Sites (S, T) of the tiers up to each kind's own, or up to the first that is of use. `pool` (T,)."""
    own, anywhere = what
    if len(world.tiers) == 1:
        return anywhere.copy()
    still = np.ones(len(own), dtype=np.bool_)
    for index, pools in enumerate(world.tiers):
        mine = np.flatnonzero(np.isin(pool, pools))
        of_tier = own[:, mine] | (anywhere[:, mine] & still[:, None])
        own[:, mine] = of_tier
        still &= (last != index) & ((last >= 0) | ~of_tier.any(axis=1))
        if not still.any():
            break
    return own


def _labelled(world: World, sites: Sites, shape: Shape, level: int) -> tuple[Mask, Mask, Mask]:
    """Whatever their size: sites for a level where less is lost (T,), for any (T,), and nodes (N,)."""
    parts = [
        np.zeros(len(table.offerings) * len(states), dtype=np.bool_)
        for table, states in zip(world.tables, sites.states, strict=True)
    ]
    earlier = [part.copy() for part in parts]
    nodes = np.zeros(len(world.nodes.nodes), dtype=np.bool_)
    for number in range(level + 1):
        rules = shape.levels[number].rules
        for wanted in shape.levels[number].alternatives:
            nodes |= world.nodes.feasible(wanted, rules)
            for table in world.tables:
                if world.suits(table.index, wanted, rules) and world.free_of_ports(table.index, shape.ports):
                    mask = table.usable(wanted)
                    parts[table.index] |= in_states(sites.states[table.index], wanted, mask)
        if shape.levels[number].lost < shape.levels[level].lost:
            earlier = [part.copy() for part in parts]
    none = [np.zeros(0, dtype=np.bool_)]
    return np.concatenate([*none, *earlier]), np.concatenate([*none, *parts]), nodes
