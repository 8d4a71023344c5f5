"""Spreads as rows that hold in the end in whichever order pods come; hosts that can be bought are no domains.

When the last pod that obeys a spread enters a domain, the pods there that obey it, with those that run there
already, are at most `maxSkew` ahead of any domain that counts. Later only others come, so in the end the pods
that obey it are at most that much ahead of what any such domain holds then. A domain that no node opens holds
them down as long as one more node could be bought there for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.model.labels import HOSTNAME
from dovetail.solve.bounds.between.rows import Rows, Terms
from dovetail.solve.bounds.node_rules import alike, endless
from dovetail.solve.supply.world import World

_MOST_HOSTS = 24


class Spreads:
    """Adds the rows of one spread at a time."""

    def __init__(self, world: World, rows: Rows) -> None:
        self._world = world
        self._rows = rows
        self._first = rows.terrain.bought
        self._alike = alike(world, [kind.matching for kind in rows.terrain.kinds])

    def add(self, index: int) -> None:
        """The rows of a spread, for each set of owners that count the same nodes."""
        terrain = self._rows.terrain
        key = self._world.topology.groups[index].id.key
        for number, kind in enumerate(terrain.kinds):
            if index in kind.owned:
                self._rows.close(
                    number, [site for site, value in enumerate(terrain.domains[key]) if not value]
                )
        mine = self._by_keys([index])
        for keys, owners in self._by_keys(self._alike.get(index, ())).items():
            self._skew(index, keys, owners)
            own, at = mine.get(keys, owners), terrain.at(key)
            if self._reached(at, own) != self._reached(at, owners):
                self._skew(index, keys, own)
        for keys, owners in mine.items():
            self._fewest(index, keys, owners)

    def _by_keys(self, some: Sequence[int]) -> dict[tuple[str, ...], list[int]]:
        """Kinds that one of these spreads binds, by the labels that a node must have to count."""
        found: dict[tuple[str, ...], list[int]] = {}
        for number, kind in enumerate(self._rows.terrain.kinds):
            if not (kind.owned & kind.matching).isdisjoint(some):
                found.setdefault(tuple(sorted(kind.spread_keys)), []).append(number)
        return found

    def add_hosts(self, index: int) -> None:
        """The rows of a spread over hosts, for the nodes that exist: what runs there counts as well."""
        rows, terrain, groups = self._rows, self._rows.terrain, self._world.topology.groups
        counted = [number for number, kind in enumerate(terrain.kinds) if index in kind.matching]
        owners = [number for some in self._by_keys(self._alike.get(index, ())).values() for number in some]
        hosts = self._hosts(index, owners)
        if not owners or len(hosts) > _MOST_HOSTS:
            return
        most = groups[index].id.max_skew
        full = self._beyond(owners, most) and len(owners) == len(counted)
        total = int(terrain.demand[owners].sum())
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
        rows, terrain = self._rows, self._rows.terrain
        most = self._world.topology.groups[index].id.max_skew
        counted = [number for number, kind in enumerate(terrain.kinds) if index in kind.matching]
        total = float(terrain.demand[owners].sum())
        sites = list(self._sure(index, owners))
        for number in range(max(1, most + 1 - runs), 2 * most + 1 - runs) if sites else ():
            if number > total:
                break
            least, enough = float(runs + number - most), rows.flag()
            rows.at_most({**mine, enough: number - 1 - total}, number - 1)
            for site in sites:
                # There are no more nodes than pods, whoever these are.
                gap = least * min(float(terrain.demand.sum()), float(terrain.most[site]))
                bought = {rows.nodes[site]: least, **rows.count(counted, [site], -1.0)}
                rows.at_most({**bought, enough: gap}, gap)

    def _hosts(self, index: int, owners: Sequence[int]) -> dict[int, int]:
        """Existing nodes that count for all owners, by site: how many such pods run there."""
        nodes = self._world.nodes
        return {
            site: self._held(index, host)
            for site in self._sure(index, owners, there=True)
            if (host := nodes.domain(site - self._first, HOSTNAME))
        }

    def _sure(self, index: int, owners: Sequence[int], *, there: bool = False) -> Iterator[int]:
        """Sites of new nodes, or of those that are there, that count for all owners."""
        terrain = self._rows.terrain
        keys = {key for number in owners for key in terrain.kinds[number].spread_keys} - {HOSTNAME}
        for site in range(self._first, len(terrain.price)) if there else range(self._first):
            if terrain.counting[index].surely[site] and self._labelled(site, sorted(keys)):
                yield site

    def _beyond(self, owners: Sequence[int], most: int) -> bool:
        """True iff a node has to be bought for some of them, and always can be."""
        rows, terrain = self._rows, self._rows.terrain
        there = range(self._first, len(terrain.price))
        known = sum(any(site in rows.pods[number] for number in owners) for site in there)
        kinds = [terrain.kinds[number] for number in owners]
        always = all(endless(self._world, kind.shape, kind.level) for kind in kinds)
        return always and int(terrain.demand[list(owners)].sum()) > most * known

    def _skew(self, index: int, keys: Sequence[str], owners: Sequence[int]) -> None:
        """No domain with owners is more than `maxSkew` ahead of one that counts or could be opened."""
        rows, terrain, counting = self._rows, self._rows.terrain, self._rows.terrain.counting[index]
        key, most = self._world.topology.groups[index].id.key, self._world.topology.groups[index].id.max_skew
        counted = [number for number, kind in enumerate(terrain.kinds) if index in kind.matching]
        at = terrain.at(key)
        total = float(sum(terrain.demand[number] for number in owners))
        reached = self._reached(at, owners)
        for there, sites in at.items():
            seen = self._seen(index, keys, sites)
            if not seen and (there not in reached or any(site >= self._first for site in sites)):
                continue
            low = rows.count(counted, [site for site in sites if not counting.never[site]], -1.0)
            opened: list[int] = []
            if not seen:
                # A node there that does not count keeps the domain from being one that nobody opened.
                unsure = [site for site in sites if not (counting.surely[site] or counting.foreign[site])]
                low.update({rows.nodes[site]: -total for site in unsure})
                opened = [site for site in sites if counting.surely[site]]
            for here, mine in at.items():
                high = rows.count(owners, mine)
                if here == there or not high:
                    continue
                terms, ahead = (
                    {**low, **high},
                    self._before(index, keys, here, mine) - self._held(index, there),
                )
                if not seen:
                    rows.at_most(terms, most)
                if seen or ahead > 0:
                    flags = [self._some(owners, mine)] if ahead > most else []
                    flags += [] if seen else [self._some(counted, opened)]
                    gap = max(0.0, total + ahead - most)
                    rows.at_most({**terms, **dict.fromkeys(flags, gap)}, most - ahead + gap * len(flags))

    def _fewest(self, index: int, keys: Sequence[str], owners: Sequence[int]) -> None:
        """While there are fewer domains than `minDomains`, each holds `maxSkew` at most."""
        rows, terrain = self._rows, self._rows.terrain
        group = self._world.topology.groups[index]
        if group.id.min_domains < 2:
            return
        at = terrain.at(group.id.key)
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
        total = float(sum(terrain.demand[number] for number in owners))
        for here, mine in at.items():
            high = rows.count(owners, mine)
            if high:
                most = max(0, group.id.max_skew - self._before(index, keys, here, mine))
                rows.at_most({**high, enough: -max(total - most, 0.0)}, most)

    def _some(self, kinds: Sequence[int], sites: Sequence[int]) -> int:
        """Yes if there are any pods of the kinds on the sites."""
        flag, most = self._rows.flag(), sum(self._rows.terrain.demand[kind] for kind in kinds)
        self._rows.at_most({**self._rows.count(kinds, sites), flag: -float(most)}, 0)
        return flag

    def _reached(self, at: dict[str, list[int]], owners: Sequence[int]) -> set[str]:
        """Domains where one more node can be bought for any of the owners, if they give up what they can."""
        terrain = self._rows.terrain
        return {
            domain
            for domain, sites in at.items()
            if all((terrain.could[number, sites] & terrain.unlimited[sites]).any() for number in owners)
        }

    def _seen(self, index: int, keys: Sequence[str], sites: Sequence[int]) -> bool:
        """True iff an existing node makes the domain count."""
        terrain = self._rows.terrain
        return any(
            site >= self._first and terrain.counting[index].surely[site] and self._labelled(site, keys)
            for site in sites
        )

    def _labelled(self, site: int, keys: Sequence[str]) -> bool:
        terrain = self._rows.terrain
        return all(key not in terrain.domains or terrain.domains[key][site] for key in keys)

    def _before(self, index: int, keys: Sequence[str], domain: str, sites: Sequence[int]) -> int:
        """Pods that run in the domain already and are counted for certain."""
        if not all(self._labelled(site, keys) for site in sites if site >= self._first):
            return 0
        return self._held(index, domain)

    def _held(self, index: int, domain: str) -> int:
        return self._world.before[index][0].get(domain, 0)
