"""What a pod, its budgets and its place in a plan mean to the disruption of its node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from test_consolidation_candidates import existing
from test_emptiness import NOW, budget, pod

from dovetail.api.core import Pod, Toleration
from dovetail.base.clock import HOUR, SECOND
from dovetail.disrupt.obstacles import obstacle
from dovetail.disrupt.pods import (
    Budgets,
    budget_allows,
    do_not_disrupt,
    do_not_disrupt_error,
    do_not_disrupt_until,
    evictable,
    eviction_cost,
)
from dovetail.model.plan import Plan, Unschedulable
from dovetail.model.problem import Problem
from dovetail.units.timestamp import to_rfc3339

MARK = "karpenter.sh/do-not-disrupt"
WORD = "controller.kubernetes.io/pod-deletion-cost"


def kept(text: str, started: int | None = NOW) -> Pod:
    status = {"startTime": to_rfc3339(started)} if started is not None else {}
    return pod(annotations={MARK: text}, status=status)


@pytest.mark.parametrize(
    ("one", "until"),
    [
        (kept("1h"), NOW + HOUR),
        (kept("90s"), NOW + 90 * SECOND),
        (kept("1h", None), None),
        (kept("true"), None),
        (kept(""), None),
        (kept("0s"), None),
        (kept("soon"), None),
        (pod(status={"startTime": to_rfc3339(NOW)}), None),
    ],
)
def test_when_a_pod_s_protection_is_over(one: Pod, until: int | None) -> None:
    assert do_not_disrupt_until(one) == until


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ""),
        ("true", ""),
        ("1ns", ""),
        ("1h", ""),
        ("0s", "duration must be positive, got '0s'"),
        ("-1m", "duration must be positive, got '-1m'"),
    ],
)
def test_what_is_wrong_with_a_protection(text: str, error: str) -> None:
    assert do_not_disrupt_error(kept(text)) == error
    assert do_not_disrupt(kept(text), NOW) is (not error and text != "")
    assert do_not_disrupt_error(pod()) == ""


@pytest.mark.parametrize(
    ("tolerations", "goes"),
    [
        ((), True),
        ((Toleration(key="other", operator="Exists"),), True),
        ((Toleration(key="karpenter.sh/disrupted", operator="Exists"),), False),
        ((Toleration(operator="Exists"),), False),
    ],
)
def test_a_drain_evicts_what_does_not_tolerate_the_disruption(
    tolerations: tuple[Toleration, ...], goes: bool
) -> None:
    one = pod()
    assert evictable(structs.replace(one, spec=structs.replace(one.spec, tolerations=tolerations))) is goes


def test_a_pod_without_a_word_about_its_cost_costs_one() -> None:
    bare = pod()
    bare = structs.replace(bare, metadata=structs.replace(bare.metadata, annotations={}))
    assert eviction_cost(bare) == 1.0
    dear = structs.replace(bare, metadata=structs.replace(bare.metadata, annotations={WORD: "dear"}))
    assert eviction_cost(dear) == 1.0


@pytest.mark.parametrize(
    ("stated", "deletion", "cost"),
    [
        (str(2**27), None, 2.0),
        (str(2**27), "-1000000", 2.0),
        ("dear", str(2**28), 3.0),
        ("1.5", str(2**28), 3.0),
        (str(2**31), None, 1.0),  # 32 bits
        (str(2**31 - 1), None, 10.0),
        (None, str(2**31), 1.0),
        (None, " 1", 1.0),
        (None, "1_0", 1.0),
    ],
)
def test_karpenters_own_cost_of_a_pod_comes_first(
    stated: str | None, deletion: str | None, cost: float
) -> None:
    marks = {"karpenter.sh/disruption-cost": stated, WORD: deletion}
    assert eviction_cost(pod(annotations={k: v for k, v in marks.items() if v is not None})) == cost


@pytest.mark.parametrize(
    ("fields", "never"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0"}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"maxUnavailable": 1}, False),
        ({"maxUnavailable": "1%"}, False),
        ({"minAvailable": "100%"}, True),
        ({"minAvailable": "99%"}, False),
        ({"minAvailable": 0}, False),
        ({}, False),
    ],
)
def test_a_budget_that_can_never_allow_anything(fields: dict[str, Any], never: bool) -> None:
    made = budget()
    values = {"max_unavailable": fields.get("maxUnavailable"), "min_available": fields.get("minAvailable")}
    made = structs.replace(made, spec=structs.replace(made.spec, **values))
    assert Budgets((made,)).block_fully(pod()) is never
    other = pod(labels={"app": "other"})
    assert not Budgets((made,)).block_fully(other)
    assert Budgets((made,)).of(other) == ()


@pytest.mark.parametrize(
    ("policy", "ready", "goes"),
    [
        ("AlwaysAllow", None, True),
        ("AlwaysAllow", "False", True),
        ("AlwaysAllow", "Unknown", True),
        ("AlwaysAllow", "True", False),
        ("IfHealthyBudget", "False", False),
        ("", None, False),
    ],
)
def test_a_budget_may_let_pods_go_that_are_not_healthy(policy: str, ready: str | None, goes: bool) -> None:
    made = budget(allowed=0)
    made = structs.replace(made, spec=structs.replace(made.spec, unhealthy_pod_eviction_policy=policy))
    conditions = [{"type": "Ready", "status": ready}] if ready is not None else []
    one = pod(status={"conditions": conditions})
    assert budget_allows(made, one) is goes
    status = structs.replace(made.status, disruptions_allowed=1)
    assert budget_allows(structs.replace(made, status=status), one)


def left(*names: str) -> tuple[Unschedulable, ...]:
    return tuple(Unschedulable(f"default/{name}", f"no {name}") for name in names)


MOVED = {f"default/{name}" for name in "abcdefg"}


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan(), ""),
        (Plan(unschedulable=left("other")), ""),
        (Plan(unschedulable=left("b", "other", "a")), "default/a => no a; default/b => no b"),
        (
            Plan(unschedulable=left("g", "a")[:1], existing={"rising": ("default/a", "default/other")}),
            "default/a => would schedule against uninitialized node/rising; default/g => no g",
        ),
        (Plan(existing={"up": ("default/a",), "foreign": ("default/b",)}), ""),
        (
            Plan(unschedulable=left(*"edcba")),
            "; ".join(f"default/{name} => no {name}" for name in "abcde"),
        ),
        (
            Plan(unschedulable=left(*"gfedcba")),
            "; ".join(f"default/{name} => no {name}" for name in "abcde") + " and 2 other(s)",
        ),
    ],
)
def test_why_pods_that_move_have_no_place(plan: Plan, text: str) -> None:
    nodes = (
        existing("up"),
        existing("rising", initialized=False),
        existing("foreign", owner="", initialized=False),
    )
    wanted = f"Not all pods would schedule, {text}" if text else ""
    assert obstacle(Problem((), (), nodes), plan, MOVED) == wanted
