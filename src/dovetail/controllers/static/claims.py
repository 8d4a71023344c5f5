"""The claims of static pools: made from the template alone, for no pod."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.base.clock import MINUTE
from dovetail.cluster.problem import pool_labels
from dovetail.cluster.usage import NODES
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.unfinished import replaces
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import PlannedClaim
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts
from dovetail.units.timestamp import parse_rfc3339

# For so long a replacement may be there before the watches show the mark on what it replaces.
_SETTLES = MINUTE


def planned(context: Context, pool: NodePool) -> PlannedClaim | None:
    """One more node of the pool, of any type that it allows; None while nothing it allows is for sale."""
    stamped = pool_labels(pool)
    wanted = Requirements.read(pool.spec.template.spec.requirements).add(*Requirements.from_labels(stamped))
    found = sorted(
        (
            (offering.price, kind.name, offering.zone, offering.capacity_type, kind, offering)
            for kind in context.instance_types(pool)
            if not kind.requirements.intersects(wanted)
            for offering in kind.offerings
            if offering.available and not offering.requirements.intersects(wanted)
        ),
        key=lambda item: item[:4],
    )
    if not found:
        return None
    kind, offering = found[0][4:]
    return _claim(pool, wanted, kind, offering, context.volume_price(pool), found[-1][0])


def _claim(
    pool: NodePool, wanted: Requirements, kind: InstanceType, offering: Offering, volumes: int, worst: int
) -> PlannedClaim:
    custom = wanted.labels(exclude=labels.WELL_KNOWN | labels.AWS_WELL_KNOWN | {labels.HOSTNAME})
    return PlannedClaim(
        name=pool.metadata.name,
        pool=pool.metadata.name,
        pods=(),
        requirements=wanted,
        instance_types=(),  # the cloud chooses among all that the requirements allow
        requests={},
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price + volumes,
        worst=worst + volumes,
        volumes=volumes,
        price_estimated=offering.estimated,
        labels={**custom, **pool_labels(pool)},
        taints=pool.spec.template.spec.taints,
    )


def present(context: Context, pool: NodePool) -> tuple[NodeClaim, ...]:
    """Claims of the pool that nobody has deleted yet."""
    return tuple(
        claim
        for claim in context.state.all(NodeClaim)
        if claim.metadata.labels.get(labels.NODEPOOL) == pool.metadata.name and not claim.deleting
    )


def standing(context: Context, claims: Sequence[NodeClaim]) -> tuple[NodeClaim, ...]:
    """Those that the pool's number counts: a node and the one that is bought in its place are one."""
    by_name = {claim.metadata.name: claim for claim in claims}
    leaving = set(context.state.marked())
    for claim in claims:
        found = replaces(claim)
        if found is None:
            continue
        fresh = context.clock.now() - parse_rfc3339(found.at) < _SETTLES
        for name in found.claims:
            old = by_name.get(name)
            if old is not None and (fresh or is_true(old.status.conditions, DISRUPTION_REASON)):
                leaving.add(name)
    return tuple(claim for claim in claims if claim.metadata.name not in leaving)


def room(context: Context, pool: NodePool) -> int:
    """How many more nodes the pool's limit allows, those that are about to go included; many without one."""
    limit = amounts(pool.spec.limits).get(NODES)
    return 2**31 if limit is None else max(0, limit - len(present(context, pool)))
