"""Nodes to buy, written as claims: every type that holds the pods, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dovetail.model import labels
from dovetail.model.plan import PlannedClaim
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.packing.bins import Bin
from dovetail.solve.purchase import Purchase
from dovetail.solve.supply.encode import Amounts, PoolTable
from dovetail.solve.supply.world import World


class Assembler:
    """Writes claims. What nodes of equal demands and equal types have in common is worked out once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[tuple[object, ...], tuple[PlannedClaim, Amounts]] = {}

    def claim(self, purchase: Purchase, number: int) -> PlannedClaim:
        """The claim for a node, the so-manieth of its pool."""
        made = purchase.made
        key = (made.pool, made.requirements, made.types, made.column, made.reservation, made.relaxed)
        known = self._known.get(key)
        if known is None:
            daemons = self._world.overhead[made.pool][list(made.types)].min(axis=0)
            known = self._known[key] = (_common(self._world, made), daemons)
        common, daemons = known
        return replace(
            common,
            name=f"{common.pool}-{number}",
            pods=purchase.pods(),
            requests=self._world.axis.mapping(made.vector + daemons),
        )


def _common(world: World, made: Bin) -> PlannedClaim:
    """The claim for such a node, without a name, its pods and what they request."""
    table = world.tables[made.pool]
    offering = table.offerings[made.column]
    kinds = [table.types[number] for number in made.types]
    kept = _kept(world, made)
    capacity_types = sorted(set(table.capacity_type[kept].tolist()))
    requirements = _lowered(table, made) if made.relaxed else made.requirements
    for key, values in (
        (labels.INSTANCE_TYPE, [kind.name for kind in kinds]),
        (labels.CAPACITY_TYPE, capacity_types),
    ):
        requirements = Requirements({**requirements.by_key, key: _one_of(requirements, key, values)})
    return PlannedClaim(
        name="",
        pool=table.pool.name,
        pods=(),
        requirements=requirements,
        instance_types=tuple(kind.name for kind in kinds),
        requests={},
        instance_type=kinds[0].name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=made.price,
        worst=int(table.price[kept].max()),
        volumes=table.pool.volumes,
        surcharge=world.problem.options.node_surcharge,
        price_estimated=offering.estimated,
        labels=_labels(table.pool.labels, requirements, world.well_known | labels.AWS_WELL_KNOWN),
        taints=table.pool.taints,
        min_values_relaxed=made.relaxed,
    )


def _kept(world: World, made: Bin) -> Amounts:
    """Columns of the pool's table that the cloud may pick for the node."""
    table = world.tables[made.pool]
    columns = np.flatnonzero(world.columns(made.pool, made.requirements, made.vector))
    listed = np.zeros(len(table.types), dtype=np.bool_)
    listed[list(made.types)] = True
    columns = columns[listed[table.column_type[columns]]]
    kept: Amounts = columns[table.reservation[columns] == made.reservation]
    return kept


def _lowered(table: PoolTable, made: Bin) -> Requirements:
    """Minimums of different values as far as the types have them: no claim can ask for more."""
    types = list(made.types)
    by_key = dict(made.requirements.by_key)
    for key, item in by_key.items():
        if item.min_values:
            there = int(np.count_nonzero(table.values(item)[types].any(axis=0)))
            by_key[key] = replace(item, min_values=min(item.min_values, there) or None)
    return Requirements(by_key)


def _one_of(requirements: Requirements, key: str, values: list[str]) -> Requirement:
    """One of the values; a minimum of different ones stays."""
    found = requirements.by_key.get(key)
    named = Requirement.new(key, "In", values)
    if found is None or found.min_values is None:
        return named
    return Requirement.new(key, "In", sorted(named.values), found.min_values)


def _labels(
    stamped: Mapping[str, str], requirements: Requirements, well_known: frozenset[str]
) -> dict[str, str]:
    """Labels that the claim carries: the pool's, and one value for each custom requirement."""
    return {**requirements.labels(exclude=well_known | {labels.HOSTNAME}), **stamped}
