"""How much of what the nodes cost is necessary: the least that their pods cost anyhow over what is paid."""

from __future__ import annotations

from dataclasses import replace

from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.unanswered import Unanswered
from dovetail.controllers.disruption.views import node_views
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.disrupt.consolidation.search import QUICK
from dovetail.disrupt.pods import unbound
from dovetail.model.problem import Problem
from dovetail.units.money import NANO_DOLLARS

_QUESTION = ("the efficiency of all nodes",)
# Pods of which a plan leaves work to prove more: of those of an evening's cluster once 18 instead of 15 % of
# what its nodes cost. Of 150, 300, 600 and 1,000 the first plan took it all, and nothing more was proven.
_FEW = 100

COST = Metric(
    "dovetail_cluster_cost_dollars_per_hour",
    "gauge",
    "What the nodes that Dovetail manages cost now.",
)
BOUND = Metric(
    "dovetail_cluster_lower_bound_dollars_per_hour",
    "gauge",
    "What their pods cost at least on whichever nodes; proven.",
)
RATIO = Metric(
    "dovetail_cluster_efficiency_ratio",
    "gauge",
    "The lower bound over the cost, 0 to 1: no packing of these pods could be better than 1.",
)
ALL = (COST, BOUND, RATIO)


class Efficiency:
    """Asks time and again what the pods of all managed nodes would cost if they were placed anew."""

    def __init__(self, context: Context, planner: Planner, intake: Intake, period: int) -> None:
        """`period` is nanoseconds from one look to the next."""
        self._context = context
        self._planner = planner
        self._intake = intake
        self._period = period
        self._unanswered = Unanswered(context)
        self._known: tuple[Problem, int] | None = None  # the last question and its bound
        # What all nodes cost and must cost as of the last look, nano-dollars per hour.
        self.latest: tuple[int, int] | None = None

    async def run(self) -> None:
        """Look for ever; a question without an answer skips one turn."""
        while True:
            await self._context.clock.sleep(self._period)
            if not self._context.state.synced():
                continue
            try:
                await self.look()
            except Exception as error:
                self._unanswered.failed(_QUESTION, error)
            else:
                self._unanswered.answered(_QUESTION)

    async def look(self) -> None:
        """Ask once. Nodes whose price is not known any more, and their pods, do not count."""
        context = self._context
        views = [view for view in node_views(context, ()) if view.price is not None]
        cost = sum(view.price or 0 for view in views)
        bound = 0
        if cost:
            pods = tuple(unbound(pod) for view in views for pod in view.moving)
            leaving = frozenset(name for view in views for name in (view.claim.metadata.name, view.name))
            problem = self._intake.problem(pods, {}, leaving)
            problem = replace(problem, places=len(pods) <= _FEW)
            bound = min(await self._bound(problem), cost)
        self.latest = cost, bound
        metrics = context.metrics
        metrics.set(COST, cost / NANO_DOLLARS)
        metrics.set(BOUND, bound / NANO_DOLLARS)
        if cost:
            metrics.set(RATIO, bound / cost)
            context.log.record("efficiency", cost=cost, lowerBound=bound)
        else:
            metrics.drop(RATIO)

    async def _bound(self, problem: Problem) -> int:
        """Asked only if it is another question than the last one."""
        if self._known is None or problem != self._known[0]:
            plan = await self._planner.plan(problem, QUICK)
            self._known = problem, plan.cost.lower_bound
        return self._known[1]
