"""A slow, obvious solver for small problems: it tries every way to put pods on nodes.

It shares no code with the solver but its checker, which has the last word on what is legal.

places     all nodes that there could be       market    groups of pods and the cheapest nodes for them
promises   what a plan promised, as rules      search    branch and bound
addition   one more pod in a plan as it stands
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.api.core import Pod
from dovetail.model.cluster_view import PodFacts
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.testing.exhaustive.answer import with_one_more
from dovetail.testing.exhaustive.market import Kind, Market
from dovetail.testing.exhaustive.promises import (
    Unsupported,
    gives_up,
    hardened,
    keeps_soft_taints,
    lightest,
    refusing,
    staying,
    unhardened,
)
from dovetail.testing.exhaustive.search import LEFT_OUT, Search, TooLarge

__all__ = ["TooLarge", "Unsupported", "addable", "cheaper", "fuller", "promised"]

EFFORT = 20_000


def fuller(problem: Problem, plan: Plan, *, effort: int = EFFORT) -> Plan | None:
    """A plan that places more pods than this one, whatever it costs; None if there is none.

    Preferences and weights bind nothing here. Raises TooLarge when that takes more than `effort` trials.
    """
    if not plan.unschedulable:
        return None
    _supported(problem)
    market = Market(problem, _kinds(problem, {}, {}))
    return Search(market, LEFT_OUT * len(plan.unschedulable), effort).run()


def addable(problem: Problem, plan: Plan) -> Plan | None:
    """The plan with one left-over pod more and all others in their places; None if no such pod has a place.

    Preferences and weights bind nothing here. Raises Unsupported where it knows no way.
    """
    if not plan.unschedulable:
        return None
    _supported(problem)
    return with_one_more(Market(problem, _kinds(problem, {}, {})), plan)


def cheaper(problem: Problem, plan: Plan, *, effort: int = EFFORT) -> Plan | None:
    """The cheapest plan that places the same pods and costs less than this one; None if there is none.

    It keeps what the plan promised: preferences that were kept for a pod, no node bought for it from a pool
    of lower weight than the pod's, and no place on such a node for the pods of a pool whose limits refuse
    something by then. Raises TooLarge when that takes more than `effort` trials, Unsupported where it knows
    no way.
    """
    _supported(problem)
    return Search(market_of(problem, plan), plan.cost.hourly, effort).run()


def market_of(problem: Problem, plan: Plan) -> Market:
    """The placed pods with all that the plan promised them, and what there is to put them on."""
    asked, least, soft = promised(problem, plan)
    return Market(asked, _kinds(asked, least, soft, staying(problem, plan)))


def promised(problem: Problem, plan: Plan) -> tuple[Problem, dict[str, int], dict[str, bool]]:
    """The placed pods with what the plan kept for them as strict rules, and per pod two things more.

    The least weight of a pool that a node may be bought from for it, and whether it keeps off nodes with
    PreferNoSchedule taints.
    """
    limited = bool(refusing(problem, plan))
    asked = unhardened(problem, plan) if limited and gives_up(plan) else hardened(problem, plan)
    soft = {
        pod.key: not (limited and gives_up(plan)) and keeps_soft_taints(problem, plan, pod.key)
        for pod in asked.pods
    }
    weight = {pool.name: pool.weight for pool in problem.pools}
    least = {pod: weight[claim.pool] for claim in plan.claims for pod in claim.pods}
    for pod in asked.pods:
        if pod.key not in least and limited:
            least[pod.key] = lightest(problem, plan)
        elif pod.key not in least:
            least[pod.key] = _highest(asked, pod, soft[pod.key])
    return asked, least, soft


def _supported(problem: Problem) -> None:
    for pool in problem.pools:
        if pool.limits and any(item.min_values for item in pool.requirements):
            raise Unsupported(f"pool {pool.name} has limits and minValues")


def _highest(problem: Problem, pod: Pod, soft: bool) -> int:
    """The weight of the best pool that takes the pod alone."""
    facts = PodFacts.of(pod, problem.volumes)
    alone = Market(replace(problem, nodes=(), pods=(pod,)), (Kind((pod,), facts, 0, soft),))
    return max((option.site.pool.weight for option in alone.options((1,))), default=0)


def _kinds(
    problem: Problem, least: dict[str, int], soft: dict[str, bool], stay: dict[str, int] | None = None
) -> tuple[Kind, ...]:
    """The pods by what distinguishes them, those that ask for most first."""
    stay = stay or {}
    same: dict[tuple[object, ...], list[Pod]] = {}
    for pod in problem.pods:
        meta = pod.metadata
        owned = pod.key if pod.spec.volumes else ""
        alike = (repr(pod.spec), meta.namespace, tuple(sorted(meta.labels.items())), meta.deletion_timestamp)
        promised = (least.get(pod.key, 0), soft.get(pod.key, False), stay.get(pod.key, 0))
        same.setdefault((*alike, owned, *promised), []).append(pod)
    kinds = [
        Kind(
            tuple(pods),
            PodFacts.of(pods[0], problem.volumes),
            least.get(pods[0].key, 0),
            soft.get(pods[0].key, False),
            stay.get(pods[0].key, 0),
        )
        for pods in same.values()
    ]
    order = sorted(kinds, key=lambda kind: (-kind.facts.requests.get("cpu", 0), kind.pods[0].key))
    return tuple(order)
