"""How long a place that a plan gave to a pod is kept for it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod, PodStatus
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import SECOND
from dovetail.cluster.nodes import Machine
from dovetail.cluster.promises import Promise, Promises, holds, room_left, with_room
from dovetail.model import labels
from dovetail.units.timestamp import to_rfc3339

START = 1_772_409_600 * SECOND
WINDOW = 20 * SECOND


def machine(*, initialized: int | None = None, node: bool = True) -> Machine:
    """A claim, its node, and when it was initialized, in seconds after START."""
    conditions: tuple[Condition, ...] = ()
    stamped: dict[str, str] = {}
    if initialized is not None:
        since = to_rfc3339(START + initialized * SECOND)
        conditions = (Condition(type="Initialized", status="True", last_transition_time=since),)
        stamped = {labels.INITIALIZED: "true"}
    claim = NodeClaim(
        metadata=Meta(name="pool-abcde"),
        spec=NodeClaimSpec(node_class_ref=NodeClassRef(group="g", kind="K", name="n")),
        status=NodeClaimStatus(conditions=conditions),
    )
    return Machine(Node(metadata=Meta(name="ip-1", labels=stamped)) if node else None, claim)


@pytest.mark.parametrize(
    ("place", "made", "now", "kept"),
    [
        (machine(node=False), 0, 600, True),  # still launching
        (machine(), 0, 600, True),  # still coming up
        (machine(initialized=60), 0, 79, True),
        (machine(initialized=60), 0, 80, False),  # it was not bound in time
        (machine(initialized=60), 100, 119, True),  # promised long after the node came up
        (machine(initialized=60), 100, 120, False),
        (Machine(machine().node, None), 100, 119, True),  # a node that is not ours
        (Machine(machine().node, None), 100, 120, False),
    ],
)
def test_a_promise_holds_until_the_scheduler_had_its_chance(
    place: Machine, made: int, now: int, kept: bool
) -> None:
    promise = Promise("uid", "pool-abcde", START + made * SECOND)
    assert holds(promise, place, START + now * SECOND, WINDOW) is kept


def test_a_promise_is_for_one_pod_on_a_machine_that_stays() -> None:
    pod = Pod(metadata=Meta(name="web", namespace="shop", uid="1"))
    promises = Promises(WINDOW)
    promises.make(pod, "pool-abcde", START)
    assert promises.place(pod, {"pool-abcde": machine()}.get, START) is not None
    again = Pod(metadata=Meta(name="web", namespace="shop", uid="2"))
    assert promises.place(again, {"pool-abcde": machine()}.get, START) is None
    promises.make(pod, "pool-abcde", START)
    assert promises.place(pod, {}.get, START) is None
    assert promises.place(pod, {"pool-abcde": machine()}.get, START) is None, "a void promise came back"


@pytest.mark.parametrize(
    ("nominated", "bound", "now", "kept"),
    [
        ("ip-1", 15, 34, True),  # the scheduler was at work a moment ago: it may not have come to the pod
        ("ip-1", 15, 35, False),  # it had all the time
        ("ip-1", None, 20, False),
        ("", 19, 20, False),  # it did come to the pod, and refused it
        ("", 20, 20, True),  # but binds others still
        ("", 59, 59, True),
        ("", 60, 60, False),
        ("ip-2", 15, 20, False),
        ("ip-1", 55, 59, True),
        ("ip-1", 55, 60, False),  # it may be at work for ever
    ],
)
def test_a_promise_holds_longer_while_the_scheduler_binds_others(
    nominated: str, bound: int | None, now: int, kept: bool
) -> None:
    pod = Pod(
        metadata=Meta(name="web", namespace="shop", uid="1"), status=PodStatus(nominated_node_name=nominated)
    )
    other = Pod(metadata=Meta(name="other", namespace="shop", uid="2"))
    promises = Promises(WINDOW)
    for one in (pod, other):
        promises.make(one, "pool-abcde", START)
    if bound is not None:
        promises.bound(other.key, START + bound * SECOND)
    place = promises.place(pod, {"pool-abcde": machine(initialized=0)}.get, START + now * SECOND)
    assert (place is not None) is kept


def asking(name: str, cpu: str, *, priority: int = 0, created: int = 0) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "creationTimestamp": to_rfc3339(START + created * SECOND)}
    return decode({"metadata": meta, "spec": {"containers": [container], "priority": priority}}, Pod)


@pytest.mark.parametrize(
    ("initialized", "bound", "promised", "kept"),
    [
        (True, [], [asking("a", "2"), asking("b", "2")], ["a", "b"]),
        (True, [asking("x", "1")], [asking("a", "2"), asking("b", "2")], ["a"]),  # its name decides last
        (True, [asking("x", "1")], [asking("a", "2", created=1), asking("b", "2")], ["b"]),  # first come
        (True, [asking("x", "1")], [asking("a", "2"), asking("b", "2", priority=1, created=9)], ["b"]),
        (True, [asking("x", "3")], [asking("a", "2"), asking("b", "1")], ["b"]),  # the small one still fits
        (True, [asking("x", "4")], [asking("a", "1")], []),
        (False, [], [asking("a", "9")], ["a"]),  # what it has is not known for certain yet
    ],
)
def test_room_that_is_left_goes_to_promised_pods_in_the_schedulers_order(
    initialized: bool, bound: list[Pod], promised: list[Pod], kept: list[str]
) -> None:
    node = decode({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}, Node)
    place = Machine(node, None if initialized else machine().claim)
    assert [item.metadata.name for item in with_room(place, room_left(place, bound), promised)] == kept


def replica(name: str, owner: str = "web-1", **meta: object) -> Pod:
    made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    return decode(
        {"metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [made], **meta}}, Pod
    )


def ending(name: str, until: int) -> Pod:
    return replica(name, deletionTimestamp=to_rfc3339(START + until * SECOND))


@pytest.mark.parametrize(
    ("came", "now", "placed"),
    [
        (replica("new"), 1, True),
        (replica("new"), 50, True),  # once the old one was gone, as in a StatefulSet, and 20 s beside
        (replica("new", owner="web-2"), 1, False),  # another ReplicaSet's
        (Pod(metadata=Meta(name="new", namespace="shop", uid="new")), 1, False),  # nobody's
    ],
)
def test_what_comes_in_place_of_a_pod_that_moves_has_its_place(came: Pod, now: int, placed: bool) -> None:
    promises = Promises(WINDOW)
    promises.move(replica("old"), "pool-abcde")
    assert not promises.succeed(came, START), "the old one runs still"
    promises.ends(ending("old", 30), START)
    assert promises.succeed(came, START + now * SECOND) is placed
    place = promises.place(came, {"pool-abcde": machine()}.get, START + now * SECOND)
    assert (place is not None) is placed
    again = promises.succeed(replica("newer"), START + SECOND)
    assert again is not placed, "it was given twice, or was lost"


def test_pods_that_leave_a_node_for_others_are_known_until_they_have_come_or_do_not_come_any_more() -> None:
    promises = Promises(WINDOW)
    new, far, other = frozenset(("pool-abcde", "ip-1")), frozenset(("ip-2",)), frozenset(("ip-3",))
    for name, node, place in (("a", "n1", "pool-abcde"), ("b", "n1", "ip-2"), ("c", "n2", "ip-3")):
        running = replica(name)
        promises.move(replace(running, spec=replace(running.spec, node_name=node)), place)
    assert promises.moves_to(replica("a")) == "pool-abcde"
    assert promises.successors(new) and promises.successors(other)
    assert promises.beside(new, START) == far
    assert promises.beside(other, START) == frozenset()
    promises.ends(ending("b", 0), START)
    assert promises.moves_to(replica("b")) == ""
    assert promises.beside(new, START) == far, "its successor is still to come"
    assert promises.beside(new, START + 21 * SECOND) == frozenset()
    assert promises.succeed(replica("new"), START)
    assert promises.beside(new, START) == frozenset()
    assert promises.successors(new)
    promises.ends(ending("a", 0), START)
    assert not promises.successors(new)


def test_a_place_is_for_the_successor_of_the_pod_that_was_planned_to_move() -> None:
    promises = Promises(WINDOW)
    promises.move(replica("old"), "pool-abcde")
    renewed = replica("old", uid="another pod of that name")
    assert promises.moves_to(renewed) == ""
    promises.ends(renewed, START)
    assert not promises.succeed(replica("new"), START)
