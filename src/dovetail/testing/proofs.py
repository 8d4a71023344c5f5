"""Proofs of lower bounds, checked from the numbers in the plan alone, with exact knapsacks.

A proof says what pods are worth. It holds if no node that can be bought holds more worth than it costs, if no
free room holds more than the proof says, and if the sum comes out. See `dovetail.model.plan.Proof`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Pod
from dovetail.model.cluster_view import PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.plan import BETWEEN_PODS, WHOLE_NUMBERS, Plan
from dovetail.model.ports import port_error
from dovetail.model.problem import Problem
from dovetail.testing.between import Program
from dovetail.testing.exhaustive import market_of, promised
from dovetail.testing.exhaustive.market import Kind, Market, bound, repulsion
from dovetail.testing.exhaustive.places import Site, free_room
from dovetail.testing.exhaustive.promises import staying
from dovetail.testing.knapsack import SLACK, Amounts, Load, holds_more

_MOST_CELLS = 250  # places for pods in an integer program that is solved within a second or two

Mask = npt.NDArray[np.bool_]


def proof_faults(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """What is wrong with the plan's proof; empty if it holds.

    Raises Unsupported where the promises of the plan cannot be written as rules.
    """
    proof = plan.proof
    if plan.cost.lower_bound > max(0, proof.bound):
        return (f"the plan says {plan.cost.lower_bound}, the proof {proof.bound}",)
    if proof.bound <= 0:
        return ()
    named = [pod for item in proof.worth for pod in item.pods]
    left = {item.pod for item in plan.unschedulable}
    if len(set(named)) < len(named) or not left.isdisjoint(named):
        return ("a pod counts twice, or counts although it is left over",)
    return tuple(_Check(problem, plan).faults())


class _Check:
    """One proof against its problem."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan, self.proof = problem, plan, plan.proof
        asked, least, soft = promised(problem, plan)
        stay = staying(problem, plan)
        pods = {pod.key: pod for pod in asked.pods}
        self.worth: list[int] = []
        self.pools: list[tuple[str, ...]] = []  # per kind: of which nodes may be bought for it
        kinds: list[Kind] = []
        for item in self.proof.worth:
            same: dict[tuple[object, ...], list[Pod]] = {}
            for key in item.pods:
                pod = pods[key]
                labels = tuple(sorted(pod.metadata.labels.items()))
                what = (repr(pod.spec), labels, pod.metadata.namespace)
                promise = least.get(key, 0), soft.get(key, False), stay.get(key, 0)
                same.setdefault((*what, *promise), []).append(pod)
            for alike in same.values():
                key = alike[0].key
                facts = PodFacts.of(alike[0], problem.volumes)
                promise = least.get(key, 0), soft.get(key, False), stay.get(key, 0)
                kinds.append(Kind(tuple(alike), facts, *promise))
                self.worth.append(item.each)
                self.pools.append(item.pools)
        self.market = Market(asked, tuple(kinds))
        self.load = self._load()

    def faults(self) -> Iterator[str]:
        total = sum(item.each * len(item.pods) for item in self.proof.worth)
        total -= sum(self.proof.absorbed.values()) + sum(item.price for item in self.proof.limits)
        # What integer programs prove beyond the worths is tried out by exhaustive search, too.
        claimed = (
            self.proof.linear if self.proof.method in (BETWEEN_PODS, WHOLE_NUMBERS) else self.proof.bound
        )
        if total < claimed:
            yield f"the worths less what free room absorbs are {total}, not {claimed}"
        if self.proof.method == BETWEEN_PODS:
            yield from self._between()
        yield from self._promised()
        yield from self._bought()
        yield from self._reserved()
        yield from self._existing()

    def _between(self) -> Iterator[str]:
        """An integer program of its own proves as much, where it knows all that there is and is small."""
        problem, plan = self.problem, self.plan
        sold = [item for pool in problem.pools for kind in pool.instance_types for item in kind.offerings]
        if problem.nodes or any(pool.limits for pool in problem.pools):
            return
        if any(item.reservation_id for item in sold):
            return
        program = Program(problem, market_of(problem, plan))
        if len(program.pods) <= _MOST_CELLS:
            least = program.least()
            if program.whole and least < self.proof.bound * (1 - SLACK):
                yield f"pods can be placed for {least:.0f} as far as is known, not {self.proof.bound}"

    def _promised(self) -> Iterator[str]:
        """No pool is left out that may be bought from for a pod, as far as its own rules go."""
        for index, kind in enumerate(self.market.kinds):
            needs = self.market.needs[index]
            held = np.all((self.market.room >= needs) | (needs == 0), axis=1) & self.market.allowed[index]
            sites = [self.market.sites[site] for site in np.flatnonzero(held)]
            could = {site.pool.name: site.pool.weight for site in sites if not site.reservation}
            best = max(could.values(), default=0)
            for name, weight in could.items():
                if weight >= max(best, kind.least_weight) and name not in self.pools[index]:
                    yield f"{kind.pods[0].key} may also get a node of pool {name}"

    def _load(self) -> Load:
        kinds = self.market.kinds
        pairs = [(a, b) for a in range(len(kinds)) for b in range(a, len(kinds))]
        far = repulsion(self.market)
        clash = [(a, b) for a, b in pairs if HOSTNAME in far[a, b] or _ports(kinds[a], kinds[b])]
        return Load(
            worth=self.worth,
            needs=self.market.needs,
            count=[len(kind.pods) for kind in kinds],
            caps=(*(((a,), 1) for a, b in clash if a == b), *self._spreads()),
            apart=tuple((a, b) for a, b in clash if a != b),
        )

    def _spreads(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Per spread over hosts the kinds that it binds, and how many of them a node takes."""
        kinds = self.market.kinds
        for rule in dict.fromkeys(rule for kind in kinds for rule in kind.facts.spread):
            if rule.key == HOSTNAME:
                yield tuple(bound(kinds, rule)), rule.max_skew

    def _bought(self) -> Iterator[str]:
        """No node holds more than it costs. Nodes that are no better than others are not asked about."""
        kept: list[tuple[Amounts, Mask, int]] = []
        for index, site in enumerate(self.market.sites):
            allowed, room = self.market.allowed[:, index], self.market.room[index]
            if site.reservation or not any(
                site.pool.name in self.pools[kind] for kind in np.flatnonzero(allowed)
            ):
                continue
            price = site.price + self._charged(site)
            if any(
                cost <= price and (other >= room).all() and (may | ~allowed).all()
                for other, may, cost in kept
            ):
                continue
            if holds_more(self.load, room.tolist(), allowed.tolist(), price):
                where = f"{site.kind.name} in {site.offering.zone}, {site.offering.capacity_type}"
                yield f"{where}, holds more than its price of {site.price}"
            kept.append((room, allowed, price))

    def _charged(self, site: Site) -> int:
        """What limits add to the price of a node, rounded down."""
        size = {**site.kind.capacity, "nodes": 1}
        mine = [item for item in self.proof.limits if item.pool == site.pool.name]
        return sum(size.get(item.resource, 0) * item.price // item.left for item in mine)

    def _reserved(self) -> Iterator[str]:
        """Each machine of a reservation takes at most its share of what is absorbed there."""
        for index, site in enumerate(self.market.sites):
            if site.reservation:
                share = self.proof.absorbed.get(site.reservation, 0) // site.offering.reservation_capacity
                allowed, room = self.market.allowed[:, index], self.market.room[index]
                if holds_more(self.load, room.tolist(), allowed.tolist(), share):
                    yield f"a machine of {site.reservation} takes more than {share}"

    def _existing(self) -> Iterator[str]:
        names = sorted({name for kind in self.market.kinds for name in kind.facts.requests})
        alone = np.eye(len(self.market.kinds), dtype=int)
        for row, node in enumerate(self.market.problem.nodes):
            allowed = [self.market.holds(row, tuple(block)) for block in alone.tolist()]
            room = free_room(self.market.catalogue, node)
            known = self.proof.absorbed.get(node.name, 0)
            if holds_more(self.load, [room.get(name, 0) for name in names], allowed, known):
                yield f"{node.name} takes more than {known}"


def _ports(a: Kind, b: Kind) -> bool:
    return bool(a.facts.ports and b.facts.ports and port_error(a.facts.ports, b.facts.ports))
