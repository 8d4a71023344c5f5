"""The lower bound of plans, worked out anew from the worths in the plan's proof by exact knapsacks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.model.plan import Plan, Proof
from dovetail.model.problem import Budget, Problem
from dovetail.solve.bound.topology_mip import TopologyBound
from dovetail.solve.solver import Step, solve
from dovetail.testing.exhaustive import Unsupported
from dovetail.testing.problems import instance_types, pod, pool, random_scenario, scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import features, read_scenarios, to_problem

FOLDER = Path(__file__).parent / "vectors" / "scheduling"
WORK = Budget(work=50_000)


def faults(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """What is wrong with the proof, nothing where that is unknown."""
    try:
        return proof_faults(problem, plan)
    except Unsupported:
        return ()


@lru_cache
def solved(seed: int) -> tuple[Problem, Plan]:
    problem = mixed(seed, 30)
    return problem, solve(problem, WORK)


def mixed(seed: int, pods: int) -> Problem:
    """Many pods of several sizes, as they come: more than can be tried out."""
    documents = []
    for part in range(4):
        documents += random_scenario(seed + 1000 * part, limited=False)["pods"][:pods]
    for number, item in enumerate(documents):
        item["metadata"]["name"] = f"pod-{number}"
    sizes = [(300 + 37 * (number % 11), 700 + 150 * (number % 7)) for number in range(pods)]
    documents += [pod(f"free-{number}", "free", size, {}) for number, size in enumerate(sizes)]
    return to_problem(scenario(documents, [pool("general"), pool("team", team=True)], instance_types()))


@pytest.mark.parametrize("feature", features(FOLDER)[::2])
def test_recorded_scenarios(feature: str) -> None:
    for item in list(read_scenarios(FOLDER / f"{feature}.jsonl.gz"))[:2]:
        assert faults(item.problem, solve(item.problem, WORK)) == (), item.name


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_small_problems(first: int) -> None:
    for seed in range(first, first + 20):
        problem = to_problem(random_scenario(seed))
        assert faults(problem, solve(problem, WORK)) == (), seed


@pytest.mark.parametrize("seed", range(4))
def test_many_pods(seed: int) -> None:
    problem, plan = solved(seed)
    assert faults(problem, plan) == ()


def dearer(proof: Proof, index: int, factor: float) -> Proof:
    """The proof with one worth raised, and the bound with it."""
    item = proof.worth[index]
    each = int(item.each * factor) + 1
    worth = (*proof.worth[:index], replace(item, each=each), *proof.worth[index + 1 :])
    raised = (each - item.each) * len(item.pods)
    return replace(proof, worth=worth, bound=proof.bound + raised, linear=proof.linear + raised)


def test_a_worth_that_is_too_high_is_noticed() -> None:
    problem, plan = solved(0)
    assert proof_faults(problem, plan) == ()
    wrong = dearer(plan.proof, 0, 1.5)
    assert proof_faults(problem, replace(plan, proof=wrong)) != ()


def test_a_bound_beyond_its_sum_is_noticed() -> None:
    problem, plan = solved(1)
    wrong = replace(plan.proof, bound=plan.proof.bound * 2, linear=plan.proof.bound * 2)
    assert any("not" in fault for fault in proof_faults(problem, replace(plan, proof=wrong)))


def test_room_that_absorbs_more_than_it_says_is_noticed() -> None:
    noticed = 0
    for seed in range(40):
        problem = to_problem(random_scenario(seed, limited=False))
        plan = solve(problem, WORK)
        if plan.proof.absorbed:
            wrong = replace(plan.proof, absorbed=dict.fromkeys(plan.proof.absorbed, 0))
            noticed += any("takes" in fault for fault in proof_faults(problem, replace(plan, proof=wrong)))
    assert noticed


def test_proofs_look_for_nothing_dearer_than_a_plan_with_the_same_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan of the first stage follows an answer of the program: packing makes a dearer one."""
    items = read_scenarios(FOLDER / "spread-zone.jsonl.gz")
    (item,) = (one for one in items if one.name == "spread-zone-000")
    asked, known, bound = list[int](), list[int](), TopologyBound.bound

    def noted(self: TopologyBound, *given: Any, **ways: Any) -> int:
        asked.append(given[-1])
        return bound(self, *given, **ways)

    def traced(step: Step) -> None:
        if step.phase == "moves":  # the last one of a stage
            known.append(step.cost)
            asked.clear()

    monkeypatch.setattr(TopologyBound, "bound", noted)
    solve(item.problem, Budget(work=600_000), trace=traced)
    assert len(asked) > 1
    assert max(asked) <= known[0]
