"""The room that a plan leaves, shared out between zones. Pure.

Where a pod that must be spread over zones takes room that others wait for, one of these needs another place
in the same zone. But what a plan leaves free may all be in one: of 500 pods' plan 1.8 and 3.0 CPUs in two
zones, and 0.01 in the third, where each pod that went elsewhere left one without room. Pods without rules may
run anywhere, so some of them change nodes: no node is bought for that, and none is larger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dovetail.api.core import Pod, Taint
from dovetail.controllers.provisioning.causes import leans
from dovetail.controllers.provisioning.exchange import movable, owner_of
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.ports import host_ports
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU, MEMORY, add, pod_requests, subtract, total
from dovetail.model.spread import SpreadRule, spread_rules

# Of pods, at most: of 500, 1,777 and 1,979 pods 3 or 4 move, and 29 of 1,605 on 254 nodes, in 0.05 s.
MOVES = 64
# By which the scarcest zone's room must grow with each move, in pods of the largest size: less gains nothing.
LEAST = 0.02
# That each zone must have room for in the end, or the plan stays: of 130 pods' plan zones had room for 0.05,
# 0.29 and none. With 0.05, 0.17 and 0.08 four draws of eight left a pod over, and none as it was.
ENOUGH = 0.5

Amounts = NDArray[np.float64]  # by claim and resource
Kind = tuple[str, tuple[tuple[str, int], ...]]  # what made pods, and what they ask for


def evened(problem: Problem, plan: Plan) -> Plan:
    """The plan, in which pods that no rule is about are on other new nodes, so that the zone with the least
    room for pods that must be spread, or be near others, has more. Nodes and costs are the same.
    """
    pods = {pod.key: pod for pod in problem.pods}
    leaning = [[pods[key] for key in one.pods if key in pods and leans(pods[key])] for one in plan.claims]
    needy = {claim.zone for claim, some in zip(plan.claims, leaning, strict=True) if some}
    if not needy or len({claim.zone for claim in plan.claims}) < 2:
        return plan
    room = _Room(problem, plan, pods, needy, [pod_requests(pod) for some in leaning for pod in some])
    allowed = partial(_anywhere, Rules.of(problem))
    kinds = [alike(claim, pods, allowed) for claim in plan.claims]
    moved: dict[str, int] = {}
    for _ in range(MOVES):
        found = room.best(kinds)
        if found is None:
            break
        kind, source, target = found
        key = kinds[source][kind].pop()
        if not kinds[source][kind]:
            del kinds[source][kind]
        kinds[target].setdefault(kind, []).append(key)
        room.move(kind, source, target)
        moved[key] = target
    return written(plan, pods, moved) if moved and room.least() >= ENOUGH else plan


@dataclass(frozen=True, slots=True)
class Rules:
    """What the rules of the problem's pods, and of those that run, are about."""

    spreads: Collection[SpreadRule]
    affinities: Collection[AffinityRule]
    namespaces: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, problem: Problem) -> Self:
        spreads, affinities = set[SpreadRule](), set[AffinityRule]()
        for pod in {owner_of(pod) or pod.key: pod for pod in problem.pods}.values():
            spreads.update(spread_rules(pod))
            affinities.update(affinity_rules(pod).all)
        for guard in {one.rules: one for node in problem.nodes for one in node.occupancy.guarded}.values():
            affinities.update(affinity_rules(guard.pod).anti_affinity)
        return cls(spreads, affinities, problem.namespaces)

    def besides(self, key: str) -> Rules:
        """Those of other domains than that label's values."""
        spreads = [rule for rule in self.spreads if rule.key != key]
        return Rules(spreads, [rule for rule in self.affinities if rule.key != key], self.namespaces)

    def mean(self, pod: Pod) -> bool:
        """True iff one of them counts the pod."""
        space, tags = pod.metadata.namespace or "default", pod.metadata.labels
        return any(rule.counts(space, tags) for rule in self.spreads) or any(
            rule.matches(space, tags, self.namespaces) for rule in self.affinities
        )


def alike(
    claim: PlannedClaim, pods: Mapping[str, Pod], allowed: Callable[[Pod], bool]
) -> dict[Kind, list[str]]:
    """Keys of the claim's pods that are allowed, those that are alike together."""
    found, known = defaultdict[Kind, list[str]](list), dict[str, bool]()
    for key in claim.pods:
        pod = pods.get(key)
        if pod is None:
            continue
        owner = owner_of(pod) or key
        if owner not in known:
            known[owner] = allowed(pod)
        if known[owner]:
            found[owner, tuple(sorted(pod_requests(pod).items()))].append(key)
    return dict(found)


def _anywhere(rules: Rules, pod: Pod) -> bool:
    """True iff the pod may run on any node of its pool with room, and no rule counts it."""
    spec = pod.spec
    own = spec.node_selector or spec.affinity or spec.topology_spread_constraints or spec.resource_claims
    return not own and movable(pod) and not host_ports(pod) and not rules.mean(pod)


def free_room(problem: Problem, plan: Plan, pods: Mapping[str, Pod]) -> tuple[list[str], Amounts]:
    """Names of resources, and what is free of them on the claims, whatever type of those that they list is
    launched and whatever daemons run.
    """
    asked = [total(pod_requests(pods[key]) for key in one.pods if key in pods) for one in plan.claims]
    names = sorted({name for some in asked for name in some})

    def row(amounts: Mapping[str, int]) -> list[float]:
        return [float(amounts.get(name, 0)) for name in names]

    daemons = total(pod_requests(Pod(spec=one.spec.template.spec)) for one in problem.daemonsets)
    wanted = {name for claim in plan.claims for name in claim.instance_types}
    sold = {
        pool.name: {one.name: row(one.allocatable()) for one in pool.instance_types if one.name in wanted}
        for pool in problem.pools
    }
    rooms = []
    for claim in plan.claims:
        known = sold.get(claim.pool, {})
        listed = [known[name] for name in claim.instance_types if name in known]
        rooms.append(np.min(listed, axis=0) if listed else np.zeros(len(names)))
    return names, np.array(rooms) - np.array([row(add(some, daemons)) for some in asked])


class _Room:
    """What is free on the claims, whatever type of those that they list is launched and whatever daemons run.

    A zone's room is as many pods of the largest size as it has CPU and memory for, in all.
    """

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        pods: Mapping[str, Pod],
        needy: Iterable[str],
        leaning: Sequence[Mapping[str, int]],
    ) -> None:
        self._names, self._free = free_room(problem, plan, pods)
        largest = {name: max(one.get(name, 0) for one in leaning) for name in (CPU, MEMORY)}
        self._columns = [n for n, name in enumerate(self._names) if largest.get(name)]
        self._unit = np.array([largest[self._names[n]] for n in self._columns], float)
        self._needy = frozenset(needy)
        self._zones = np.array([claim.zone for claim in plan.claims])
        self._sorts = [(claim.pool, claim.taints) for claim in plan.claims]

    def _row(self, amounts: Mapping[str, int]) -> list[float]:
        return [float(amounts.get(name, 0)) for name in self._names]

    def _left(self, zone: str) -> Amounts:
        """What is free in the zone of what the largest pods ask for, in as many of these."""
        free = self._free[self._zones == zone][:, self._columns]
        found: Amounts = np.maximum(free, 0).sum(axis=0) / self._unit
        return found

    def least(self) -> float:
        """The scarcest zone's room."""
        return min(float(self._left(zone).min()) for zone in self._needy)

    def best(self, kinds: Sequence[Mapping[Kind, Sequence[str]]]) -> tuple[Kind, int, int] | None:
        """Of which kind a pod should go from which claim to which other; None: none gains anything."""
        left = {zone: self._left(zone) for zone in sorted({*self._zones.tolist()})}
        level = {zone: float(some.min()) if zone in self._needy else np.inf for zone, some in left.items()}
        scarce = min(self._needy, key=lambda zone: (level[zone], zone))
        sources = [int(n) for n in np.flatnonzero(self._zones == scarce) if kinds[int(n)]]
        sources.sort(key=lambda n: (-self._pieces(n), n))
        for ample in sorted(level, key=lambda zone: (-level[zone], zone)):
            if level[ample] <= level[scarce] + LEAST:
                return None
            gains = []
            for kind in dict.fromkeys(kind for source in sources for kind in kinds[source]):
                size = np.array(self._row(dict(kind[1])))[self._columns] / self._unit
                rest = float((left[ample] - size).min()) if ample in self._needy else np.inf
                after = min(float((left[scarce] + size).min()), rest)
                if after > level[scarce] + LEAST:
                    gains.append((-after, kind))
            for _, kind in sorted(gains):
                found = self._way(kind, [n for n in sources if kind in kinds[n]], ample)
                if found is not None:
                    return kind, *found
        return None

    def _way(self, kind: Kind, sources: Sequence[int], zone: str) -> tuple[int, int] | None:
        """From where to where in the zone a pod of the kind can go: to the claim that it fills most."""
        asked = np.array(self._row(dict(kind[1])))
        fits = np.flatnonzero((self._zones == zone) & (self._free >= asked).all(axis=1))
        fullest: dict[tuple[str, tuple[Taint, ...]], int] = {}  # of each sort
        for n in sorted(map(int, fits), key=lambda n: (self._pieces(n), n)):
            fullest.setdefault(self._sorts[n], n)
        return next(((n, fullest[self._sorts[n]]) for n in sources if self._sorts[n] in fullest), None)

    def _pieces(self, claim: int) -> float:
        """How many of the largest pods there would be room for, in fractions."""
        return float((self._free[claim][self._columns] / self._unit).min())

    def move(self, kind: Kind, source: int, target: int) -> None:
        """A pod of that kind goes from a claim to another."""
        asked = np.array(self._row(dict(kind[1])))
        self._free[source] += asked
        self._free[target] -= asked


def written(plan: Plan, pods: Mapping[str, Pod], moved: Mapping[str, int]) -> Plan:
    """The plan with these pods on the claims of those numbers."""
    claims = []
    for number, claim in enumerate(plan.claims):
        gone = [key for key in claim.pods if moved.get(key, number) != number]
        came = [key for key, to in moved.items() if to == number and key not in claim.pods]
        rest = subtract(claim.requests, total(pod_requests(pods[key]) for key in gone))
        claims.append(
            replace(
                claim,
                pods=tuple(sorted({*claim.pods, *came}.difference(gone))),
                requests=add(rest, total(pod_requests(pods[key]) for key in came)),
            )
        )
    return replace(plan, claims=tuple(claims))
