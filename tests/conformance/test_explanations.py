"""Explanations agree with the solver: on every recorded scenario, what is left over is refused by all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.explain.aftermath import aftermath
from dovetail.explain.pod import PodStory, pod_story
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing.problems import random_scenario
from dovetail.testing.scenarios import features, read_scenarios, to_problem

VECTORS = Path(__file__).parent / "vectors" / "scheduling"
# Pods that could not come last where they came first: what is left of a spread depends on who came before.
ORDER_MATTERS = {"spread-min-domains-shared"}


@pytest.mark.parametrize("feature", features(VECTORS))
def test_an_explanation_agrees_with_the_plan(feature: str) -> None:
    for scenario in read_scenarios(VECTORS / f"{feature}.jsonl.gz"):
        if len(scenario.problem.pods) > 40:
            continue
        plan = solve(scenario.problem, Budget(work=2_000))
        left = {item.reason: item.pod for item in plan.unschedulable}
        for pod in left.values():
            story = pod_story(scenario.problem, plan, pod)
            assert story.broken or story.verdict.refused, (scenario.name, pod)
            assert all(pool.text for pool in story.verdict.pools)
        without = {item.pod for item in plan.unschedulable}
        placed = [pod.key for pod in scenario.problem.pods if pod.key not in without]
        for pod in placed[-1:] if feature not in ORDER_MATTERS else ():
            assert _possible(pod_story(scenario.problem, plan, pod)), (scenario.name, pod)


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_an_explanation_agrees_with_a_solve_of_its_own(start: int) -> None:
    """What all refuse has no place even alone; what one pool would take has one, and its place is named."""
    for seed in range(start, start + 30):
        problem = to_problem(random_scenario(seed))
        plan = solve(problem, Budget(work=2_000))
        for pod in {item.reason: item.pod for item in plan.unschedulable}.values():
            story = pod_story(problem, plan, pod)
            if story.broken:
                continue
            (alone,) = (item for item in problem.pods if item.key == pod)
            again = solve(aftermath(problem, plan, (alone,)), Budget(work=2_000))
            assert bool(again.unschedulable) == story.verdict.refused == (not story.spare), (seed, pod)


def _possible(story: PodStory) -> bool:
    """True iff the place that the plan chose is among those that the explanation knows."""
    if story.node:
        return story.node in story.verdict.nodes.open
    assert story.claim is not None
    offered = {pool.pool for pool in story.verdict.pools if pool.offer}
    return story.claim.name in story.verdict.nodes.open or story.claim.pool in offered
