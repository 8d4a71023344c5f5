"""Which nodes can go because all their pods fit into room that others have free."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from test_consolidation_candidates import candidate, existing, question

from dovetail.api.core import Pod, TopologySpreadConstraint
from dovetail.api.meta import LabelSelector
from dovetail.disrupt.consolidation.appraisal import Appraisal
from dovetail.disrupt.consolidation.churn import Moves
from dovetail.disrupt.consolidation.deletes import Room, deletable, given_up
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.model.labels import ZONE
from dovetail.model.plan import Plan, Unschedulable
from dovetail.model.problem import Budget
from dovetail.solve.budget import SolveBudget

# Pods by the first letter of their name: milli-CPU and MiB.
SIZES = {"s": (1000, 1000), "l": (3000, 1000), "m": (500, 4000)}
SHAPES = list(SIZES)


def appraisal(free: dict[str, tuple[int, int]], refused: tuple[tuple[str, str], ...] = ()) -> Appraisal:
    """Free room by node, and (letter, node) where such a pod may not run."""
    hosts = np.ones((len(SHAPES), len(free)), dtype=np.bool_)
    for letter, name in refused:
        hosts[SHAPES.index(letter), list(free).index(name)] = False
    shape = {f"default/{letter}{number}": SHAPES.index(letter) for letter in SHAPES for number in range(20)}
    made = SimpleNamespace(
        pod_class=shape,
        vectors=np.array([SIZES[letter] for letter in SHAPES], dtype=np.int64),
        capacity=np.array(list(free.values()), dtype=np.int64),
        hosts=hosts,
    )
    return cast("Appraisal", made)


def going(
    asked: Question, free: dict[str, tuple[int, int]], *, work: int = 1_000_000, **more: Any
) -> list[str]:
    found = deletable(asked, appraisal(free, **more), asked.candidates, SolveBudget(Budget(work)))
    return [one.name for one in found]


def node(name: str, *pods: str) -> Candidate:
    return candidate(name, 100, *pods)


@pytest.mark.parametrize(
    ("leaving", "free", "gone"),
    [
        # The nodes a, b and c of the question; those that are no candidates stay in any case.
        ((node("a", "s0"),), {"a": (0, 0), "b": (1000, 1000), "c": (0, 0)}, ["a"]),
        ((node("a", "s0"),), {"a": (0, 0), "b": (999, 1000), "c": (0, 0)}, []),
        ((node("a", "s0"),), {"a": (0, 0), "b": (1000, 999), "c": (999, 9000)}, []),
        ((node("a", "s0", "s1"),), {"a": (0, 0), "b": (1000, 1000), "c": (1000, 1000)}, ["a"]),
        ((node("a", "s0", "s1"),), {"a": (0, 0), "b": (1999, 2000), "c": (0, 0)}, []),
        ((node("a", "s0"),), {"a": (9000, 9000), "b": (0, 0), "c": (0, 0)}, []),  # its own room is no place
        ((node("a"),), {"a": (0, 0), "b": (0, 0), "c": (0, 0)}, ["a"]),
        # The large one first, or the small ones take its room.
        ((node("a", "s0", "l0"),), {"a": (0, 0), "b": (3000, 9000), "c": (1000, 9000)}, ["a"]),
        ((node("a", "s0", "m0"),), {"a": (0, 0), "b": (1000, 4000), "c": (1000, 1000)}, ["a"]),
        # One that took pods stays, and one that goes takes none.
        ((node("a", "s0"), node("b", "s1")), {"a": (0, 0), "b": (2000, 2000), "c": (0, 0)}, ["a"]),
        ((node("a", "s0"), node("b", "s1")), {"a": (0, 0), "b": (2000, 2000), "c": (2000, 2000)}, ["a", "b"]),
        ((node("a", "s0"), node("b", "s1")), {"a": (5000, 5000), "b": (0, 0), "c": (1000, 1000)}, ["a"]),
        (
            (node("a", "s0"), node("b", "s1"), node("c", "s2")),
            dict.fromkeys("abc", (1000, 1000)),
            ["a", "b"][:1],
        ),
        # What could not be moved gives the room back that it had taken.
        ((node("a", "l0", "s0"), node("b", "s1")), {"a": (0, 0), "b": (0, 0), "c": (3000, 9000)}, ["b"]),
    ],
)
def test_nodes_go_whose_pods_fit_elsewhere(
    leaving: tuple[Candidate, ...], free: dict[str, tuple[int, int]], gone: list[str]
) -> None:
    assert going(question(*leaving), free) == gone


def test_candidates_that_are_last_in_order_are_filled_before_those_in_front() -> None:
    asked = question(node("a", "s0"), node("b", "s1"), node("c", "s2"))
    free = {"a": (0, 0), "b": (1000, 1000), "c": (2000, 2000)}
    assert going(asked, free) == ["a", "b"]


def test_a_pod_goes_only_where_labels_and_taints_let_it() -> None:
    free = {"a": (0, 0), "b": (5000, 9000), "c": (1000, 1000)}
    assert going(question(node("a", "s0", "s1")), free, refused=(("s", "b"),)) == []
    assert going(question(node("a", "s0")), free, refused=(("s", "b"),)) == ["a"]
    assert going(question(node("a", "l0")), free, refused=(("l", "b"),)) == []


def test_nodes_that_are_closed_or_not_up_take_none() -> None:
    free = {"a": (0, 0), "b": (5000, 9000), "c": (0, 0)}
    assert going(question(node("a", "s0"), closed=frozenset("b")), free) == []
    rising = question(node("a", "s0"))
    nodes = tuple(existing(one.name, initialized=one.name != "b") for one in rising.problem.nodes)
    asked = Question(
        type(rising.problem)(rising.problem.pods, rising.problem.pools, nodes), rising.candidates, {"p": 5}
    )
    assert going(asked, free) == []


def test_budgets_and_moves_limit_what_goes() -> None:
    free = {"a": (0, 0), "b": (0, 0), "c": (9000, 9000)}
    leaving = (node("a", "s0"), node("b", "s1"))
    asked = question(*leaving)
    assert going(Question(asked.problem, leaving, {"p": 1}), free) == ["a"]
    assert going(Question(asked.problem, leaving, {"p": 0}), free) == []
    uid = leaving[0].pods[0].metadata.uid[-12:]
    moves = Moves(deleting={uid: 0})
    held = leaving[0].pods[0].metadata.uid == leaving[1].pods[0].metadata.uid
    assert going(Question(asked.problem, leaving, {"p": 5}, moves), free) == ([] if held else ["b"])


def test_a_search_whose_time_is_over_ends_with_what_it_has() -> None:
    free = {"a": (0, 0), "b": (0, 0), "c": (9000, 9000)}
    asked = question(node("a", "s0"), node("b", "s1"))
    assert going(asked, free, work=1) == ["a"]
    assert going(asked, free, work=2) == ["a", "b"]


def test_no_more_are_looked_for_than_are_asked_for() -> None:
    asked = question(node("a", "s0"), node("b", "s1"), node("c"))
    work = SolveBudget(Budget(1_000))
    free = appraisal({"a": (0, 0), "b": (0, 0), "c": (9000, 9000)})
    assert [one.name for one in deletable(asked, free, asked.candidates, work, most=1)] == ["a"]


def test_a_node_that_stays_for_other_reasons_leaves_its_room_to_the_next() -> None:
    asked, work = question(node("a", "s0"), node("b", "s1")), SolveBudget(Budget(1_000))
    free = appraisal({"a": (0, 0), "b": (0, 0), "c": (1000, 1000)})
    looked_at = []

    def stays(one: Candidate) -> bool:
        looked_at.append(one.name)
        return one.name == "a"

    assert [one.name for one in deletable(asked, free, asked.candidates, work, stays=stays)] == ["b"]
    without_room = appraisal(dict.fromkeys("abc", (0, 0)))
    assert deletable(asked, without_room, asked.candidates, work, stays=stays) == ()
    assert looked_at == ["a", "b"]


def test_pods_that_find_no_room_are_reported_and_nothing_moves() -> None:
    asked = question(node("a", "s0", "l0", "s1", "l1"))
    seen = appraisal({"a": (9000, 9000), "b": (3000, 2000), "c": (1000, 1000)})
    room = Room(asked, seen, asked.candidates)
    shapes = [seen.pod_class[one.key] for one in asked.candidates[0].pods]
    before = seen.capacity.copy()
    small, large = SHAPES.index("s"), SHAPES.index("l")
    for _ in range(2):
        assert room.homeless(shapes, asked.candidates[0]) == [large, small]
    assert (seen.capacity == before).all()
    assert not room.move(shapes, asked.candidates[0])
    assert room.homeless([small], asked.candidates[0]) == []


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_room_is_that_of_a_plain_first_fit_whatever_was_asked_before(drawn: Random, number: int) -> None:
    """Searches begin where the last one ended: what they find is what a look at all nodes does."""
    names = [f"n{index}" for index in range(number)]
    free = {name: (drawn.randrange(0, 9000, 500), drawn.randrange(0, 9000, 500)) for name in names}
    refused = tuple((drawn.choice(SHAPES), drawn.choice(names)) for _ in range(number))
    asked = question(*map(node, names), names="")
    asked = replace(asked, problem=replace(asked.problem, nodes=tuple(map(existing, names))))
    seen = appraisal(free, refused)
    room, there = Room(asked, seen, ()), {name: list(amounts) for name, amounts in free.items()}
    gone, filled = set[str](), set[str]()
    for _ in range(20):
        own, letters = drawn.choice(names), [drawn.choice(SHAPES) for _ in range(drawn.randrange(1, 5))]
        hosts = {name: tuple(amounts) for name, amounts in there.items() if name not in {own, *gone}}
        lost, places = first_fit(sorted(letters, key=_largest), hosts, refused)
        shapes = [SHAPES.index(letter) for letter in letters]
        if drawn.random() < 0.5:
            assert room.homeless(shapes, node(own)) == [SHAPES.index(letter) for letter in lost]
        elif own not in gone:
            goes = not lost and own not in filled
            assert room.move(shapes, node(own)) is goes
            if goes and drawn.random() < 0.3:
                room.undo()
            elif goes:
                gone.add(own)
                filled.update(name for name, _ in places)
                for name, letter in places:
                    there[name] = [has - asks for has, asks in zip(there[name], SIZES[letter], strict=True)]


def _largest(letter: str) -> tuple[int, int]:
    return -max(SIZES[letter]), SHAPES.index(letter)


def first_fit(
    letters: list[str], hosts: dict[str, tuple[int, ...]], refused: tuple[tuple[str, str], ...]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Those of the pods that find no room on the nodes in their order, and where the others go."""
    lost, places = list[str](), list[tuple[str, str]]()
    for letter in letters:
        for name, amounts in hosts.items():
            left = tuple(has - asks for has, asks in zip(amounts, SIZES[letter], strict=True))
            if (letter, name) not in refused and min(left) >= 0:
                hosts[name] = left
                places.append((name, letter))
                break
        else:
            lost.append(letter)
    return lost, places


def test_looking_at_many_nodes_for_many_pods_costs_more() -> None:
    """A unit for each candidate, and one for 200 nodes that were looked at for a pod."""
    names = "abcdefghijklmnopqrstuvwxyz"[:20]
    free = dict.fromkeys(names, (1000, 1000))

    pods = [f"s{number}" for number in range(20)]
    for count, cost in ((0, 1), (9, 1), (10, 2), (19, 2), (20, 3)):
        work = SolveBudget(Budget(1_000))
        leaving = (node("a", *pods[:count]),)
        deletable(question(*leaving, names=names), appraisal(free), leaving, work)
        assert _spent(work, 1_000) == cost


def test_what_finds_no_room_takes_none_from_others() -> None:
    asked = question(node("a", "l0", "s0"))
    seen = appraisal({"a": (0, 0), "b": (500, 500), "c": (1000, 1000)})
    room = Room(asked, seen, asked.candidates)
    small, large = SHAPES.index("s"), SHAPES.index("l")
    for _ in range(3):  # from the second time on it is known
        assert room.homeless([large], asked.candidates[0]) == [large]
    assert room.homeless([large, small], asked.candidates[0]) == [large]
    assert room.homeless([small, small], asked.candidates[0]) == [small]
    assert room.move([small], asked.candidates[0])


def test_a_pod_without_room_costs_the_node_that_is_filled_last_nothing() -> None:
    asked = question(node("a", "s0"), node("b", "l0", "s1"))
    room = Room(asked, appraisal({"a": (1000, 1000), "b": (0, 0), "c": (0, 0)}), asked.candidates)
    small, large = SHAPES.index("s"), SHAPES.index("l")
    for _ in range(2):
        assert room.homeless([large], asked.candidates[1]) == [large]
    assert room.homeless([small], asked.candidates[1]) == []


def test_two_hundred_nodes_looked_at_are_a_unit_of_work() -> None:
    """Of 199 and of 200 nodes, for one pod."""
    for count, cost in ((199, 1), (200, 2)):
        names = [f"n{number:03}" for number in range(count)]
        asked = question(node("n000", "s0"), names=names)
        work = SolveBudget(Budget(10))
        deletable(asked, appraisal(dict.fromkeys(names, (0, 0))), asked.candidates, work)
        assert _spent(work, 10) == cost


def _spent(work: SolveBudget, most: int) -> int:
    count = 0
    while work.left:
        work.spend(1)
        count += 1
    return most - count


def spread_over_zones(item: Pod) -> Pod:
    rule = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "x"}),
    )
    meta = structs.replace(item.metadata, labels={"app": "x"})
    return structs.replace(
        item, metadata=meta, spec=structs.replace(item.spec, topology_spread_constraints=(rule,))
    )


def test_pods_that_are_spread_stay_in_their_domain_where_that_is_asked() -> None:
    own = node("a", "s0")
    leaving = replace(own, pods=tuple(map(spread_over_zones, own.pods)))
    asked = question(leaving)
    zones = {"a": "z1", "b": "z2", "c": "z1"}
    nodes = tuple(replace(one, labels={ZONE: zones[one.name]}) for one in asked.problem.nodes)
    asked = replace(asked, problem=replace(asked.problem, nodes=nodes))
    for free, gone in (((5000, 0), []), ((5000, 1000), ["a"])):
        seen = appraisal({"a": (0, 0), "b": (9000, 9000), "c": free})
        for spread, names in ((True, gone), (False, ["a"])):
            found = deletable(asked, seen, (leaving,), SolveBudget(Budget(1000)), spread=spread)
            assert [one.name for one in found] == names


def lacking(asked: Question, *left: str) -> list[str]:
    reasons = tuple(Unschedulable(f"default/{name}", "no room") for name in left)
    return sorted(given_up(asked, asked.candidates, Plan(unschedulable=reasons)))


def test_of_nodes_whose_pods_find_no_room_as_few_stay_as_may_do() -> None:
    # What stays keeps its pods: those of the others may come to the places that these were to have.
    asked = question(node("a", "s0", "s1"), node("b", "s2", "s3", "s6"), node("c", "s4", "s5"))
    assert lacking(asked) == []
    assert lacking(asked, "s0") == ["a"]
    assert lacking(asked, "s0", "s2") == ["a"]  # s1 leaves its place to s2
    assert lacking(asked, "s0", "s2", "s3") == ["b"]  # it lacks more
    assert lacking(asked, "s0", "s1", "s2") == ["a", "b"]
    dear = replace(asked.candidates[0], price=1000)  # more is saved where another stays
    asked = replace(asked, candidates=(dear, *asked.candidates[1:]))
    assert lacking(asked, "s0", "s2") == ["b"]


def test_a_third_of_the_nodes_whose_pods_find_no_room_stays_each_time() -> None:
    leaving = [node(f"n{index}", f"s{2 * index}", f"s{2 * index + 1}") for index in range(7)]
    asked = question(*leaving, names=tuple(one.name for one in leaving))
    assert lacking(asked, *(f"s{2 * index}" for index in range(7))) == ["n0", "n1", "n2", "n3"]
    nodes = tuple(replace(one, allocatable={"cpu": 99_000, "pods": 99}) for one in asked.problem.nodes)
    asked = replace(asked, problem=replace(asked.problem, nodes=nodes))
    assert lacking(asked, *(f"s{2 * index}" for index in range(7))) == ["n0", "n1", "n2"]
