"""Whether the scheduler finds room for all pods of nodes that go, placing one after the other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs
from test_spread_room import HARD, pod

from dovetail.api.core import Pod
from dovetail.api.meta import OwnerReference
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.consolidation.rescheduling import Rescheduling
from dovetail.disrupt.consolidation.reserves import Reserves
from dovetail.disrupt.pods import unbound
from dovetail.model import labels
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.solve.budget import SolveBudget

MEMORY = 2**33


def node(name: str, *pods: Pod, cpu: int = 4000, zone: str = "a") -> ExistingNode:
    room = {"cpu": cpu, "memory": MEMORY, "pods": 20}
    return ExistingNode(name, {labels.ZONE: zone}, (), room, room, pods=pods)


def plenty() -> SolveBudget:
    return SolveBudget(Budget())


def candidate(there: ExistingNode) -> Candidate:
    return Candidate(there.name, "p", ("t", "a", "spot"), 1, 1.0, tuple(map(unbound, there.pods)))


def question(*nodes: ExistingNode, moving: Sequence[Pod] = (), **more: Any) -> Question:
    return Question(Problem(tuple(moving), (), nodes), tuple(map(candidate, nodes)), {"p": 9}, **more)


def left(asked: Question, *names: str, known: Rescheduling | None = None) -> list[str]:
    leaving = [one for one in asked.candidates if one.name in names]
    played = known or Rescheduling()
    found = played.left_over(asked, leaving, plenty())
    places = played.places(asked, leaving)
    assert (places is None) is bool(found)
    if places is not None:
        assert sorted(key for keys in places.values() for key in keys) == sorted(
            one.key for candidate in leaving for one in candidate.pods
        )
    return sorted(found)


def test_a_pod_takes_the_emptiest_node_that_a_larger_one_would_need() -> None:
    going = node("going", pod("large", "2"), pod("small", "1"))
    roomy = node("roomy", pod("x", "2"))
    assert left(question(going, roomy, node("half", pod("y", "3"))), "going") == []
    # Of two nodes the pods of the first come first, whatever those of the second ask for.
    first, second = node("first", pod("small", "1")), node("second", pod("large", "2"))
    asked = question(first, second, roomy, node("half", pod("y", "3")))
    assert left(asked, "first", "second") == ["second"]


def test_a_pod_goes_beside_its_like_though_another_needs_that_room() -> None:
    """Both ask for the same; the one that may go nowhere else has its turn first."""
    tied = pod("tied", "1", "a", **HARD)
    loose = pod("loose", "1", "b")
    going = node("going", loose, tied, zone="b")
    others = (node("a", pod("p", "3"), zone="a"), node("b", pod("q", "2"), pod("r", "1"), zone="b"))
    beside = (node("c", pod("s", "1", "a"), pod("t", "2.5"), zone="a"),)
    assert left(question(going, *others, *beside), "going") == []


def test_what_nothing_has_room_for_is_left() -> None:
    asked = question(node("going", pod("large", "3")), node("other", pod("x", "2")))
    assert left(asked, "going") == ["going"]
    assert left(question(*asked.problem.nodes, node("empty")), "going") == []
    assert left(question(*asked.problem.nodes, node("empty"), closed=frozenset({"empty"})), "going") == [
        "going"
    ]


def test_pods_on_their_way_already_come_first_and_are_not_those_of_the_nodes() -> None:
    nodes = node("going", pod("one", "2")), node("other", pod("x", "2"))
    assert left(question(*nodes), "going") == []
    assert left(question(*nodes, moving=[pod("before", "1")]), "going") == ["going"]
    assert left(question(*nodes, moving=[pod("nowhere", "9")]), "going") == []
    # What would come to the node itself, which is the emptier one, has to go on.
    empty = node("going"), node("other", pod("x", "2"))
    assert left(question(*empty, moving=[pod("before", "2")]), "going") == []
    assert left(question(*empty, moving=[pod("before", "3")]), "going") == ["going"]


def test_nodes_that_go_next_are_taken_last() -> None:
    first, second = node("first", pod("small", "1")), node("second", pod("large", "2"))
    nodes = first, second, node("next", cpu=1900), node("half", pod("x", "2"))
    assert left(question(*nodes), "first", "second") == []
    assert left(question(*nodes, avoided=frozenset({"next"})), "first", "second") == ["second"]


def test_a_pod_that_others_make_way_for_is_tried_again() -> None:
    """The zone that has room for the larger one has too many of their kind until the other is bound."""
    going = node("going", pod("one", "3", "a", **HARD), pod("two", "2", "a", **HARD), cpu=8000)
    nodes = going, node("a", pod("p", "1", "a")), node("b", cpu=2000, zone="b")
    assert left(question(*nodes), "going") == []
    assert left(question(*nodes[:2], node("b", cpu=1000, zone="b")), "going") == ["going"]


def test_what_one_controller_makes_comes_at_once_whatever_nodes_its_pods_are_on() -> None:
    def made_by(controller: str, one: Pod) -> Pod:
        owner = OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=controller, uid=controller, controller=True
        )
        return structs.replace(one, metadata=structs.replace(one.metadata, owner_references=(owner,)))

    small = [made_by("small", pod(name, "1", app=name)) for name in ("one", "two")]
    large = made_by("large", pod("large", "2"))
    nodes = node("first", small[0]), node("second", large, small[1])
    others = node("roomy", pod("x", "1")), node("half", pod("y", "3"))
    assert left(question(*nodes, *others), "first", "second") == ["second"]
    # Of another controller the second small one comes last, and takes what is left beside the large one.
    nodes = nodes[0], node("second", large, made_by("other", small[1]))
    assert left(question(*nodes, *others), "first", "second") == []


def test_what_is_kept_from_one_question_to_the_next_is_what_a_new_one_sees() -> None:
    draw, kept, number = random.Random(7), Rescheduling(), 0
    nodes = {f"n{index}": node(f"n{index}", zone="abc"[index % 3]) for index in range(9)}
    for _ in range(60):
        name = f"n{draw.randrange(9)}"
        if name not in nodes:
            nodes[name] = node(name, zone=draw.choice("abc"))
        elif draw.random() < 0.1:
            del nodes[name]
        else:
            there = list(nodes[name].pods)
            if there and draw.random() < 0.4:
                there.pop(draw.randrange(len(there)))
            elif sum(len(one.pods) for one in nodes.values()) < 20:
                number += 1
                rule = HARD if draw.random() < 0.5 else {}
                there.append(pod(f"p{number}", draw.choice("112"), draw.choice("ab"), **rule))
            nodes[name] = replace(nodes[name], pods=tuple(there))
        avoided = frozenset(draw.sample(sorted(nodes), 1))
        asked = question(*nodes.values(), avoided=avoided)
        going = draw.sample(sorted(nodes), 2)
        assert left(asked, *going, known=kept) == left(asked, *going)
        kept.check()


def test_of_several_nodes_as_many_go_as_leave_no_pod_over() -> None:
    nodes = (
        node("first", pod("one", "2")),
        node("second", pod("two", "3")),  # for which there is no room
        node("third", pod("three", "1")),  # that the one before has, which stays
        node("fourth", pod("four", "1")),
        node("other", pod("x", "2")),
    )
    asked, known = question(*nodes), Rescheduling()
    found = known.together(asked, asked.candidates[:4], plenty())
    assert [one.name for one in found] == ["first", "third"]
    assert left(asked, *(one.name for one in found), known=known) == []
    assert known.together(asked, found, plenty()) == found
    assert known.together(asked, asked.candidates[:4], SolveBudget(Budget(2))) == found[:1]
    known.check()


def test_a_play_that_ends_early_would_have_left_a_pod_over() -> None:
    class ToTheEnd(Rescheduling):
        def _stuck(self, *_: object) -> list[Pod]:
            return []

    draw, ended = random.Random(11), Counter[bool]()
    for turn in range(150):
        nodes = []
        for index in range(8):
            there = [
                pod(f"p{index}{number}", draw.choice("112"), draw.choice("ab"), **draw.choice((HARD, {})))
                for number in range(draw.randrange(4))
            ]
            nodes.append(node(f"n{index}", *there, zone="abc"[index % 3]))
        asked = question(*nodes, moving=[pod("moving", "1", "a", **HARD)] * (turn % 2))
        leaving = draw.sample(asked.candidates, 2)
        early, late = Rescheduling(), ToTheEnd()
        places = early.places(asked, leaving)
        assert places == late.places(asked, leaving)
        assert early.together(asked, leaving, plenty()) == late.together(asked, leaving, plenty())
        ended[places is None] += 1
    assert min(ended.values()) > 20, ended


def kept(name: str, cpu: str, on: str) -> Pod:
    """A virtual pod of a CapacityBuffer on that node."""
    made = pod(name, cpu)
    meta = structs.replace(made.metadata, uid=f"virtual-{name}")
    return structs.replace(made, metadata=meta, spec=structs.replace(made.spec, node_name=on))


def left_with_buffers(asked: Question, *names: str, known: Reserves) -> list[str]:
    virtual = {one.metadata.uid for node in asked.problem.nodes for one in node.pods}
    asked = replace(asked, reserved=frozenset(uid for uid in virtual if uid.startswith("virtual-")))
    leaving = [one for one in asked.candidates if one.name in names]
    found = known.left_over(asked, leaving, plenty())
    assert (known.places(asked, leaving) is None) is bool(found)
    assert len(known.together(asked, leaving, plenty())) == len(leaving) - len(found)
    return sorted(found)


def test_the_scheduler_takes_the_room_of_buffers_and_they_need_it_elsewhere() -> None:
    half, going = node("half", pod("x", "2")), node("going", pod("small", "1"))
    known = Reserves()
    for cpu, stays in (("3.5", ["going"]), ("3", [])):
        # A plan for both has the small pod on the other node; the scheduler sees an empty one.
        roomy = node("roomy", kept("large", cpu, "roomy"))
        assert left_with_buffers(question(going, roomy, half), "going", known=known) == stays
    # What moves along is a virtual pod that its node loses.
    mine = node("going", pod("small", "1"), kept("two", "2", "going"))
    assert left_with_buffers(question(mine, node("other", pod("y", "1")), half), "going", known=known) == []
    less = node("other", pod("y", "2.5"))
    assert left_with_buffers(question(mine, less, half), "going", known=known) == ["going"]
    full = node("other", pod("y", "4"))
    assert left_with_buffers(question(mine, full, half), "going", known=known) == ["going"]


def test_of_several_nodes_half_stay_where_buffers_lack_room() -> None:
    nodes = [node(name, pod(f"p-{name}", "1"), kept(f"v-{name}", "1", name)) for name in "abcd"]
    known = Reserves()
    assert left_with_buffers(question(*nodes, node("free", cpu=8000)), *"abcd", known=known) == []
    assert left_with_buffers(question(*nodes, node("free", cpu=6000)), *"abcd", known=known) == ["c", "d"]
