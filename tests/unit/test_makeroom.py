"""Which pods that have not started leave their nodes, and for where, so that another has room."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.cluster.nodes import Machine
from dovetail.controllers.provisioning.census import Apart, Census, ahead, behind
from dovetail.controllers.provisioning.makeroom import Place, swap_for, unstarted
from dovetail.model.labels import DO_NOT_DISRUPT, HOSTNAME, ZONE


def spread(key: str) -> dict[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return {"topologySpreadConstraints": [rule]}


def young(name: str, cpu: int, *, kind: str = "ReplicaSet", phase: str = "Pending", **spec: Any) -> Pod:
    """A pod that is bound and waits for its image; what it is named before the dash is what made it."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": name.split("-")[0],
        "controller": True,
    }
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "ownerReferences": [owner],
        "annotations": spec.pop("annotations", {}),
    }
    status = {"phase": phase}
    return decode(
        {"metadata": meta, "spec": {"containers": [container], "nodeName": "n1", **spec}, "status": status},
        Pod,
    )


def place(
    name: str, free: int, *pods: Pod, zone: str = "a", taints: tuple[dict[str, str], ...] = ()
) -> Place:
    document = {"metadata": {"name": name, "labels": {ZONE: zone}}, "spec": {"taints": list(taints)}}
    room = {"cpu": 1_000 * free, "memory": 2**36, "pods": 99}
    return Place(Machine(decode(document, Node), None), room, pods)


def made(wanted: Pod, zone: str, *places: Place) -> tuple[str, dict[str, str]] | None:
    """The node that the pod gets, and where those go that leave it; None: no room can be made."""
    swap = swap_for(wanted, zone, {one.name: one for one in places})
    if swap is None:
        return None
    return swap.machine, {pod.metadata.name: goal for pod, goal in swap.leaving}


BIG = young("big-1", 4)


def test_the_smallest_that_is_enough_leaves_for_the_tightest_room() -> None:
    crowded = place("n1", 2, young("one-1", 1), young("two-1", 2), young("three-1", 3))
    assert made(BIG, "", crowded, place("n2", 3), place("n3", 2)) == ("n1", {"two-1": "n3"})


def test_nothing_leaves_where_there_is_room_as_it_is() -> None:
    assert made(BIG, "", place("n1", 3, young("one-1", 1)), place("n2", 4)) == ("n2", {})


def test_several_leave_one_node_where_no_single_one_is_enough_but_no_more_than_four() -> None:
    ones = [young(f"one-{n}", 1) for n in range(6)]
    assert made(BIG, "", place("n1", 2, *ones), place("n2", 1), place("n3", 1)) == (
        "n1",
        {"one-5": "n2", "one-4": "n3"},
    )
    assert made(young("big-1", 6), "", place("n1", 1, *ones), place("n2", 5)) is None


def test_what_must_be_spread_over_zones_stays_in_its_zone() -> None:
    fixed, free = young("one-1", 1, **spread(ZONE)), young("one-2", 1)
    elsewhere = place("n2", 1, zone="b")
    assert made(BIG, "", place("n1", 3, fixed), elsewhere) is None
    assert made(BIG, "", place("n1", 3, free), elsewhere) == ("n1", {"one-2": "n2"})
    assert made(BIG, "b", place("n1", 3, free), elsewhere) is None  # the pod itself must go to that zone


def test_zones_where_others_lack_room_are_spared() -> None:
    places = {
        one.name: one
        for one in (
            place("n1", 3, young("one-1", 1)),
            place("n2", 1, zone="b"),
            place("n3", 2, zone="c"),
        )
    }
    for scarce, goal in (((), "n2"), (("b",), "n3"), (("b", "c"), "n2")):
        swap = swap_for(BIG, "a", places, scarce)
        assert swap is not None
        assert [name for _, name in swap.leaving] == [goal]


def test_taints_and_labels_are_heeded() -> None:
    gpu = {"key": "gpu", "effect": "NoSchedule"}
    assert made(BIG, "", place("n1", 3, young("one-1", 1)), place("n2", 9, taints=(gpu,))) is None
    picky = young("one-1", 1, nodeSelector={ZONE: "a"})
    assert made(BIG, "", place("n1", 3, picky), place("n2", 1, zone="b")) is None


def test_nothing_of_a_higher_priority_leaves() -> None:
    above = young("one-1", 1, priority=10)
    assert made(BIG, "", place("n1", 3, above), place("n2", 1)) is None


@pytest.mark.parametrize(
    ("may", "pod"),
    [
        (True, young("web-1", 1)),
        (True, young("web-1", 1, **spread(ZONE))),
        (False, young("web-1", 1, phase="Running")),
        (False, young("web-1", 1, kind="StatefulSet")),
        (False, young("web-1", 1, kind="Job")),
        (False, young("web-1", 1, nodeName="")),
        (False, young("web-1", 1, initContainers=[{"name": "first"}])),
        (False, young("web-1", 1, containers=[{"name": "main"}, {"name": "beside"}])),
        (False, young("web-1", 1, containers=[{"name": "main", "ports": [{"hostPort": 80}]}])),
        (False, young("web-1", 1, annotations={DO_NOT_DISRUPT: "true"})),
        (False, young("web-1", 1, **spread(HOSTNAME))),
        (False, young("web-1", 1, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}])),
    ],
)
def test_what_may_leave(*, may: bool, pod: Pod) -> None:
    assert unstarted(pod, SECOND) is may


def keeper(namespace: str = "default", **term: Any) -> Pod:
    """A pod that keeps those apart which the term means."""
    rule = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    meta = {"name": "keeper", "namespace": namespace}
    return decode({"metadata": meta, "spec": {"affinity": affinity}}, Pod)


def test_what_others_keep_away_from_themselves() -> None:
    web = decode({"metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}}}, Pod)
    other = decode({"metadata": {"name": "other", "namespace": "default"}}, Pod)
    for one, kept in (
        (keeper(), True),
        (keeper("elsewhere"), False),
        (keeper("elsewhere", namespaces=["default"]), True),
        (keeper("elsewhere", namespaceSelector={}), True),
        (keeper("elsewhere", namespaceSelector={"matchLabels": {"a": "b"}}), True),  # it may be labelled so
        (keeper(labelSelector={"matchLabels": {"app": "db"}}), False),
    ):
        apart = Apart()
        apart.follow(None, one)
        apart.follow(None, one)
        assert (apart.keeps(web), apart.keeps(other)) == (kept, False)
        apart.follow(one, None)
        assert apart.keeps(web) is kept
        apart.follow(one, web)
        assert not apart.keeps(web)


NODES = [
    decode({"metadata": {"name": f"{zone}{n}", "labels": {ZONE: zone}}}, Node)
    for zone in "abc"
    for n in (1, 2)
]


def alike(
    node: str, *, name: str = "new", app: str = "web", skew: int = 1, must: bool = True, gone: bool = False
) -> Pod:
    """A pod of an app that is spread over zones, on that node or, if that is "", waiting under that name."""
    rule = {
        "maxSkew": skew,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule" if must else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    meta = {"name": node or name, "namespace": "default", "labels": {"app": app}}
    spec = {"nodeName": node or None, "containers": [], "topologySpreadConstraints": [rule]}
    return decode({"metadata": meta, "spec": spec, "status": {"phase": "Failed" if gone else "Pending"}}, Pod)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("", ""),
        ("a1", "a"),
        ("a1 b1", "ab"),
        ("a1 b1 c2", ""),
        ("a1 a2 b1 c1", "a"),
        ("a1 a2 b1 b2 c1", "ab"),
        ("unknown a1 b1 c1", ""),
    ],
)
def test_in_which_zones_a_pod_would_be_refused(there: str, expected: str) -> None:
    pods = [alike(name) for name in there.split()]
    assert "".join(zone for zone in "abc" if ahead(alike(""), zone, Census.of(pods), NODES)) == expected


@pytest.mark.parametrize(
    ("there", "zone", "places", "expected"),
    [
        ("a1", "a", {}, "b"),
        ("a1", "a", {"w1": "b", "w2": "c"}, ""),  # they come first, and it follows
        ("a1", "a", {"w1": "b"}, "c"),
        ("a1 a2 b1 b2", "a", {"w1": "c"}, "c"),
        ("a1 b1", "c", {}, ""),
        ("a1", "a", {"w1": "a", "w2": "b"}, "c"),
    ],
)
def test_where_a_pod_has_to_go_instead_of_a_zone_that_would_refuse_it_for_ever(
    there: str, zone: str, places: dict[str, str], expected: str
) -> None:
    pods = [alike(name) for name in there.split()]
    waiting = [(alike("", name=name), at) for name, at in places.items()]
    assert behind(alike(""), zone, Census.of(pods), NODES, waiting) == expected


def test_only_what_the_rule_counts_and_lives_is_ahead() -> None:
    pods = Census.of([alike("a1"), alike("a2")])
    assert ahead(alike(""), "a", pods, NODES)
    assert not ahead(alike("", skew=3), "a", pods, NODES)
    assert not ahead(alike("", must=False), "a", pods, NODES)
    others = Census.of([alike("a1", app="other"), alike("a2", gone=True)])
    assert not ahead(alike(""), "a", others, NODES)
    assert not ahead(alike("", app="other"), "a", Census.of([alike("a1")]), NODES)  # it does not count itself


def test_a_pod_counts_from_when_it_is_bound_until_it_ends() -> None:
    running, waits, runs = Census(), alike("", name="w"), alike("a1", name="w")
    for before, after, there in (
        (None, waits, False),
        (waits, runs, True),
        (runs, alike("a1", name="w"), True),
        (runs, alike("a1", name="w", gone=True), False),
        (alike("a1", name="w", gone=True), None, False),
        (None, runs, True),
        (runs, None, False),
    ):
        running.follow(before, after)
        assert ahead(alike(""), "a", running, NODES) == there
