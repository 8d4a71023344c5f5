"""Who is left over where limits bind: those of a low priority, as long as there is room for higher ones."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from dovetail.controllers.provisioning.important import MOST, by_priority
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing.problems import SIZES, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

RULES = rules("web", "api")
Document = dict[str, Any]


def sized(name: str, priority: int, rule: Document, milli: int = 1500) -> Document:
    made = pod(name, "web", (milli, 1024), rule)
    made["spec"]["priority"] = priority
    return made


def problem(pods: list[Document], *, cpu: str = "8", nodes: tuple[Document, ...] = ()) -> Problem:
    made = scenario(pods, [pool("general", limits={"cpu": cpu})], instance_types())
    made["nodes"] = list(nodes)
    return to_problem(made)


def answered(asked: Problem) -> tuple[Plan, Plan, int]:
    """The plan, the one by priority, and how many questions that took."""
    plan = solve(asked, Budget(50_000))
    questions, number = by_priority(asked, plan), 0
    try:
        question = next(questions)
        while True:
            number += 1
            question = questions.send(solve(question.problem, Budget(50_000)))
    except StopIteration as end:
        assert verify(asked, end.value) == ()
        return plan, end.value, number


def placed(asked: Problem, plan: Plan) -> tuple[int, ...]:
    """How many pods have a place, per priority, the highest first."""
    counts = Counter(one.spec.priority for one in asked.pods)
    left = Counter(one.spec.priority for one in asked.pods if one.key in set(plan.left))
    return tuple(counts[each] - left[each] for each in sorted(counts, reverse=True))


IN_A, ELSEWHERE = RULES["in zone-a"], RULES["in zone-b or zone-c"]


def test_pods_of_a_high_priority_come_first() -> None:
    """They go to another zone, so that nothing of what others have bought would be theirs later."""
    bulk = [sized(f"bulk-{n}", 0, IN_A) for n in range(10)]
    asked = problem([*bulk, *(sized(f"gold-{n}", 1000, ELSEWHERE) for n in range(2))])
    plan, found, number = answered(asked)
    assert placed(asked, plan)[0] < 2
    assert placed(asked, found)[0] == 2
    assert placed(asked, found)[1] >= 2  # and the rest of the limit is theirs
    assert number == 3
    assert {one.pod.removeprefix("default/")[:4] for one in found.unschedulable} == {"bulk"}
    assert all(one.limited for one in found.unschedulable)


@pytest.mark.parametrize(
    ("cpu", "priorities"),
    [
        pytest.param("100", (0, 1000), id="all have a place"),
        pytest.param("8", (5, 5), id="all are equal"),
        pytest.param("8", (1000, 0), id="the low ones are left over"),
    ],
)
def test_nothing_is_asked_where_nobody_is_passed_over(cpu: str, priorities: tuple[int, int]) -> None:
    small = [sized(f"a-{n}", priorities[0], IN_A) for n in range(5)]
    asked = problem([*small, sized("b", priorities[1], IN_A, 3000)], cpu=cpu)
    plan, found, number = answered(asked)
    assert found is plan
    assert number == 0


def test_a_pod_that_is_more_than_the_limit_takes_nothing_from_others() -> None:
    small = [sized(f"a-{n}", 0, IN_A) for n in range(2)]
    asked = problem([*small, sized("b", 1000, IN_A, 7000)], cpu="4")
    plan, found, number = answered(asked)
    assert found is plan
    assert number == 1
    assert plan.left == ("default/b",)


def test_room_that_is_there_goes_to_who_comes_first() -> None:
    bulk = [sized(f"bulk-{n}", 0, IN_A) for n in range(2)]
    asked = problem([*bulk, sized("gold", 1000, IN_A, 3500)], cpu="4", nodes=(node("there", "zone-a", 4),))
    _, found, _ = answered(asked)
    assert placed(asked, found)[0] == 1


def test_a_quota_is_for_who_comes_first() -> None:
    """One node more may be bought of types that draw on it, whatever the pool's limits."""
    bulk = [sized(f"bulk-{n}", 0, IN_A) for n in range(2)]
    asked = problem([*bulk, sized("gold", 1000, ELSEWHERE)], cpu="100")
    (sold,) = asked.pools
    kinds = tuple(
        replace(kind, offerings=tuple(replace(one, draws=(("quota", 1),)) for one in kind.offerings))
        for kind in sold.instance_types
    )
    asked = replace(asked, pools=(replace(sold, instance_types=kinds),), commons={"quota": 1})
    plan, found, _ = answered(asked)
    assert placed(asked, plan) == (0, 2)
    assert placed(asked, found) == (1, 0)


@pytest.mark.parametrize("seed", range(80))
def test_no_priority_loses_a_place_to_a_lower_one(seed: int) -> None:
    draw = random.Random(seed)
    kinds = ["plain", "in zone-a", "in zone-b or zone-c", "one per host", "spread over zones"]
    pods = []
    for number in range(draw.randint(4, 24)):
        milli, _ = draw.choice(SIZES)
        pods.append(
            sized(f"p{number}", draw.choice((-10, 0, 0, 1000, 2000)), RULES[draw.choice(kinds)], milli)
        )
    asked = problem(pods, cpu=str(draw.choice((4, 8, 16))))
    plan, found, number = answered(asked)
    assert placed(asked, found) >= placed(asked, plan)
    assert number <= 2 * MOST + 1
