"""Plans written down: claims that list every type which holds the pods, cheapest first; what was given up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from dovetail.model import labels
from dovetail.model.arrays import Amounts
from dovetail.model.plan import NO_ROOM, OUT_OF_TIME, Cost, Plan, PlannedClaim, Proof, Unschedulable
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.assign.items import Unit
from dovetail.solve.budget import CELLS
from dovetail.solve.build.plan_state import PlannedNode
from dovetail.solve.build.reasons import Explainer
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.pool_table import PoolTable
from dovetail.solve.pack.node_candidate import NodeCandidate


class Reasons:
    """Why pods have no place. `not_attempted`: (pod class, pod) pairs that there was no time for."""

    def __init__(self, instance: Instance, limits: Limits, not_attempted: frozenset[tuple[int, str]]) -> None:
        self._pod_classes = instance.pod_classes
        self._explainer = Explainer(instance, limits)
        self._not_attempted = not_attempted
        self._pools = {table.pool.name: OUT_OF_TIME for table in instance.tables}
        self._buys = instance.problem.buys

    def of(self, left: Iterable[tuple[int, str]]) -> tuple[Unschedulable, ...]:
        """The pods of these pairs with their reasons."""
        return tuple(sorted(map(self._one, left), key=by_pod))

    def _one(self, pair: tuple[int, str]) -> Unschedulable:
        if pair in self._not_attempted:
            return Unschedulable(pair[1], OUT_OF_TIME, self._pools)
        if not self._buys:  # what each pool lacks was 2 % of a replay, and went unread
            return Unschedulable(pair[1], NO_ROOM)
        return self._explainer.explain(self._pod_classes[pair[0]], pair[1])


def claims_of(instance: Instance, bought: Iterable[PlannedNode]) -> tuple[PlannedClaim, ...]:
    """A claim per node, counted up within its pool."""
    assembler, numbers = Assembler(instance), defaultdict[int, Iterator[int]](count)
    claims = [assembler.claim(planned, next(numbers[planned.made.pool])) for planned in bought]
    return tuple(sorted(claims, key=lambda item: item.name))


def written(
    instance: Instance,
    placed: tuple[tuple[PlannedClaim, ...], Mapping[int, Sequence[Unit]], Sequence[PlannedNode]],
    missed: tuple[Unschedulable, ...],
    proof: Proof,
) -> Plan:
    """The plan. `placed`: claims, pods on nodes that exist, and what the claims are for."""
    claims, existing, bought = placed
    hourly = sum(item.price for item in claims)
    names = {
        instance.problem.nodes[row].name: tuple(sorted(unit.pod for unit in some))
        for row, some in existing.items()
    }
    return Plan(
        claims=claims,
        existing=dict(sorted(names.items())),
        unschedulable=missed,
        cost=Cost(hourly, min(hourly, proof.bound)),
        relaxed=dict(sorted(_relaxed(instance, existing, bought))),
        proof=proof,
        work=instance.work.used,
    )


def _relaxed(
    instance: Instance, existing: Mapping[int, Sequence[Unit]], bought: Sequence[PlannedNode]
) -> list[tuple[str, tuple[str, ...]]]:
    """(pod, preferences given up) of those that gave up any."""
    pod_classes = instance.pod_classes
    units = [
        unit
        for planned in bought
        for item, bundles in planned.parts
        if any(pod_classes[pod_class].levels[level].gone for pod_class, level in item.kinds)
        for bundle in bundles
        for unit in item.units(bundle)
    ]
    units += [unit for placed in existing.values() for unit in placed]
    given_up = {at: pod_classes[at[0]].levels[at[1]].given_up for at in {unit[:2] for unit in units}}
    return [(unit.pod, words) for unit in units if (words := given_up[unit[:2]])]


def by_pod(item: Unschedulable) -> str:
    return item.pod


class Assembler:
    """Writes claims. What nodes of equal demands and equal types have in common is worked out once."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        # The fields of such a claim, and what daemons take.
        self._known: dict[tuple[object, ...], tuple[dict[str, Any], Amounts]] = {}
        # Alike ones follow one another.
        self._last: tuple[NodeCandidate, dict[str, Any]] | None = None

    def claim(self, planned: PlannedNode, number: int) -> PlannedClaim:
        """The claim for a node, the so-manieth of its pool."""
        made = planned.made
        if self._last is None or not self._last[0].alike(made):
            self._last = made, self._unnamed(made)
        known = self._last[1]
        return PlannedClaim(**{**known, "name": f"{known['pool']}-{number}", "pods": planned.pods()})

    def _unnamed(self, made: NodeCandidate) -> dict[str, Any]:
        # Equal types are one object mostly: to hash hundreds of them takes as long as the work.
        key = (made.pool, made.requirements, id(made.types), made.column, made.reservation, made.relaxed)
        known = self._known.get(key)
        if known is None:
            daemons = self._instance.overhead[made.pool][list(made.types)].min(axis=0)
            known = self._known[key] = _common(self._instance, made), daemons
        common, daemons = known
        return {**common, "requests": self._instance.axis.mapping(made.vector + daemons)}


def _common(instance: Instance, made: NodeCandidate) -> dict[str, Any]:
    """The claim for such a node by its fields, without a name, its pods and what they request."""
    table = instance.tables[made.pool]
    offering = table.offerings[made.column]
    names = tuple([table.types[number].name for number in made.types])
    kept = _kept(instance, made)
    codes = np.bincount(table.capacity_type[kept]).nonzero()[0].tolist()
    asked = _lowered(table, made) if made.relaxed else made.requirements
    listed = (labels.INSTANCE_TYPE, names), (labels.CAPACITY_TYPE, [table.capacity_types[at] for at in codes])
    requirements = Requirements({**asked.by_key, **{key: _one_of(asked, key, each) for key, each in listed}})
    return {
        "pool": table.pool.name,
        "requirements": requirements,
        "instance_types": names,
        "instance_type": names[0],
        "zone": offering.zone,
        "capacity_type": offering.capacity_type,
        "price": made.price,
        "worst": int(table.price[kept].max()),
        "volumes": table.pool.volumes,
        "surcharge": instance.problem.options.node_surcharge,
        "price_estimated": offering.estimated,
        "labels": _labels(table.pool.labels, requirements, instance.well_known | labels.AWS_WELL_KNOWN),
        "taints": table.pool.taints,
        "min_values_relaxed": made.relaxed,
    }


def _kept(instance: Instance, made: NodeCandidate) -> Amounts:
    """Columns of the pool's table that the cloud may pick for the node."""
    table = instance.tables[made.pool]
    instance.work.spend(1 + len(table.offerings) // CELLS)
    listed = np.zeros(len(table.types), dtype=np.bool_)
    listed[list(made.types)] = True  # each holds the node's pods
    kept = table.reservation == made.reservation if made.reservation else table.unreserved
    return np.flatnonzero(kept & table.usable(made.requirements) & listed[table.column_type])


def _lowered(table: PoolTable, made: NodeCandidate) -> Requirements:
    """Minimums of different values as far as the types have them: no claim can ask for more."""
    types = list(made.types)
    by_key = dict(made.requirements.by_key)
    for key, item in by_key.items():
        if item.min_values:
            there = int(np.count_nonzero(table.values(item)[types].any(axis=0)))
            by_key[key] = replace(item, min_values=min(item.min_values, there) or None)
    return Requirements(by_key)


def _one_of(requirements: Requirements, key: str, values: Sequence[str]) -> Requirement:
    """One of the values; a minimum of different ones stays."""
    found = requirements.by_key.get(key)
    least = None if found is None else found.min_values
    return Requirement.new(key, "In", values if least is None else sorted(set(values)), least)


def _labels(
    stamped: Mapping[str, str], requirements: Requirements, well_known: frozenset[str]
) -> dict[str, str]:
    """Labels that the claim carries: the pool's, and one value for each custom requirement."""
    return {**requirements.labels(exclude=well_known | {labels.HOSTNAME}), **stamped}
