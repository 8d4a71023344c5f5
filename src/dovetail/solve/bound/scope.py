"""What a bound is about: which pods, what may be bought for them and where, and what costs nothing.

Labels that a pool leaves open are decided: pods that ask for different values of one label never share a
node, although every offering lets in each of them. Kinds of the same rules are looked at together, sizes at
once. Rules between pods count as far as they are about a single node: hostname spreads, pods kept apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from math import prod
from typing import NamedTuple

import numpy as np

from dovetail.model.arrays import ENDLESS, Amounts, Mask
from dovetail.model.labels import HOSTNAME
from dovetail.model.matching import port_clashes
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.budget import CELLS
from dovetail.solve.colgen.pricing_instance import PricingInstance, pricing_instance
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.pool_table import NODES, PoolTable
from dovetail.solve.instance.topology import ANTI, APART, SPREAD
from dovetail.solve.tolerances import LARGE, SEVERAL

# (pod class, level, tier) -> pods: what a plan promises to which pods. A node may be bought for them from the
# pools up to that tier: -1 if that is the first of use, and of the number of tiers if nothing is promised.
# Beyond that number are the tiers of pods that stay on nodes of such pools (see `kinds_placed`).
Kinds = Mapping[tuple[int, int, int], list[str]]


class Placement(NamedTuple):
    """Pods of one pod class and level with a place in a plan."""

    pod_class: int
    level: int
    pools: tuple[int, ...]  # that a node could be bought from for them; none on one that is there already
    pods: Sequence[str]
    pool: int = -1  # of their node; -1 of one that is there already


@dataclass(frozen=True, slots=True)
class Origin:
    """What a scope's kinds, offerings and free capacities are in the instance."""

    kinds: tuple[tuple[int, int], ...]  # (pod class, the last level of it that keeps the promises)
    sites: Sites
    site: Amounts  # (C,)
    own: Mask  # (S, C): whether a node may be bought there for the kind's sake
    reserved: Amounts  # (N,) column of the reservation; -1 for an existing node, which come first


@dataclass(frozen=True, slots=True)
class Scope:
    """S kinds of pods that are all placed, C offerings that are sold without end, N capacities that are free.

    Rules that count pods per node are further resources. Invariant: every kind has a pod, and an offering
    that may be bought for it.
    """

    pod_classes: tuple[int, ...]  # per kind: index of the instance's pod class
    pods: tuple[tuple[str, ...], ...]  # per kind
    pools: tuple[tuple[str, ...], ...]  # per kind: where a node may be bought for its sake
    vectors: Amounts  # (S, R)
    feasible: Mask  # (S, C): on nodes bought for others as well; offerings with labels decided
    capacity: Amounts  # (C, R)
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
    limit_names: tuple[tuple[str, str], ...] = ()  # pool and resource of each, if the plan comes to their end

    @property
    def demand(self) -> Amounts:
        """Pods per kind, (S,)."""
        return np.array([len(pods) for pods in self.pods], dtype=np.int64)

    @property
    def left(self) -> list[int]:
        """What is left of each limit."""
        return [] if self.limits is None else self.limits[1].tolist()

    def pricing_instance(self) -> PricingInstance:
        """What is for sale, thinned out."""
        own = None if self.origin is None else self.origin.own
        what = self.feasible, self.capacity, self.price, self.vectors, self.conflict, self.demand
        return pricing_instance(*what, own=own, limits=self.limits)

    def unthinned(self) -> PricingInstance:
        """All that is for sale, in any order; pairs that cannot share a node are no resources."""
        every = np.arange(len(self.price))
        capacity, takes = np.maximum(self.capacity, 0), self.feasible.T
        own = takes if self.origin is None else self.origin.own.T
        limits = self.limits or (np.zeros((len(every), 0), dtype=np.int64), np.zeros(0, dtype=np.int64))
        what = self.vectors, self.conflict, self.demand
        return PricingInstance(every, capacity, self.price, takes, *what, own, *limits)


def scope_of(
    instance: Instance, columns: OfferingsTable, free: Amounts, kinds: Kinds, *, binding: bool
) -> Scope:
    """The scope of a plan: all plans that keep at least its promises.

    That is: no pod gives up more preferences than it does there, and for none a node is bought from a pool of
    less weight. `free` (nodes, R) is the capacity on existing nodes before anything was placed. Reserved
    capacity is paid for already: as much of it as there is counts as free. `binding`: limits refuse a type.
    """
    limited = any(table.pool.limits is not None for table in instance.tables)
    sites = sites_of(instance, columns, asked_by(instance, kinds))
    reach = reach_of(instance, columns, sites, kinds)
    own = reach.own & ~columns.reserved[sites.column]
    of_use: Mask = np.asarray(own.any(axis=1), dtype=np.bool_)
    kinds = {kind: kinds[kind] for kind, useful in zip(list(kinds), of_use.tolist(), strict=True) if useful}
    own, anywhere, on_nodes = own[of_use], reach.anywhere[of_use], reach.nodes[of_use]
    rules = node_rules(instance, [(pod_class, level) for pod_class, level, _ in kinds])
    bought = np.flatnonzero(own.any(axis=0))
    capacities = list(_free(columns, free))
    width = len(instance.axis.names)
    vectors = np.array([instance.pod_classes[pod_class].vector for pod_class, _, _ in kinds], dtype=np.int64)
    capacity = np.array([capacity for _, capacity, _ in capacities], dtype=np.int64).reshape(
        len(capacities), width
    )
    reserved = [column for _, _, column in capacities if column >= 0]
    bought_column = sites.column[bought]
    return Scope(
        pod_classes=tuple(pod_class for pod_class, _, _ in kinds),
        pods=tuple(tuple(pods) for pods in kinds.values()),
        pools=_pools(instance, columns.pool[sites.column], own),
        vectors=np.concatenate([vectors.reshape(len(kinds), width), rules.takes], axis=1),
        feasible=cut(anywhere, bought),
        capacity=_widened(columns.capacity[bought_column], rules),
        price=columns.price[bought_column],
        conflict=rules.conflict,
        free=_widened(capacity, rules),
        allowed=np.concatenate([on_nodes, _anyhow(anywhere, sites, reserved)], axis=1),
        free_names=tuple(
            [node.name for node in instance.nodes.nodes] + [columns.reservation[each] for each in reserved]
        ),
        rules=rules.names,
        most=rules.most,
        origin=Origin(
            kinds=tuple((pod_class, level) for pod_class, level, _ in kinds),
            sites=sites,
            site=bought,
            own=cut(own, bought),
            reserved=np.array([column for _, _, column in capacities], dtype=np.int64),
        ),
        limits=_limits(instance, columns, sites.column[bought]) if limited else None,
        limit_names=tuple(_limit_names(instance)) if binding else (),
    )


def kinds_placed(instance: Instance, placed: Iterable[Placement], refusing: Collection[int]) -> Kinds:
    """(pod class, level, tier) -> pods. The tier is the last whose pools count: of pods on nodes that are
    there the first that has a node for them, -1 if none has.

    `refusing`: the pools whose limits refuse what they allowed before the plan. Which pods such a pool takes
    is as their turns come, and so is which give up preferences where any do. Promised is that no lighter
    pools are bought from than here, and that its nodes hold as much: their pods stay on nodes of pools of
    that weight at least. Else they might ride on lighter nodes, bought for pods that are there for want of a
    place in the heavier pool.
    """
    placed, binding = list(placed), bool(refusing)
    pod_classes, most = instance.pod_classes, len(instance.tiers)
    lossless = not any(pod_classes[each.pod_class].levels[each.level].lost for each in placed)
    tier_of = {pool: index for index, tier in enumerate(instance.tiers) for pool in tier}
    lightest = max((tier_of[each.pool] for each in placed if each.pool >= 0), default=most)
    found: dict[tuple[int, int, int], list[str]] = {}
    alike: dict[tuple[int, int], int] = {}  # (pod class, level) -> the level that counts
    first: dict[tuple[int, int], int] = {}  # (pod class, level) -> the first tier of use
    for each in placed:
        if (level := alike.get(each[:2], -1)) < 0:
            pod_class = pod_classes[each.pod_class]
            level = (
                _last_alike(pod_class, each.level) if lossless or not binding else len(pod_class.levels) - 1
            )
            alike[each[:2]] = level
        if binding:
            tier = tier_of.get(each.pool, lightest)
            tier += most + 1 if each.pool in refusing and tier < lightest else 0
        elif each.pools:
            tier = tier_of[each.pools[0]]
        else:
            if (each.pod_class, level) not in first:
                first[each.pod_class, level] = _first_of_use(instance, pod_classes[each.pod_class], level)
            tier = first[each.pod_class, level]
        found.setdefault((each.pod_class, level, tier), []).extend(each.pods)
    return {kind: sorted(found[kind]) for kind in sorted(found)}


def _first_of_use(instance: Instance, pod_class: PodClass, level: int) -> int:
    """The first tier with a node for such pods if they give up no more than there; -1 if none has one."""
    if len(instance.tiers) == 1:
        return 0
    for index, pools in enumerate(instance.tiers):
        for number in range(level + 1):
            step = pod_class.levels[number]
            for pool in pools:
                if instance.free_of_ports(pool, pod_class.ports) and any(
                    instance.suits(pool, wanted, step.rules)
                    and (
                        instance.columns(pool, wanted, pod_class.vector) & instance.tables[pool].within
                    ).any()
                    for wanted in step.alternatives
                ):
                    return index
    return -1


def _last_alike(pod_class: PodClass, level: int) -> int:
    """The last level where no more is lost."""
    most = pod_class.levels[level].lost
    return max(number for number in range(len(pod_class.levels)) if pod_class.levels[number].lost <= most)


def _free(columns: OfferingsTable, free: Amounts) -> Iterator[tuple[str, Amounts, int]]:
    """(name, capacity, column or -1), existing nodes first."""
    for capacity in np.maximum(free, 0):
        yield "", capacity, -1
    for index in np.flatnonzero(columns.reserved).tolist():
        for _ in range(columns.left.get(columns.reservation[index], 0)):
            yield columns.reservation[index], np.maximum(columns.capacity[index], 0), index


def _rows(masks: list[Mask], width: int) -> Mask:
    return np.array(masks, dtype=np.bool_).reshape(len(masks), width)


def _widened(capacity: Amounts, rules: NodeRules) -> Amounts:
    return np.concatenate([np.maximum(capacity, 0), np.tile(rules.most, (len(capacity), 1))], axis=1)


def _limits(instance: Instance, columns: OfferingsTable, some: Amounts) -> tuple[Amounts, Amounts]:
    """What a node of each of these columns takes of pools' limits at least (C, L), and what is left (L,)."""
    takes: list[Amounts] = []
    most: list[int] = []
    for table in instance.tables:
        limits = table.pool.limits or {}
        mine = columns.pool[some] == table.index
        for name in sorted(limits):
            sizes = [1 if name == NODES else kind.capacity.get(name, 0) for kind in table.types]
            size = np.zeros(len(some), dtype=np.int64)
            size[mine] = np.array(sizes, dtype=np.int64)[columns.type[some][mine]]
            takes.append(size)
            most.append(min(max(0, limits[name] - table.pool.usage.get(name, 0)), ENDLESS))
    return np.array(takes, dtype=np.int64).reshape(len(most), len(some)).T, np.array(most, dtype=np.int64)


def _limit_names(instance: Instance) -> Iterator[tuple[str, str]]:
    for table in instance.tables:
        yield from ((table.pool.name, name) for name in sorted(table.pool.limits or ()))


def _pools(instance: Instance, pool: Amounts, own: Mask) -> tuple[tuple[str, ...], ...]:
    """Per kind the names of the pools that it has sites (S, T) of; `pool` (T,)."""
    names = [table.pool.name for table in instance.tables]
    some = [own[:, pool == table.index].any(axis=1).tolist() for table in instance.tables]
    return tuple(tuple(compress(names, row)) for row in zip(*some, strict=True))


def asked_by(instance: Instance, kinds: Iterable[tuple[int, int, int]]) -> Iterator[Requirements]:
    """All demands on labels that one of the kinds may have."""
    for pod_class, level, _ in kinds:
        for step in instance.pod_classes[pod_class].levels[: level + 1]:
            yield from step.alternatives


def _anyhow(feasible: Mask, sites: Sites, some: list[int]) -> Mask:
    """Of sites (S, T) to some of the columns: feasible with some labels."""
    masks: list[Mask] = [np.any(feasible[:, sites.column == column], axis=1) for column in some]
    return _rows(masks, len(feasible)).T


# One way to decide labels: (key, value) pairs; '' is every value that none asks for, and no label at all.
State = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sites:
    """T offerings with decided labels, pool by pool. A pool's sites are its columns once per state."""

    states: tuple[tuple[State, ...], ...]  # per pool
    column: Amounts  # (T,) where each stands among all offerings
    state: Amounts  # (T,) position among its pool's states


def sites_of(instance: Instance, columns: OfferingsTable, asked: Iterable[Requirements]) -> Sites:
    """The sites that demands on labels tell apart."""
    wanted = list(dict.fromkeys(asked))
    states = [_states(table, wanted) for table in instance.tables]
    size = sum(len(table.offerings) * len(each) for table, each in zip(instance.tables, states, strict=True))
    if size * len(wanted) > LARGE:
        states = [((),) for _ in instance.tables]
    column, state = [], []
    for table, each in zip(instance.tables, states, strict=True):
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
    return np.concatenate([mask if lets_in(state, wanted) else np.zeros_like(mask) for state in states])


def _unnamed(item: Requirement) -> bool:
    """True iff a value that none names will do, or none."""
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
    return tuple(product(*ways)) if count <= SEVERAL else ((),)


Kind = tuple[int, int, int]  # (pod class, level, tier)


@dataclass(frozen=True, slots=True)
class Reach:
    """S kinds: nodes bought for their sake or for others, at T sites, and N nodes that exist."""

    own: Mask  # (S, T)
    anywhere: Mask  # (S, T)
    nodes: Mask  # (S, N)


def reach_of(instance: Instance, columns: OfferingsTable, sites: Sites, kinds: Collection[Kind]) -> Reach:
    """Of kinds; only pools up to their tier count for their sake, up to the first of use where that is -1."""
    pod_classes = [instance.pod_classes[pod_class] for pod_class, _, _ in kinds]
    numbers: dict[tuple[object, ...], int] = {}
    found: list[tuple[Mask, Mask, Mask]] = []
    rows = []
    for pod_class, (_, level, _) in zip(pod_classes, kinds, strict=True):
        key = (pod_class.ladder, level, pod_class.ports)
        if key not in numbers:
            numbers[key] = len(found)
            found.append(_labelled(instance, sites, pod_class, level))
        rows.append(numbers[key])
    vectors = np.array([pod_class.vector for pod_class in pod_classes], dtype=np.int64)
    holds = columns.holds(vectors.reshape(len(pod_classes), len(instance.axis.names)))
    holds = cut(holds, sites.column)
    instance.work.spend(len(kinds) + holds.size // CELLS)
    earlier, anywhere, nodes = (
        np.array([each[part] for each in found], dtype=np.bool_).reshape(len(found), width)[rows]
        for part, width in enumerate((holds.shape[1], holds.shape[1], len(instance.nodes.nodes)))
    )
    anywhere &= holds
    # A type that is too large for what is left of a limit is not for sale.
    anywhere &= np.concatenate([np.zeros(0, dtype=np.bool_), *(table.within for table in instance.tables)])[
        sites.column
    ]
    tiers, first = np.array([tier for _, _, tier in kinds], dtype=np.int64), len(instance.tiers) + 1
    staying = np.flatnonzero(tiers >= first)
    tiers[staying] -= first
    pool = columns.pool[sites.column]
    for index, pools in enumerate(instance.tiers):
        anywhere[np.ix_(staying[tiers[staying] < index], np.isin(pool, pools))] = False
    return Reach(_until(instance, pool, tiers, (earlier & anywhere, anywhere)), anywhere, nodes)


def cut(table: Mask, columns: Amounts) -> Mask:
    """Some columns of a table, which is not copied where that is all of them."""
    every = len(columns) == table.shape[1] and bool((columns == np.arange(len(columns))).all())
    return table if every else np.take(table, columns, axis=1)


def _until(instance: Instance, pool: Amounts, last: Amounts, what: tuple[Mask, Mask]) -> Mask:
    """Sites (S, T) of the tiers up to each kind's own, or up to the first that is of use. `pool` (T,)."""
    own, anywhere = what
    if len(instance.tiers) == 1:
        return anywhere.copy()
    still = np.ones(len(own), dtype=np.bool_)
    for index, pools in enumerate(instance.tiers):
        mine = np.flatnonzero(np.isin(pool, pools))
        of_tier = own[:, mine] | (anywhere[:, mine] & still[:, None])
        own[:, mine] = of_tier
        still &= (last != index) & ((last >= 0) | ~of_tier.any(axis=1))
        if not still.any():
            break
    return own


def _labelled(instance: Instance, sites: Sites, pod_class: PodClass, level: int) -> tuple[Mask, Mask, Mask]:
    """Whatever their size: sites for a level where less is lost (T,), for any (T,), and nodes (N,)."""
    parts = [
        np.zeros(len(table.offerings) * len(states), dtype=np.bool_)
        for table, states in zip(instance.tables, sites.states, strict=True)
    ]
    earlier = [part.copy() for part in parts]
    nodes = np.zeros(len(instance.nodes.nodes), dtype=np.bool_)
    for number in range(level + 1):
        rules = pod_class.levels[number].rules
        for wanted in pod_class.levels[number].alternatives:
            nodes |= instance.nodes.feasible(wanted, rules)
            for table in instance.tables:
                if instance.suits(table.index, wanted, rules) and instance.free_of_ports(
                    table.index, pod_class.ports
                ):
                    parts[table.index] |= in_states(sites.states[table.index], wanted, table.usable(wanted))
        if pod_class.levels[number].lost < pod_class.levels[level].lost:
            earlier = [part.copy() for part in parts]
    none = [np.zeros(0, dtype=np.bool_)]
    return np.concatenate([*none, *earlier]), np.concatenate([*none, *parts]), nodes


@dataclass(frozen=True, slots=True)
class NodeRules:
    """H rules that count pods, for S kinds: a pod takes `takes` (S, H), and a node has `most` (H,)."""

    names: tuple[str, ...]
    takes: Amounts
    most: Amounts
    conflict: Mask  # (S, S)


def node_rules(
    instance: Instance, kinds: Sequence[tuple[int, int]], idle: frozenset[int] = frozenset()
) -> NodeRules:
    """The rules of (pod class, level) kinds that hold in whichever order pods arrive.

    Only pods that own a rule and are counted by it are bound by it for certain: others may come later, when
    none asks. A required anti-affinity works in both directions, so there either is enough. `idle`:
    groups that do not count.
    """
    groups = instance.topology.groups
    owned = [owned_by(instance, pod_class, level) - idle for pod_class, level in kinds]
    matching = [frozenset(instance.pod_classes[pod_class].matching) - idle for pod_class, _ in kinds]
    both = [mine & matched for mine, matched in zip(owned, matching, strict=True)]
    # Where limits allow no further node, hosts may be filled beyond `maxSkew` as long as they are alike.
    stuck = {
        group
        for (pod_class, level), each in zip(kinds, both, strict=True)
        if each and not endless(instance, pod_class, level)
        for group in each
    }
    free = frozenset[int]().union(*both) - stuck
    hosts = [at for at in sorted(free) if groups[at].id.kind == SPREAD and groups[at].id.key == HOSTNAME]
    takes, capped = _capped(instance, hosts, both, matching)
    return NodeRules(
        names=tuple(f"topology spread over {HOSTNAME}" for _ in capped),
        takes=takes,
        most=np.array([groups[group].id.max_skew for group in capped], dtype=np.int64),
        conflict=_conflict(instance, kinds, owned, matching),
    )


def _capped(
    instance: Instance, hosts: list[int], both: list[frozenset[int]], matching: list[frozenset[int]]
) -> tuple[Amounts, list[int]]:
    """Which kinds a cap of pods per node is about, (S, H), and the H spreads over hosts that it is by."""
    same, groups = alike(instance, matching), instance.topology.groups
    bound: dict[tuple[int, ...], int] = {}
    owners, some = _by_group(both), set(hosts)
    for group in sorted(hosts, key=lambda group: (groups[group].id.max_skew, group)):
        kinds = tuple(sorted({kind for each in some.intersection(same[group]) for kind in owners[each]}))
        bound.setdefault(kinds, group)
    ordered = sorted(bound.items(), key=lambda item: item[1])
    takes = np.zeros((len(both), len(ordered)), dtype=np.int64)
    for column, (kinds, _) in enumerate(ordered):
        takes[list(kinds), column] = 1
    return takes, [group for _, group in ordered]


def alike(instance: Instance, matching: Sequence[Collection[int]]) -> dict[int, tuple[int, ...]]:
    """Per spread those that count the same and allow no more than it does: its owners and theirs are as one.

    Whichever of them comes last in a domain is ahead of what all these spreads see. `matching`: the groups
    that count each kind of pods that matters; spreads that count none of them are left out.
    """
    groups = instance.topology.groups
    counted: dict[int, list[int]] = {}
    for number, each in enumerate(matching):
        for index in each:
            counted.setdefault(index, []).append(number)
    found: dict[tuple[object, ...], list[int]] = {}
    for index in sorted(counted):
        one, runs = groups[index].id, tuple(sorted(instance.before[index][0].items()))
        if one.kind == SPREAD:
            found.setdefault((one.key, one.node_filter, runs, *counted[index]), []).append(index)
    return {
        index: tuple(other for other in some if groups[other].id.max_skew <= groups[index].id.max_skew)
        for some in found.values()
        for index in some
    }


def endless(instance: Instance, pod_class: int, level: int) -> bool:
    """True iff one more node can be bought for such a pod whatever else is bought."""
    free = [one.index for one in instance.tables if one.pool.limits is None and not instance.commons.any]
    if len(free) == len(instance.tables):
        return True
    known, last = instance.pod_classes[pod_class], instance.pod_classes[pod_class].levels[level]
    return any(
        instance.suits(pool, wanted, last.rules) and bool(instance.columns(pool, wanted, known.vector).any())
        for wanted in last.alternatives
        for pool in free
    )


def owned_by(instance: Instance, pod_class: int, level: int) -> frozenset[int]:
    """The groups whose rules the pod class obeys at that level and at all before it."""
    levels = instance.pod_classes[pod_class].levels[: level + 1]
    return frozenset.intersection(*(frozenset(each.owned) for each in levels))


def _conflict(
    instance: Instance,
    kinds: Sequence[tuple[int, int]],
    owned: Sequence[frozenset[int]],
    matching: Sequence[frozenset[int]],
) -> Mask:
    result = np.zeros((len(kinds), len(kinds)), dtype=np.bool_)
    owners, counted = _by_group(owned), _by_group(matching)
    for number, mine in sorted(owners.items()):
        group = instance.topology.groups[number]
        if group.id.kind not in (ANTI, APART) or group.id.key != HOSTNAME:
            continue
        mates = counted.get(number, [])
        # Pods that merely prefer to be apart look only at those that came before them.
        if group.id.kind == APART:
            mates = [index for index in mine if number in matching[index]]
        repelling = mine if group.id.kind == ANTI else mates
        pairs = np.ix_(np.array(repelling, dtype=np.int64), np.array(mates, dtype=np.int64))
        result[pairs] = True
        result.T[pairs] = True
    result |= port_clashes([instance.pod_classes[pod_class].ports for pod_class, _ in kinds])
    return result


def _by_group(groups: Sequence[frozenset[int]]) -> dict[int, list[int]]:
    """Per group the kinds that have to do with it."""
    found: dict[int, list[int]] = {}
    for index, some in enumerate(groups):
        for number in some:
            found.setdefault(number, []).append(index)
    return found
