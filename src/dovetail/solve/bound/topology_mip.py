"""The integer program of a plan with rules between pods, what it proves, and nodes of one site one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.model.arrays import ENDLESS, Amounts, Floats, Mask
from dovetail.model.labels import HOSTNAME
from dovetail.model.problem import WORK_PER_SECOND
from dovetail.solve.assign.strategies import Target
from dovetail.solve.bound.scope import Kinds
from dovetail.solve.bound.topology_colgen import Enumeration, Master, Pricing, SitePatterns, joined
from dovetail.solve.bound.topology_domains import Domains
from dovetail.solve.bound.topology_model import (
    Dealer,
    Rows,
    TargetNode,
    TopologySites,
    merged,
    shared_out,
    target_nodes_of,
    topology_sites_of,
)
from dovetail.solve.bound.topology_rules import Spreads, add_ways, apart, together
from dovetail.solve.budget import HALF, LITTLE, MOST, SOME, SolveBudget
from dovetail.solve.colgen.highs import MOST_CELLS, minimum
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.topology import AFFINITY, SPREAD
from dovetail.solve.tolerances import ALIKE, CLOSE, LESS, LINEAR, NARROW, TRIES, WIDE
from dovetail.units.money import NANO_DOLLARS

_MOST_SIZE = 400_000  # pod classes times offerings: so many take 0.1 s to look through
_MOST_FEASIBLE = 4_000  # pod classes times offerings where they may be
_MOST_PATTERNS = 500  # that are chosen from
_PATTERNS_ALONE = 6  # times as large as where nodes per site come to an end: there only patterns are tried
# Kinds of pods. Of more, partial patterns are over 20,000 however small the slack (mostly so from 16 on: it
# takes 0.3 s to find out), and those that pay are not all found in a second (of 23 they just are, of 60 not).
_FEW_LISTED, _FEW_KINDS = 16, 40
_FEW_PODS = 200  # of more (343), they are not all found in half of a second's work before packing
# Times as large where kinds stand for several classes: their programs have few rows. Of 234 classes, 39 kinds
# with 21,500 cells, it proves $4.27 of the 4.51 that the best plan known costs; 4.03 were proven before.
_MERGED = 4
_SMALL = 6_000  # factors: nodes per site come before patterns where there are no more


@dataclass(frozen=True, slots=True)
class Ruled:
    """What no plan costs less than, in nano-dollars per hour, and where pods are in the best answer found."""

    bound: int = 0
    targets: Mapping[int, tuple[Target, ...]] = field(default_factory=dict)  # per pod class
    answers: tuple[tuple[TargetNode, ...], ...] = ()  # the nodes of that answer, then those of another one
    cost: int = ENDLESS  # of that answer, if each of its nodes holds its pods
    settled: bool = False  # True iff it was chosen from all patterns


_Next = tuple[TopologySites, Mapping[int, int]]  # what the next program tells apart: so many nodes of sites


def _key(found: Kinds) -> object:
    """The kinds, and how many pods of each."""
    return tuple((*kind, len(pods)) for kind, pods in found.items())


def small(feasible: Mask, work: SolveBudget) -> bool:
    """True iff a program for these pod classes (S, C) might be small enough; much of it is dominated."""
    most, cells = _MOST_FEASIBLE * _times(work), int(np.count_nonzero(feasible))
    return feasible.size <= _MOST_SIZE * _times(work) and cells <= most


def _times(work: SolveBudget) -> float:
    """How many times larger than usual a program may be."""
    return max(1.0, work.rest / WORK_PER_SECOND)


class TopologyBound:
    """Solves the programs of one solve's plans. Plans that place as many pods alike share one."""

    def __init__(self, instance: Instance, columns: OfferingsTable) -> None:
        self._instance = instance
        self._columns = columns
        self._known: dict[object, Ruled] = {}
        self._next: dict[object, _Next] = {}
        self._stale: set[object] = set()  # of what is known: a program with more work may tell more
        # What the last programs are of: the kinds, and their largest size; the sites; and those that are
        # written, by whether patterns alone are chosen from.
        self._about: tuple[object, float] = (None, 0.0)
        self._sites: TopologySites | None = None
        self._programs: dict[bool, Rows | None] = {}
        self._shared: TopologySites | None = None  # those of which sets per domain were looked for
        self._generated: tuple[Rows, Master, Pricing] | None = None  # the last column generation
        # The pods of each node of the last plan, which patterns begin with.
        self.nodes: Callable[[], Iterable[Sequence[str]]] = tuple
        self.spent = 0  # units of work since it was asked again
        self.unfinished = False  # True iff patterns that pay were looked for, and others are missing
        # Per pod class, where pods are best, once that is known.
        self.targets: Mapping[int, tuple[Target, ...]] = {}
        # The same by an optimum in fractions, of classes that may change places.
        self.shares: Mapping[int, tuple[Target, ...]] = {}
        self.answers: tuple[tuple[TargetNode, ...], ...] = ()  # the nodes of the best, then those of others
        self.cost = ENDLESS  # of the best, if each of its nodes holds its pods

    def again(self) -> None:
        """There is more work for each program than there was."""
        self._stale = set(self._known)
        self.spent = 0

    def bound(
        self, free: Amounts, found: Kinds, price: int, *, listed: bool = False, early: bool = False
    ) -> int:
        """For all plans that keep the promises of this one, which costs `price`.

        `free` (nodes, R) is the capacity before them. If `listed`, only where all patterns of nodes that
        matter can be listed and chosen from: where they cannot, it is as if it had not been asked; but if
        `early`, those that pay are looked for where pods are of few kinds.
        """
        work, key = self._instance.work, _key(found)
        found, members = merged(self._instance, found)
        size = len({pod_class for pod_class, *_ in found}) * len(self._columns.price)
        most = _MOST_SIZE * _times(work) * (_MERGED if members else 1)
        work.wanting |= size > most  # with more, larger programs are solved
        if size > most or not any(self._instance.pod_classes[at].involved for at, *_ in found):
            return 0
        if (key not in self._known or key in self._stale) and work.left:
            self._stale.discard(key)
            begun, most = work.used, MOST_CELLS * _times(work)
            if self._about != (key, most):
                self._about, self._programs = (key, most), {}
                self._sites = topology_sites_of(self._instance, self._columns, free, found, most, members)
                work.spend(self._sites.feasible.size)
            rows = self._written(most, listed=listed)
            self._note(key, *self._solved(rows, price, listed=listed, early=early))
            if listed and not self._known[key].settled and (self.unfinished or not self._known[key].answers):
                self._stale.add(key)
            else:
                self.spent += work.used - begun
        work.wanting |= not self._known.get(key, Ruled()).settled
        return self._known.get(key, Ruled()).bound

    def deeper(self, found: Kinds, price: int) -> int:
        """The bound of a second program: nodes one by one where the last answer has too much on several.

        0 where no more is known.
        """
        key, work = _key(found), self._instance.work
        if key not in self._next or not work.left:
            return 0
        begun, last = work.used, self._next.pop(key)
        self._note(key, *self._by_sites(program(self._instance, split(*last)), price, HALF))
        self.spent += work.used - begun
        return self._known[key].bound

    def _note(self, key: object, ruled: Ruled, following: _Next | None) -> None:
        self._known[key] = replace(ruled, bound=max(ruled.bound, self._known.get(key, Ruled()).bound))
        self.targets = ruled.targets or self.targets
        self.answers, self.cost = (ruled.answers, ruled.cost) if ruled.answers else (self.answers, self.cost)
        if following is not None:
            self._next[key] = following

    def _written(self, most: float, *, listed: bool) -> Rows | None:
        """The program, without rows about single nodes beyond so many pods times sites; None of far more.
        Nor are they written of few kinds if `listed`: all patterns of these are listed mostly, which ask for
        no such rows. Of many kinds most programs are needed whole, and to begin one twice is dear.
        """
        assert self._sites is not None
        cells = int(np.count_nonzero(self._sites.feasible))
        alone = (listed and len(self._sites.kinds) <= TRIES) or cells > most
        if alone not in self._programs:
            fine = cells <= _PATTERNS_ALONE * most * (_MERGED if self._sites.times else 1)
            self._programs[alone] = program(self._instance, self._sites, patterns=alone) if fine else None
        return self._programs[alone]

    def _solved(
        self, rows: Rows | None, price: int, *, listed: bool, early: bool
    ) -> tuple[Ruled, _Next | None]:
        work, times = self._instance.work, _times(self._instance.work)
        if rows is None or not work.left:
            return Ruled(), None
        best, following, alone = Ruled(), None, rows.patterns
        if self._shared is not self._sites:  # for plans of the same pods the answer is the same
            self._shared, best = self._sites, self._by_domains(rows, price)
        if best.settled:
            return best, None
        patterns = Enumeration(rows, price, work, int((NARROW if listed else WIDE) * times)).run()
        if listed and patterns is None:
            pods = 0 if rows.topology_sites.times else rows.topology_sites.demand.sum()
            few = len(rows.pods) <= (_FEW_KINDS if pods <= _FEW_PODS else TRIES)
            return self._by_few(rows, price, HALF) if early and few else Ruled(), None
        if listed:
            return self._by_patterns(rows, patterns, price), None
        first = patterns is None and rows.size <= _SMALL and not alone
        for by_sites in (first, not first)[: 1 if alone else 2]:
            price = min(price, best.cost)
            if best.bound >= price * CLOSE or best.settled or not work.left:
                break
            with work.sparing(SOME if best.answers else 0.0):  # for plans that follow these
                if by_sites:
                    found, following = self._by_sites(rows, price, MOST)
                else:
                    found = self._by_patterns(rows, patterns, price)
            best = _both(best, found)
        return best, following

    def _by_domains(self, rows: Rows, price: int) -> Ruled:
        """By sets of pods per domain, where these say all that rules ask for and are few."""
        found = Domains(self._instance, rows, self._instance.work).run(price / NANO_DOLLARS * LESS)
        if found is None:
            return Ruled()
        bound = max(0, min(price, _in_nano(found.bound)))
        if found.nodes is None:
            return Ruled(bound, settled=bound >= price * CLOSE)
        ruled = self._answered(rows, bound, rows.values(found.nodes), found.nodes)
        return replace(ruled, settled=bound >= ruled.cost * CLOSE)

    def _answered(
        self, rows: Rows, bound: int, values: Floats, nodes: Iterable[tuple[int, Sequence[int]]]
    ) -> Ruled:
        """With these nodes, which hold their pods."""
        target_nodes = tuple(target_nodes_of(self._instance, self._columns, rows, nodes))
        return Ruled(bound, _targets(rows, values), (target_nodes,), round(rows.cost(values) * NANO_DOLLARS))

    def _by_sites(self, rows: Rows, price: int, share: float) -> tuple[Ruled, _Next | None]:
        """By nodes per site; and what to tell apart if an answer has too much on several nodes of one."""
        work, below = self._instance.work, price / NANO_DOLLARS * LESS
        answer = minimum(rows.model(), work, share=share, below=below)
        bound, values = max(0, min(price, _in_nano(answer.bound))), answer.values
        if values is None:
            return Ruled(bound), None
        singles = cramped(rows, values) if answer.bound >= rows.cost(values) * CLOSE else {}
        nodes = list(shared_out(rows, values))
        whole = sum(sum(pattern) for _, pattern in nodes) == rows.topology_sites.demand.sum()
        ruled = self._answered(rows, bound, values, nodes)
        ruled = ruled if whole else replace(ruled, cost=ENDLESS)
        return ruled, (rows.topology_sites, singles) if singles else None

    def _by_patterns(self, rows: Rows, patterns: SitePatterns | None, price: int) -> Ruled:
        """By all patterns that a plan for less than `price` could use, or by some if they are too many."""
        if patterns is None:
            return self._by_few(rows, price)
        work, master = self._instance.work, Master(self._instance, rows, patterns)
        least, value, kept = master.useful(price / NANO_DOLLARS, work)
        bound = max(0, min(price, _in_nano(least)))
        if bound >= price * CLOSE or not work.left:
            return Ruled(bound)
        few = self._few(value, kept, _MOST_PATTERNS * _times(work))
        every = bool(np.array_equal(few, kept))
        if not every and rows.size <= _SMALL:
            return Ruled(bound)
        ruled = self._chosen(rows, master, few, price, MOST if every else HALF)
        # A plan with any other pattern costs its reduced price more than fractions of patterns at least.
        others = _in_nano(least + float(np.min(value[~few], initial=np.inf)))
        return replace(ruled, bound=max(bound, min(ruled.bound, others)), settled=every)

    def _by_few(self, rows: Rows, price: int, spared: float = 0.0) -> Ruled:
        """By patterns that pay, found one after another; a plan may need others as well.

        If a share of the work is `spared` when they are looked for, only where all are found in the rest.
        Packing comes after that, and has most of the work: choosing took 1.3 of two million units in vain.
        """
        work = self._instance.work
        if self._generated is None or self._generated[0] is not rows:
            master = Master(self._instance, rows, joined((), len(rows.pods)))
            self._generated = rows, master, Pricing(rows, work)
        _, master, pricing = self._generated
        merged = bool(rows.topology_sites.times)
        # Of several classes as one, plans follow what is found, finished or not: they have the smaller part.
        with work.sparing(LITTLE if spared and merged else spared):
            linear = pricing.run(master, self._planned(rows))
        self.unfinished = linear is None or pricing.proven.least < linear.least * CLOSE
        bound = max(0, min(price, _in_nano(pricing.bound)))
        if merged and linear is not None:
            self.shares = _targets(rows, master.fractions(linear))
        if linear is None or bound >= price * CLOSE or not work.left:
            return Ruled(bound)
        if spared and self.unfinished and not (merged and pricing.proven.least * ALIKE > linear.least):
            return Ruled(bound)
        fine = not self.unfinished and len(rows.pods) <= _FEW_LISTED
        many, slack = len(master.patterns), 0.0
        if fine and (listed := pricing.listed(master, price / NANO_DOLLARS)):
            slack, linear = listed[1], pricing.proven
            patterns = joined((master.patterns, listed[0]), len(rows.pods))
            master = Master(self._instance, rows, patterns.distinct())
        value, best, most = master.reduced(linear), Ruled(bound), HALF * _MOST_PATTERNS * _times(work)
        # Of patterns that are not listed the choice proves nothing: nodes per site have their share, then,
        # and most where there is work for them to come to an end.
        first, vain = np.arange(len(value)) < many, LITTLE if _times(work) > 1 else HALF
        share = HALF if spared else MOST if slack else vain
        part = work.part(LITTLE if spared else share)
        while part.left:
            kept = value <= price / NANO_DOLLARS - linear.least
            few = self._few(value, kept & first, most) | self._few(value, kept & ~first, most)
            found = self._chosen(rows, master, few, price, share)
            # A plan with any other pattern costs as much more than fractions of patterns at least.
            others = _in_nano(pricing.proven.least + min(slack, np.min(value[~few], initial=np.inf)))
            best = _both(best, replace(found, bound=max(bound, min(others, found.bound))))
            price, most, share = min(price, found.cost), 2 * most, LITTLE
            if np.array_equal(few, kept) or best.bound >= price * CLOSE:
                break
        return best

    def _planned(self, rows: Rows) -> Amounts:
        """The nodes of the last plan, as how many pods of each kind they hold (N, S)."""
        kinds = {pod: number for number, kind in enumerate(rows.topology_sites.kinds) for pod in kind.pods}
        nodes = [[kinds[pod] for pod in pods if pod in kinds] for pods in self.nodes()]
        counts = [np.bincount(each, minlength=len(rows.pods)) for each in nodes if each]
        return np.array(counts, dtype=np.int64).reshape(-1, len(rows.pods))

    def _few(self, value: Floats, kept: Mask, most: float) -> Mask:
        """So many of the patterns that are kept at most, by reduced price (N,)."""
        order = np.argsort(np.where(kept, value, np.inf), kind="stable")
        return kept & np.isin(np.arange(len(kept)), order[: int(most)])

    def _chosen(self, rows: Rows, master: Master, kept: Mask, price: int, share: float) -> Ruled:
        """The best choice of these patterns (N,) that costs less than `price`; its bound is about no
        others.
        """
        below = price / NANO_DOLLARS * LESS
        answer = minimum(master.model(kept), self._instance.work, share=share, below=below)
        bound = min(price, _in_nano(answer.bound))
        if answer.values is None:
            return Ruled(bound)
        values = master.values(kept, answer.values)
        there = range(rows.topology_sites.bought, len(rows.topology_sites.price))
        held = ((at, [round(values[row[at]]) if at in row else 0 for row in rows.pods]) for at in there)
        return self._answered(rows, bound, values, [*master.nodes(kept, answer.values), *held])


def _both(one: Ruled, other: Ruled) -> Ruled:
    """What is known from either; the answer of nodes that hold their pods, or else the first, counts."""
    first, second = sorted((one, other), key=lambda each: (each.cost, not each.answers))
    answers = (*first.answers, *second.answers)
    bound, settled = max(one.bound, other.bound), one.settled or other.settled
    return replace(first, bound=bound, answers=answers, settled=settled)


def _in_nano(bound: float) -> int:
    return int(max(-1.0, min(bound, 1e9)) * NANO_DOLLARS * (1 - LINEAR))


def program(instance: Instance, topology_sites: TopologySites, *, patterns: bool = False) -> Rows:
    """All rows; where patterns are chosen from alone, those that are not about single nodes."""
    rows = Rows(topology_sites, instance.work, patterns=patterns)
    rows.basic()
    spreads = Spreads(instance, rows)
    for index in sorted({index for kind in topology_sites.kinds for index in kind.owned | kind.matching}):
        group = instance.topology.groups[index]
        if group.id.key != HOSTNAME and group.id.key not in topology_sites.domains:
            continue
        if group.id.kind == AFFINITY:
            together(instance, rows, index)
        elif group.id.kind != SPREAD:
            apart(instance, rows, index)
        elif group.id.key == HOSTNAME:
            spreads.add_hosts(index)
        else:
            spreads.add(index)
    add_ways(instance, rows)
    return rows


def _targets(rows: Rows, values: Floats) -> dict[int, tuple[Target, ...]]:
    """Where an answer has pods, per pod class."""
    topology_sites = rows.topology_sites
    found: dict[int, list[Target]] = {}
    for kind, row in zip(topology_sites.kinds, rows.pods, strict=True):
        dealer, given, share = Dealer(kind), 0, 0.0
        for site in sorted(row, key=topology_sites.domain):
            domains = tuple((key, some[site]) for key, some in topology_sites.domains.items())
            at = site - topology_sites.bought
            target = Target(0, domains=domains) if at < 0 else Target(0, row=at)
            share += float(values[row[site]])
            pods = max(0, round(share) - given)
            for pod_class, names in dealer.take(pods, topology_sites.domain(site, kind)):
                found.setdefault(pod_class, []).append(replace(target, pods=len(names)))
            given += pods
    return {pod_class: tuple(targets) for pod_class, targets in found.items()}


def cramped(rows: Rows, values: Floats) -> dict[int, int]:
    """Sites -> nodes there, of those that an answer buys several of, where something finds no capacity on
    one.
    """
    counts = np.zeros((len(rows.nodes), len(rows.pods)), dtype=np.int64)
    for site, pattern in shared_out(rows, values):
        counts[site] += pattern
    nodes = {site: round(values[node]) for site, node in enumerate(rows.nodes)}
    return {
        site: many
        for site, many in nodes.items()
        if many > 1
        and any(
            round(values[row[site]]) > counts[site, kind] for kind, row in enumerate(rows.pods) if site in row
        )
    }


def split(topology_sites: TopologySites, some: Mapping[int, int]) -> TopologySites:
    """Sites of which so many nodes each are sites of their own, beside all others there."""
    parts = np.ones(len(topology_sites.price), dtype=np.int64)
    parts[list(some)] += list(some.values())
    order = np.repeat(np.arange(len(parts)), parts)
    single = np.append(order[1:] == order[:-1], False)  # the last one of each stands for all the others
    last = np.flatnonzero(~single)
    # All are alike: whatever a plan buys there, the single ones come first.
    before = np.where(topology_sites.before[order] < 0, -1, last[topology_sites.before[order]])
    before[1:] = np.where(single[:-1], np.arange(len(order) - 1), before[1:])
    return replace(
        topology_sites,
        feasible=topology_sites.feasible[:, order],
        own=topology_sites.own[:, order],
        could=topology_sites.could[:, order],
        capacity=topology_sites.capacity[order],
        price=topology_sites.price[order],
        most=np.where(single, 1, topology_sites.most[order] - (parts[order] - 1)),
        before=before,
        column=topology_sites.column[order],
        domains={
            key: tuple(values[site] for site in order.tolist())
            for key, values in topology_sites.domains.items()
        },
        counting={index: each.of(order) for index, each in topology_sites.counting.items()},
        unlimited=topology_sites.unlimited[order],
    )
