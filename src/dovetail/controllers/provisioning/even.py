"""The room that a plan leaves, shared out between zones. Pure.

Where a pod that must be spread over zones takes room that others wait for, one of these needs another place
in the same zone. But what a plan leaves free may all be in one: of 500 pods' plan 1.8 and 3.0 CPUs in two
zones, and 0.01 in the third, where each pod that went elsewhere left one without room. Pods without rules may
run anywhere, so some of them change nodes: no node is bought for that, and none is larger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dovetail.api.core import Pod, Taint
from dovetail.controllers.provisioning.causes import leans
from dovetail.controllers.provisioning.exchange import movable, owner_of
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.offering import InstanceType
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
_Kind = tuple[str, tuple[tuple[str, int], ...]]  # what made pods, and what they ask for


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
    rules = _rules(problem)
    kinds = [_kinds(claim, pods, rules) for claim in plan.claims]
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
    return _written(plan, pods, moved) if moved and room.least() >= ENOUGH else plan


def _rules(problem: Problem) -> _Rules:
    """What the rules of the problem's pods, and of those that run, are about."""
    spreads, affinities = set[SpreadRule](), set[AffinityRule]()
    for pod in {owner_of(pod) or pod.key: pod for pod in problem.pods}.values():
        spreads.update(spread_rules(pod))
        near = affinity_rules(pod)
        affinities.update(
            (*near.affinity, *near.anti_affinity, *near.preferred_affinity, *near.preferred_anti_affinity)
        )
    for guard in {guard.rules: guard for node in problem.nodes for guard in node.occupancy.guarded}.values():
        affinities.update(affinity_rules(guard.pod).anti_affinity)
    return _Rules(spreads, affinities, problem.namespaces)


@dataclass(frozen=True, slots=True)
class _Rules:
    spreads: set[SpreadRule]
    affinities: set[AffinityRule]
    namespaces: Mapping[str, Mapping[str, str]]

    def allow(self, pod: Pod) -> bool:
        """True iff the pod may run on any node of its pool with room, and no rule counts it."""
        spec, meta = pod.spec, pod.metadata
        own = spec.node_selector or spec.affinity or spec.topology_spread_constraints or spec.resource_claims
        if own or not movable(pod) or host_ports(pod):
            return False
        space = meta.namespace or "default"
        return not any(rule.counts(space, meta.labels) for rule in self.spreads) and not any(
            rule.matches(space, meta.labels, self.namespaces) for rule in self.affinities
        )


def _kinds(claim: PlannedClaim, pods: Mapping[str, Pod], rules: _Rules) -> dict[_Kind, list[str]]:
    """Keys of the claim's pods that may go elsewhere, those that are alike together."""
    found, known = defaultdict[_Kind, list[str]](list), dict[str, bool]()
    for key in claim.pods:
        pod = pods.get(key)
        if pod is None:
            continue
        owner = owner_of(pod) or key
        if owner not in known:
            known[owner] = rules.allow(pod)
        if known[owner]:
            found[owner, tuple(sorted(pod_requests(pod).items()))].append(key)
    return dict(found)


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
        asked = [total(pod_requests(pods[key]) for key in one.pods if key in pods) for one in plan.claims]
        self._names = sorted({name for some in asked for name in some})
        daemons = total(pod_requests(Pod(spec=one.spec.template.spec)) for one in problem.daemonsets)
        sold = {pool.name: self._sold(pool.instance_types) for pool in problem.pools}
        rows = []
        for claim in plan.claims:
            numbers, rooms = sold.get(claim.pool, ({}, np.zeros((0, len(self._names)))))
            listed = [numbers[name] for name in claim.instance_types if name in numbers]
            rows.append(rooms[listed].min(axis=0) if listed else np.zeros(len(self._names)))
        taken = [self._row(add(some, daemons)) for some in asked]
        self._free: Amounts = np.array(rows) - np.array(taken)
        largest = {name: max(one.get(name, 0) for one in leaning) for name in (CPU, MEMORY)}
        self._columns = [n for n, name in enumerate(self._names) if largest.get(name)]
        self._unit = np.array([largest[self._names[n]] for n in self._columns], float)
        self._needy = frozenset(needy)
        self._zones = np.array([claim.zone for claim in plan.claims])
        self._sorts = [(claim.pool, claim.taints) for claim in plan.claims]

    def _sold(self, types: Iterable[InstanceType]) -> tuple[dict[str, int], Amounts]:
        rows = {one.name: self._row(one.allocatable()) for one in types}
        return {name: n for n, name in enumerate(rows)}, np.array(list(rows.values())).reshape(
            -1, len(self._names)
        )

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

    def best(self, kinds: Sequence[Mapping[_Kind, Sequence[str]]]) -> tuple[_Kind, int, int] | None:
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

    def _way(self, kind: _Kind, sources: Sequence[int], zone: str) -> tuple[int, int] | None:
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

    def move(self, kind: _Kind, source: int, target: int) -> None:
        """A pod of that kind goes from a claim to another."""
        asked = np.array(self._row(dict(kind[1])))
        self._free[source] += asked
        self._free[target] -= asked


def _written(plan: Plan, pods: Mapping[str, Pod], moved: Mapping[str, int]) -> Plan:
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
