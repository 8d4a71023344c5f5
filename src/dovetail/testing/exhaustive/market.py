"""Which groups of pods may share a node, and the cheapest node of each sort that takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Pod, Taint
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.cluster_view import PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.problem import Pool, Problem
from dovetail.model.selector import NodeRule
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import PREFER_NO_SCHEDULE, untolerated
from dovetail.testing.exhaustive.places import Site, domain_keys, free_ports, holds, lets_in, sites
from dovetail.verify.worlds import Catalogue

Block = tuple[int, ...]  # pods of each kind on one node


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that differ in nothing but their names."""

    pods: tuple[Pod, ...]
    facts: PodFacts
    least_weight: int  # of a pool that a node may be bought from for it; nodes for others will do as well
    soft_taints: bool  # True iff PreferNoSchedule taints keep it away
    stay_weight: int = 0  # the least of a pool whose nodes it may be on, whichever pods they are bought for


@dataclass(frozen=True, slots=True)
class Option:
    """A node to buy for a block. `number` orders the options of one block, the cheapest first."""

    number: int
    price: int
    site: Site
    types: tuple[str, ...]  # the site's, or all that take the block where the pool wants many values
    relaxed: bool = False  # True iff they have too few values, which the options allow


@dataclass
class Market:
    """The kinds of a problem against everything that there is to put them on."""

    problem: Problem
    kinds: tuple[Kind, ...]
    catalogue: Catalogue = field(init=False)
    sites: list[Site] = field(init=False)
    _options: dict[Block, tuple[Option, ...]] = field(default_factory=dict)
    _held: dict[tuple[int, Block], bool] = field(default_factory=dict)
    _let_in: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.catalogue = Catalogue(self.problem)
        self.keys = sorted(domain_keys(self.catalogue))
        self.sites = sorted(sites(self.catalogue), key=lambda site: site.price)
        names = sorted({name for kind in self.kinds for name in kind.facts.requests})
        self.needs = _table([[kind.facts.requests.get(name, 0) for name in names] for kind in self.kinds])
        self.room = _table([[site.room.get(name, 0) for name in names] for site in self.sites])
        allowed = [[self._lets_in(kind, site) for site in self.sites] for kind in self.kinds]
        self.allowed = np.array(allowed, dtype=np.bool_).reshape(len(self.kinds), len(self.sites))
        self.allowed[:, [not _within_limits(site) for site in self.sites]] = False

    @property
    def whole(self) -> Block:
        return tuple(len(kind.pods) for kind in self.kinds)

    def options(self, block: Block) -> tuple[Option, ...]:
        """Nodes that take the block: of each sort that some rule may distinguish, those worth considering."""
        if block not in self._options:
            found = sorted(self._find(block), key=lambda option: option.price)
            self._options[block] = tuple(
                Option(number, item.price, item.site, item.types, item.relaxed)
                for number, item in enumerate(found)
            )
        return self._options[block]

    def holds(self, row: int, block: Block) -> bool:
        """True iff the existing node takes the block."""
        if (row, block) not in self._held:
            taints = self.problem.nodes[row].taints
            if any(count and _shies(kind, taints) for kind, count in zip(self.kinds, block, strict=True)):
                self._held[row, block] = False
                return False
            pods = [pod for kind, count in zip(self.kinds, block, strict=True) for pod in kind.pods[:count]]
            self._held[row, block] = holds(self.catalogue, self.problem.nodes[row], pods)
        return self._held[row, block]

    def blocks(self) -> Iterator[Block]:
        """Every block that some new node takes."""
        for block in product(*(range(count + 1) for count in self.whole)):
            if any(block) and self.options(block):
                yield block

    def _lets_in(self, kind: Kind, site: Site) -> bool:
        alike = (kind.pods[0].key, site.pool.name, site.decided)
        if alike not in self._let_in:
            self._let_in[alike] = self._asks(kind, site)
        return self._let_in[alike]

    def _asks(self, kind: Kind, site: Site) -> bool:
        if site.pool.weight < kind.stay_weight:
            return False
        return not _shies(kind, site.pool.taints) and lets_in(self.catalogue, kind.pods[0], site)

    def _find(self, block: Block) -> Iterator[Option]:
        some = [index for index, count in enumerate(block) if count]
        facts = [self.kinds[index].facts for index in some for _ in range(block[index])]
        least = min(self.kinds[index].least_weight for index in some)
        need = np.array(block, dtype=np.int64) @ self.needs
        fits = np.all((self.room >= need) | (need <= 0), axis=1) & self.allowed[some].all(axis=0)
        sorts: dict[tuple[object, ...], list[Site]] = {}
        for index in np.flatnonzero(fits).tolist():
            site = self.sites[index]
            if site.pool.weight >= least and free_ports(facts, site.ports):
                values = tuple(site.labels.get(key) for key in self.keys)
                sorts.setdefault((site.pool.name, site.reservation, *values), []).append(site)
        for same in sorts.values():
            yield from self._worthwhile(same[0].pool, same)

    def _worthwhile(self, pool: Pool, same: list[Site]) -> Iterator[Option]:
        """Of sites alike, cheapest first: the first, and any that takes less of what is limited."""
        if any(item.min_values for item in pool.requirements):
            option = self._many(pool, same)
            if option is not None:
                yield option
            return
        names = [name for name in sorted(pool.limits or {}) if name != "nodes"]
        seen: list[list[int]] = []
        for site in same:
            size = [site.kind.capacity.get(name, 0) for name in names]
            if not any(all(a <= b for a, b in zip(other, size, strict=True)) for other in seen):
                seen.append(size)
                yield Option(0, site.price, site, (site.kind.name,))

    def _many(self, pool: Pool, same: list[Site]) -> Option | None:
        """A node that keeps every type, for a pool that wants so many values of a label."""
        types = tuple(dict.fromkeys(site.kind.name for site in same))
        short = False
        for item in pool.requirements:
            kinds = [kind for kind in pool.instance_types if kind.name in types]
            values = {value for kind in kinds for value in kind.requirements.get(item.key).values}
            short |= len([value for value in values if item.has(value)]) < (item.min_values or 0)
        if short and self.problem.options.strict_min_values:
            return None
        return Option(0, same[0].price, same[0], types, relaxed=short)


def _within_limits(site: Site) -> bool:
    """True iff the pool's limits allow one such node as long as nothing is bought."""
    pool, size = site.pool, {**site.kind.capacity, "nodes": 1}
    limits = (pool.limits or {}).items()
    return all(size.get(name, 0) <= most - pool.usage.get(name, 0) for name, most in limits)


def _table(rows: list[list[int]]) -> npt.NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


def bound(kinds: Sequence[Kind], rule: SpreadRule) -> list[int]:
    """The kinds that count themselves under a spread, or one that counts the same and allows no more.

    Of all these the last one in a domain is ahead of all others there, whichever kind it is.
    """

    def counted(other: SpreadRule) -> list[bool]:
        return [other.counts(kind.facts.namespace, kind.facts.labels) for kind in kinds]

    def terms(other: SpreadRule) -> tuple[object, ...]:
        return other.key, other.honor_affinity, other.honor_taints

    same = counted(rule)
    return [
        number
        for number, kind in enumerate(kinds)
        if any(
            each.selects_self
            and terms(each) == terms(rule)
            and each.max_skew <= rule.max_skew
            and counted(each) == same
            for each in kind.facts.spread
        )
    ]


def worthwhile(market: Market) -> Iterator[int]:
    """Sites, cheapest first, that no other one replaces: as much room, the same labels, pods and weight."""
    kept: dict[tuple[object, ...], list[npt.NDArray[np.int64]]] = {}
    for index, site in enumerate(market.sites):
        alike = (tuple(sorted(site.labels.items())), tuple(market.allowed[:, index].tolist()), site.pool.name)
        rivals = kept.setdefault(alike, [])
        if not any((rival >= market.room[index]).all() for rival in rivals):
            rivals.append(market.room[index])
            yield index


def keys_of(rule: NodeRule) -> set[str]:
    """The labels of nodes that it looks at."""
    return set(rule.selector.keys).union(*(term.labels.keys for term in rule.terms or ()))


def repulsion(market: Market) -> dict[tuple[int, int], frozenset[str]]:
    """Pairs of kinds -> the labels by which one may not share a domain with the other."""
    found: dict[tuple[int, int], frozenset[str]] = {}
    for one, kind in enumerate(market.kinds):
        for other, far in enumerate(market.kinds):
            keys = {rule.key for rule in kind.facts.affinity.anti_affinity if _means(market, rule, far.facts)}
            for pair in ((one, other), (other, one)):
                found[pair] = found.get(pair, frozenset()) | keys
    return found


def closed(market: Market) -> list[frozenset[tuple[str, str]]]:
    """Per kind, the domains that pods which run already keep it out of, or that it keeps away from."""
    found: list[set[tuple[str, str]]] = [set() for _ in market.kinds]
    for node in market.problem.nodes:
        names = {**node.labels, HOSTNAME: node.labels.get(HOSTNAME, node.name)}
        for pod in node.pods:
            there = market.catalogue.facts_of(pod)
            for index, kind in enumerate(market.kinds):
                rules = [rule for rule in kind.facts.affinity.anti_affinity if _means(market, rule, there)]
                rules += [r for r in affinity_rules(pod).anti_affinity if _means(market, r, kind.facts)]
                found[index] |= {(rule.key, names[rule.key]) for rule in rules if rule.key in names}
    return [frozenset(item) for item in found]


def _means(market: Market, rule: AffinityRule, facts: PodFacts) -> bool:
    return rule.matches(facts.namespace, facts.labels, market.problem.namespaces)


def _shies(kind: Kind, taints: Iterable[Taint]) -> bool:
    """True iff a PreferNoSchedule taint keeps pods away that have not given that up."""
    soft = [taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE]
    return kind.soft_taints and bool(untolerated(soft, kind.facts.pod.spec.tolerations))
