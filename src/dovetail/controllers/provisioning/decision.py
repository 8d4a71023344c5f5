"""The record of a launch: what was known, what was bought, what else there was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem

_ALTERNATIVES = 3


def launch_decision(
    problem: Problem, plan: Plan, snapshot: str, bought: Sequence[tuple[str, PlannedClaim]]
) -> dict[str, Any]:
    """The fields of a `decision` record; prices in nano-dollars per hour, `bought` by the claims' names."""
    types = {pool.name: {item.name: item for item in pool.instance_types} for pool in problem.pools}
    return {
        "what": "launch",
        "reason": "pending pods",
        "snapshot": snapshot,
        "pods": len(problem.pods),
        "hourly": plan.cost.hourly,
        "lowerBound": plan.cost.lower_bound,
        "claims": [
            {
                "claim": name,
                "pool": one.pool,
                "pods": list(one.pods),
                "instanceType": one.instance_type,
                "zone": one.zone,
                "capacityType": one.capacity_type,
                "price": one.price,
                "alternatives": list(islice(_alternatives(one, types.get(one.pool, {})), _ALTERNATIVES)),
            }
            for name, one in bought
        ],
    }


def _alternatives(planned: PlannedClaim, types: dict[str, InstanceType]) -> Iterator[dict[str, Any]]:
    """Other types that would have done, the cheapest first, each at its cheapest allowed offering."""
    for name in planned.instance_types:
        if name == planned.instance_type or name not in types:
            continue
        prices = [
            offering.price
            for offering in types[name].offerings
            if offering.available and not offering.requirements.intersects(planned.requirements)
        ]
        if prices:
            yield {"instanceType": name, "price": min(prices) + planned.volumes + planned.surcharge}
