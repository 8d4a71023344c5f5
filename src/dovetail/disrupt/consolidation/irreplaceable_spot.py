"""Spot nodes that nothing can follow: seen from free capacity and prices, before pods are appraised.

Where spot may not follow spot, nearly every node is too cheap for anything on demand. Such clusters change
with each pod, and nearly all searches ended with that, after two linear programs about all their pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.model import labels
from dovetail.model.left_out import left_out
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import pod_requests

_NEVER = 2**63 - 1  # nano-dollars per hour of what is not sold


def none_can_go(question: Question, candidates: Sequence[Candidate], market: OnDemand) -> bool:
    """True only if each is a spot node that may not be followed by spot, costs too little for any node on
    demand, and has a pod for which no other node has enough free. Then none can go, in whichever sets.
    """
    if question.spot_to_spot or not all(candidate.spot for candidate in candidates):
        return False
    least = market.least(question.problem)
    if any(least <= candidate.price - candidate.needed for candidate in candidates):
        return False
    volumes = question.problem.volumes
    if any(left_out(pod, volumes) for candidate in candidates for pod in candidate.pods):
        return False  # of these the search has something else to say
    free = _Free(question, candidates)
    return all(free.holds_back(candidate) for candidate in candidates)


class OnDemand:
    """What a node costs at least that is not spot. It knows each pool's last types."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[InstanceType, ...], Requirements, int]] = {}

    def least(self, problem: Problem) -> int:
        """Of all pools, in nano-dollars per hour."""
        self._known = {pool.name: self._of(pool) for pool in problem.pools}
        return min(
            (self._known[pool.name][2] + problem.extra(pool) for pool in problem.pools), default=_NEVER
        )

    def _of(self, pool: Pool) -> tuple[tuple[InstanceType, ...], Requirements, int]:
        kinds, wanted = pool.instance_types, pool.requirements
        known = self._known.get(pool.name)
        if known is not None and known[0] is kinds and known[1] == wanted:
            return known
        return kinds, wanted, _least(kinds, wanted)


class _Free:
    """What is free on the nodes that take pods, labels and daemons to come aside: no less than there is."""

    def __init__(self, question: Question, candidates: Sequence[Candidate]) -> None:
        self._asked = {
            pod.key: tuple(sorted(pod_requests(pod).items()))
            for candidate in candidates
            for pod in candidate.pods
        }
        names = sorted({name for asked in self._asked.values() for name, _ in asked})
        nodes = [
            node for node in question.problem.nodes if node.initialized and node.name not in question.closed
        ]
        self._names = [node.name for node in nodes]
        free = [
            [node.allocatable.get(name, 0) - node.occupancy.requests.get(name, 0) for name in names]
            for node in nodes
        ]
        self._free = np.array(free, dtype=np.float64).reshape(len(nodes), len(names))
        self._column = {name: index for index, name in enumerate(names)}
        self._hosts = lru_cache(maxsize=None)(self._hosts_of)

    def holds_back(self, candidate: Candidate) -> bool:
        """True iff the node has a pod that fits on no other."""
        return any(not self._hosts(self._asked[pod.key]) - {candidate.name} for pod in candidate.pods)

    def _hosts_of(self, asked: tuple[tuple[str, int], ...]) -> frozenset[str]:
        """Nodes with enough free for a pod that asks for that; two of them at most."""
        fits = np.ones(len(self._names), dtype=np.bool_)
        for name, amount in asked:
            if amount:
                fits &= self._free[:, self._column[name]] >= amount
        return frozenset(self._names[row] for row in np.flatnonzero(fits)[:2].tolist())


def _least(kinds: tuple[InstanceType, ...], wanted: Requirements) -> int:
    return min(
        (
            offering.price
            for kind in kinds
            if wanted.overlaps(kind.requirements)
            for offering in kind.offerings
            if offering.available
            and offering.capacity_type != labels.SPOT
            and wanted.overlaps(offering.requirements)
        ),
        default=_NEVER,
    )
