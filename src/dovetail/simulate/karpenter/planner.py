"""The planner that answers as the original does, and takes as long."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dovetail.base.clock import SECOND, Clock
from dovetail.controllers.disruption.consolidation import Strategy
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.settings import Settings
from dovetail.simulate.karpenter.consolidation import judged, search
from dovetail.simulate.karpenter.scheduling import schedule


class KarpenterPlanner:
    """A Planner. Its deadline is the original's own: it has none below a minute, so none is kept here.

    `work_per_second` is how fast the simulated machine is.
    """

    def __init__(self, clock: Clock, work_per_second: int) -> None:
        self._clock = clock
        self._rate = work_per_second
        self._turn = asyncio.Lock()

    async def plan(self, problem: Problem, deadline: int) -> Plan:  # noqa: ARG002 - the port's
        """See Planner."""
        async with self._turn:
            plan = schedule(problem)
            await self._clock.sleep(plan.work * SECOND // self._rate)
            return plan


def rival_settings(settings: Settings) -> Settings:
    """The settings without what only Dovetail does: nominating nodes to the scheduler, asking twice,
    resting after a search that found nothing, and playing where the scheduler puts pods."""
    strategy = Strategy(search, judged, rest=0, reschedules=False)
    return replace(settings, strategy=strategy, nominate_pods=False, plain_plans=True)
