"""Amounts at the ends of what can be written cost their own objects, never the plan of the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.base.clock import SECOND
from dovetail.explain.pod import nearest_misses, pod_story
from dovetail.model.left_out import left_out
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.model.resources import LARGEST
from dovetail.solve.solver import solve
from dovetail.testing import problems
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

Document = dict[str, Any]

RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/widget")
EXTREMES = (
    *(0, 1, 2**31, 2**49 - 1, 2**49, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63),
    *(10**18, 10**27, 10**100),
)
ORDINARY = tuple(f"default/web-{number}" for number in range(6))
BUDGET = Budget.within(SECOND)


def _ordinary() -> list[Document]:
    return [problems.pod(f"web-{number}", "web", (900, 1024), {}) for number in range(len(ORDINARY))]


def _asking(name: str, requests: Document, **spec: Any) -> Document:
    pod = problems.pod(name, name, (100, 100), spec)
    pod["spec"]["containers"][0]["resources"] = {"requests": requests}
    return pod


def _problem(pods: list[Document], **more: Any) -> Problem:
    daemonsets = more.pop("daemonsets", [])
    limits = more.pop("limits", None)
    found = problems.scenario(
        pods, [problems.pool("general", limits=limits)], problems.instance_types(), **more
    )
    return to_problem({**found, "daemonSets": daemonsets})


def _placed(plan: Plan) -> list[tuple[str, ...]]:
    """How ordinary pods are placed: those of each node, and where what exists takes them."""
    ordinary = frozenset(ORDINARY)
    bought = [tuple(pod for pod in claim.pods if pod in ordinary) for claim in plan.claims]
    there = [(name, *(pod for pod in pods if pod in ordinary)) for name, pods in plan.existing.items()]
    return sorted(bought) + sorted(there)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("amount", [str(2**63 - 1), "1e18", "9e24", "1e27"])
def test_one_pod_of_a_huge_request_does_not_stop_the_plan_of_others(resource: str, amount: str) -> None:
    alone = solve(_problem(_ordinary()), BUDGET)
    problem = _problem([*_ordinary(), _asking("huge", {resource: amount})])
    plan = solve(problem, BUDGET)
    assert not verify(problem, plan)
    assert _placed(plan) == _placed(alone)
    assert plan.cost == alone.cost
    assert [item.pod for item in plan.unschedulable] == ["default/huge"]
    reason = plan.unschedulable[0].reason
    assert reason.startswith(f"pod requests more {resource} than any node has (")
    assert pod_story(problem, plan, "default/huge").broken == reason
    assert nearest_misses(problem, plan) == {}


AMOUNT_TEXTS = [
    ({"cpu": "1e18"}, "pod requests more cpu than any node has (1E)"),
    ({"memory": "9223372036854775807"}, "pod requests more memory than any node has (9223372036854775807)"),
    ({"memory": "8Ei"}, "pod requests more memory than any node has (9223372036854775807)"),
    ({"cpu": "9" * 25}, "pod requests more cpu than any node has (about 1e24)"),
    (
        {"example.com/widget": "1e90"},
        "pod requests more example.com/widget than any node has (1000000000000E)",
    ),
    ({"memory": str(LARGEST), "cpu": "1"}, "pod requests more memory than any node has (512Ti)"),
    ({"memory": str(LARGEST - 1)}, ""),
]


@pytest.mark.parametrize(("requests", "message"), AMOUNT_TEXTS)
def test_the_message_names_what_the_pod_asks_for(requests: Document, message: str) -> None:
    problem = _problem([_asking("huge", requests)])
    assert left_out(problem.pods[0], problem.volumes) == message


def test_many_containers_and_overhead_add_up() -> None:
    pod = _asking("huge", {})
    part = {"name": "part", "resources": {"requests": {"memory": "1Ti"}}}
    pod["spec"]["containers"] = [part] * 511
    assert left_out(_problem([pod]).pods[0], _problem([]).volumes) == ""
    pod["spec"]["overhead"] = {"memory": "1Ti"}
    assert "requests more memory" in left_out(_problem([pod]).pods[0], _problem([]).volumes)


def test_nodes_that_report_too_much_are_large_nodes() -> None:
    node = problems.node("node-0", "zone-a", 4)
    node["status"]["allocatable"] = {"cpu": "1e18", "memory": str(2**63), "pods": "1e30"}
    problem = _problem(_ordinary(), nodes=[node])
    plan = solve(problem, BUDGET)
    assert not verify(problem, plan)
    assert plan.existing == {"node-0": ORDINARY}


def test_a_pod_that_runs_with_a_huge_request_fills_its_node_alone() -> None:
    nodes = [problems.node(f"node-{number}", "zone-a", 16) for number in range(2)]
    bound = _asking("bound", {"memory": "9e24", "cpu": "1e18"}, nodeName="node-0")
    problem = _problem(_ordinary(), nodes=nodes, bound=[bound])
    plan = solve(problem, BUDGET)
    assert not verify(problem, plan)
    assert plan.existing == {"node-1": ORDINARY}


def test_a_daemon_that_no_node_can_hold_is_not_reserved_for() -> None:
    daemon = problems.daemon_set("agent", (100, 100))
    daemon["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"memory": "9e24"}
    alone = solve(_problem(_ordinary()), BUDGET)
    problem = _problem(_ordinary(), daemonsets=[daemon])
    plan = solve(problem, BUDGET)
    assert not verify(problem, plan)
    assert plan.claims == alone.claims


amounts = st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(EXTREMES).map(str), max_size=3)


@settings(max_examples=60)
@given(pods=st.lists(amounts, max_size=3), node=amounts, bound=amounts, daemon=amounts, limits=amounts)
def test_no_amounts_stop_a_plan(
    pods: list[Document], node: Document, bound: Document, daemon: Document, limits: Document
) -> None:
    there = problems.node("node-0", "zone-a", 2)
    there["status"]["allocatable"] = {**there["status"]["allocatable"], **node}
    agent = problems.daemon_set("agent", (100, 100))
    agent["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = daemon
    hostile = [_asking(f"hostile-{number}", requests) for number, requests in enumerate(pods)]
    problem = _problem(
        [*_ordinary(), *hostile],
        nodes=[there],
        bound=[_asking("bound", bound, nodeName="node-0")],
        daemonsets=[agent],
        limits={**limits, "nodes": limits.get("memory", "10")},
    )
    plan = solve(problem, BUDGET)
    assert not verify(problem, plan)
    nearest_misses(problem, plan)


def test_pods_that_prefer_a_label_of_their_own_each_do_not_stop_the_plan() -> None:
    rules = [problems._rather_in(f"example.com/key-{number}", "yes") for number in range(700)]
    problem = _problem(
        [problems.pod(f"p-{number}", "p", (100, 64), rule) for number, rule in enumerate(rules)]
    )
    assert not solve(problem, Budget.within(SECOND // 100)).unschedulable
