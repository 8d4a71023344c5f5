"""Which sets of nodes are planned together, and which of them goes first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dovetail.api.core import Pod
from dovetail.api.meta import Meta, OwnerReference
from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.chain import first, orders, sets, still
from dovetail.disrupt.consolidation.churn import Moves
from dovetail.disrupt.consolidation.question import Candidate, Move, Question
from dovetail.model.problem import ExistingNode, Problem


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
