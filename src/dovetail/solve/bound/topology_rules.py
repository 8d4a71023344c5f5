"""Rules between pods as rows that hold in the end in whichever order pods come.

Spreads: when the last pod that obeys one enters a domain, the pods there that obey it, with those that run
there already, are at most `maxSkew` ahead of any domain that counts. Later only others come, so in the end
the pods that obey it are at most that much ahead of what any such domain holds then. A domain that no node
opens holds them down as long as one more node could be bought there for them; hosts that can be bought are no
domains. Where pods obey spreads over several labels at once, few ways to fill the domains can be reached one
pod after the other: each of them is a yes or no.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.model.arrays import Amounts
from dovetail.model.labels import HOSTNAME
from dovetail.solve.bound.scope import alike, endless
from dovetail.solve.bound.topology_model import Rows, Terms
from dovetail.solve.budget import FILLED
from dovetail.solve.colgen.pricing_instance import cliques
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.topology import ANTI, SPREAD
from dovetail.solve.tolerances import MANY, SEVERAL


class Spreads:
    """Adds the rows of one spread at a time."""

    def __init__(self, instance: Instance, rows: Rows) -> None:
        self._instance = instance
        self._rows = rows
        self._first = rows.topology_sites.bought
        self._times = rows.topology_sites.times
        self._alike = alike(instance, [kind.matching for kind in rows.topology_sites.kinds])

    def add(self, index: int) -> None:
        """The rows of a spread, for each set of owners that count the same nodes."""
        topology_sites = self._rows.topology_sites
        key = self._instance.topology.groups[index].id.key
        for number, kind in enumerate(topology_sites.kinds):
            if index in kind.owned:
                self._rows.close(
                    number, [site for site, value in enumerate(topology_sites.domains[key]) if not value]
                )
                if index in self._times and _known(self._instance, self._rows, [number], index):
                    _share(self._instance, self._rows, number, index)
                    return
        mine = self._by_keys([index])
        for keys, owners in self._by_keys(self._alike.get(index, ())).items():
            self._skew(index, keys, owners)
            own, at = mine.get(keys, owners), topology_sites.at(key)
            if self._reached(at, own) != self._reached(at, owners):
                self._skew(index, keys, own)
        for keys, owners in mine.items():
            self._fewest(index, keys, owners)

    def _by_keys(self, some: Sequence[int]) -> dict[tuple[str, ...], list[int]]:
        """Kinds that one of these spreads binds, by the labels that a node must have to count."""
        found: dict[tuple[str, ...], list[int]] = {}
        for number, kind in enumerate(self._rows.topology_sites.kinds):
            if not (kind.owned & kind.matching).isdisjoint(some):
                found.setdefault(tuple(sorted(kind.spread_keys)), []).append(number)
        return found

    def add_hosts(self, index: int) -> None:
        """The rows of a spread over hosts, for the nodes that exist: what runs there counts as well."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        counted = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.matching]
        owners = [number for some in self._by_keys(self._alike.get(index, ())).values() for number in some]
        hosts = self._hosts(index, owners)
        if not owners or len(hosts) > SEVERAL or index in self._times:
            return
        most = self._most(index)
        full = self._beyond(owners, most) and len(owners) == len(counted)
        total = int(topology_sites.demand[owners].sum())
        for here, runs in hosts.items():
            mine = rows.count(owners, [here])
            if not mine:
                continue
            if full:
                # A new host has `maxSkew` of them at most, in the end.
                rows.at_most(mine, max(0, 2 * most - runs))
            some = self._some(owners, [here])
            for there, run in hosts.items():
                ahead = runs - run
                if ahead > 0:
                    terms = {**rows.count(counted, [there], -1.0), **mine}
                    gap = max(0.0, float(total + ahead - most)) if ahead > most else 0.0
                    rows.at_most({**terms, some: gap} if gap else terms, most - ahead + gap)
            self._behind(index, owners, mine, runs)

    def _behind(self, index: int, owners: Sequence[int], mine: Terms, runs: int) -> None:
        """Each new host must have so many before the next one goes to an existing host, where `runs` run."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        most = self._most(index)
        counted = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.matching]
        total = float(topology_sites.demand[owners].sum())
        sites = list(self._sure(index, owners))
        for number in range(max(1, most + 1 - runs), 2 * most + 1 - runs) if sites else ():
            if number > total:
                break
            least, enough = float(runs + number - most), rows.flag()
            rows.at_most({**mine, enough: number - 1 - total}, number - 1)
            for site in sites:
                # There are no more nodes than pods, whoever these are.
                gap = least * min(float(topology_sites.demand.sum()), float(topology_sites.most[site]))
                bought = {rows.nodes[site]: least, **rows.count(counted, [site], -1.0)}
                rows.at_most({**bought, enough: gap}, gap)

    def _hosts(self, index: int, owners: Sequence[int]) -> dict[int, int]:
        """Existing nodes that count for all owners, by site: how many such pods run there."""
        nodes = self._instance.nodes
        return {
            site: self._held(index, host)
            for site in self._sure(index, owners, there=True)
            if (host := nodes.domain(site - self._first, HOSTNAME))
        }

    def _sure(self, index: int, owners: Sequence[int], *, there: bool = False) -> Iterator[int]:
        """Sites of new nodes, or of those that are there, that count for all owners."""
        topology_sites = self._rows.topology_sites
        keys = {key for number in owners for key in topology_sites.kinds[number].spread_keys} - {HOSTNAME}
        for site in range(self._first, len(topology_sites.price)) if there else range(self._first):
            if topology_sites.counting[index].surely[site] and self._labelled(site, sorted(keys)):
                yield site

    def _beyond(self, owners: Sequence[int], most: int) -> bool:
        """True iff a node has to be bought for some of them, and always can be."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        there = range(self._first, len(topology_sites.price))
        known = sum(any(site in rows.pods[number] for number in owners) for site in there)
        kinds = [topology_sites.kinds[number] for number in owners]
        always = all(endless(self._instance, kind.pod_class, kind.level) for kind in kinds)
        return always and int(topology_sites.demand[list(owners)].sum()) > most * known

    def _skew(self, index: int, keys: Sequence[str], owners: Sequence[int]) -> None:
        """No domain with owners is more than `maxSkew` ahead of one that counts or could be opened."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        counting, group = topology_sites.counting[index], self._instance.topology.groups[index].id
        key, most = group.key, self._most(index)
        counted = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.matching]
        at = topology_sites.at(key)
        total = float(sum(topology_sites.demand[number] for number in owners))
        reached = self._reached(at, owners)
        for there, sites in at.items():
            seen = self._seen(index, keys, sites)
            if not seen and (there not in reached or any(site >= self._first for site in sites)):
                continue
            low = rows.count(counted, [site for site in sites if not counting.never[site]], -1.0)
            opened: list[int] = []
            if not seen:
                # A node there that does not count keeps the domain from being one that none opened.
                unsure = [site for site in sites if not (counting.surely[site] or counting.foreign[site])]
                low.update({rows.nodes[site]: -total for site in unsure})
                opened = [site for site in sites if counting.surely[site]]
            for here, mine in at.items():
                high = rows.count(owners, mine)
                if here == there or not high:
                    continue
                terms = {**low, **high}
                ahead = self._before(index, keys, here, mine) - self._held(index, there)
                if not seen:
                    rows.at_most(terms, most)
                if seen or ahead > 0:
                    flags = [self._some(owners, mine)] if ahead > most else []
                    flags += [] if seen else [self._some(counted, opened)]
                    gap = max(0.0, total + ahead - most)
                    rows.at_most({**terms, **dict.fromkeys(flags, gap)}, most - ahead + gap * len(flags))

    def _fewest(self, index: int, keys: Sequence[str], owners: Sequence[int]) -> None:
        """While there are fewer domains than `minDomains`, each holds `maxSkew` at most."""
        rows, topology_sites = self._rows, self._rows.topology_sites
        group = self._instance.topology.groups[index]
        if group.id.min_domains < 2:
            return
        at = topology_sites.at(group.id.key)
        enough = rows.flag()
        terms = {enough: float(group.id.min_domains)}
        known = 0
        for sites in at.values():
            if self._seen(index, keys, sites):
                known += 1
                continue
            opened = rows.flag()
            rows.at_most({opened: 1.0, **{rows.nodes[site]: -1.0 for site in sites if site < self._first}}, 0)
            terms[opened] = -1.0
        rows.at_most(terms, known)
        total = float(sum(topology_sites.demand[number] for number in owners))
        for here, mine in at.items():
            high = rows.count(owners, mine)
            if high:
                most = max(0, self._most(index) - self._before(index, keys, here, mine))
                rows.at_most({**high, enough: -max(total - most, 0.0)}, most)

    def _most(self, index: int) -> int:
        """How far a domain may be ahead of another, of all spreads that this one stands for."""
        return self._instance.topology.groups[index].id.max_skew * self._times.get(index, 1)

    def _some(self, kinds: Sequence[int], sites: Sequence[int]) -> int:
        """Yes if there are any pods of the kinds on the sites."""
        flag, most = self._rows.flag(), sum(self._rows.topology_sites.demand[kind] for kind in kinds)
        self._rows.at_most({**self._rows.count(kinds, sites), flag: -float(most)}, 0)
        return flag

    def _reached(self, at: dict[str, list[int]], owners: Sequence[int]) -> set[str]:
        """Domains where one more node can be bought for any of the owners, if they give up what they can."""
        topology_sites = self._rows.topology_sites
        could = topology_sites.could[list(owners)] & topology_sites.unlimited
        return {domain for domain, sites in at.items() if could[:, sites].any(axis=1).all()}

    def _seen(self, index: int, keys: Sequence[str], sites: Sequence[int]) -> bool:
        """True iff an existing node makes the domain count."""
        topology_sites = self._rows.topology_sites
        return any(
            site >= self._first and topology_sites.counting[index].surely[site] and self._labelled(site, keys)
            for site in sites
        )

    def _labelled(self, site: int, keys: Sequence[str]) -> bool:
        topology_sites = self._rows.topology_sites
        return all(key not in topology_sites.domains or topology_sites.domains[key][site] for key in keys)

    def _before(self, index: int, keys: Sequence[str], domain: str, sites: Sequence[int]) -> int:
        """Pods that run in the domain already and are counted for certain."""
        if not all(self._labelled(site, keys) for site in sites if site >= self._first):
            return 0
        return self._held(index, domain)

    def _held(self, index: int, domain: str) -> int:
        return self._instance.before[index][0].get(domain, 0)


def apart(instance: Instance, rows: Rows, index: int) -> None:
    """Pods that repel each other share no domain; those that merely prefer so, if both do."""
    group, topology_sites = instance.topology.groups[index], rows.topology_sites
    owners = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.owned]
    matched = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.matching]
    strict = group.id.kind == ANTI
    held, holders, *_ = instance.before[index]
    at = _domains(instance, rows, group.id.key)
    for domain, sites in at.items():
        if held.get(domain):
            for number in owners:
                rows.close(number, sites)
        if holders.get(domain):
            for number in matched:
                rows.close(number, sites)
    if group.id.key == HOSTNAME:
        if strict:
            _on_nodes(rows, owners, matched)
        return
    clash = np.zeros((len(topology_sites.kinds), len(topology_sites.kinds)), dtype=np.bool_)
    for number in owners:
        for mate in matched:
            if strict or (mate in owners and number in matched):
                clash[number, mate] = clash[mate, number] = True
    alone = cliques(clash)
    pairs = np.triu(clash, 1)
    for some in alone:
        pairs[np.ix_(some, some)] = False
    for domain, sites in at.items():
        for some in alone:
            rows.at_most(rows.count(some, sites), topology_sites.times.get(index, 1))
        for one, other in np.argwhere(pairs).tolist():
            if rows.count((one,), sites) and rows.count((other,), sites):
                flags = [rows.present(number, group.id.key, domain) for number in (one, other)]
                rows.at_most(dict.fromkeys(flags, 1.0), 1)


def _on_nodes(rows: Rows, owners: Sequence[int], matched: Sequence[int]) -> None:
    """On each node that exists: those that repel others, or those others, or one of those that do both.

    On new nodes it is a rule about what one node holds.
    """
    mine, theirs = set(owners), set(matched)
    groups = [sorted(some) for some in (mine - theirs, theirs - mine, mine & theirs)]
    topology_sites = rows.topology_sites
    for site in range(topology_sites.bought, len(topology_sites.price)):
        there = [[kind for kind in group if site in rows.pods[kind]] for group in groups]
        if sum(bool(some) for some in there) < 2:
            continue
        flags = [_gated(rows, site, some) for some in there if some]
        rows.at_most(dict.fromkeys(flags, 1.0), 1)


def _gated(rows: Rows, site: int, kinds: Sequence[int]) -> int:
    """Yes if there are any pods of the kinds on a node that exists."""
    flag, topology_sites = rows.flag(), rows.topology_sites
    for kind in kinds:
        rows.at_most({rows.pods[kind][site]: 1.0, flag: -float(rows.copies[kind, site])}, 0)
    for resource in np.flatnonzero(topology_sites.capacity[site] > 0).tolist():
        capacity = float(topology_sites.capacity[site, resource])
        used = {rows.pods[kind][site]: topology_sites.vectors[kind, resource] / capacity for kind in kinds}
        used = {pods: share for pods, share in used.items() if share > 0}
        if len(used) > 1:
            rows.at_most({**used, flag: -1.0}, 0)
    return flag


def together(instance: Instance, rows: Rows, index: int) -> None:
    """Pods that must be near others are where one of them is, or where the first of themselves went."""
    group, topology_sites = instance.topology.groups[index], rows.topology_sites
    owners = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.owned]
    matched = [number for number, kind in enumerate(topology_sites.kinds) if index in kind.matching]
    if not owners:
        return
    held = instance.before[index][0]
    at = _domains(instance, rows, group.id.key)
    listed = {site for sites in at.values() for site in sites}
    for number in owners:
        rows.close(number, (site for site in range(len(topology_sites.price)) if site not in listed))
    first: dict[str, int] = {}
    if not any(held.values()) and any(number in matched for number in owners):
        first = {domain: rows.flag() for domain in at}
        rows.at_most(dict.fromkeys(first.values(), 1.0), 1)
    others = [number for number in matched if number not in owners]
    for domain, sites in at.items():
        if held.get(domain):
            continue
        if group.id.key == HOSTNAME:
            with rows.single(sites[0]) as told:
                if told:
                    _on_node(rows, sites[0], (owners, matched, others), first.get(domain))
            continue
        for number in owners:
            if not rows.count((number,), sites):
                continue
            there = rows.present(number, group.id.key, domain)
            own = number in matched
            mates = rows.count(others if own else matched, sites, -1.0)
            start = {first[domain]: -1.0} if own and first else {}
            rows.at_most({there: 1.0, **mates, **start}, 0)


def _on_node(
    rows: Rows, site: int, kinds: tuple[Sequence[int], Sequence[int], Sequence[int]], first: int | None
) -> None:
    """Affinity over hosts at one site: pods that want a mate are on as many nodes as hold one at most."""
    topology_sites = rows.topology_sites
    owners, matched, others = kinds
    start = [first] if first is not None else []
    for number in owners:
        mine = rows.count((number,), (site,))
        if mine:
            own = number in matched
            mates = [mate for mate in (others if own else matched) if site in rows.pods[mate]]
            beside = {rows.pods[mate][site]: -_beside(rows, site, number, mate) for mate in mates}
            extra = dict.fromkeys(start, -float(rows.copies[number, site])) if own else {}
            rows.at_most({**beside, **extra, **mine}, 0)
    scale = np.maximum(topology_sites.vectors.max(axis=0, initial=1), 1)
    for resource in range(topology_sites.vectors.shape[1]):
        used = {
            rows.pods[number][site]: topology_sites.vectors[number, resource] / scale[resource]
            for number in owners
            if site in rows.pods[number] and topology_sites.vectors[number, resource] > 0
        }
        capacity = topology_sites.capacity[site, resource] / scale[resource]
        free = [number for number in matched if number in others or number not in used]
        if used and all(number in others or number in owners for number in free):
            nodes = rows.count(others, (site,), -capacity)
            rows.at_most({**used, **nodes, **dict.fromkeys(start, -capacity)}, 0)


def _beside(rows: Rows, site: int, kind: int, mate: int) -> float:
    """How many pods of the kind a node of the site holds beside one mate."""
    topology_sites = rows.topology_sites
    need = topology_sites.vectors[kind]
    left = np.maximum(topology_sites.capacity[site] - topology_sites.vectors[mate], 0)
    most = np.min(left[need > 0] // need[need > 0], initial=topology_sites.demand[kind])
    return 0.0 if topology_sites.conflict[kind, mate] else float(most)


def _domains(instance: Instance, rows: Rows, key: str) -> dict[str, list[int]]:
    """Sites by domain; where that is the node, each offering is one, which stands for all its nodes."""
    topology_sites = rows.topology_sites
    if key != HOSTNAME:
        return topology_sites.at(key)
    first = topology_sites.bought
    return {
        **{f"new {site}": [site] for site in range(first)},
        **{node.name: [first + row] for row, node in enumerate(instance.nodes.nodes)},
    }


_CoarseClasses = Mapping[tuple[str, ...], Sequence[int]]  # domains, one per spread -> sites


@dataclass(frozen=True, slots=True)
class _Party:
    """Kinds that obey the same spreads, which count all of them and none else."""

    kinds: tuple[int, ...]
    spreads: tuple[int, ...]


def add_ways(instance: Instance, rows: Rows) -> None:
    """The rows for all parties for which it is clear which domains count, in programs under construction."""
    for party in _parties(instance, rows):
        cells = _cells(instance, rows, party)
        if cells and all(_known(instance, rows, party.kinds, index) for index in party.spreads):
            ways = _ways(instance, rows, party, list(cells))
            if len(ways):
                _choose(rows, party.kinds, list(cells.values()), ways)


def _share(instance: Instance, rows: Rows, number: int, index: int) -> None:
    """How many pods each domain of a spread holds, of a kind that stands for many: as many times what one of
    them has there, in whole pods."""
    kind, one = rows.topology_sites.kinds[number], instance.topology.groups[index].id
    at, most, least = rows.topology_sites.at(one.key), 0, 0
    for pods in (len(each) for _, each in kind.members):
        # With c pods in one domain each other has c - skew at least; with f in one, f + skew at most.
        ahead = (pods + (len(at) - 1) * one.max_skew) // len(at) if len(at) >= one.min_domains else 0
        most += min(pods, max(one.max_skew, ahead))
        least += max(0, -(((len(at) - 1) * one.max_skew - pods) // len(at)))
    for sites in at.values():
        rows.within(number, sites, least, most)


def _parties(instance: Instance, rows: Rows) -> Iterator[_Party]:
    """Those of which none runs already."""
    groups, kinds = instance.topology.groups, rows.topology_sites.kinds
    found: dict[tuple[int, ...], list[int]] = {}
    for number, kind in enumerate(kinds):
        mine = [index for index in sorted(kind.owned | kind.matching) if groups[index].id.kind == SPREAD]
        some = tuple(index for index in mine if groups[index].id.key != HOSTNAME)
        if some:
            found.setdefault(some, []).append(number)
    for spreads, members in found.items():
        alone = all(
            (number in members) == (index in kind.owned) == (index in kind.matching)
            for number, kind in enumerate(kinds)
            for index in spreads
        )
        alone = alone and rows.topology_sites.times.keys().isdisjoint(spreads)
        if alone and not any(any(instance.before[index][0].values()) for index in spreads):
            yield _Party(tuple(members), spreads)


def _known(instance: Instance, rows: Rows, kinds: Sequence[int], index: int) -> bool:
    """True iff nodes for all these kinds can be bought in each domain, without end, and count."""
    topology_sites, key = rows.topology_sites, instance.topology.groups[index].id.key
    if key not in topology_sites.domains:
        return False
    at, counting = topology_sites.at(key), topology_sites.counting[index]
    if not all((counting.surely | counting.foreign)[sites].all() for sites in at.values()):
        return False
    if not all(counting.surely[list(rows.pods[kind])].all() for kind in kinds):
        return False
    reached = topology_sites.feasible[list(kinds)] & topology_sites.unlimited
    reached[:, topology_sites.bought :] = False
    return all(bool(reached[:, sites].any(axis=1).all()) for sites in at.values())


def _cells(instance: Instance, rows: Rows, party: _Party) -> _CoarseClasses:
    """Combinations of domains, with the sites where some of the kinds may be."""
    domains = rows.topology_sites.domains
    keys = [instance.topology.groups[index].id.key for index in party.spreads]
    found: dict[tuple[str, ...], list[int]] = {}
    for site in sorted({site for kind in party.kinds for site in rows.pods[kind]}):
        cell = tuple(domains[key][site] if key in domains else "" for key in keys)
        if all(cell):
            found.setdefault(cell, []).append(site)
    return found


def _ways(instance: Instance, rows: Rows, party: _Party, cells: Sequence[tuple[str, ...]]) -> Amounts:
    """Pods per cell in each way, (W, C); none where there are too many to look at."""
    states, step = np.zeros((1, len(cells)), dtype=np.int64), np.eye(len(cells), dtype=np.int64)
    limits = []
    for number, index in enumerate(party.spreads):
        one = instance.topology.groups[index].id
        names, domain = np.unique([cell[number] for cell in cells], return_inverse=True)
        from_zero = len(rows.topology_sites.at(one.key)) < one.min_domains
        limits.append((np.eye(len(names), dtype=np.int64)[domain], domain, one.max_skew, from_zero))
    for _ in range(int(rows.topology_sites.demand[list(party.kinds)].sum())):
        more = (states[:, None, :] + step).reshape(-1, len(cells))
        instance.work.spend(more.size // FILLED)
        if len(more) > MANY * len(cells) or not instance.work.left:
            return states[:0]
        fine = np.ones(len(more), dtype=np.bool_)
        for at, domain, most, from_zero in limits:
            counts = more @ at
            least = 0 if from_zero else counts.min(axis=1)
            fine &= counts[np.arange(len(more)), np.tile(domain, len(states))] - least <= most
        states = np.unique(more[fine], axis=0)
    return states if len(states) <= MANY else states[:0]


def _choose(rows: Rows, kinds: Sequence[int], cells: Sequence[Sequence[int]], ways: Amounts) -> None:
    """One of the ways, and in each cell the nodes that its pods need at least."""
    flags = [rows.flag() for _ in ways]
    rows.exactly(dict.fromkeys(flags, 1.0), 1.0)
    for sites, numbers in zip(cells, ways.T, strict=True):
        most = max(_most(rows, kinds, site) for site in sites)
        pods = {flag: -float(number) for flag, number in zip(flags, numbers.tolist(), strict=True) if number}
        nodes = {flag: float(-(number // most)) for flag, number in pods.items()}
        rows.exactly({**rows.count(kinds, sites), **pods}, 0)
        rows.implied.append(rows.rows)
        rows.at_most({**nodes, **{rows.nodes[site]: -1.0 for site in sites}}, 0)


def _most(rows: Rows, kinds: Sequence[int], site: int) -> int:
    """More of these pods than that are never on one node of the site."""
    topology_sites, some = rows.topology_sites, [kind for kind in kinds if site in rows.pods[kind]]
    need = topology_sites.vectors[some].min(axis=0)
    capacity = topology_sites.capacity[site][need > 0] // need[need > 0]
    return int(min(capacity.min(initial=topology_sites.demand[some].sum()), rows.copies[some, site].sum()))
