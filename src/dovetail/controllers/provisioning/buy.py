"""The claims of a plan, created: many at once, in the order in which they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.errors import ApiError, TimedOut, Unavailable
from dovetail.cluster.usage import exceeded, usage_by_pool
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.claims import node_claim
from dovetail.controllers.provisioning.metrics import ProvisioningMetrics
from dovetail.controllers.provisioning.remarks import failed, nominate
from dovetail.controllers.shared_limits import Admitted, admitted
from dovetail.model.plan import PlannedClaim
from dovetail.model.resources import Resources, amounts

AT_ONCE = 50  # requests; each waits for the server alone, so that a burst takes as long as the server needs


class Buyer:
    """Creates claims. A request without an answer may have made one: `look` finds it before the next plan."""

    def __init__(self, context: Context, metrics: ProvisioningMetrics) -> None:
        self._context = context
        self._metrics = metrics
        self._in_doubt = False

    async def look(self) -> None:
        """Take in claims that were made although no answer said so. Raises ApiError.

        Which process made them is unknown, so none counts as made by this one: it waits with them, and looks
        for their instances first, as with those of another one.
        """
        if self._in_doubt:
            for claim in (await self._context.client.list(NodeClaim)).items:
                self._context.state.expect(claim)
            self._in_doubt = False

    async def buy(self, claims: Sequence[PlannedClaim], bought: list[tuple[str, PlannedClaim]]) -> None:
        """Create the claims; fills `bought` with names, in the given order, whatever happens.

        A claim that is refused does not keep others from being made; a server that does not answer does.
        Raises the first ApiError once all requests that were under way have ended.
        """
        state = self._context.state
        usage = usage_by_pool(machine for machine in state.machines() if not state.going(machine))
        waiting: Iterator[tuple[int, Admitted]] = iter(())
        names: dict[int, str] = {}
        errors: dict[int, ApiError] = {}

        async def work() -> None:
            for index, (planned, why) in waiting:
                try:
                    names[index] = await self._buy(planned, usage, why)
                except ApiError as error:
                    errors[index] = error
                    if isinstance(error, Unavailable | TimedOut):
                        self._in_doubt = True
                        tuple(waiting)  # those are left for the next plan

        try:
            async with admitted(self._context, claims) as allowed, asyncio.TaskGroup() as tasks:
                waiting = iter(enumerate(allowed))
                for _ in range(min(AT_ONCE, len(claims))):
                    tasks.create_task(work())
        finally:
            bought += [(names[index], claims[index]) for index in sorted(names) if names[index]]
        if errors:
            raise errors[min(errors)]

    async def _buy(self, planned: PlannedClaim, usage: Mapping[str, Resources], why: str) -> str:
        """Create the claim, unless its pool went away or is over its limits by now, or `why` says what else
        is in the way; its name, or "".
        """
        context = self._context
        pool = context.state.get(NodePool, planned.pool)
        if pool is None or pool.deleting:
            return ""
        over = _over_limits(pool, usage.get(planned.pool, {})) or why or context.brakes.launch_refused(1)
        if over:
            for key in planned.pods:
                await failed(context, key, over)
            return ""
        context.brakes.launched(1)  # before it is, so that those that are under way count
        marks = context.overlays.marks(planned.pool, planned.instance_types)
        try:
            claim = await context.client.create(node_claim(planned, pool, marks))
        except ApiError:
            context.brakes.not_launched(1)
            raise
        self._metrics.created(planned)
        context.created(claim)
        await nominate(context, planned.pods, claim.metadata.name)
        return claim.metadata.name


def _over_limits(pool: NodePool, usage: Resources) -> str:
    """Why the pool may buy nothing more, or "": its use is above its limits. Being equal is fine."""
    found = exceeded(usage, amounts(pool.spec.limits))
    if found is None:
        return ""
    name, used, limit = found
    return f"resource usage exceeds limit (Resource={name}, Usage={used}, Limit={limit})"
