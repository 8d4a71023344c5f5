"""Nodes to buy, written as claims: every type that holds the pods, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.model import labels
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.packing.bins import Bin
from dovetail.solve.placing.items import Unit
from dovetail.solve.plan import PlannedClaim
from dovetail.solve.supply.world import World


def claim(world: World, made: Bin, units: list[Unit], name: str) -> PlannedClaim:
    """The claim for a node that takes these pods."""
    table = world.tables[made.pool]
    offering = table.offerings[made.column]
    kinds = [table.types[number] for number in made.types]
    daemons = world.overhead[made.pool][list(made.types)].min(axis=0)
    named = Requirement.new(labels.INSTANCE_TYPE, "In", [kind.name for kind in kinds])
    requirements = Requirements(
        {**made.requirements.by_key, labels.INSTANCE_TYPE: _keep_minimum(made, named)}
    )
    return PlannedClaim(
        name=name,
        pool=table.pool.name,
        pods=tuple(sorted(unit.pod for unit in units)),
        requirements=requirements,
        instance_types=tuple(kind.name for kind in kinds),
        requests=world.axis.mapping(made.vector + daemons),
        instance_type=kinds[0].name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=made.price,
        volumes=table.pool.volumes,
        surcharge=world.problem.options.node_surcharge,
        price_estimated=offering.estimated,
        labels=_labels(table.pool.labels, requirements, world.well_known | labels.AWS_WELL_KNOWN),
        taints=table.pool.taints,
        min_values_relaxed=made.relaxed,
    )


def _keep_minimum(made: Bin, named: Requirement) -> Requirement:
    found = made.requirements.by_key.get(labels.INSTANCE_TYPE)
    if found is None or found.min_values is None:
        return named
    return Requirement.new(named.key, "In", sorted(named.values), found.min_values)


def _labels(
    stamped: Mapping[str, str], requirements: Requirements, well_known: frozenset[str]
) -> dict[str, str]:
    """Labels that the claim carries: the pool's, and one value for each custom requirement."""
    return {**requirements.labels(exclude=well_known | {labels.HOSTNAME}), **stamped}
