"""Pods that need each other: who says so, and plans that have places for all of them or for none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.scheme import BY_GVK
from dovetail.model.gangs import Gang, Groups, gangs_of
from dovetail.model.plan import OUT_OF_TIME, Plan
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.solve.solver import solve
from dovetail.testing import problems
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

COSCHEDULING = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
VOLCANO = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 4}}
OWN = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "spec": {"schedulingPolicy": {"gang": {"minCount": 5}}},
}
WORKLOAD = {
    "apiVersion": "scheduling.k8s.io/v1alpha1",
    "kind": "Workload",
    "spec": {
        "podGroups": [
            {"name": "workers", "policy": {"gang": {"minCount": 6}}},
            {"name": "others", "policy": {"basic": {}}},
        ]
    },
}
KOORDINATOR, LIGHTWEIGHT = "gang.scheduling.koordinator.sh", "pod-group.scheduling.sigs.k8s.io"
KUEUE = {"kueue.x-k8s.io/pod-group-name": "g"}


def count(text: str, **more: str) -> dict[str, str]:
    return {"kueue.x-k8s.io/pod-group-total-count": text, **more}


def named(prefix: str, number: str) -> dict[str, str]:
    return {f"{prefix}/name": "g", f"{prefix}/min-available": number}


def pod(labels: Any = None, annotations: Any = None, name: str = "a", **spec: Any) -> Pod:
    meta = {"name": name, "namespace": "n", "labels": labels or {}, "annotations": annotations or {}}
    return decode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, Pod)


def groups(*documents: dict[str, Any], namespace: str = "n", name: str = "g") -> Groups:
    meta = {"metadata": {"name": name, "namespace": namespace}}
    return Groups(decode(one | meta, BY_GVK[one["apiVersion"], one["kind"]]) for one in documents)


@pytest.mark.parametrize(
    ("known", "one", "minimum"),
    [
        (groups(COSCHEDULING), pod({"scheduling.x-k8s.io/pod-group": "g"}), 3),
        (groups(VOLCANO), pod(None, {"scheduling.k8s.io/group-name": "g"}), 4),
        (groups(OWN), pod(schedulingGroup={"podGroupName": "g"}), 5),
        (groups(WORKLOAD), pod(workloadRef={"name": "g", "podGroup": "workers"}), 6),
        (groups(), pod(KUEUE, count("7")), 7),
        (groups(), pod(None, named(KOORDINATOR, "8")), 8),
        (groups(), pod(named(LIGHTWEIGHT, "9")), 9),
        # Each is on its own:
        (groups(), pod({"scheduling.x-k8s.io/pod-group": "g"}), 0),
        (groups(COSCHEDULING, namespace="other"), pod({"scheduling.x-k8s.io/pod-group": "g"}), 0),
        (groups(VOLCANO), pod({"scheduling.x-k8s.io/pod-group": "g"}), 0),
        (groups(WORKLOAD), pod(workloadRef={"name": "g", "podGroup": "others"}), 0),
        (groups(WORKLOAD), pod(workloadRef={"name": "g", "podGroup": "none"}), 0),
        (groups(COSCHEDULING | {"spec": {"minMember": 1}}), pod({"scheduling.x-k8s.io/pod-group": "g"}), 0),
        (groups(COSCHEDULING | {"spec": {"minMember": -5}}), pod({"scheduling.x-k8s.io/pod-group": "g"}), 0),
        (groups(), pod(KUEUE), 0),
        (groups(), pod(KUEUE, count("many")), 0),
        (groups(), pod(KUEUE, count("9" * 5000)), 0),
        (groups(), pod(KUEUE, count("٣")), 0),
        (groups(), pod(KUEUE, count("-3")), 0),
        (groups(), pod(KUEUE, count("3", **{"kueue.x-k8s.io/pod-group-fast-admission": "true"})), 0),
        (groups(), pod(KUEUE, count("3", **{"kueue.x-k8s.io/pod-group-serving": "true"})), 0),
        (groups(COSCHEDULING, VOLCANO, OWN, WORKLOAD), pod(), 0),
    ],
)  # fmt: skip
def test_what_makes_a_gang(known: Groups, one: Pod, minimum: int) -> None:
    found = known.of(one)
    assert (found.minimum if found else 0) == minimum


def test_replicas_of_a_group_of_a_workload_are_gangs_of_their_own() -> None:
    reference = {"name": "g", "podGroup": "workers", "podGroupReplicaKey": "1"}
    found = groups(WORKLOAD).of(pod(workloadRef=reference))
    assert found is not None
    assert found.name == "n/g/workers/1"


def test_every_kind_is_known_to_manifests() -> None:
    assert {BY_GVK[kind.API_VERSION, kind.KIND] for kind in GANG_KINDS} == set(GANG_KINDS)


def test_pods_that_have_a_node_count_and_settled_ones_where_that_is_too_few() -> None:
    known = groups(COSCHEDULING)
    mine = [pod({"scheduling.x-k8s.io/pod-group": "g"}, name=name) for name in "abcd"]
    asked = []

    def settled() -> tuple[Pod, ...]:
        asked.append(1)
        return (mine[3],)

    found = gangs_of(mine[:2], known, [(mine[2],), (pod(name="other"),)], settled)
    assert found == (Gang("PodGroup", "n/g", ("n/a", "n/b"), 1, 2, 3),)
    assert gangs_of(mine[:1], known, [tuple(mine[1:])], settled) == ()
    assert gangs_of([pod()], known, [tuple(mine)], settled) == ()
    assert asked == [1]


# Plans ----------------------------------------------------------------------------------------------


def limited(*sizes: int, cpus: int) -> Problem:
    """Gangs of so many pods of 1.7 CPUs each, one of which fits on a node of 2, under a limit of so many."""
    documents = [
        problems.pod(f"{chr(97 + gang)}{number}", "web", (1700, 1024), {})
        for gang, size in enumerate(sizes)
        for number in range(size)
    ]
    types = [one for one in problems.instance_types() if one["name"] == "c.small"]
    pools = [problems.pool("p", limits={"cpu": str(cpus)})]
    found = to_problem(problems.scenario(documents, pools, types))
    keys = [pod.key for pod in found.pods]
    gangs = tuple(
        Gang("PodGroup", f"default/{chr(97 + index)}", own, size, 0, size)
        for index, size in enumerate(sizes)
        if (own := tuple(sorted(key for key in keys if key.startswith(f"default/{chr(97 + index)}"))))
    )
    return replace(found, gangs=gangs)


def placed(plan: Plan) -> str:
    """The gangs that have places, a letter for each pod."""
    pods = [pod for claim in plan.claims for pod in claim.pods]
    return "".join(sorted(pod.removeprefix("default/")[0] for pod in pods))


@pytest.mark.parametrize(
    ("sizes", "cpus", "expected"),
    [
        ((4,), 8, "aaaa"),
        ((4,), 7, ""),
        ((4, 4), 16, "aaaabbbb"),
        ((4, 4), 12, "aaaa"),  # either might have places, so the first by name
        ((4, 2), 6, "bb"),
        ((3, 3, 3, 3), 12, "aaabbb"),
        ((9, 2, 2), 8, "bbcc"),
    ],
)
def test_limits_leave_gangs_whole(sizes: tuple[int, ...], cpus: int, expected: str) -> None:
    problem = limited(*sizes, cpus=cpus)
    plan = solve(problem)
    assert placed(plan) == expected
    assert not verify(problem, plan)
    assert len(plan.unschedulable) == sum(sizes) - len(expected)
    assert all(item.gang and item.limited for item in plan.unschedulable)
    assert plan.cost.lower_bound <= plan.cost.hourly


def test_what_is_left_over_says_why() -> None:
    (item, *_) = solve(limited(4, cpus=6)).unschedulable
    assert item.gang == ("gang default/a: 3 of 4 pods can be placed (it needs 4); nothing is bought for it")
    assert item.reason == (
        f"{item.gang}; of the others: all available instance types exceed limits for nodepool (NodePool=p)"
    )


def test_a_gang_that_is_not_all_there_costs_itself_only() -> None:
    problem = limited(3, 2, cpus=100)
    (first, second) = problem.gangs
    vast = replace(first, minimum=10**9, wanted=10**9)
    plan = solve(replace(problem, gangs=(vast, second)))
    assert placed(plan) == "bb"
    assert {item.reason for item in plan.unschedulable} == {
        "gang default/a: 3 of the 1000000000 pods that it needs are there; nothing is bought for it"
    }


def test_pods_beyond_what_a_gang_needs_may_be_left_over() -> None:
    problem = limited(4, cpus=6)
    plan = solve(replace(problem, gangs=(replace(problem.gangs[0], minimum=3),)))
    assert placed(plan) == "aaa"
    assert [item.gang for item in plan.unschedulable] == [""]


def test_a_question_about_some_of_a_gang_counts_those_that_are_on_nodes() -> None:
    problem = limited(2, cpus=100)
    apart = replace(problem, pods=problem.pods[:1])
    assert placed(solve(apart)) == ""
    node = ExistingNode("n", {}, (), {}, {}, pods=problem.pods[1:])
    assert placed(solve(replace(apart, nodes=(node,)))) == "a"


def test_pods_that_there_was_no_time_for_are_untried() -> None:
    plan = solve(limited(4, cpus=100), Budget(1), stop=lambda: True)
    assert {item.reason for item in plan.unschedulable} <= {OUT_OF_TIME}


def test_the_checker_sees_a_gang_in_pieces() -> None:
    problem = limited(4, cpus=6)
    whole = solve(replace(problem, gangs=()))
    assert [found.rule for found in verify(problem, whole)] == ["gangs"]


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_random_gangs_are_whole_in_plans_that_keep_all_rules(seed: int, draw: Random) -> None:
    problem = to_problem(problems.random_scenario(seed))
    keys = [pod.key for pod in problem.pods]
    draw.shuffle(keys)
    found, rest = list[Gang](), keys
    while len(rest) > 1:
        size = draw.randint(1, len(rest))
        own, rest = rest[:size], rest[size:]
        need = draw.randint(1, size + 1)
        found.append(Gang("PodGroup", f"default/{len(found)}", tuple(sorted(own)), need, 0, need))
    problem = replace(problem, gangs=tuple(found))
    plan = solve(problem, Budget(20_000))
    assert not verify(problem, plan)
    assert plan.cost.lower_bound <= plan.cost.hourly
