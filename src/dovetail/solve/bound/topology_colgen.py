"""The topology bound over patterns: every set of pods that one node can hold is a variable of its own.

Where patterns are few, or only those count that pay, it proves much more: no fraction of a node can be
bought, and what a pod must have beside it on its node is decided pattern by pattern. Where there are too many
to list, those of negative reduced cost join, until there are none. After Dantzig and Wolfe; what is proven on
the way is Farley's bound: dual values divided by the largest multiple of its price that a pattern is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import highspy
import numpy as np

from dovetail.model.arrays import UNLIMITED, Amounts, Floats, Mask, distinct, holding, share
from dovetail.model.labels import HOSTNAME
from dovetail.solve.bound.topology_model import Rows, TopologySites
from dovetail.solve.budget import CELLS, HALF, MOST, Part, SolveBudget
from dovetail.solve.colgen.generation import FEW_NEW, NEW, ROUNDS
from dovetail.solve.colgen.highs import Linear, integer_program, optimum, quiet_solver
from dovetail.solve.colgen.knapsack_pricing import Best, Companions, Knapsacks
from dovetail.solve.colgen.pricing_instance import PricingInstance, pricing_instance
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.topology import AFFINITY
from dovetail.solve.tolerances import CLOSE, FEW, LINEAR, NARROW, PAYS, ROUNDING, TRIES, WIDE
from dovetail.units.money import NANO_DOLLARS


class Master:
    """The program over patterns, of the rows of one over pods and nodes per site."""

    def __init__(self, instance: Instance, rows: Rows, patterns: SitePatterns) -> None:
        self._rows, self._whole = rows, rows.model()
        self._owners = rows.owners()
        gone = (self._owners[:, 0] >= 0) & (self._owners[:, 0] < rows.topology_sites.bought)
        self._kept = np.flatnonzero(~gone)  # of the variables, those that remain
        self._lasting = rows.lasting()
        self._factors = rows.factors()
        self._companions, self._first = _companions(instance, rows.topology_sites)
        self._solver, self._passed = quiet_solver(solver="simplex"), 0  # variables that it knows
        self._take(patterns)

    def add(self, patterns: SitePatterns) -> None:
        """More of them, those that were not known."""
        self._take(joined((self.patterns, patterns), len(self._rows.pods)).distinct())

    @property
    def every(self) -> Mask:
        """All patterns, (N,)."""
        return np.ones(len(self.patterns), dtype=np.bool_)

    def _take(self, patterns: SitePatterns) -> None:
        alone = self._companions.lacking(patterns.counts)
        fine: Mask = np.all(~alone[~self._first], axis=0)
        self.starts = alone[self._first][:, fine]
        self.patterns = patterns.some(fine)
        self.price: Floats = self._rows.topology_sites.price[self.patterns.site] / NANO_DOLLARS

    def useful(self, most: float, work: SolveBudget) -> tuple[float, Floats, Mask]:
        """What fractions of patterns cost at least, the reduced price of each pattern (N,), and whether a
        plan for less than `most` can use it.

        In dollars per hour. The bound is negative where the work does not suffice.
        """
        few = self._rows.patterns and len(self.patterns) <= NARROW  # all at once
        found = self.linear(self.every, work) if few else self.plain(work)
        chosen = np.full(len(self.patterns), few)
        value = self.reduced(found) if found else self.price
        for _ in range(ROUNDS):
            rest = np.flatnonzero(~chosen & (value < -ROUNDING if chosen.any() and found else True))
            if not len(rest):
                break
            chosen[rest[np.argsort(value[rest], kind="stable")[:NEW]]] = True
            if not work.left:
                return -np.inf, value, np.ones_like(chosen)
            found = self.linear(chosen, work)
            value = self.reduced(found) if found else value
        else:
            return -np.inf, value, np.ones_like(chosen)
        if not found:
            return float("inf"), value, ~chosen
        return found.least, value, value <= (most - found.least) + most * LINEAR

    def model(self, chosen: Mask) -> highspy.HighsLp:
        """The program with some of the patterns (N,), in dollars: the variables that remain, then
        patterns.
        """
        whole, some = self._whole, np.flatnonzero(chosen)
        row, column, value = self._entries(some)
        lasting, extra = self._lasting, len(self.starts)
        # Rows about single nodes are not asked for: without them, a program is solved much sooner.
        row = np.searchsorted(np.append(lasting, self._rows.rows + np.arange(extra)), row)
        cost = np.concatenate([np.array(whole.col_cost_)[self._kept], self.price[some]])
        topology_sites = self._rows.topology_sites
        most = np.minimum(topology_sites.most[self.patterns.site[some]], topology_sites.demand.sum())
        least = np.concatenate([np.array(whole.col_lower_)[self._kept], np.zeros(len(some))])
        limits = least, np.concatenate([np.array(whole.col_upper_)[self._kept], most])
        lower, upper = np.array(whole.row_lower_)[lasting], np.array(whole.row_upper_)[lasting]
        rows = np.append(lower, np.full(extra, -np.inf)), np.append(upper, np.ones(extra))
        return integer_program(cost, limits, rows, (row, column, value))

    def nodes(self, chosen: Mask, answer: Floats) -> Iterator[tuple[int, list[int]]]:
        """The nodes that an answer buys: the site, and the pods of each kind."""
        numbers = np.rint(answer[len(self._kept) :]).astype(np.int64)
        for pattern, number in zip(np.flatnonzero(chosen).tolist(), numbers.tolist(), strict=True):
            for _ in range(number):
                yield int(self.patterns.site[pattern]), self.patterns.counts[pattern].tolist()

    def values(self, chosen: Mask, answer: Floats) -> Floats:
        """What an answer means for pods and nodes per site."""
        rows, result = self._rows, np.zeros(self._rows.variables)
        result[self._kept] = answer[: len(self._kept)]
        return result + rows.values(self.nodes(chosen, answer))

    def fractions(self, linear: Linear) -> Floats:
        """What an optimum in fractions of all patterns means for pods and nodes per site."""
        result, values, many = np.zeros(self._rows.variables), linear.values, len(self._kept)
        if values is not None:
            result[self._kept] = values[:many]
            nodes = zip(self.patterns.site.tolist(), self.patterns.counts.tolist(), strict=True)
            for node, number in zip(nodes, values[many:].tolist(), strict=False):
                result += number * self._rows.values([node]) if number > LINEAR else 0.0
        return result

    def plain(self, work: SolveBudget) -> Linear | None:
        """The optimum in fractions of the program without patterns; None if there is no solution."""
        found = optimum(self._whole, work)
        return found and Linear(found.least, np.concatenate([found.duals, np.zeros(len(self.starts))]))

    def linear(self, chosen: Mask, work: SolveBudget, *, again: bool = False) -> Linear | None:
        """The optimum in fractions of some of the patterns (N,); None if there is no solution.

        If `again`, from that of the first ones on.
        """
        model, known = self.model(chosen), self._passed
        self._passed = model.num_col_ if again else known
        found, rows = optimum(model, work, (self._solver, known) if again else None), self._rows.rows
        if found is None:
            return None
        duals = np.zeros(rows + len(self.starts))
        duals[np.append(self._lasting, rows + np.arange(len(self.starts)))] = found.duals
        return Linear(found.least, duals, found.values)

    def dual_values(self, linear: Linear) -> Floats:
        """What the rows pay for a pod of each kind at each site, and for one more node there: (K, S + 1)."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        row, variable, factor = self._factors
        dual_values = np.bincount(variable, linear.duals[row] * factor, minlength=rows.variables)
        table = np.zeros((len(topology_sites.price), len(topology_sites.kinds) + 1))
        owned = self._owners[:, 0] >= 0
        table[tuple(self._owners[owned].T)] = dual_values[owned]
        return table

    def companions(self, linear: Linear) -> Companions:
        """What nodes cost more on which pods lack others that they want there."""
        price = np.full(len(self._first), np.inf)
        price[self._first] = np.maximum(-linear.duals[self._rows.rows :], 0.0) * NANO_DOLLARS
        return replace(self._companions, price=price)

    def reduced(self, linear: Linear) -> Floats:
        """The price of each pattern less what it is worth to the rows, (N,)."""
        table, counts, site = self.dual_values(linear), self.patterns.counts, self.patterns.site
        result: Floats = self.price - (table[site, :-1] * counts).sum(axis=1) - table[site, -1]
        return result - linear.duals[self._rows.rows :] @ self.starts

    def _entries(self, some: Amounts) -> tuple[Amounts, Amounts, Floats]:
        """(row, column, factor) of all that are not zero."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        place = np.full(rows.variables, -1, dtype=np.int64)
        place[self._kept] = np.arange(len(self._kept))
        row, variable, value = self._factors
        stays = place[variable] >= 0
        parts = [(row[stays], place[variable[stays]], value[stays])]
        row, variable, value = row[~stays], variable[~stays], value[~stays]
        site_of, kind_of = self._owners[variable].T
        sites = self.patterns.site[some]
        whole = np.concatenate([self.patterns.counts[some], np.ones((len(some), 1), dtype=np.int64)], axis=1)
        for site in np.unique(sites).tolist():
            mine, here = np.flatnonzero(site_of == site), np.flatnonzero(sites == site)
            listed, where = np.unique(row[mine], return_inverse=True)
            table = np.zeros((len(listed), len(topology_sites.kinds) + 1))
            np.add.at(table, (where, kind_of[mine]), value[mine])
            product = table @ whole[here].T
            at, pattern = np.nonzero(product)
            parts.append((listed[at], len(self._kept) + here[pattern], product[at, pattern]))
        start, pattern = np.nonzero(self.starts[:, some])
        parts.append((rows.rows + start, len(self._kept) + pattern, np.ones(len(start))))
        one, two, three = zip(*parts, strict=True)
        return np.concatenate(one), np.concatenate(two), np.concatenate(three)


def _companions(instance: Instance, topology_sites: TopologySites) -> tuple[Companions, Mask]:
    """The rules by which pods want others on their nodes, and whether the first pod may be alone, (G,)."""
    kinds, rules = topology_sites.kinds, []
    for index in sorted({index for kind in kinds for index in kind.owned}):
        group = instance.topology.groups[index].id
        if group.kind == AFFINITY and group.key == HOSTNAME:
            owned = np.array([index in kind.owned for kind in kinds])
            matched = np.array([index in kind.matching for kind in kinds])
            none_yet = not any(instance.before[index][0].values())
            rules += [(owned & matched, matched & ~owned, none_yet), (owned & ~matched, matched, False)]
    rules = [rule for rule in rules if rule[0].any()]
    owners, companions = (
        np.array([rule[at] for rule in rules], dtype=np.bool_).reshape(len(rules), len(kinds))
        for at in (0, 1)
    )
    first = np.array([rule[2] for rule in rules], dtype=np.bool_)
    return Companions(owners, companions, np.full(len(rules), np.inf)), first


@dataclass(frozen=True, slots=True)
class SitePatterns:
    """N patterns of a node that is bought."""

    site: Amounts  # (N,) the cheapest of those that no rule tells apart
    counts: Amounts  # (N, S)

    def some(self, kept: Mask | Amounts) -> SitePatterns:
        """Those where `kept` (N,) is True, or those of these numbers."""
        return SitePatterns(self.site[kept], self.counts[kept])

    def distinct(self) -> SitePatterns:
        """Each once, in their order."""
        return self.some(distinct(np.column_stack([self.site, self.counts])))

    def __len__(self) -> int:
        return len(self.site)


def joined(parts: Sequence[SitePatterns], kinds: int) -> SitePatterns:
    """All of them as one list, of so many kinds of pods."""
    return SitePatterns(
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.site for part in parts)]),
        np.concatenate([np.zeros((0, kinds), dtype=np.int64), *(part.counts for part in parts)]),
    )


_Worth = tuple[Floats, Floats]  # of pods, and of what they are on


class Enumeration:
    """Finds all patterns that cost less than `slack` beyond their worth; None where there are too many.

    It looks at so many at most, those that no node holds or that cannot pay any more left out.
    """

    def __init__(
        self, rows: Rows, slack: float, work: SolveBudget, most: int, worth: _Worth | None = None
    ) -> None:
        """`slack` in nano-dollars. `worth`: of pods and the node itself at each site (K, S + 1), and of
        capacity there (K, R), which may be any; if not given, none."""
        self._rows = rows
        self._topology_sites = rows.topology_sites
        self._open = rows.open()
        self._slack = slack
        self._work = work
        self._left = most
        (sites, kinds), resources = rows.copies.T.shape, rows.topology_sites.vectors.shape[1]
        self._worth, self._prices = worth or (np.zeros((sites, kinds + 1)), np.zeros((sites, resources)))

    def run(self, fleets: Iterable[Sequence[int] | Amounts] | None = None) -> SitePatterns | None:
        """All patterns, site by site of those that rules tell apart, or of these."""
        parts = []
        for sites in alike(self._topology_sites) if fleets is None else fleets:
            found = self._of(np.array(sites, dtype=np.int64))
            if found is None:
                return None
            parts.append(found)
        return joined(parts, len(self._topology_sites.kinds))

    def _of(self, sites: Amounts) -> SitePatterns | None:
        topology_sites = self._topology_sites
        sites = sites[np.argsort(topology_sites.price[sites], kind="stable")]
        counts = np.zeros((1, len(topology_sites.kinds)), dtype=np.int64)
        worth, copies = self._worth[sites, :-1].T, self._rows.copies[:, sites] * self._open[:, sites]
        order = np.argsort(-worth.max(axis=1, initial=0.0), kind="stable")
        price = topology_sites.price[sites] - self._worth[sites, -1] - self._slack
        beyond = worth - topology_sites.vectors @ self._prices[sites].T
        whole = (self._prices[sites] * topology_sites.capacity[sites]).sum(axis=1)
        self._limits = []
        for each, held in ((worth, 0 * whole), (beyond, whole)):
            later = np.cumsum((np.maximum(each, 0.0) * copies)[order[::-1]], axis=0)[::-1]
            self._limits.append((each, price - held - np.append(later, 0 * later[:1], axis=0)))
        fits = self._paying(counts, np.ones((1, len(sites)), dtype=np.bool_), 0)
        if not fits.any():
            return SitePatterns(np.zeros(0, dtype=np.int64), counts[:0])
        for step, kind in enumerate(order.tolist(), 1):
            grown = self._grown(kind, sites, counts, fits, step)
            if grown is None:
                return None
            counts, fits = grown
        fits &= (counts > 0).astype(np.int64) @ topology_sites.own[:, sites] > 0
        kept = fits.any(axis=1)
        return SitePatterns(sites[fits[kept].argmax(axis=1)], counts[kept])

    def _paying(self, counts: Amounts, fits: Mask, step: int) -> Mask:
        """Where patterns of the first so many kinds may pay with any others, (N, K): by what pods are worth,
        and by what they are worth beyond the capacity that they take, with all capacity."""
        for each, least in self._limits:
            fits = fits & (counts @ each > least[step])
        return fits

    def _grown(
        self, kind: int, sites: Amounts, counts: Amounts, fits: Mask, step: int
    ) -> tuple[Amounts, Mask] | None:
        """The patterns with any number of one more kind added, and the sites that hold each."""
        topology_sites = self._topology_sites
        parts, need = [], topology_sites.vectors[kind]
        asked = np.flatnonzero(need)
        apart = np.flatnonzero(topology_sites.conflict[kind])
        for number in range(int(topology_sites.demand[kind]) + 1):
            if number:
                kept = (counts[:, apart] == 0).all(axis=1)
                counts, fits = counts[kept].copy(), fits[kept] & self._open[kind, sites]
                counts[:, kind] += 1
                used = counts @ topology_sites.vectors[:, asked]
                fits &= holding(used, topology_sites.capacity[np.ix_(sites, asked)])
                kept = fits.any(axis=1)
                counts, fits = counts[kept], fits[kept]
                if not len(counts):
                    break
            paying = self._paying(counts, fits, step)
            kept = paying.any(axis=1)
            parts.append((counts[kept], paying[kept]))
            self._left -= int(np.count_nonzero(kept)) * (number > 0)
            self._work.spend(1 + fits.size // CELLS)
            if self._left < 0 or not self._work.left:
                return None
        return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])


def alike(topology_sites: TopologySites) -> Sequence[Sequence[int]]:
    """Sites where nodes can be bought, those together that no rule between pods tells apart."""
    found: dict[tuple[object, ...], list[int]] = {}
    counting = topology_sites.counting.values()
    tables = [table for each in counting for table in (each.surely, each.never, each.foreign)]
    tables.append(topology_sites.unlimited)
    values = [topology_sites.domains[name] for name in sorted(topology_sites.domains)]
    for site in range(topology_sites.bought):
        own = -1 if topology_sites.most[site] >= UNLIMITED else site
        key = (own, *(value[site] for value in values), *(table[site] for table in tables))
        found.setdefault(key, []).append(site)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Sites that no rule tells apart, as one market."""

    pricing: PricingInstance  # its columns stand for sites
    knapsacks: Knapsacks


class Pricing:
    """Adds patterns to the program of some rows."""

    def __init__(self, rows: Rows, work: SolveBudget) -> None:
        self._rows, self._work = rows, work
        open_to = rows.open()
        self._fleets = [self._fleet(np.array(sorted(sites)), open_to) for sites in alike(rows.topology_sites)]
        self._next = 0  # of the fleets: which is searched next
        self.bound = 0.0  # dollars per hour that no plan costs less than
        self.proven = Linear(-np.inf, np.zeros(0))  # by which no pattern is worth more than its price

    def run(self, master: Master, nodes: Amounts) -> Linear | None:
        """Add the patterns that matter; the best plan in fractions of them, None if there is none.

        The first are the `nodes` of a plan (N, S), wherever a node holds as much, and single pods.
        """
        work, fresh = self._work, not len(master.patterns)
        width, part = FEW if fresh else NARROW, work.part(MOST if fresh else HALF)
        if fresh:
            first = master.plain(work)
            if first is None:
                return None
            self.bound = first.least
            nodes = np.concatenate([nodes, np.eye(len(self._rows.pods), dtype=np.int64)])
        master.add(self._everywhere(nodes))
        for _ in range(ROUNDS):
            now, known = master.linear(master.every, work, again=True), len(master.patterns)
            if now is None or not part.left:
                return now
            found, most = self._found(master, now, width, part)
            master.add(found)
            new = len(master.patterns) - known
            if now.least / most > self.proven.least:
                self.proven = Linear(now.least / most, now.duals / most)
            self.bound = max(self.bound, self.proven.least)
            if self.bound >= now.least * CLOSE or not (new or width == FEW):
                return now
            width = width if new >= FEW_NEW else NARROW
        return master.linear(master.every, work, again=True)

    def listed(self, master: Master, price: float) -> tuple[SitePatterns, float] | None:
        """All patterns that cost less than some slack beyond what they are proven to be worth, and the slack.

        In dollars per hour: as much as leaves them few enough, at most half of what a plan for less than
        `price` can use. None where that leaves too many.
        """
        slack = (price - self.proven.least) * NANO_DOLLARS * HALF  # of all of it there are always too many
        worth = master.dual_values(self.proven) * NANO_DOLLARS
        prices = np.zeros((len(worth), self._rows.topology_sites.vectors.shape[1]))
        values, fleets = self._values(worth), []
        for fleet, (of_pods, extras), needed in zip(self._fleets, values, self._needed(values), strict=True):
            sites, lacks, some = fleet.pricing.column, fleet.pricing.price - extras - slack, []
            worth[sites, :-1] = of_pods
            for column in np.flatnonzero(needed & (fleet.knapsacks.screened(of_pods) > lacks)).tolist():
                limit, found = fleet.knapsacks.fraction(column, of_pods)
                if limit > lacks[column]:
                    some.append(sites[column])
                    prices[sites[column]] = found[: prices.shape[1]]
            fleets.append(np.array(some, dtype=np.int64))
        for _ in range(TRIES):
            patterns = Enumeration(self._rows, slack, self._work, WIDE, (worth, prices)).run(fleets)
            if patterns is not None:
                return self._everywhere(patterns.counts, values, slack), slack / NANO_DOLLARS
            slack *= HALF
        return None

    def _fleet(self, sites: Amounts, open_to: Mask) -> _Fleet:
        topology_sites, feasible = self._rows.topology_sites, open_to[:, sites]
        own, capacity = topology_sites.own[:, sites] & feasible, topology_sites.capacity[sites]
        pods = topology_sites.vectors, topology_sites.conflict, self._rows.most(sites)
        pricing = pricing_instance(feasible, capacity, topology_sites.price[sites], *pods, own=own)
        pricing = replace(pricing, column=sites[pricing.column])
        return _Fleet(pricing, Knapsacks(pricing, self._work))

    def _found(self, master: Master, linear: Linear, width: int, part: Part) -> tuple[SitePatterns, float]:
        """Patterns worth more than their price by the duals, and the largest multiple of its price, at least
        1, that a pattern is worth: infinite where not all were looked at.
        """
        found = np.zeros((0, len(self._rows.pods)), dtype=np.int64)
        highest, companions = 1.0, master.companions(linear)
        # In dollars per site (K, S + 1), the last one of the node itself. Negative dual values: such pods are
        # left out, as if that cost nothing, but where others may want them.
        dual_values = master.dual_values(linear) * NANO_DOLLARS
        wanted = np.append(companions.companions.any(axis=0), True)
        values = self._values(np.where(wanted, dual_values, np.maximum(dual_values, 0.0)))
        needed = self._needed(values)
        for number in (np.arange(len(values)) + self._next) % max(1, len(values)):
            fleet, (of_pods, extras) = self._fleets[number], values[number]
            self._next = (self._next + 1) % len(self._fleets)
            for column in np.flatnonzero(needed[number]).tolist():
                price, extra = int(fleet.pricing.price[column]), float(extras[column])
                if not part.left:
                    return self._everywhere(found, values), np.inf
                best = fleet.knapsacks.run(column, of_pods, price * (1 + PAYS) - extra, width, companions)
                highest = max(highest, (best.others + extra) / max(price, 1))
                if len(best.counts):
                    counts, most = self._owned(fleet.pricing, column, of_pods, best)
                    highest = max(highest, (most + extra) / max(price, 1))
                    found = np.concatenate([found, counts[:FEW_NEW]])
            if len(found) > FEW:  # with these, others may not pay any more
                return self._everywhere(found, values), np.inf
        return self._everywhere(found, values), highest

    def _values(self, dual_values: Floats) -> list[_Worth]:
        """What pods of each kind are worth in each fleet (S,), the same on all of its nodes, so that what
        rules one out may rule out others; and what nodes are worth themselves.
        """
        result = []
        for fleet in self._fleets:
            table, there = dual_values[fleet.pricing.column], fleet.pricing.feasible
            most = np.max(table[:, :-1], axis=0, where=there, initial=-np.inf)
            result.append((np.where(there.any(axis=0), most, 0.0), table[:, -1]))
        return result

    def _everywhere(self, counts: Amounts, values: Sequence[_Worth] = (), slack: float = 0.0) -> SitePatterns:
        """These patterns (N, S), on the cheapest site of each fleet. If there are `values`, where that costs
        less than `slack` beyond what they are worth.
        """
        parts = []
        for fleet, worth in zip_longest(self._fleets, values):
            where = fleet.pricing.cheapest(counts, owned=True)
            fine: Mask = where >= 0
            if worth is not None:
                fine &= counts @ worth[0] + worth[1][where] + slack > fleet.pricing.price[where]
            parts.append(SitePatterns(fleet.pricing.column[where[fine]], counts[fine]))
        return joined(parts, len(self._rows.pods))

    def _needed(self, values: Sequence[_Worth]) -> list[Mask]:
        """Per fleet, (K,) each: what no other fleet has for less, where pods are worth as much and there is
        no end of nodes.
        """
        most = self._rows.topology_sites.most
        result = [np.ones(len(fleet.pricing.price), dtype=np.bool_) for fleet in self._fleets]
        for mine, fleet in enumerate(self._fleets):
            for theirs, other in enumerate(self._fleets):
                worse = values[mine][0] > values[theirs][0] + 1
                if mine == theirs or not result[theirs].any():
                    continue
                one, two = fleet.pricing, other.pricing
                better = (two.price <= one.price[:, None]) & (values[theirs][1] >= values[mine][1][:, None])
                better &= ~np.any(one.feasible & worse, axis=1, keepdims=True) & result[theirs]
                better &= ~share(one.feasible, ~two.feasible.T) & ~share(one.own, ~two.own.T)
                better &= (two.capacity >= one.capacity[:, None]).all(axis=2) & (
                    most[two.column] >= UNLIMITED
                )
                result[mine] &= ~better.any(axis=1)
        return result

    def _owned(
        self, pricing: PricingInstance, column: int, dual_values: Floats, best: Best
    ) -> tuple[Amounts, float]:
        """Those of the patterns that a node may be bought for, best first, and the most worth of one.

        Pods of no worth may be what lets others in.
        """
        own = pricing.own[column]
        idle = np.flatnonzero(own & (dual_values <= 0))
        counts = best.counts.copy()
        for kind in idle.tolist():
            self_repelling = ~counts[:, own].any(axis=1)
            capacity = pricing.capacity[column] - counts @ pricing.vectors
            fits = (capacity >= pricing.vectors[kind]).all(axis=1)
            fits &= ~counts[:, pricing.conflict[kind]].any(axis=1)
            counts[self_repelling & fits, kind] = 1
        kept = counts[:, own].any(axis=1)
        return counts[kept], float(np.max(best.worth[kept], initial=0.0))
