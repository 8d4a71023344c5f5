"""Where the scheduler binds pods that leave their nodes, told without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.cluster.nodes import GOES_NEXT
from dovetail.model import labels
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.resources import pod_requests, total
from dovetail.simulate.scheduler.moving import Bindings

ROOM = {"cpu": 4000, "memory": 16 << 30, "pods": 10}


def pod(name: str, cpu: str = "1", **spec: Any) -> Pod:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    return decode({"metadata": meta, "spec": {"containers": [{"resources": resources}], **spec}}, Pod)


def node(name: str, *pods: Pod) -> ExistingNode:
    return ExistingNode(name, {labels.HOSTNAME: name}, (), ROOM, ROOM, pods, "general")


def bindings() -> Bindings:
    return Bindings(Problem(pods=(), pools=()))


ONE, TWO, THREE, FOUR = (pod(f"p{number}") for number in range(1, 5))


def test_the_emptiest_node_is_taken_but_not_one_that_goes_next() -> None:
    """Before: p1 on the node that goes; its plan has it on the fullest node."""
    after = [node("a", TWO, THREE, ONE), node("b", FOUR), node("c")]
    assert bindings()(after, [ONE], set()) == {"default/p1": "c"}
    assert bindings()(after, [ONE], {"c"}) == {"default/p1": "b"}
    assert bindings()(after, [ONE], {"a", "b", "c"}) == {"default/p1": "c"}  # it comes to them last, but does


def test_a_pod_that_tolerates_the_taint_does_not_mind_it() -> None:
    fearless = pod("p1", tolerations=[{"operator": "Exists"}])
    after = [node("a", TWO, fearless), node("b")]
    assert bindings()(after, [fearless], {"b"}) == {"default/p1": "b"}


def test_the_taint_goes_and_comes_from_call_to_call() -> None:
    bind = bindings()
    after = [node("a", TWO, ONE), node("b")]
    assert bind(after, [ONE], {"b"}) == {"default/p1": "a"}
    later = [node("a", TWO, ONE, THREE), node("b")]
    assert bind(later, [THREE], set()) == {"default/p3": "b"}
    last = [node("a", TWO, ONE, FOUR), node("b", THREE)]
    assert bind(last, [FOUR], {"a"}) == {"default/p4": "b"}


def test_what_the_scheduler_has_no_place_for_stays_where_the_plan_has_it() -> None:
    """The small one is bound to the empty node, where the large one should have gone."""
    small, large = pod("small"), pod("large", "4")
    after = [node("a", TWO, small), node("b", large)]
    assert bindings()(after, [small, large], {"a"}) == {"default/small": "a", "default/large": "b"}
    assert bindings()(after, [large, small], {"a"}) == {"default/small": "a", "default/large": "b"}


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=10),
    st.lists(st.sets(st.integers(0, 3), max_size=2), min_size=1, max_size=4),
    st.sets(st.integers(0, 3)),
)
def test_from_call_to_call_it_answers_like_one_that_is_new(
    where: list[int], moves: list[set[int]], avoided: set[int]
) -> None:
    """Nodes go, their pods to others: what it keeps of earlier calls changes no answer."""
    names = [f"n{number}" for number in range(5)]
    there: dict[str, ExistingNode] = {
        name: node(name, *(pod(f"p{i}", "100m") for i, at in enumerate(where) if names[at] == name))
        for name in names
    }
    kept, marked = bindings(), {names[number] for number in avoided}
    for going in moves:
        gone = [there.pop(names[number]) for number in sorted(going) if names[number] in there]
        moved = [one for node in gone for one in node.pods]
        first = next(iter(there))
        there[first] = replace(there[first], pods=(*there[first].pods, *moved))
        nodes = list(there.values())
        found = kept(nodes, moved, marked)
        assert found == bindings()(nodes, moved, marked)
        assert found.keys() == {one.key for one in moved}
        for name, one in there.items():
            stay = [item for item in one.pods if found.get(item.key, name) == name]
            came = [item for item in moved if found[item.key] == name != first]
            if came or len(stay) < len(one.pods):
                there[name] = replace(one, pods=(*stay, *came))
            asked = total(map(pod_requests, there[name].pods))
            assert all(asked.get(key, 0) <= ROOM[key] for key in ("cpu", "memory"))
        assert all(GOES_NEXT not in one.taints for one in there.values())
