"""The least cost of a plan under rules between pods, as an integer program written from the rules alone.

It checks proofs of the method "rules between pods": pods per kind and sort of node that can be bought, nodes
per sort, and of every rule what holds in the end. It shares no code with the solver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dovetail.model.affinity import AffinityRule
from dovetail.model.cluster_view import PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import port_error
from dovetail.model.problem import Problem
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.testing.exhaustive.market import Kind, Market, bound, keys_of, repulsion, worthwhile
from dovetail.testing.exhaustive.places import Site
from dovetail.testing.knapsack import Row, maximum
from dovetail.testing.whole_loads import Block, Blocks

_MANY = 1000  # nodes of one sort
_LOADS = 3_000  # sets of pods on one node
_FUNCTIONS = 8  # dual feasible functions per resource


class Program:
    """Columns are pods (kind, site), nodes (site), then yes or no. Markets without existing nodes only.

    `problem` has the pods with preferences as such: where a pod would rather not be still counts for spreads.
    """

    def __init__(self, problem: Problem, market: Market) -> None:
        self.kinds = market.kinds
        self._loose = _loose(problem, market)
        self.count = [len(kind.pods) for kind in market.kinds]
        self._market = market
        self._far = repulsion(market)
        self.sites = list(worthwhile(market))
        self.upper: list[float] = []
        self.rows: list[Row] = []
        self.nodes = [self._column(_MANY) for _ in self.sites]
        self.pods = {
            (kind, number): self._column(self.count[kind])
            for kind in range(len(self.kinds))
            for number, site in enumerate(self.sites)
            if market.allowed[kind, site]
            and (market.room[site] >= market.needs[kind])[market.needs[kind] > 0].all()
        }
        self._basic()
        for spread in dict.fromkeys(rule for kind in self.kinds for rule in kind.facts.spread):
            self._spread(spread)
        for spreads in dict.fromkeys(kind.facts.spread for kind in self.kinds):
            self._order([rule for rule in spreads if rule.key != HOSTNAME])
        for rules in dict.fromkeys(kind.facts.affinity.affinity for kind in self.kinds):
            for rule in rules:
                self._near(rule, rules)
        self._apart()
        self.whole = self._loads()  # True iff no node holds parts of pods

    def least(self) -> float:
        """What all pods cost at least, in nano-dollars per hour."""
        gain = {node: -float(self.site(number).price) for number, node in enumerate(self.nodes)}
        scale = max(1.0, -min(gain.values(), default=-1.0))
        found = maximum(
            {node: each / scale for node, each in gain.items()}, self.upper, self.rows, whole=True
        )
        return float("inf") if found is None else -found * scale

    def site(self, number: int) -> Site:
        return self._market.sites[self.sites[number]]

    def _column(self, most: float) -> int:
        self.upper.append(float(most))
        return len(self.upper) - 1

    def _some(self, kinds: Iterable[int], sites: Iterable[int], factor: float = 1.0) -> dict[int, float]:
        places = list(sites)
        return {self.pods[k, s]: factor for k in kinds for s in places if (k, s) in self.pods}

    def _basic(self) -> None:
        every = range(len(self.sites))
        for kind, count in enumerate(self.count):
            self.rows.append((self._some((kind,), every, -1.0), -float(count)))
        for number, node in enumerate(self.nodes):
            here = [kind for kind in range(len(self.kinds)) if (kind, number) in self.pods]
            for shares in self._shares(number, here):
                used = {
                    self.pods[kind, number]: each for kind, each in zip(here, shares, strict=True) if each > 0
                }
                if used:
                    self.rows.append(({**used, node: -1.0}, 0.0))
            weight = self.site(number).pool.weight
            own = [kind for kind in here if self.kinds[kind].least_weight <= weight]
            self.rows.append(({node: 1.0, **self._some(own, (number,), -1.0)}, 0.0))

    def _shares(self, number: int, here: list[int]) -> Iterator[list[float]]:
        """What pods take of one node, measured in several ways; in each, a node holds at most 1."""
        market, site = self._market, self.sites[number]
        for resource, room in enumerate(market.room[site].tolist()):
            need = market.needs[here, resource].tolist() if here else []
            if room <= 0 or not any(need):
                continue
            yield [each / room for each in need]
            for k in range(1, _FUNCTIONS + 1):
                whole = [divmod(each * (k + 1), room) for each in need]
                yield [much / k if rest else much / (k + 1) for much, rest in whole]
            for size in sorted({each for each in need if each > 0}):
                yield [1.0 / (room // size) if each >= size else 0.0 for each in need]
        for rule in dict.fromkeys(rule for kind in self.kinds for rule in kind.facts.spread):
            if rule.key == HOSTNAME:
                some = bound(self.kinds, rule)
                yield [(kind in some) / rule.max_skew for kind in here]
        alone = [kind for kind in here if self._clash(kind, kind)]
        for first in alone:
            group = [first]
            for kind in alone:
                if kind != first and all(self._clash(kind, other) for other in group):
                    group.append(kind)
            yield [1.0 if kind in group else 0.0 for kind in here]

    def _loads(self) -> bool:
        """Nodes as sets of pods, each of which is a column; False where there are too many."""
        blocks = Blocks(self._market)
        seen: set[tuple[object, Block]] = set()
        held: dict[int, list[tuple[int, Block]]] = {}
        for number, index in enumerate(self.sites):
            site = self.site(number)
            alike = (tuple(sorted(site.labels.items())), site.pool.name)
            for block in blocks.of(index, _LOADS - len(seen)):
                # The sites are sorted by price.
                if not blocks.hopeless(block) and (alike, block) not in seen:
                    seen.add((alike, block))
                    held.setdefault(number, []).append((self._column(_MANY), block))
            if len(seen) > _LOADS:
                return False
        for number, node in enumerate(self.nodes):
            mine = held.get(number, [])
            self.rows.append(({node: -1.0, **{column: 1.0 for column, _ in mine}}, 0.0))
            for kind in range(len(self.kinds)):
                there = {column: float(block[kind]) for column, block in mine if block[kind]}
                if (kind, number) in self.pods:
                    pods = self.pods[kind, number]
                    self.rows.append(({pods: 1.0, **{c: -count for c, count in there.items()}}, 0.0))
                    self.rows.append(({pods: -1.0, **there}, 0.0))
        every = [each for mine in held.values() for each in mine]
        for near in blocks.near:
            first = [column for column, block in every if blocks.lonely(block, near)]
            self.rows.append((dict.fromkeys(first, 1.0), 1.0))
        return True

    def _clash(self, one: int, other: int) -> bool:
        """True iff such pods never share a node."""
        mine, theirs = self.kinds[one].facts.ports, self.kinds[other].facts.ports
        return HOSTNAME in self._far[one, other] or bool(mine and theirs and port_error(mine, theirs))

    def _domains(self, key: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number in range(len(self.sites)):
            value = self.site(number).labels.get(key)
            if value is not None:
                found.setdefault(value, []).append(number)
        return found

    def _spread(self, rule: SpreadRule) -> None:
        if rule.key == HOSTNAME:
            return
        at = self._domains(rule.key)
        counted = [n for n, k in enumerate(self.kinds) if rule.counts(k.facts.namespace, k.facts.labels)]
        for owners in counting_alike(self._loose.kinds, rule, bound(self.kinds, rule)):
            total = float(sum(self.count[owner] for owner in owners))
            one = self._loose.kinds[owners[0]]
            for there, sites in at.items():
                if not all(self._could_open(owner, sites) for owner in owners):
                    continue
                low: dict[int, float] = {}
                for number in sites:
                    node_rule, labels = one.facts.node_rule, self.site(number).labels
                    fits = not rule.honor_affinity or node_rule.matches("", labels)
                    foreign = not fits and all(key in labels for key in keys_of(node_rule))
                    tainted = rule.honor_taints and self._tainted(owners[0], number)
                    low.update(self._some(counted, (number,), -1.0) if fits and not tainted else {})
                    low.update({self.nodes[number]: -total} if not foreign and (tainted or not fits) else {})
                for here, mine in at.items():
                    if here != there:
                        self.rows.append(({**low, **self._some(owners, mine)}, float(rule.max_skew)))
        mine = [n for n, k in enumerate(self.kinds) if rule in k.facts.spread and rule.selects_self]
        for owners in counting_alike(self.kinds, rule, mine):
            self._fewest(rule, owners, at)

    def _order(self, rules: list[SpreadRule]) -> None:
        """Pods that obey these spreads come one after the other, where it is clear which domains count."""
        mine, at = party(self.kinds, rules), [self._domains(rule.key) for rule in rules]
        cells = cells_of(rules, {s: self.site(s).labels for k, s in sorted(self.pods) if k in mine})
        opens = (self._opens(kind, sites) for one in at for sites in one.values() for kind in mine)
        if not cells or not all(opens) or any(self._hides(rules, kind) for kind in mine):
            return
        known = ways(rules, list(cells), sum(self.count[kind] for kind in mine), [len(one) for one in at])
        flags = [self._column(1) for _ in known]
        self.rows.append((dict.fromkeys(flags, 1.0), 1.0))
        for index, sites in enumerate(cells.values() if known else ()):
            some = {flag: -float(way[index]) for flag, way in zip(flags, known, strict=True)}
            self.rows.append(({**self._some(mine, sites), **some}, 0.0))

    def _hides(self, rules: list[SpreadRule], kind: int) -> bool:
        """True iff some nodes might not count, though pods of others show that their domain is there."""
        honors, keys = any(rule.honor_taints for rule in rules), keys_of(self.kinds[kind].facts.node_rule)
        every = range(len(self.sites))
        return any(
            (honors and self._tainted(kind, s)) or not keys <= self.site(s).labels.keys() for s in every
        )

    def _fewest(self, rule: SpreadRule, owners: list[int], at: dict[str, list[int]]) -> None:
        if rule.min_domains < 2:
            return
        enough = self._column(1)
        opened = [self._column(1) for _ in at]
        self.rows.append(({enough: float(rule.min_domains), **dict.fromkeys(opened, -1.0)}, 0.0))
        total = float(sum(self.count[owner] for owner in owners))
        for flag, sites in zip(opened, at.values(), strict=True):
            self.rows.append(({flag: 1.0, **{self.nodes[number]: -1.0 for number in sites}}, 0.0))
            self.rows.append(({**self._some(owners, sites), enough: -total}, float(rule.max_skew)))

    def _opens(self, kind: int, sites: list[int]) -> bool:
        return any((kind, number) in self.pods and not self.site(number).pool.limits for number in sites)

    def _could_open(self, kind: int, sites: list[int]) -> bool:
        """True iff it could open one if it gave up what it would rather have."""
        needs, loose = self._market.needs[kind], self._loose
        return any(
            loose.allowed[kind, site]
            and (self._market.room[site] >= needs)[needs > 0].all()
            and not self._market.sites[site].pool.limits
            for site in (self.sites[number] for number in sites)
        )

    def _tainted(self, kind: int, number: int) -> bool:
        hard = [item for item in self.site(number).pool.taints if item.effect in HARD_EFFECTS]
        return bool(untolerated(hard, self.kinds[kind].facts.pod.spec.tolerations))

    def _near(self, rule: AffinityRule, rules: tuple[AffinityRule, ...]) -> None:
        """One rule of pods that have all of `rules`: a pod counts only if all of them mean it."""
        names = self._market.problem.namespaces
        owners = [n for n, kind in enumerate(self.kinds) if kind.facts.affinity.affinity == rules]
        meant = [
            number
            for number, kind in enumerate(self.kinds)
            if all(each.matches(kind.facts.namespace, kind.facts.labels, names) for each in rules)
        ]
        alone = rule.key == HOSTNAME
        at = {f"{n}": [n] for n in range(len(self.sites))} if alone else self._domains(rule.key)
        first = {domain: self._column(1) for domain in at}
        self.rows.append((dict.fromkeys(first.values(), 1.0), 1.0 if set(owners) & set(meant) else 0.0))
        for domain, sites in at.items():
            for owner in owners:
                mates = [number for number in meant if owner not in meant or number not in owners]
                used = self._some((owner,), sites)
                if not used:
                    continue
                here = [mate for mate in mates if alone and (mate, sites[0]) in self.pods]
                most = float(self.count[owner])
                beside = self._some(mates, sites, -most)
                if alone:
                    beside = {self.pods[k, sites[0]]: -self._beside(sites[0], owner, k) for k in here}
                    most = self._beside(sites[0], owner, None)
                start = {first[domain]: -most} if owner in meant else {}
                self.rows.append(({**beside, **start, **used}, 0.0))
            if alone and not set(meant) - set(owners):
                self._one_node(sites[0], owners, first[domain])

    def _beside(self, number: int, kind: int, mate: int | None) -> float:
        """How many pods of the kind a node holds, beside one mate if there is one."""
        taken = 0 * self._market.needs[kind] if mate is None else self._market.needs[mate]
        room = self._market.room[self.sites[number]] - taken
        need = self._market.needs[kind]
        many = min((int(r) // int(n) for r, n in zip(room, need, strict=True) if n > 0), default=0)
        return float(max(0, min(self.count[kind], many)))

    def _one_node(self, number: int, owners: list[int], first: int) -> None:
        """Pods that only their own kind may bring to a node share a single one."""
        for resource, room in enumerate(self._market.room[self.sites[number]].tolist()):
            used = {
                self.pods[kind, number]: float(self._market.needs[kind, resource]) / max(1, room)
                for kind in owners
                if (kind, number) in self.pods
            }
            self.rows.append(({**used, first: -1.0}, 0.0))

    def _apart(self) -> None:
        far = self._far
        for key in sorted({key for keys in far.values() for key in keys} - {HOSTNAME}):
            lonely = [kind for kind in range(len(self.kinds)) if key in far[kind, kind]]
            for sites in self._domains(key).values():
                for kind in lonely:
                    group = [kind]
                    for mate in lonely:
                        if mate != kind and all(key in far[mate, other] for other in group):
                            group.append(mate)
                    self.rows.append((self._some(group, sites), 1.0))
                flag: dict[int, int] = {}
                for (one, other), keys in far.items():
                    if one < other and key in keys:
                        for kind in (one, other):
                            if kind not in flag:
                                flag[kind] = self._column(1)
                                there = self._some((kind,), sites)
                                self.rows.append(({**there, flag[kind]: -float(self.count[kind])}, 0.0))
                        self.rows.append(({flag[one]: 1.0, flag[other]: 1.0}, 1.0))


def _loose(problem: Problem, market: Market) -> Market:
    """That market, with kinds that ask for no more of a node than they must."""
    pods = {pod.key: pod for pod in problem.pods}
    kinds = []
    for kind in market.kinds:
        mine = tuple(pods[pod.key] for pod in kind.pods)
        facts = replace(kind.facts, node_rule=PodFacts.of(mine[0], problem.volumes).node_rule)
        kinds.append(replace(kind, pods=mine, facts=facts, soft_taints=False))
    return Market(problem, tuple(kinds))


Cell = tuple[str, ...]  # a domain of each rule
Way = tuple[int, ...]  # pods in each cell

_MOST = 200  # ways to place all pods
_STATES = 1_000  # ways to place some of them


def ways(rules: Sequence[SpreadRule], cells: Sequence[Cell], pods: int, domains: Sequence[int]) -> list[Way]:
    """How they may stand in the end; empty where that would take too long to find out.

    `domains`: how many there are of each rule, whoever may be there.
    """
    states: set[Way] = {tuple(0 for _ in cells)}
    for _ in range(pods):
        states = {
            more
            for state in states
            for cell in range(len(cells))
            if _allowed(rules, cells, more := _one_more(state, cell), cell, domains)
        }
        if len(states) > _STATES:
            return []
    return sorted(states) if len(states) <= _MOST else []


def _one_more(state: Way, cell: int) -> Way:
    return (*state[:cell], state[cell] + 1, *state[cell + 1 :])


def _allowed(
    rules: Sequence[SpreadRule], cells: Sequence[Cell], state: Way, cell: int, domains: Sequence[int]
) -> bool:
    """True iff the pod that made it this state could come into the cell."""
    for number, rule in enumerate(rules):
        held: dict[str, int] = {}
        for each, count in zip(cells, state, strict=True):
            held[each[number]] = held.get(each[number], 0) + count
        least = min(held.values()) if domains[number] >= rule.min_domains else 0
        if held[cells[cell][number]] - least > rule.max_skew:
            return False
    return True


def party(kinds: Sequence[Kind], rules: Sequence[SpreadRule]) -> list[int]:
    """Kinds that obey all these rules, if each rule counts them and no other pods, on the same nodes."""
    mine = [number for number, kind in enumerate(kinds) if rules and set(rules) <= set(kind.facts.spread)]
    same = all(kinds[number].facts.node_rule == kinds[mine[0]].facts.node_rule for number in mine)
    for rule in rules:
        counted = [n for n, kind in enumerate(kinds) if rule.counts(kind.facts.namespace, kind.facts.labels)]
        if counted != mine or (rule.honor_affinity and not same):
            return []
    return mine


def cells_of(rules: Sequence[SpreadRule], labels: Mapping[int, Mapping[str, str]]) -> dict[Cell, list[int]]:
    """Sites, by their labels, that are in the same domain of each rule."""
    found: dict[Cell, list[int]] = {}
    for number, some in labels.items():
        cell = tuple(some.get(rule.key, "") for rule in rules)
        if all(cell):
            found.setdefault(cell, []).append(number)
    return found


def counting_alike(kinds: Sequence[Kind], rule: SpreadRule, owners: Sequence[int]) -> Iterable[list[int]]:
    """Those of the owners together for which the same nodes count."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for number in owners:
        facts = kinds[number].facts
        keys = tuple(sorted({item.key for item in facts.spread}))
        affinity = facts.node_rule if rule.honor_affinity else None
        taints = facts.pod.spec.tolerations if rule.honor_taints else ()
        alike.setdefault((affinity, taints, keys), []).append(number)
    return alike.values()
