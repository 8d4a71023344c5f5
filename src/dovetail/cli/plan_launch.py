"""What a planned node costs at worst, of what its launch would hand to the cloud.

A claim lists every type that its pods fit on, hundreds of them; a launch leaves out bare metal, accelerators
and spot that is dearer than on demand, and hands over the 60 cheapest of the rest.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from dovetail.base.errors import CloudError
from dovetail.cloud.choice import Request, choose
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem


def as_launched(problem: Problem, plan: Plan) -> Plan:
    """The plan, with each claim's `worst` as the dearest offering of the types that its launch hands over."""
    launches = _Launches(problem)
    return replace(plan, claims=tuple(replace(one, worst=launches.worst(one)) for one in plan.claims))


class _Launches:
    """Most claims of a plan ask for the same as others do."""

    def __init__(self, problem: Problem) -> None:
        self._kinds = {pool.name: {kind.name: kind for kind in pool.instance_types} for pool in problem.pools}
        self._known: dict[Hashable, int | None] = {}

    def worst(self, claim: PlannedClaim) -> int:
        """Nano-dollars per hour, all parts of the node included."""
        requests = tuple(sorted(claim.requests.items()))
        key = claim.pool, claim.instance_types, claim.requirements, requests
        if key not in self._known:
            self._known[key] = self._dearest(claim)
        found = self._known[key]
        return claim.worst if found is None else found + claim.volumes + claim.surcharge

    def _dearest(self, claim: PlannedClaim) -> int | None:
        """Of the offerings alone; None where a launch would find none."""
        kinds = self._kinds[claim.pool]
        try:
            choice = choose(
                [kinds[name] for name in claim.instance_types], Request(claim.requirements, claim.requests)
            )
        except CloudError:
            return None
        # Where spot is sold out, the next launch takes the same types on demand.
        return max(offering.price for kind in choice.types for offering in kind.offerings)
