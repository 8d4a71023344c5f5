"""Random small problems that showed a fault once: what was wrong must not come back."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.problems import enriched, random_scenario, weighted_scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import to_problem
from dovetail.testing.variety import varied
from dovetail.verify import verify

WORK = Budget(work=20_000)
EFFORT = 4_000


def document(seed: int, kind: str) -> dict[str, Any]:
    made = random_scenario(seed, limited=kind in ("limits", "varied"))
    if kind == "varied":
        return varied(made, seed)
    return enriched(made, seed) if kind == "more" else made


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        # Limits: what is left over still had a place on a node that was bought, or on one more.
        *((seed, "limits") for seed in (0, 5, 20, 22, 51, 75, 79, 228, 272)),
        # Pods that others must be near were put where there was no room for those.
        *((seed, "free") for seed in (5, 88, 132, 147, 289)),
        # Domains were taken that others needed more.
        *((seed, "more") for seed in (1009, 1025)),
        # Others had to leave a node first, or to go to another zone.
        *((seed, "limits") for seed in (81, 132)),
        *((seed, "varied") for seed in (271, 285)),
    ],
)
def test_nothing_is_left_out(seed: int, kind: str) -> None:
    problem = to_problem(document(seed, kind))
    plan = solve(problem, WORK)
    assert verify(problem, plan) == ()
    assert exhaustive.fuller(problem, plan) is None


@pytest.mark.parametrize("seed", [228])
def test_the_bound_is_below_the_optimum(seed: int) -> None:
    """Free rooms were left out of a proof where they seemed to cost more than the plan."""
    problem = to_problem(document(seed, "limits"))
    plan = solve(problem)
    least = exhaustive.cheaper(problem, plan) or plan
    assert plan.cost.lower_bound <= least.cost.hourly


@pytest.mark.parametrize("seed", range(40))
def test_whatever_clusters_have_besides(seed: int) -> None:
    """Volumes, ports, taints, namespaces, labels of the pool's choice: no rule broken, no wrong bound."""
    problem = to_problem(varied(random_scenario(seed, limited=seed % 2 == 0), seed))
    plan = solve(problem, WORK)
    assert verify(problem, plan) == ()
    try:
        assert proof_faults(problem, plan) == ()
        least = exhaustive.cheaper(problem, plan, effort=EFFORT) or plan
    except (exhaustive.TooLarge, exhaustive.Unsupported):
        return
    assert plan.cost.lower_bound <= least.cost.hourly


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_limits_and_weights(first: int) -> None:
    """The bound is below the optimum of all plans that keep the promises, and its proof holds."""
    for seed in range(first, first + 10):
        problem = to_problem(weighted_scenario(seed))
        plan = solve(problem, WORK)
        assert verify(problem, plan) == (), seed
        try:
            assert proof_faults(problem, plan) == (), seed
            least = exhaustive.cheaper(problem, plan, effort=EFFORT) or plan
        except (exhaustive.TooLarge, exhaustive.Unsupported):
            continue
        assert plan.cost.lower_bound <= least.cost.hourly, seed
