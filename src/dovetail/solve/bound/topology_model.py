"""Where pods may go, domain by domain, as an integer program under construction.

Kinds of pods, what is sold in each domain, nodes that exist; pods per kind and site, nodes per site, and what
rules add. At the end the nodes of an answer one by one, even if it says only how many there are and what they
hold together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import highspy
import numpy as np

from dovetail.model.arrays import UNLIMITED, Amounts, Floats, Mask
from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.spread import NodeFilter
from dovetail.solve.bound.scope import Kinds, Scope, State, asked_by, node_rules, owned_by, reach_of, sites_of
from dovetail.solve.budget import SolveBudget
from dovetail.solve.colgen.dual_feasible import shares
from dovetail.solve.colgen.highs import integer_program
from dovetail.solve.colgen.pricing_instance import cliques, copies_in, undominated, usable
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pool_table import PoolTable
from dovetail.solve.instance.topology import ANTI, SPREAD, Pins
from dovetail.units.money import NANO_DOLLARS

# Per pod class that stands for several: these, each with its pods.
Members = Mapping[int, tuple[tuple[int, Sequence[str]], ...]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that no rule can tell apart, at one level of relaxation."""

    pod_class: int
    level: int
    tier: int
    pods: tuple[str, ...]
    owned: frozenset[int]  # topology groups whose rules they obey, whatever else they give up
    matching: frozenset[int]  # groups that count them
    spread_keys: frozenset[str]  # labels that a node must have to count for their spreads
    # The pod classes that these are of, mostly one, with their pods. What binds each of them binds their sum
    # as many times over.
    members: tuple[tuple[int, Sequence[str]], ...]
    shared: frozenset[str]  # labels by whose values rules share them out, hostname apart


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
class TopologySites:
    """S kinds, K sites: offerings with every label decided that a rule looks at, then nodes that exist.

    Rules that count pods per node are further resources.
    """

    kinds: tuple[Kind, ...]
    feasible: Mask  # (S, K)
    own: Mask  # (S, K): a node may be bought there for the kind's own sake
    could: Mask  # (S, K): feasible if every preference were given up
    vectors: Amounts  # (S, R)
    conflict: Mask  # (S, S): cannot share a node
    capacity: Amounts  # (K, R)
    price: Amounts  # (K,) nano-dollars per hour
    most: Amounts  # (K,) nodes that there are
    before: Amounts  # (K,) the alike site of which there is a node before there is one here; -1 for none
    column: Amounts  # (K,) where an offering stands among all columns; -1 for nodes that exist
    domains: Mapping[str, tuple[str, ...]]  # per label, hostname apart: the value at each site; '' for none
    counting: Mapping[int, Counting]  # per spread
    unlimited: Mask  # (K,): one more node can be bought for certain

    @property
    def times(self) -> Mapping[int, int]:
        """Of how many rules together a topology group is one, where that is more than one."""
        several = [kind for kind in self.kinds if len(kind.members) > 1]
        return {index: len(kind.members) for kind in several for index in kind.owned | kind.matching}

    def domain(self, site: int, kind: Kind | None = None) -> tuple[str, ...]:
        """Its values of all labels that rules look at, or those about a kind."""
        about = self.domains if kind is None else kind.shared.intersection(self.domains)
        return tuple([self.domains[key][site] for key in sorted(about)])

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
        return copies_in(self.capacity, self.vectors, self.demand, self.feasible)

    def at(self, key: str) -> dict[str, list[int]]:
        """Sites by domain, those without one left out."""
        found: dict[str, list[int]] = {}
        for site, value in enumerate(self.domains[key]):
            if value:
                found.setdefault(value, []).append(site)
        return found


def topology_sites_of(
    instance: Instance,
    columns: OfferingsTable,
    free: Amounts,
    found: Kinds,
    most: float = np.inf,
    members: Members | None = None,
) -> TopologySites:
    """The sites of a plan: for the pods that it places, by (pod class, level, tier).

    `free` (nodes, R) is the capacity on existing nodes before anything was placed. Where kinds times sites
    would be more than `most`, sites are left out of which the pods could fill no more than of a cheaper one.
    `members`: see `merged`.
    """
    idle = instance.interchangeable[1] if members else frozenset[int]()
    kinds = tuple(_kind(instance, place, pods, members or {}, idle) for place, pods in found.items())
    concerned = sorted({index for kind in kinds for index in (*kind.owned, *kind.matching)})
    seen = _SiteLabels(instance, columns, found, concerned)
    reach = reach_of(instance, columns, seen.sites, found)
    anywhere, own, nodes = reach.anywhere, reach.own, reach.nodes
    last = [(one.pod_class, len(instance.pod_classes[one.pod_class].levels) - 1, one.tier) for one in kinds]
    could = reach if last == list(found) else reach_of(instance, columns, seen.sites, last)
    useful = np.flatnonzero(own.any(axis=0))
    domains = seen.domains(useful)
    # Spreads that count the same nodes are many where one pod has hundreds: each kind is looked at once.
    filters = {index: instance.topology.groups[index].id.node_filter for index in seen.spreads}
    counted = {wanted: seen.counting(wanted, useful) for wanted in dict.fromkeys(filters.values())}
    counting = {index: counted[wanted] for index, wanted in filters.items()}
    rules = _node_rules(instance, kinds, idle)
    pods = np.array([len(kind.pods) for kind in kinds], dtype=np.int64)
    sold = len(useful)
    capacity = np.maximum(np.concatenate([columns.capacity[seen.sites.column[useful]], free]), 0)
    marks = _marks((anywhere[:, useful], own[:, useful]), domains, counted.values())
    price, reserved = columns.price[seen.sites.column[useful]], columns.reserved[seen.sites.column[useful]]
    kept = undominated(marks, capacity[:sold], price, reserved)
    if np.count_nonzero(anywhere[:, useful[kept]]) > most:
        # Few pods on a whole catalogue: what they can fill of a node is what counts.
        of_use = usable(capacity[:sold], rules.vectors[:, : capacity.shape[1]], pods)
        kept = undominated(marks, of_use, price, reserved)
    some = useful[kept]
    column = seen.sites.column[some]
    capacity = np.concatenate([capacity[:sold][kept], capacity[sold:]])
    left = [columns.left.get(columns.reservation[each], UNLIMITED) for each in column.tolist()]
    none = np.zeros(len(free), dtype=np.int64)
    return TopologySites(
        kinds=kinds,
        feasible=np.concatenate([anywhere[:, some], nodes], axis=1),
        own=np.concatenate([own[:, some], nodes], axis=1),
        could=np.concatenate([could.anywhere[:, some], could.nodes], axis=1),
        vectors=rules.vectors,
        conflict=rules.conflict,
        capacity=np.concatenate([capacity, np.tile(rules.most, (len(capacity), 1))], axis=1),
        price=np.concatenate([columns.price[column], none]),
        most=np.concatenate([np.array(left, dtype=np.int64), none + 1]),
        before=np.full(len(capacity), -1),
        column=np.concatenate([column, none - 1]),
        domains={
            key: (*(values[site] for site in kept.tolist()), *instance.nodes.column(key))
            for key, values in domains.items()
        },
        counting={key: each.cut(kept, seen.counting_nodes(key)) for key, each in counting.items()},
        unlimited=np.concatenate([_endless(instance)[columns.pool[column]], none > 0]),
    )


def _endless(instance: Instance) -> Mask:
    """Per pool: it has no limits, and nothing that it shares with others comes to an end."""
    endless = not instance.commons.any
    return np.array([endless and table.pool.limits is None for table in instance.tables], dtype=np.bool_)


def _marks(
    reach: tuple[Mask, Mask], domains: Mapping[str, Sequence[str]], counting: Iterable[Counting]
) -> Mask:
    """All that tells sites apart for some kind or some rule, (M, K); `reach` are two tables (S, K)."""
    marks = [*reach, *(np.stack([each.surely, each.never, each.foreign]) for each in counting)]
    for values in domains.values():
        codes = np.unique(values, return_inverse=True)[1]
        marks.append(codes[None, :] == np.arange(codes.max(initial=-1) + 1)[:, None])
    return np.concatenate(marks)


def _kind(
    instance: Instance, place: tuple[int, int, int], pods: list[str], members: Members, idle: frozenset[int]
) -> Kind:
    pod_class, level, tier = place
    groups = instance.topology.groups
    mine = owned_by(instance, pod_class, level) - idle
    keys = frozenset(groups[index].id.key for index in mine if groups[index].id.kind == SPREAD)
    matching = frozenset(instance.pod_classes[pod_class].matching) - idle
    of = members.get(pod_class, ((pod_class, pods),))
    shared = frozenset(groups[index].id.key for index in mine) - {HOSTNAME}
    return Kind(pod_class, level, tier, tuple(pods), mine, matching, keys, of, shared)


def merged(instance: Instance, found: Kinds) -> tuple[Kinds, Members]:
    """Kinds whose pod classes may change places as one kind, under the first of these classes; and for each
    the classes, each with its pods. As they are, and none, where no two may."""
    kinds = Counter(pod_class for pod_class, *_ in found)
    same: dict[tuple[int, int, int], list[int]] = {}
    for pod_class, level, tier in found:
        alone = kinds[pod_class] == 1 and level == 0
        first = instance.interchangeable[0][pod_class] if alone else pod_class
        same.setdefault((first, level, tier), []).append(pod_class)
    result: dict[tuple[int, int, int], list[str]] = {}
    members = {}
    for (_, level, tier), some in same.items():
        pods = [found[pod_class, level, tier] for pod_class in some]
        result[some[0], level, tier] = [pod for each in pods for pod in each]
        members[some[0]] = tuple(zip(some, pods, strict=True))
    return (result, members) if len(result) < len(found) else (found, {})


class Dealer:
    """Gives the pods of one kind to nodes: each domain, and each node, has its share of every class. Whoever
    has most left goes first, so that none is left with more than there are domains."""

    def __init__(self, kind: Kind) -> None:
        self._left = [(pod_class, list(pods)) for pod_class, pods in kind.members]
        self._had = Counter[int]()  # in the domain, by class
        self._domain: tuple[str, ...] = ()

    def take(self, number: int, domain: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """So many for one node there, or all that are left, by their classes; domains come one by one."""
        if domain != self._domain or not domain:
            self._had, self._domain = Counter(), domain
        here: dict[int, list[str]] = {}
        while number and (rest := [at for at, (_, pods) in enumerate(self._left) if pods]):
            order = sorted(rest, key=lambda at: (self._had[at], -len(self._left[at][1]), at))[:number]
            for at in order:
                pod_class, pods = self._left[at]
                here.setdefault(pod_class, []).append(pods.pop(0))
                self._had[at] += 1
            number -= len(order)
        yield from ((pod_class, tuple(pods)) for pod_class, pods in here.items())


@dataclass(frozen=True, slots=True)
class _NodeRules:
    """Resources with those that stand for rules on single nodes (S, R), and what a node has of these."""

    vectors: Amounts
    most: Amounts
    conflict: Mask


def _node_rules(instance: Instance, kinds: Sequence[Kind], idle: frozenset[int]) -> _NodeRules:
    rules = node_rules(instance, [(kind.pod_class, kind.level) for kind in kinds], idle)
    groups = cliques(rules.conflict)
    alone = np.zeros((len(kinds), len(groups)), dtype=np.int64)
    for number, group in enumerate(groups):
        alone[group, number] = 1
    takes, most = np.concatenate([rules.takes, alone], axis=1), np.append(rules.most, np.ones(len(groups)))
    times = np.array([len(kind.members) for kind in kinds], dtype=np.int64)
    conflict = rules.conflict.copy()
    np.fill_diagonal(conflict, np.diagonal(conflict) & (times == 1))
    vectors = np.array([instance.pod_classes[kind.pod_class].vector for kind in kinds], dtype=np.int64)
    return _NodeRules(
        np.concatenate([vectors.reshape(len(kinds), -1), takes], axis=1),
        (most * (takes * times[:, None]).max(axis=0, initial=1)).astype(np.int64),
        conflict,
    )


class _SiteLabels:
    """What rules see of each site, and of each existing node."""

    def __init__(
        self,
        instance: Instance,
        columns: OfferingsTable,
        kinds: Iterable[tuple[int, int, int]],
        concerned: Iterable[int],
    ) -> None:
        self._instance = instance
        self._columns = columns
        groups = {index: instance.topology.groups[index] for index in concerned}
        self._keys = sorted({group.id.key for group in groups.values()} - {HOSTNAME})
        self.spreads = [index for index, group in groups.items() if group.id.kind == SPREAD]
        named = [
            Requirements.of((item,))
            for table in instance.tables
            for key in self._keys
            for item in (table.base.by_key.get(key),)
            if item is not None and not item.complement
        ]
        self.sites = sites_of(instance, columns, [*asked_by(instance, kinds), *named])

    def domains(self, some: Amounts) -> dict[str, list[str]]:
        """Per label its value at each of some sites; hostnames and labels that may have any are left out."""
        found = {}
        for key in self._keys:
            first, like = self._told_apart((key,), some)
            values = [self._value(site, key) for site in first.tolist()]
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                found[key] = [known[number] for number in like.tolist()]
        return found

    def counting(self, wanted: NodeFilter, some: Amounts) -> Counting:
        """What a spread that counts such nodes makes of some sites."""
        answers = []
        first, like = self._told_apart(wanted.labels(), some)
        for site in first.tolist():
            column = int(self._columns.column[self.sites.column[site]])
            table = self._table(site)
            labels = table.base
            if wanted.alternatives:
                state = [Requirement.new(key, "In", (value,)) for key, value in self._state(site) if value]
                offering, kind = table.offerings[column], table.types[int(table.column_type[column])]
                labels = labels.add(*kind.requirements, *offering.requirements, *state)
            known = all(key in labels.by_key and len(labels.by_key[key]) == 1 for key in wanted.labels())
            well_known = self._instance.well_known
            foreign = known and not replace(wanted, tolerations=None).accepts(labels, (), well_known)
            accepted = wanted.accepts(labels, table.pool.taints, well_known)
            tainted = not replace(wanted, alternatives=()).accepts(labels, table.pool.taints, well_known)
            answers.append((known and accepted, foreign or tainted, foreign))
        return Counting(*np.array(answers, dtype=np.bool_).reshape(len(first), 3)[like].T)

    def _told_apart(self, keys: Collection[str], some: Amounts) -> tuple[Amounts, Amounts]:
        """One of all sites (K,) that these labels do not tell apart, and per site the number of its one."""
        numbers, start = [np.zeros(0, dtype=np.int64)], 0
        for table in self._instance.tables:
            mine = table.told_apart(keys) + start
            start = int(mine.max(initial=start - 1)) + 1
            numbers.append(mine)
        states = max(map(len, self.sites.states), default=1)
        codes = np.concatenate(numbers)[self.sites.column[some]] * states + self.sites.state[some]
        _, first, like = np.unique(codes, return_index=True, return_inverse=True)
        return some[first], like

    def counting_nodes(self, index: int) -> Counting:
        """What it makes of the existing nodes. Those with taints show that their domain is there."""
        instance, wanted = self._instance, self._instance.topology.groups[index].id.node_filter
        by_labels = replace(wanted, tolerations=None)
        surely = np.array(instance.present.counts(index), dtype=np.bool_)
        foreign = [not by_labels.accepts(labels, (), frozenset()) for labels in instance.nodes.labels]
        return Counting(surely, ~surely, np.array(foreign, dtype=np.bool_))

    def _value(self, site: int, key: str) -> str | None:
        table = self._table(site)
        value = table.domains(key)[int(self._columns.column[self.sites.column[site]])]
        if value or (key not in table.base.by_key and key not in self._instance.well_known):
            return value
        known = table.base.by_key.get(key)
        if known is None or known.complement:
            return None
        return dict(self._state(site)).get(key)

    def _table(self, site: int) -> PoolTable:
        return self._instance.tables[int(self._columns.pool[self.sites.column[site]])]

    def _state(self, site: int) -> State:
        return self.sites.states[self._table(site).index][int(self.sites.state[site])]


def pinned(instance: Instance, sites: TopologySites) -> Scope | None:
    """The sites with so many pods as each domain must hold in the end as kinds of their own, sold there.

    This is about rules that count one class alone, which obeys them: kinds of it with other promises
    count as one, which may be where any may. A domain then holds so many more pods at most than any that
    counts, or just one; what is too many for all others must be in it. None where there is no such rule, or
    capacity is reserved.
    """
    alike: dict[tuple[int, frozenset[int], frozenset[int]], list[int]] = {}
    for number, kind in enumerate(sites.kinds):
        alike.setdefault((kind.pod_class, kind.owned, kind.matching), []).append(number)
    counted = Counter(index for _, _, matching in alike for index in matching)
    groups, number_of = instance.topology.groups, {key: len(set(of)) for key, of in sites.domains.items()}
    parts: list[tuple[int, tuple[str, ...], Mask]] = []
    for (_, owned, matching), (number, *more) in alike.items():
        every = rest = sum((sites.kinds[each].pods for each in (number, *more)), ())
        may: Mask = np.asarray(sites.feasible[[number, *more]].any(axis=0), dtype=np.bool_)
        # Of several rules the one with the fewest domains says most: capacity types rather than zones.
        rules = [index for index in sorted(owned & matching) if groups[index].id.key in number_of]
        for index in sorted(rules, key=lambda index: number_of[groups[index].id.key]):
            group = groups[index].id
            alone = counted[index] == 1 and not any(instance.before[index][0].values())
            if not alone or len(rest) < len(every):
                continue
            values = np.array(sites.domains[group.key])
            some = counts = np.unique(values[may])
            least = len(rest) - len(some) + 1 if group.kind == ANTI else 0
            if group.kind == SPREAD:
                known = sites.counting[index]
                counts = np.unique(values[may & sites.unlimited])
                clear = (known.surely | known.foreign).all() and known.surely[may].all()
                least = -(((len(some) - 1) * group.max_skew - len(rest)) // len(some)) if clear else 0
            for domain in counts.tolist() if least > 0 and "" not in some else ():
                parts.append((number, rest[:least], may & (values == domain)))
                rest = rest[least:]
        parts += [(number, rest, may)] if rest else []
    sold = sites.bought
    parts = [part for part in parts if part[2][:sold].any()]  # all others are on nodes that are there
    if len(parts) <= len(alike) or (sites.most[:sold] < UNLIMITED).any():
        return None
    like, place = np.array([part[0] for part in parts]), np.array([part[2] for part in parts])
    return Scope(
        pod_classes=tuple(sites.kinds[number].pod_class for number in like.tolist()),
        pods=tuple(part[1] for part in parts),
        pools=((),) * len(parts),
        vectors=sites.vectors[like],
        feasible=place[:, :sold],
        capacity=sites.capacity[:sold],
        price=sites.price[:sold],
        conflict=sites.conflict[np.ix_(like, like)],
        free=sites.capacity[sold:],
        allowed=place[:, sold:],
        free_names=("",) * (len(sites.price) - sold),
        rules=(),
        most=np.zeros(0, dtype=np.int64),
    )


_INFINITE = highspy.kHighsInf
# Variable -> factor.
Terms = Mapping[int, float]


class Rows:
    """Variables are numbers: `nodes[site]`, `pods[kind][site]` where the kind may be, then yes or no.

    Each row is paid for as it is written: large programs take long, and what is late is given up.
    """

    def __init__(self, topology_sites: TopologySites, work: SolveBudget, *, patterns: bool = False) -> None:
        """`patterns`: those of whole nodes are chosen from, so that no row is about single ones."""
        self.topology_sites, self._work, self.patterns = topology_sites, work, patterns
        self.copies = topology_sites.copies()
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._price: list[float] = []
        self._rows: list[tuple[Terms, float, float]] = []
        self.size = 0  # factors that are not zero
        self._single: list[int] = []  # rows about what single nodes hold that can be bought
        self.implied: list[int] = []  # rows that follow from the others and what nodes hold
        self._present: dict[tuple[int, str, str], int] = {}
        sites = range(len(topology_sites.price))
        # No more nodes than pods: a program whose variables have few values is solved much sooner.
        most = np.minimum(topology_sites.most, topology_sites.demand.sum())
        self.nodes = [
            self._add(0 if site < topology_sites.bought else 1, float(most[site]), topology_sites.price[site])
            for site in sites
        ]
        self.pods: list[dict[int, int]] = [
            {site: self._add(0, float(most), 0) for site, most in enumerate(row) if most}
            for row in np.where(self.copies > 0, topology_sites.demand[:, None], 0).tolist()
        ]
        for kind, row in enumerate(self.pods):
            for site in row:
                if topology_sites.most[site] == 1:
                    self._upper[row[site]] = float(self.copies[kind, site])

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self._rows)

    @property
    def variables(self) -> int:
        """How many there are."""
        return len(self._price)

    def cost(self, values: Floats) -> float:
        """What an answer costs, in dollars per hour."""
        return float(np.dot(self._price, values)) / NANO_DOLLARS

    def values(self, nodes: Iterable[tuple[int, Sequence[int]]]) -> Floats:
        """What nodes mean for the variables, (V,): the site of each, and its pods of each kind."""
        result = np.zeros(len(self._price))
        for site, counts in nodes:
            result[self.nodes[site]] += 1
            for kind in np.flatnonzero(counts).tolist():
                result[self.pods[kind][site]] += counts[kind]
        return result

    def open(self) -> Mask:
        """(S, K): where pods of a kind may be."""
        result = np.zeros(self.copies.shape, dtype=np.bool_)
        for kind, row in enumerate(self.pods):
            for site, variable in row.items():
                result[kind, site] = self._upper[variable] > 0
        return result

    def owners(self) -> Amounts:
        """Of each variable its site, and its kind, S for the nodes themselves; -1 for yes or no, (V, 2)."""
        result = np.full((len(self._price), 2), -1, dtype=np.int64)
        for site, node in enumerate(self.nodes):
            result[node] = site, len(self.pods)
        for kind, row in enumerate(self.pods):
            for site, variable in row.items():
                result[variable] = site, kind
        return result

    def factors(self) -> tuple[Amounts, Amounts, Floats]:
        """(row, variable, factor) of the rows that last where whole patterns are chosen from."""
        listed = [
            (number, variable, factor)
            for number in self.lasting().tolist()
            for variable, factor in self._rows[number][0].items()
        ]
        row, variable, factor = zip(*listed, strict=True) if listed else ((), (), ())
        return np.array(row, np.int64), np.array(variable, np.int64), np.array(factor, np.float64)

    def lasting(self) -> Amounts:
        """The numbers of the rows that are not about what single nodes hold that can be bought."""
        return np.setdiff1d(np.arange(len(self._rows)), self._single)

    @contextmanager
    def single(self, site: int) -> Iterator[bool]:
        """In there rows are written about what single nodes of a site hold; False where none is to be."""
        before, bought = len(self._rows), site < self.topology_sites.bought
        yield not (bought and self.patterns)
        self._single += range(before, len(self._rows)) if bought else ()

    def flag(self) -> int:
        """A new yes or no."""
        return self._add(0, 1, 0)

    def at_most(self, terms: Terms, limit: float) -> None:
        """The terms add up to no more than that."""
        self._write(terms, -_INFINITE, limit)

    def exactly(self, terms: Terms, value: float) -> None:
        """The terms add up to that."""
        self._write(terms, value, value)

    def _write(self, terms: Terms, least: float, most: float) -> None:
        self._rows.append((terms, least, most))
        self.size += len(terms)
        self._work.spend(len(terms))

    def close(self, kind: int, sites: Iterable[int]) -> None:
        """None of the kind there."""
        for site in sites:
            variable = self.pods[kind].get(site)
            if variable is not None:
                self._upper[variable] = 0

    def within(self, kind: int, sites: Sequence[int], least: int, most: int) -> None:
        """So many of the kind on these sites together."""
        here = self.count((kind,), sites)
        self._write(here, least, most)
        for variable in here:
            self._upper[variable] = min(self._upper[variable], float(most))

    def most(self, sites: Amounts) -> Amounts:
        """Of each kind, on one of the sites, (S,)."""
        limits = [[self._upper[row[site]] for site in sites.tolist() if site in row] for row in self.pods]
        return np.array([max(some, default=0.0) for some in limits]).astype(np.int64)

    def count(self, kinds: Iterable[int], sites: Iterable[int], factor: float = 1.0) -> dict[int, float]:
        """Pods of these kinds on these sites."""
        some = list(sites)
        return {self.pods[kind][site]: factor for kind in kinds for site in some if site in self.pods[kind]}

    def present(self, kind: int, key: str, domain: str) -> int:
        """Yes iff, or at least if, there are pods of the kind in the domain."""
        known = self._present.get((kind, key, domain))
        if known is None:
            known = self._present[kind, key, domain] = self.flag()
            there = self.count((kind,), self.topology_sites.at(key)[domain])
            most = sum(self._upper[variable] for variable in there)
            self.at_most({**there, known: -min(most, float(self.topology_sites.demand[kind]))}, 0)
        return known

    def basic(self) -> None:
        """All pods have a place; what is on the nodes of a site has capacity there."""
        topology_sites = self.topology_sites
        for kind, row in enumerate(self.pods):
            self.exactly(dict.fromkeys(row.values(), 1.0), float(topology_sites.demand[kind]))
        scale = np.maximum(topology_sites.vectors.max(axis=0, initial=1), 1).astype(np.float64)
        needs, capacity = topology_sites.vectors / scale, topology_sites.capacity / scale
        for site, node in enumerate(self.nodes):
            there = [(kind, row[site]) for kind, row in enumerate(self.pods) if site in row]
            if not there:
                continue
            with self.single(site) as told:
                for resource in range(needs.shape[1]) if told else ():
                    used = {pods: needs[kind, resource] for kind, pods in there if needs[kind, resource] > 0}
                    if used:
                        self.at_most({**used, node: -capacity[site, resource]}, 0)
                if told and site < topology_sites.bought:
                    self._bought(site, there)
        for site in np.flatnonzero(topology_sites.before >= 0).tolist():
            most = min(int(topology_sites.most[site]), int(topology_sites.demand.sum()))
            self.at_most(
                {self.nodes[site]: 1.0, self.nodes[int(topology_sites.before[site])]: -float(most)}, 0
            )

    def _bought(self, site: int, there: list[tuple[int, int]]) -> None:
        """A node holds whole pods, and one at least of those that it may be bought for."""
        topology_sites, node = self.topology_sites, self.nodes[site]
        vectors = topology_sites.vectors[[kind for kind, _ in there]]
        for factors in shares(vectors, topology_sites.capacity[site]).tolist():
            terms = {pods: share for (_, pods), share in zip(there, factors, strict=True) if share > 0}
            self.at_most({**terms, node: -1.0}, 0)
        own = {pods: -1.0 for kind, pods in there if topology_sites.own[kind, site]}
        if len(own) < len(there):
            self.at_most({node: 1.0, **own}, 0)
        for one, pods in there:
            for other, theirs in there:
                if one < other and topology_sites.conflict[one, other]:
                    mine, others = 1 / self.copies[one, site], 1 / self.copies[other, site]
                    self.at_most({pods: mine, theirs: others, node: -1.0}, 0)

    def model(self) -> highspy.HighsLp:
        """The program, in dollars."""
        terms = [(row, *term) for row, (some, _, _) in enumerate(self._rows) for term in some.items()]
        row, column, value = np.array(terms, dtype=np.float64).reshape(-1, 3).T
        least, most = np.array([each[1:] for each in self._rows], dtype=np.float64).reshape(-1, 2).T
        entries = row.astype(np.int64), column.astype(np.int64), value
        limits = np.array(self._lower), np.array(self._upper)
        return integer_program(np.array(self._price) / NANO_DOLLARS, limits, (least, most), entries)

    def _add(self, lower: float, upper: float, price: float) -> int:
        self._lower.append(lower)
        self._upper.append(upper)
        self._price.append(price)
        return len(self._price) - 1


@dataclass(frozen=True, slots=True)
class TargetNode:
    """One node of an answer: an existing one (`row`), or a new one of a pool with these labels."""

    pods: tuple[tuple[int, int, tuple[str, ...]], ...]  # (pod class, level, names)
    row: int = -1
    pool: int = -1
    domains: Pins = ()
    # Per entry of `pods`, if promised: where a node may be bought for them, the lightest pools first.
    owned: tuple[tuple[int, ...], ...] = ()


def target_nodes_of(
    instance: Instance, columns: OfferingsTable, rows: Rows, nodes: Iterable[tuple[int, Sequence[int]]]
) -> Iterator[TargetNode]:
    """The nodes of an answer, by site and how many pods of each kind (S,), with the pods by name."""
    topology_sites = rows.topology_sites
    dealers = [Dealer(kind) for kind in topology_sites.kinds]
    if topology_sites.times:
        nodes = sorted(nodes, key=lambda node: topology_sites.domain(node[0]))
    lightest = [_pools(instance, kind.tier) for kind in topology_sites.kinds]
    for site, pattern in nodes:
        pods, owned = [], []
        for kind, dealer, pools, count in zip(topology_sites.kinds, dealers, lightest, pattern, strict=True):
            for pod_class, names in dealer.take(count, topology_sites.domain(site, kind)):
                pods.append((pod_class, kind.level, names))
                owned.append(pools)
        if site >= topology_sites.bought and pods:
            yield TargetNode(tuple(pods), row=site - topology_sites.bought)
        elif pods:
            domains = tuple((key, some[site]) for key, some in topology_sites.domains.items() if some[site])
            pool = int(columns.pool[topology_sites.column[site]])
            yield TargetNode(tuple(pods), pool=pool, domains=domains, owned=tuple(owned))


def _pools(instance: Instance, tier: int) -> tuple[int, ...]:
    """All pools up to the tier, the lightest first; none where it is not known or nothing is promised."""
    tiers = instance.tiers
    some = tiers[: (tier if tier < len(tiers) else tier - len(tiers) - 1) + 1]
    return tuple(pool for each in reversed(some) for pool in each)


def shared_out(rows: Rows, values: Floats) -> Iterator[tuple[int, list[int]]]:
    """(site, pods per kind) for each node: large pods first, each where least is left.

    Pods that fit no node of a site are left out: together they have capacity for all, not always one by one.
    """
    topology_sites = rows.topology_sites
    largest = np.maximum(topology_sites.capacity.max(axis=0, initial=1), 1)
    share = np.max(topology_sites.vectors / largest, axis=1, initial=0.0)
    order = np.argsort(-share, kind="stable").tolist()
    for site, node in enumerate(rows.nodes):
        many = round(values[node])
        wanted = [(kind, round(values[rows.pods[kind][site]])) for kind in order if site in rows.pods[kind]]
        if many and any(number for _, number in wanted):
            for counts in _filled(rows, site, many, wanted):
                if counts.any():
                    yield site, counts.tolist()


def _filled(rows: Rows, site: int, many: int, wanted: list[tuple[int, int]]) -> Amounts:
    """Pods of each kind on so many nodes of the site, (many, S)."""
    topology_sites = rows.topology_sites
    counts = np.zeros((many, len(topology_sites.kinds)), dtype=np.int64)
    capacity = np.tile(topology_sites.capacity[site], (many, 1))
    for kind, number in wanted:
        need, apart = topology_sites.vectors[kind], topology_sites.conflict[kind]
        asked = np.flatnonzero(need)
        for _ in range(number):
            fine = (capacity[:, asked] >= need[asked]).all(axis=1) & ~counts[:, apart].any(axis=1)
            if not fine.any():
                break
            left = (capacity[:, asked] - need[asked]) / np.maximum(topology_sites.capacity[site, asked], 1)
            best = int(np.where(fine, left.sum(axis=1), np.inf).argmin())
            counts[best, kind] += 1
            capacity[best] -= need
    return counts
