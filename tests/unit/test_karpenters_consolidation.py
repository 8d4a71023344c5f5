"""Karpenter's consolidation as a rival: which sets it tries, and which replacements it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Meta, OwnerReference
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import NO_CHEAPER, SPOT_DISABLED, TOO_FEW_SPOT, Refused
from dovetail.disrupt.consolidation.question import Candidate, Finding, Question
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import Budget, ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.simulate.karpenter.consolidation import judged, search
from dovetail.solve.budget import SolveBudget

SPOT, DEMAND = labels.SPOT, labels.ON_DEMAND
REFERENCE = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="c")


def kind(name: str, price: int, capacity_types: Sequence[str] = (DEMAND,)) -> InstanceType:
    """A type that costs so much on demand, and half of it on the spot market."""
    offerings = tuple(
        Offering(
            "a",
            each,
            price if each == DEMAND else price // 2,
            Requirements.from_labels({labels.ZONE: "a", labels.CAPACITY_TYPE: each}),
        )
        for each in capacity_types
    )
    return InstanceType(
        name, Requirements.from_labels({labels.INSTANCE_TYPE: name}), offerings, {"cpu": 1000}
    )


def candidate(
    name: str, price: int = 100, kind: str = "old", *, spot: bool = False, pool: str = "p"
) -> Candidate:
    owner = OwnerReference(api_version="v1", kind="ReplicaSet", name="a", uid="a", controller=True)
    pod = Pod(metadata=Meta(name=f"{name}-0", namespace="default", uid=name, owner_references=(owner,)))
    return Candidate(name, pool, (kind, "a", SPOT if spot else DEMAND), price, 1.0, (pod,))


def asked(candidates: Sequence[Candidate], kinds: Sequence[InstanceType] = (), **more: object) -> Question:
    pool = Pool("p", REFERENCE, Requirements(), {}, tuple(kinds))
    nodes = tuple(ExistingNode(one.name, {}, (), {}, {}) for one in candidates)
    allowed = {one.pool: 1_000 for one in candidates}
    return replace(Question(Problem((), (pool,), nodes), tuple(candidates), allowed), **more)  # type: ignore[arg-type]


def claim(kinds: Sequence[InstanceType], pods: Sequence[str]) -> PlannedClaim:
    sold = sorted({item.capacity_type for each in kinds for item in each.offerings})
    names = tuple(each.name for each in kinds)
    requirements = Requirements.of(
        [
            Requirement.new(labels.INSTANCE_TYPE, "In", names),
            Requirement.new(labels.CAPACITY_TYPE, "In", sold),
        ]
    )
    least = min(item.price for item in kinds[0].offerings)
    return PlannedClaim(
        "p-0", "p", tuple(pods), requirements, names, {}, names[0], "a", sold[0], least, least
    )


def play(question: Question, goes: Callable[[set[str]], bool], work: int = 1) -> tuple[Finding, list[int]]:
    """What it finds where the sets can go that `goes` says, and the sizes of those that it tried."""
    sizes: list[int] = []
    asking = search(question, Memory(), SolveBudget(Budget(1)), 0)
    try:
        problem = next(asking)
        while True:
            gone = {one.name for one in question.candidates} - {one.name for one in problem.nodes}
            sizes.append(len(gone))
            left = () if goes(gone) else tuple(Unschedulable(pod.key, "full") for pod in problem.pods)
            problem = asking.send(Plan(unschedulable=left, work=work))
    except StopIteration as end:
        return end.value, sizes


def test_the_longest_beginning_is_found_by_halving() -> None:
    candidates = [candidate(f"n{number:03}", 1_000 - number) for number in range(40)]
    first = {one.name for one in candidates[:13]}
    finding, sizes = play(asked(candidates), lambda gone: gone <= first)
    assert finding.move is not None
    assert [one.name for one in finding.move.candidates] == sorted(first)
    assert sizes == [21, 11, 16, 13, 14]


def test_at_most_a_hundred_and_one_go_together() -> None:
    candidates = [candidate(f"n{number:03}") for number in range(150)]
    finding, _ = play(asked(candidates), lambda _: True)
    assert finding.move is not None and len(finding.move.candidates) == 101


def test_budgets_bound_the_set_and_pools_take_turns_alone() -> None:
    candidates = [candidate(f"{pool}{number}", pool=pool) for pool in "pq" for number in range(3)]
    finding, sizes = play(asked(candidates, allowed={"p": 1, "q": 1}), lambda gone: gone == {"q0"})
    assert finding.move is not None and [one.name for one in finding.move.candidates] == ["q0"]
    assert sizes == [2, 1, 1]  # p0 and q0 together, p0, q0
    finding, sizes = play(asked(candidates, allowed={"p": 1, "q": 0}), lambda _: False)
    assert finding.move is None and sizes == [1, 1, 1]
    assert {one.name for one in finding.refusals} == {"p0", "p1", "p2"}


def test_its_own_time_limits_end_it() -> None:
    candidates = [candidate(f"n{number}") for number in range(9)]
    finding, sizes = play(asked(candidates), lambda _: False, work=61_000_000)
    assert sizes == [5, 1, 1, 1]  # a minute for sets, three for single nodes
    assert not finding.complete


LARGE = [kind(f"t{number:02}", 20 + number, (SPOT, DEMAND)) for number in range(20)]
FEW = LARGE[:14]


@pytest.mark.parametrize(
    ("candidates", "kinds", "gate", "expected"),
    [
        ([candidate("a", 100)], [kind("new", 99)], False, "new on-demand"),
        ([candidate("a", 100)], [kind("new", 100)], False, NO_CHEAPER),
        # One for two of its type: the other one could have stayed.
        (
            [candidate("a", 100), candidate("b", 80)],
            [kind("old", 80), kind("new", 79)],
            False,
            "new on-demand",
        ),
        ([candidate("a", 100), candidate("b", 80)], [kind("new", 179)], False, "new on-demand"),
        # The spot price decides, so that nothing may be bought on demand.
        ([candidate("a", 100)], [kind("new", 150, (SPOT, DEMAND))], False, "new spot"),
        ([candidate("a", 100, spot=True)], LARGE, False, SPOT_DISABLED),
        ([candidate("a", 100, spot=True)], FEW, True, TOO_FEW_SPOT.format(14)),
        ([candidate("a", 100, spot=True)], LARGE, True, "15 spot"),
        ([candidate("a", 100, spot=True), candidate("b", 100, spot=True)], FEW, True, "14 spot"),
    ],
)
def test_what_replaces_nodes(
    candidates: list[Candidate], kinds: list[InstanceType], gate: bool, expected: str
) -> None:
    question = asked(candidates, kinds, spot_to_spot=gate)
    pods = [pod.key for one in candidates for pod in one.pods]
    plan = Plan(claims=(claim(kinds, pods),))
    try:
        move = judged(question, candidates, question.without(candidates), plan)
    except Refused as refused:
        assert str(refused) == expected
        return
    bought = move.claims[0]
    count = len(bought.instance_types)
    sold = " ".join(sorted(bought.requirements.get(labels.CAPACITY_TYPE).values))
    assert f"{bought.instance_type if count == 1 else count} {sold}" == expected
    assert set(bought.requirements.get(labels.INSTANCE_TYPE).values) == set(bought.instance_types)


def test_two_new_nodes_are_too_many() -> None:
    candidates = [candidate("a"), candidate("b")]
    question = asked(candidates, [kind("new", 1)])
    both = [claim([kind("new", 1)], [pod.key for pod in one.pods]) for one in candidates]
    with pytest.raises(Refused, match="Can't remove without creating 2 candidates"):
        judged(question, candidates, question.without(candidates), Plan(claims=tuple(both)))
