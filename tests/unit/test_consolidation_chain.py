"""Which sets of nodes are planned together, and which of them goes first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Meta, OwnerReference
from dovetail.disrupt.consolidation import chain
from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.chain import (
    bought_first,
    cheaper,
    first,
    orders,
    pays,
    purchases,
    sets,
    still,
)
from dovetail.disrupt.consolidation.churn import Moves
from dovetail.disrupt.consolidation.price import Refused
from dovetail.disrupt.consolidation.question import Candidate, Move, Question
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirements


def pod(name: str) -> Pod:
    owner = OwnerReference(api_version="v1", kind="ReplicaSet", name="a", uid=name[0], controller=True)
    return Pod(metadata=Meta(name=name, namespace="default", uid=name, owner_references=(owner,)))


def candidate(name: str, price: int, pods: int = 1) -> Candidate:
    on_it = tuple(pod(f"{name}-{number}") for number in range(pods))
    return Candidate(name, "pool", ("m5.large", "a", "on-demand"), price, float(pods), on_it)


def question(*candidates: Candidate, **more: Any) -> Question:
    nodes = tuple(ExistingNode(one.name, {}, (), {"cpu": 4000, "pods": 9}, {}) for one in candidates)
    return Question(Problem((), (), nodes), candidates, {"pool": 1}, **more)


def appraisal(asked: Question, free: dict[str, int]) -> Appraisal:
    """Each pod asks for one, and so much is free on the nodes."""
    keys = [one.key for each in asked.candidates for one in each.pods]
    names = [node.name for node in asked.problem.nodes]
    return cast(
        "Appraisal",
        SimpleNamespace(
            pod_class=dict.fromkeys(keys, 0),
            vectors=np.array([[1]]),
            capacity=np.array([[free[name]] for name in names]),
            hosts=np.ones((1, len(names)), dtype=np.bool_),
            feasible=np.ones((1, 2), dtype=np.bool_),
            column_room=np.array([[1], [2]]),
            price=np.array([100, 160]),
            least=lambda kinds: {1: 100, 2: 160}.get(len(kinds)),
        ),
    )


NODES = candidate("a", 300), candidate("b", 200, 2), candidate("c", 150)


@pytest.mark.parametrize(
    ("free", "more", "found"),
    [
        ((9, 9, 9), {}, ["a b", "a c", "b c", "a", "b", "c"]),
        ((1, 1, 1), {}, ["a", "b", "c"]),
        ((0, 0, 9), {}, ["a b", "a", "b"]),
        ((-5, 0, 1), {}, ["a"]),  # what is over its capacity takes nothing from others
        ((9, 9, 9), {"closed": frozenset("c")}, ["a c", "b c", "a", "b", "c"]),
        ((0, 0, 9), {"closed": frozenset("c")}, []),
        ((9, 9, 9), {"moves": Moves(deleting={"b": 1})}, ["a c", "a", "c"]),
    ],
)
def test_sets_that_have_room_come_the_dearest_first(
    free: tuple[int, int, int], more: dict[str, Any], found: list[str]
) -> None:
    asked = question(*NODES, **more)
    known = appraisal(asked, dict(zip("abc", free, strict=True)))
    names = [" ".join(one.name for one in each) for each in sets(asked, known, NODES)]
    assert names == found


@pytest.mark.parametrize(
    ("free", "over", "more", "found"),
    [
        ((0, 0, 0), 0, {}, ["a b", "a c", "b c"]),  # none is sold for three pods
        ((0, 0, 0), 290, {}, ["a b"]),
        ((0, 0, 0), 340, {}, []),
        ((-9, -9, 0), 0, {"closed": frozenset("c")}, ["a b", "a c", "b c"]),
        ((9, 9, 9), 0, {}, []),  # nothing has to be bought
        ((0, 0, 0), 0, {"moves": Moves(deleting={"b": 0})}, ["a c"]),
    ],
)
def test_sets_that_one_bought_node_may_replace_come_by_what_they_should_save(
    free: tuple[int, int, int], over: int, more: dict[str, Any], found: list[str]
) -> None:
    asked = question(candidate("a", 300), candidate("b", 200), candidate("c", 150), **more)
    known = appraisal(asked, dict(zip("abc", free, strict=True)))
    names = [" ".join(one.name for one in each) for each in purchases(asked, known, asked.candidates, over)]
    assert names == found


def test_nodes_are_filled_in_three_orders() -> None:
    empty, full = ExistingNode("b", {}, (), {"cpu": 9}, {}), ExistingNode("a", {}, (), {"cpu": 1}, {})
    middle = ExistingNode("c", {}, (), {"cpu": 5}, {})
    found = ["".join(node.name for node in each) for each in orders((empty, full, middle))]
    assert found == ["bac", "cab", "acb"]


JOINT = Move(
    (candidate("c", 150), candidate("a", 300), candidate("b", 200, 2)),
    (),
    {"k": ("default/a-0", "default/b-1"), "l": ("default/c-0", "default/b-0")},
)


@pytest.mark.parametrize(
    ("free", "restless", "allowed", "gone", "places"),
    [
        ("abc", "", 1, "a", {"k": ("default/a-0",)}),
        ("bc", "", 1, "b", {"k": ("default/b-1",), "l": ("default/b-0",)}),
        ("abc", "k", 1, "c", {"l": ("default/c-0",)}),  # its pods go to a node that is quiet
        ("abc", "", 2, "ab", {"k": ("default/a-0", "default/b-1"), "l": ("default/b-0",)}),
        ("ab", "kl", 2, "", {}),
        ("", "", 1, "", {}),
        ("abc", "", 0, "", {}),
    ],
)
def test_the_dearest_goes_first_to_where_all_were_planned(
    free: str, restless: str, allowed: int, gone: str, places: dict[str, tuple[str, ...]]
) -> None:
    asked = Question(Problem((), ()), (), {"pool": allowed}, restless=frozenset(restless))
    move = first(asked, JOINT, set(free))
    assert ("".join(one.name for one in move.candidates) if move else "") == gone
    assert (dict(move.places) if move else {}) == places
    assert move is None or move.kept


TO_C = {"c": ("default/b-0", "default/b-1")}


@pytest.mark.parametrize(
    ("places", "more", "holds"),
    [
        (TO_C, {}, True),
        (TO_C, {"restless": frozenset("a")}, True),
        (TO_C, {"restless": frozenset("c")}, False),
        (TO_C, {"closed": frozenset("c")}, False),
        ({"c": ("default/b-0",)}, {}, False),  # another pod came
        ({"c": ("default/b-0", "default/b-1", "default/b-2")}, {}, False),  # one is gone
        ({"d": TO_C["c"]}, {}, False),  # the node is gone
    ],
)
def test_a_move_is_made_to_the_very_places_while_these_are_right(
    places: dict[str, tuple[str, ...]], more: dict[str, Any], holds: bool
) -> None:
    asked = question(*NODES, **more)
    move = still(asked, [NODES[1]], places)
    assert (move is not None) == holds
    if move is not None:
        assert (move.candidates, move.claims, move.places, move.kept) == ((NODES[1],), (), places, True)


def test_no_place_is_kept_that_another_pod_may_need() -> None:
    asked = question(*NODES)
    waiting = replace(asked, problem=replace(asked.problem, pods=(pod("z-0"),)))
    assert still(waiting, [NODES[1]], TO_C) is None


CLAIM = PlannedClaim(
    "new",
    "pool",
    ("default/a-0", "default/b-0", "default/b-1", "default/d-0"),
    Requirements({}),
    ("m",),
    {},
    "m",
    "z",
    "on-demand",
    120,
    120,
)
BOUGHT = Move(
    (*NODES, candidate("d", 400, 5)),
    (CLAIM,),
    {"k": ("default/c-0",), "l": ("default/d-1", "default/d-2", "default/d-3", "default/d-4")},
)


@pytest.mark.parametrize(
    ("free", "more", "gone", "places"),
    [
        ("abc", {}, "b", {"new": ("default/b-0", "default/b-1")}),  # most of its pods
        ("ac", {}, "a", {"new": ("default/a-0",)}),
        ("c", {}, "", {}),  # none of its pods
        ("abc", {"moves": Moves(deleting={"b": 1})}, "a", {"new": ("default/a-0",)}),
        ("abc", {"allowed": 0}, "", {}),
        ("d", {}, "", {}),  # one of its five pods: it might go elsewhere
    ],
)
def test_what_is_bought_for_several_nodes_comes_in_place_of_one_first(
    monkeypatch: pytest.MonkeyPatch, free: str, more: dict[str, Any], gone: str, places: dict[str, Any]
) -> None:
    def affordable(_: Question, nodes: tuple[Candidate, ...], claims: Any) -> Any:
        if sum(one.price for one in nodes) <= 120:
            raise Refused("too dear")
        return claims

    monkeypatch.setattr(chain, "affordable", affordable)
    monkeypatch.setattr(chain, "verify", lambda *_: ())
    allowed = more.pop("allowed", 1) if "allowed" in more else 1
    asked = Question(Problem((), ()), (), {"pool": allowed}, **more)
    move = bought_first(asked, BOUGHT, set(free))
    assert ("".join(one.name for one in move.candidates) if move else "") == gone
    assert (dict(move.places) if move else {}) == places
    assert move is None or (move.kept and move.claims == (CLAIM,))


@pytest.mark.parametrize(("free", "bought"), [("b", "new"), ("c", "other"), ("a", "new other")])
def test_of_several_that_are_bought_those_come_first_that_pods_of_one_node_come_to(
    monkeypatch: pytest.MonkeyPatch, free: str, bought: str
) -> None:
    """The other one would come up empty: it is for a node that goes later."""
    monkeypatch.setattr(chain, "affordable", lambda _question, _nodes, claims: tuple(claims))
    monkeypatch.setattr(chain, "verify", lambda *_: ())
    other = replace(CLAIM, name="other", pods=("default/c-0", "default/a-1"))
    joint = Move((candidate("a", 300, 2), *NODES[1:]), (CLAIM, other))
    move = bought_first(Question(Problem((), ()), (), {"pool": 1}), joint, set(free))
    assert move is not None
    assert " ".join(claim.name for claim in move.claims) == bought


def test_until_it_is_bought_only_nodes_go_whose_pods_do_not_come_to_it() -> None:
    move = first(Question(Problem((), ()), (), {"pool": 3}), BOUGHT, {"a", "b", "c"})
    assert move is not None
    assert [one.name for one in move.candidates] == ["c"]


@pytest.mark.parametrize(
    ("saving", "other", "worth"), [(1, None, True), (226, 150, True), (225, 150, False), (300, 300, False)]
)
def test_more_nodes_go_where_that_saves_a_quarter_of_what_they_cost(
    saving: int, other: int | None, worth: bool
) -> None:
    """Beside c a node of 300 goes."""
    bought = cast("PlannedClaim", SimpleNamespace(price=450 - saving))
    than = None
    if other is not None:
        than = Move(NODES[2:], (cast("PlannedClaim", SimpleNamespace(price=150 - other)),))
    assert pays(Move((NODES[0], NODES[2]), (bought,)), than) == worth


@pytest.mark.parametrize(("saving", "pods", "worth"), [(301, 3, True), (300, 3, False), (301, 4, False)])
def test_more_is_worth_it_where_no_more_pods_move(saving: int, pods: int, worth: bool) -> None:
    """Two small nodes, with one bought for them, instead of one that is full."""
    than = Move((candidate("full", 300, 3),))
    bought = cast("PlannedClaim", SimpleNamespace(price=450 - saving))
    small = candidate("a", 300, pods - 1), candidate("b", 150, 0)
    assert pays(Move(small, (bought,)), than) == worth


def test_a_kept_purchase_is_still_for_its_price_and_for_pods_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def affordable(_: Question, nodes: tuple[Candidate, ...], claims: Any) -> Any:
        if sum(one.price for one in nodes) < 200:
            raise Refused("too dear")
        return claims

    def verify(_: Problem, plan: Plan) -> list[str]:
        (claim,) = plan.claims
        assert (claim.pods, plan.cost.hourly, set(plan.existing)) == (("default/b-1",), 120, {"c"})
        return wrong

    wrong: list[str] = []
    monkeypatch.setattr(chain, "affordable", affordable)
    monkeypatch.setattr(chain, "verify", verify)
    asked = question(*NODES)
    places = {"c": ("default/b-0",), "new": ("default/b-1",)}
    move = still(asked, [NODES[1]], places, (CLAIM,))
    assert move is not None
    assert (move.claims, move.places, move.kept) == ((CLAIM,), places, True)
    assert still(asked, [NODES[1]], {"new": ("default/b-1",)}, (CLAIM,)) is None
    wrong.append("a rule between pods")
    assert still(asked, [NODES[1]], places, (CLAIM,)) is None
    with pytest.raises(Refused):
        still(asked, [NODES[2]], {"new": ("default/c-0",)}, (CLAIM,))


def test_cheaper_types_are_those_of_which_some_cost_less() -> None:
    def kind(*prices: int) -> Any:
        return SimpleNamespace(
            offerings=[SimpleNamespace(launchable=price > 0, price=abs(price)) for price in prices]
        )

    low, mixed, high, gone = kind(1), kind(9, 4), kind(5, 6), kind(-2)
    bare = Pool(
        "a", NodeClassRef(group="g", kind="K", name="n"), Requirements({}), {}, (low, mixed, high, gone)
    )
    pools = bare, replace(bare, name="b", instance_types=(high,))
    (pool,) = cheaper(Problem((), pools), 5).pools
    assert (pool.name, pool.instance_types) == ("a", (low, mixed))
