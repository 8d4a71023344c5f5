"""Spot nodes that nothing can follow: seen from free capacity and prices, before pods are appraised.

Where spot may not follow spot, nearly every node is too cheap for anything on demand. Such clusters change
with each pod, and nearly all searches ended with that, after two linear programs about all their pods.

What is said here is proven, whatever plan would be made: what finds no room is bounded from below by what
pods ask for and what is free, rules between pods aside, and so is what nodes on demand for that much cost.
So of the nodes that are held back none is in any move, and the search is about the others alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dovetail.api.core import Pod
from dovetail.base.memo import by_identity
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.model import labels
from dovetail.model.left_out import left_out
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import pod_requests
from dovetail.solve.instance.arrays import Floats

_NEVER = 2**63 - 1  # nano-dollars per hour of what is not sold
_EXACT = 1e-9  # of what pods ask for: sums of floats are off by less

_Asked = tuple[tuple[str, int], ...]  # what a pod asks for, in order of names


def held_back(question: Question, candidates: Sequence[Candidate], market: OnDemand) -> frozenset[str]:
    """Names of nodes that stay whatever is planned: spot that spot may not follow, with pods that find no
    room on other nodes, and too cheap for whatever could be bought on demand for these.

    They are in no larger set either: such a node goes with others only if all their pods find room, and those
    that go as well leave less of it.
    """
    spot = [candidate for candidate in candidates if candidate.spot]
    if question.spot_to_spot or not spot:
        return frozenset()
    free = _Free(question, spot)
    volumes = question.problem.volumes
    least, rates = market.least(question.problem), market.rates(question.problem)
    found = []
    for candidate in spot:
        left = free.homeless(candidate)
        if (
            left
            and max(least, *(amount * rates.get(name, _NEVER) for name, amount in left.items()))
            > candidate.price - candidate.needed
            and not any(left_out(pod, volumes) for pod in candidate.pods)
        ):  # of pods that are in no plan the search has something else to say
            found.append(candidate.name)
    return frozenset(found)


class OnDemand:
    """What nodes cost at least that are not spot. It knows each pool's last types."""

    def __init__(self) -> None:
        self._known: dict[str, _Sold] = {}

    def least(self, problem: Problem) -> int:
        """One node of whichever pool, in nano-dollars per hour."""
        return min((sold.least + problem.extra(pool) for pool, sold in self._sold(problem)), default=_NEVER)

    def rates(self, problem: Problem) -> dict[str, float]:
        """One of each resource on a node of whichever pool, all else for nothing."""
        found: dict[str, float] = {}
        for _, sold in self._sold(problem):
            for name, rate in sold.rates.items():
                found[name] = min(rate, found.get(name, rate))
        return found

    def _sold(self, problem: Problem) -> list[tuple[Pool, _Sold]]:
        self._known = {pool.name: self._of(pool) for pool in problem.pools}
        return [(pool, self._known[pool.name]) for pool in problem.pools]

    def _of(self, pool: Pool) -> _Sold:
        kinds, wanted = pool.instance_types, pool.requirements
        known = self._known.get(pool.name)
        if known is not None and known.kinds is kinds and known.wanted == wanted:
            return known
        return _Sold(kinds, wanted)


class _Sold:
    """What one pool sells on demand. `rates`: what one of a resource costs at least, all else for nothing."""

    def __init__(self, kinds: tuple[InstanceType, ...], wanted: Requirements) -> None:
        self.kinds = kinds
        self.wanted = wanted
        self.least = _NEVER
        self.rates: dict[str, float] = {}
        for kind in kinds:
            price = _least(kind, wanted)
            self.least = min(self.least, price)
            for name, amount in kind.capacity.items() if price < _NEVER else ():
                if amount > 0:
                    self.rates[name] = min(price / amount, self.rates.get(name, _NEVER))


class _Free:
    """What is free on the nodes that take pods, labels and daemons to come aside: no less than there is."""

    def __init__(self, question: Question, candidates: Sequence[Candidate]) -> None:
        self._kinds = {candidate.name: Counter(map(_asked, candidate.pods)) for candidate in candidates}
        names = sorted({name for kinds in self._kinds.values() for asked in kinds for name, _ in asked})
        nodes = [
            node for node in question.problem.nodes if node.initialized and node.name not in question.closed
        ]
        self._row = {node.name: row for row, node in enumerate(nodes)}
        free = [
            [node.allocatable.get(name, 0) - node.occupancy.requests.get(name, 0) for name in names]
            for node in nodes
        ]
        self._free = np.array(free, dtype=np.float64).reshape(len(nodes), len(names))
        self._names = names
        self._column = {name: index for index, name in enumerate(names)}
        self._slots = lru_cache(maxsize=None)(self._slots_of)

    def homeless(self, candidate: Candidate) -> dict[str, float]:
        """What its pods that find no room on other nodes ask for, at least; {} if all may find some."""
        kinds = self._kinds[candidate.name]
        asked = np.zeros((len(kinds), len(self._names)))
        for index, each in enumerate(kinds):
            for name, amount in each:
                asked[index, self._column[name]] = amount
        slots = np.array([self._slots(each) for each in kinds]).reshape(len(kinds), len(self._free))
        own = self._row.get(candidate.name)
        if own is not None:
            slots[:, own] = 0.0
        many = np.array(list(kinds.values()), dtype=np.float64)
        need = many @ asked
        alone = np.maximum(many - slots.sum(axis=1), 0.0) @ asked  # each kind with all nodes to itself
        left = np.maximum(need - self._taken(asked, np.minimum(slots, many[:, None])), alone)
        return {
            name: amount
            for name, amount, all_of_it in zip(self._names, left.tolist(), need.tolist(), strict=True)
            if amount > _EXACT * all_of_it
        }

    def _taken(self, asked: Floats, slots: Floats) -> Floats:
        """The most of each resource that such pods take of all nodes together, (R,).

        Whatever pods a node has room for, they have no more of a resource than what is free of any other one
        times the most that one of them asks of the first for each of the other. `slots` (S, N): how many of
        each kind a node has room for, of that kind alone.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = asked[:, None, :] / asked[:, :, None]  # (S, of what is free, of what is taken)
            most = np.where(asked[:, None, :] > 0, ratio, 0.0).max(axis=0, initial=0.0)
            free = np.maximum(self._free, 0.0)[:, :, None]
            bounds = np.where((free == 0) & np.isinf(most), np.inf, free * most).min(axis=1, initial=np.inf)
        taken: Floats = np.minimum(bounds, slots.T @ asked).sum(axis=0)
        return taken

    def _slots_of(self, asked: _Asked) -> Floats:
        """How many pods that ask for that each node has room for, (N,)."""
        found = np.full(len(self._free), np.inf)
        for name, amount in asked:
            if amount:
                found = np.minimum(found, np.floor(self._free[:, self._column[name]] / amount))
        slots: Floats = np.maximum(found, 0.0)
        return slots


@by_identity(32_768)
def _asked(pod: Pod) -> _Asked:
    return tuple(sorted(pod_requests(pod).items()))


def _least(kind: InstanceType, wanted: Requirements) -> int:
    """What an instance of the type costs at least that is not spot; _NEVER if none is sold."""
    if not wanted.overlaps(kind.requirements):
        return _NEVER
    return min(
        (
            offering.price
            for offering in kind.offerings
            if offering.available
            and offering.capacity_type != labels.SPOT
            and wanted.overlaps(offering.requirements)
        ),
        default=_NEVER,
    )
