"""The topology bound over domains: what any pods cost at least in one domain, in whole nodes, as a table.

Where rules between pods count domains alone, what one domain holds costs the same however the pods of others
are shared out. Few pods of few sizes make few such sets, so the cost of each is worked out exactly, by
dynamic programming over the nodes that hold them; then one set is chosen per domain. Fractions of such sets
are next to whole ones, where those of nodes say little: one node may hold all pods of a domain. This is
Dantzig and Wolfe's decomposition again, with domains as its blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.arrays import ENDLESS, TABLE, UNLIMITED, Amounts, Floats, Mask, holding
from dovetail.model.labels import HOSTNAME
from dovetail.solve.bound.topology_model import Rows, TopologySites
from dovetail.solve.budget import CELLS, MOST, SolveBudget
from dovetail.solve.colgen.highs import integer_program, minimum, optimum
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.topology import AFFINITY
from dovetail.solve.tolerances import LINEAR, SEVERAL
from dovetail.units.money import NANO_DOLLARS

# Sets of pods in a domain, by their sizes, and in all: a table of 3,888 takes 22 MB, more with the square.
_SETS, _ALL_SETS = 4_000, 16_000


@dataclass(frozen=True, slots=True)
class Shared:
    """The cheapest way to share pods out to domains: what none costs less than, in dollars per hour, and the
    nodes (site, pods per kind) of one that costs less than was asked for."""

    bound: float
    nodes: tuple[tuple[int, list[int]], ...] | None


class _Domain:
    """Sites of one domain, nodes that are there among them, and what sets of pods cost on them.

    A set is so many pods of each size, at most `most` (Z,); what holds a set holds all smaller ones.
    """

    def __init__(
        self, sites: Amounts, of: TopologySites, kinds: tuple[Amounts, Mask], most: Amounts, work: SolveBudget
    ) -> None:
        """`kinds`: one of each size (Z,), and where each kind may be (S, K)."""
        self.sets: Amounts = np.indices(tuple(most + 1)).reshape(len(most), -1).T
        self._steps = [int(step) for step in np.append(np.cumprod((most + 1)[:0:-1])[::-1], 1)]
        self._most, self._work = most, work
        some, open_to = kinds
        fits = holding(self.sets @ of.vectors[some], of.capacity[sites])
        fits &= ~((self.sets > 0) @ ~open_to[np.ix_(some, sites)])
        price = np.where(fits, of.price[sites], ENDLESS)  # nothing on a node that is there
        sold = np.where(sites < of.bought, price, ENDLESS)
        self._cheapest = sites[sold.argmin(axis=1)]
        # Of each set with the nodes that are bought for it: one of the patterns of a node, and what it lacks.
        self._patterns = self._largest(sold.min(axis=1))
        self._single = sold.min(axis=1)[self._patterns]
        self._lacking = self._less(self._patterns)
        nothing = np.arange(len(self.sets)) == 0
        self._bought, last = np.where(nothing, 0, ENDLESS), nothing[:0]
        while len(self._patterns) and not np.array_equal(last, self._bought):
            last = self._bought
            self._bought = np.minimum(last, (last[self._lacking] + self._single).min(axis=1))
            work.spend(2 * self._lacking.size // CELLS)
        # What fits on the nodes that are there, on more and more of them.
        there = np.flatnonzero(sites >= of.bought).tolist()
        self._there = [(int(sites[at]), self._largest(price[:, at])) for at in there]
        self._held = [nothing]
        for _, largest in self._there:
            self._held.append(self._held[-1][self._less(largest)].any(axis=1))
        self._free = self._largest(np.where(self._held[-1], 0, ENDLESS))
        self._rest = self._less(self._free)
        self.price: Amounts = self._bought[self._rest].min(axis=1)
        self.useful = self._largest(self.price)

    def _less(self, some: Amounts) -> Amounts:
        """What is left of each set without each of some, (N, len(some))."""
        result = np.zeros((len(self.sets), len(some)), dtype=np.int64)
        for axis, step in enumerate(self._steps):
            result += np.maximum(self.sets[:, axis, None] - self.sets[some, axis], 0) * step
        self._work.spend(result.size * len(self._steps) // CELLS)
        return result

    def _largest(self, price: Amounts) -> Amounts:
        """The sets that have a price, of which none with one pod more costs as little."""
        kept = price < ENDLESS
        for axis, step in enumerate(self._steps):
            more = np.flatnonzero(self.sets[:, axis] < self._most[axis])
            kept[more] &= price[more + step] > price[more]
        return np.flatnonzero(kept)

    def nodes(self, number: int) -> Iterator[tuple[int, Amounts]]:
        """(site, pods of each size at most) for the nodes of a set at its price."""
        at = int(self._bought[self._rest[number]].argmin())
        free, rest = int(self._free[at]), int(self._rest[number, at])
        for (site, largest), before in zip(self._there[::-1], self._held[-2::-1], strict=True):
            left = np.maximum(self.sets[free] - self.sets[largest], 0) @ np.array(self._steps)
            at = int(before[left].argmax())
            yield site, self.sets[largest[at]]
            free = int(left[at])
        while rest:
            at = int((self._bought[self._lacking[rest]] + self._single).argmin())
            yield int(self._cheapest[self._patterns[at]]), self.sets[self._patterns[at]]
            rest = int(self._lacking[rest, at])


class Domains:
    """Pods of each kind per domain, by the rows of a program, and a set per domain that holds them."""

    def __init__(self, instance: Instance, rows: Rows, work: SolveBudget) -> None:
        self._rows, self._work = rows, work
        self._open = rows.open()
        self._sites: list[Amounts] = []  # per domain; none where rules are about more than those
        if _plain(instance, rows):
            self._tell_apart()

    def _tell_apart(self) -> None:
        """Put sites together of whose pods the rows say the same."""
        rows, owners = self._rows, self._rows.owners()
        row, variable, factor = rows.factors()
        told = ~np.isin(row, rows.implied)
        row, variable, factor = row[told], variable[told], factor[told]
        site, node = owners[variable, 0], owners[variable, 1] == len(rows.pods)
        # What pods take of a node that is there is a row about that one alone: its table knows of it.
        about = np.full(rows.rows, -1)
        about[row[node]] = site[node]
        said = about[row] < 0
        if (site[node] < rows.topology_sites.bought).any() or (site != about[row])[~said].any():
            return
        some, number = np.unique(row[said], return_inverse=True)
        if rows.variables * len(some) > TABLE:
            return
        factors, model = np.zeros((rows.variables, len(some))), rows.model()
        self._limits = np.array(model.row_lower_)[some], np.array(model.row_upper_)[some]
        factors[variable[said], number] = factor[said]
        self._work.spend(factors.size // CELLS)
        like = [said_of.tobytes() for said_of in factors]
        domains: list[tuple[dict[int, int], list[int]]] = []
        for at in np.flatnonzero(self._open.any(axis=0)).tolist():
            mine = {kind: rows.pods[kind][at] for kind in np.flatnonzero(self._open[:, at]).tolist()}
            same = (one for one in domains if _agree(one[0], mine, like))
            known, sites = next(same, None) or ({}, [])
            domains += [] if sites else [(known, sites)]
            known.update(mine)
            sites.append(at)
        if len(domains) > SEVERAL:
            return
        self._sites = [np.array(sites) for _, sites in domains]
        # Variables: pods per domain and kind (D, S), then what else is yes or no.
        self._most = np.zeros((len(domains), len(rows.pods)))
        flags = np.flatnonzero(owners[:, 0] < 0)
        self._factors = np.zeros((self._most.size + len(flags), len(some)))
        self._factors[self._most.size :] = factors[flags]
        for domain, (known, _) in enumerate(domains):
            for kind, pods in known.items():
                self._most[domain, kind] = rows.topology_sites.demand[kind]
                self._factors[domain * len(rows.pods) + kind] = factors[pods]

    def run(self, below: float) -> Shared | None:
        """The cheapest for less than `below` dollars per hour; None where rules are about more than how many
        pods a domain holds, or sets are too many."""
        if not self._sites:
            return None
        topology_sites, work, (_, kinds) = self._rows.topology_sites, self._work, self._most.shape
        names = np.concatenate([topology_sites.vectors, self._open], axis=1)
        _, first, size = np.unique(names, axis=0, return_index=True, return_inverse=True)
        size = size.reshape(-1)
        mean = np.bincount(size, topology_sites.demand) / len(self._sites)
        most = np.ceil(mean)[None].repeat(len(self._sites), axis=0)  # at least so many somewhere
        program = self._program(np.zeros(len(self._factors)), np.zeros((0, len(self._factors))), np.zeros(0))
        for number, each in (*np.ndindex(most.shape), (0, 0)):
            sets = np.prod(most + 1, axis=1)
            if sets.max() > _SETS or sets.sum() > _ALL_SETS or not work.left:
                return None
            most[number, each] = self._held(program, number, np.flatnonzero(size == each))
        tables: list[_Domain] = []
        for sites, limits in zip(self._sites, most.astype(np.int64), strict=True):
            if not work.left:
                return None
            tables.append(_Domain(sites, topology_sites, (first, self._open), limits, work))
        useful = [each.useful[each.price[each.useful] < below * NANO_DOLLARS] for each in tables]
        cost = np.concatenate([each.price[some] for each, some in zip(tables, useful, strict=True)])
        # The pods of a size in a domain are in its set; and there is one set at most.
        start, blocks = len(self._factors), []
        ends = start + np.cumsum([0, *map(len, useful)])
        for number, (table, some) in enumerate(zip(tables, useful, strict=True)):
            block = np.zeros((len(first) + 1, ends[-1]))
            block[size, number * kinds + np.arange(kinds)] = 1.0
            block[:-1, ends[number] : ends[number + 1]] = -table.sets[some].T
            block[-1, ends[number] : ends[number + 1]] = 1.0
            blocks.append(block)
        limits = np.tile(np.append(np.zeros(len(first)), 1.0), len(tables))
        price = np.append(np.zeros(start), cost / NANO_DOLLARS)
        answer = minimum(self._program(price, np.concatenate(blocks), limits), work, share=MOST, below=below)
        if answer.values is None:
            return Shared(answer.bound, None)
        nodes: list[tuple[int, list[int]]] = []
        held = np.rint(answer.values[: self._most.size]).astype(np.int64).reshape(self._most.shape)
        for number, (table, some) in enumerate(zip(tables, useful, strict=True)):
            if held[number].any():
                chosen = int(some[answer.values[ends[number] : ends[number + 1]].argmax()])
                nodes += _dealt(table.nodes(chosen), size, held[number])
        return Shared(answer.bound, tuple(nodes))

    def _held(self, program: highspy.HighsLp, number: int, kinds: Amounts) -> int:
        """How many pods of these kinds a domain holds at most, by a program without costs."""
        most = int(self._most[number, kinds].sum())
        cost = np.zeros(len(self._factors))
        cost[number * self._most.shape[1] + kinds] = -1.0
        program.col_cost_ = cost
        found = optimum(program, self._work) if most else None
        return min(most, int(-found.least + LINEAR)) if found and found.least < 0 else most

    def _program(self, cost: Floats, rows: Floats, most: Floats) -> highspy.HighsLp:
        """With these rows besides, whose sums are at most that."""
        said = np.zeros((self._factors.shape[1], len(cost)))
        said[:, : len(self._factors)] = self._factors.T
        table = np.concatenate([said, rows])
        row, column = np.nonzero(table)
        lower = np.append(self._limits[0], np.full(len(most), -np.inf))
        limits = np.zeros(len(cost)), np.append(self._most.ravel(), np.ones(len(cost) - self._most.size))
        entries = row, column, table[row, column]
        return integer_program(cost, limits, (lower, np.append(self._limits[1], most)), entries)


def _agree(known: Mapping[int, int], mine: Mapping[int, int], like: Sequence[bytes]) -> bool:
    """True iff rows say the same of pods, by kind, wherever both have any."""
    return all(like[known.get(kind, pods)] == like[pods] for kind, pods in mine.items())


def _plain(instance: Instance, rows: Rows) -> bool:
    """True iff new nodes come without end, and no rule is about what a single one holds."""
    topology_sites, groups = rows.topology_sites, instance.topology.groups
    bought = topology_sites.bought
    owned = [groups[index].id for kind in topology_sites.kinds for index in kind.owned]
    return not (
        topology_sites.conflict.any()
        or (topology_sites.before >= 0).any()
        or (topology_sites.most[:bought] < UNLIMITED).any()
        or (topology_sites.own != topology_sites.feasible)[:, :bought].any()
        or any(each.kind == AFFINITY and each.key == HOSTNAME for each in owned)
    )


def _dealt(
    nodes: Iterable[tuple[int, Amounts]], size: Amounts, left: Amounts
) -> Iterator[tuple[int, list[int]]]:
    """The nodes with pods of each kind, of which so many are left, in place of those of each size."""
    for site, counts in nodes:
        mine = np.zeros_like(left)
        for kind, each in enumerate(size.tolist()):
            mine[kind] = min(left[kind], counts[each])
            counts = counts - mine[kind] * (np.arange(len(counts)) == each)
        left = left - mine
        if mine.any():
            yield site, mine.tolist()
