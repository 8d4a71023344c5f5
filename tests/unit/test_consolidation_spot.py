"""When spot nodes are seen to stay without a look at what their pods are worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_consolidation_candidates import ROOM, big, candidate, existing, kind

from dovetail.api.core import PodResourceClaim
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.disrupt.consolidation import search as searching
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import SPOT_DISABLED
from dovetail.disrupt.consolidation.question import Candidate, Finding, Question
from dovetail.disrupt.consolidation.search import search
from dovetail.disrupt.consolidation.spot import OnDemand, none_can_go
from dovetail.model import labels
from dovetail.model.offering import Offering
from dovetail.model.problem import Budget, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.budget import SolveBudget

DOLLAR = 1_000_000_000
LARGE = {**ROOM, "pods": 100}
NOWHERE = Requirements.of((Requirement.new(labels.ZONE, "In", ("elsewhere",)),))
ANYWHERE = Requirements.of(())


def offering(price: int, capacity: str, *, available: bool = True) -> Offering:
    wanted = Requirements.of((Requirement.new(labels.ZONE, "In", ("a",)),))
    return Offering("a", capacity, price, wanted, available)


def pool(*offerings: Offering, wanted: Requirements = ANYWHERE, **more: Any) -> Pool:
    sold = replace(kind(DOLLAR), offerings=offerings, capacity=LARGE)
    return Pool("p", NodeClassRef(group="", kind="", name=""), wanted, {}, (sold,), **more)


USUAL = pool(offering(DOLLAR, "on-demand"), offering(DOLLAR // 4, "spot"))


def node(name: str, cpu: str, price: int = DOLLAR // 2, capacity: str = "spot") -> Candidate:
    return replace(candidate(name, price, capacity=capacity), pods=(big(f"{name}-pod", cpu),))


def question(*leaving: Candidate, sold: Pool = USUAL, others: str = "", **more: Any) -> Question:
    """Each candidate's node is full; the others have 4 CPU free each."""
    full = [replace(existing(one.name), pods=(big(f"{one.name}-on-it", "4"),)) for one in leaving]
    nodes = tuple(replace(one, allocatable=LARGE) for one in (*full, *map(existing, others)))
    return Question(Problem((), (sold,), nodes), leaving, {"p": 5}, **more)


@pytest.mark.parametrize(
    ("asked", "stay"),
    [
        (question(node("a", "2")), True),
        (question(node("a", "2"), node("b", "1")), True),
        (question(), True),
        # Something may follow.
        (question(node("a", "2"), spot_to_spot=True), False),
        (question(node("a", "2"), node("b", "1", capacity="on-demand")), False),
        (question(node("a", "2", 2 * DOLLAR)), False),
        (question(node("a", "2"), sold=pool(offering(DOLLAR // 5, "reserved"))), False),
        # As cheap as it is, but not for the pool, or not now, or with what else the node costs.
        (question(node("a", "2"), sold=pool(offering(9, "on-demand"), wanted=NOWHERE)), True),
        (question(node("a", "2"), sold=pool(offering(9, "on-demand", available=False))), True),
        (question(node("a", "2"), sold=pool(offering(9, "on-demand"), volumes=DOLLAR)), True),
        # Its pods may fit elsewhere: on one that is up and takes pods of others, by all that they ask for.
        (question(node("a", "4"), others="c"), False),
        (question(node("a", "5"), others="c"), True),
        (question(node("a", "4"), node("b", "5"), others="c"), False),
        (question(node("a", "4"), others="c", closed=frozenset("c")), True),
    ],
)
def test_none_can_go_only_where_neither_capacity_nor_a_cheaper_node_is_there(
    asked: Question, stay: bool
) -> None:
    assert none_can_go(asked, asked.candidates, OnDemand()) is stay


def test_a_pods_own_node_is_no_other_place() -> None:
    asked = question(node("a", "2"))
    roomy = replace(asked, problem=replace(asked.problem, nodes=(replace(existing("a"), allocatable=LARGE),)))
    assert none_can_go(roomy, roomy.candidates, OnDemand())


def test_of_pods_that_are_in_no_plan_the_search_has_something_else_to_say() -> None:
    leaving = node("a", "2")
    spec = leaving.pods[0].spec
    claimed = type(leaving.pods[0])(
        metadata=leaving.pods[0].metadata,
        spec=type(spec)(containers=spec.containers, resource_claims=(PodResourceClaim(name="gpu"),)),
    )
    asked = question(replace(leaving, pods=(claimed,)))
    assert not none_can_go(asked, asked.candidates, OnDemand())
    assert [item.text for item in ended(asked).refusals] == [searching.UNPLANNED]


def test_prices_are_looked_at_anew_when_types_or_rules_change() -> None:
    market = OnDemand()
    for sold, least in (
        (USUAL, DOLLAR),
        (pool(offering(3, "on-demand")), 3),
        (replace(USUAL, requirements=NOWHERE), 2**63 - 1),
        (replace(USUAL, volumes=5), DOLLAR + 5),
        (USUAL, DOLLAR),
    ):
        assert market.least(Problem((), (sold,))) == least


def ended(asked: Question) -> Finding:
    """What the search answers without a single what-if."""
    with pytest.raises(StopIteration) as stopped:
        next(search(asked, Memory(), SolveBudget(Budget(1_000_000)), 0))
    found: Finding = stopped.value.value
    return found


def test_the_search_says_the_same_with_a_look_at_what_pods_are_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = question(node("a", "2"), node("b", "4"), others="c", closed=frozenset("c"))
    quick = ended(asked)
    monkeypatch.setattr(searching, "none_can_go", lambda *_: False)
    slow = ended(asked)
    assert quick.refusals == slow.refusals
    assert [item.text for item in quick.refusals] == [SPOT_DISABLED, SPOT_DISABLED]
    assert (quick.move, quick.complete) == (slow.move, slow.complete) == (None, True)
