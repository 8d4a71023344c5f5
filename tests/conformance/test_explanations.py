"""Explanations agree with the solver: on every recorded scenario, what is left over is refused by all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.model.problem import Budget
from dovetail.solve.explain.pod import PodStory, pod_story
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import features, read_scenarios

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


def _possible(story: PodStory) -> bool:
    """True iff the place that the plan chose is among those that the explanation knows."""
    if story.node:
        return story.node in story.verdict.nodes.open
    assert story.claim is not None
    offered = {pool.pool for pool in story.verdict.pools if pool.offer}
    return story.claim.name in story.verdict.nodes.open or story.claim.pool in offered
