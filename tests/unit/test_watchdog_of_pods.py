"""The watchdog's rules on pods, on both sides of each condition, and what it knows of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_violations import (
    MINUTE,
    START,
    Document,
    Story,
    budget,
    claim,
    cluster,
    evict,
    node,
    pod,
    pool,
)
from test_watchdog_of_machines import SECOND, STAMP, condition, finish, seen, state

from dovetail.model import labels
from dovetail.model.volumes import BIND_COMPLETED
from dovetail.units.timestamp import to_rfc3339

Edit = Callable[[Document], None]
DAEMON = {"ownerReferences": [{"apiVersion": "v1", "kind": "DaemonSet", "name": "x", "uid": "x"}]}
MIRROR = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x"}]}


def tainted(*pods: Document) -> Story:
    """These pods are on n1 for an hour, and n1 drains for half an hour."""
    story = cluster()
    for document in pods:
        story.put(document)
        story.bind(document["metadata"]["name"], "n1")
    story.now += 30 * MINUTE
    story.taint("n1")
    story.now += 30 * MINUTE
    return story


def critical(name: str, priority: str = "system-cluster-critical", **metadata: Any) -> Document:
    document = pod(name, cpu="100m", **metadata)
    document["spec"]["priorityClassName"] = priority
    return document


def small(name: str, **metadata: Any) -> Document:
    return pod(name, cpu="100m", **metadata)


# ------------------------------------------------------------------ bindings


def bound(edit: Edit, on: Edit = lambda _: None, *, later: int = MINUTE) -> Story:
    """A pod is bound to n3, which became as it is a minute before."""
    story = cluster()
    story.put(claim("n3"))
    document = node("n3")
    story.put(document)
    story.change("Node", "n3", on)
    story.now += later
    one = pod("a")
    edit(one)
    story.put(one)
    story.watchdog._found.clear()
    story.bind("a", "n3")
    return story


def untolerant(item: Document) -> None:
    item["spec"]["tolerations"] = []


def tolerant(item: Document) -> None:
    item["spec"]["tolerations"] = [{"operator": "Exists"}]


def down(item: Document) -> None:
    item["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def young(item: Document) -> None:
    item["spec"]["taints"].append({"key": "karpenter.sh/unregistered", "effect": "NoExecute"})


NOTHING: Edit = lambda _: None  # noqa: E731 - one word for it reads best in the tables
NOT_READY = ("bound to unready", "d/a", "is bound to n3, which is not Ready")
NOT_REGISTERED = ("bound to unready", "d/a", "is bound to n3, which is not registered")


@pytest.mark.parametrize(
    ("edit", "on", "first"),
    [
        (NOTHING, NOTHING, None),
        (NOTHING, down, NOT_READY),
        (tolerant, down, None),
        (NOTHING, young, NOT_REGISTERED),
        (tolerant, young, None),
        (untolerant, NOTHING, ("filter", "d/a")),
        (lambda item: item["spec"].update(nodeSelector={"team": "y"}), NOTHING, ("filter", "d/a")),
    ],
)
def test_where_a_pod_may_be_bound(edit: Edit, on: Edit, first: tuple[str, ...] | None) -> None:
    found = seen(bound(edit, on))
    assert (not found) == (first is None)
    assert first is None or found[0][: len(first)] == first
    assert all("is bound to n3" in message for *_, message in found)


@pytest.mark.parametrize(("later", "broken"), [(0, False), (SECOND - 1, False), (SECOND, True)])
def test_within_a_second_the_scheduler_cannot_know_what_became_of_a_node(later: int, broken: bool) -> None:
    assert bool(seen(bound(NOTHING, down, later=later))) is broken
    assert bool(seen(bound(NOTHING, young, later=later))) is broken
    # What changes no spec and no readiness is no news.
    noted = bound(untolerant, lambda item: item["metadata"].update(annotations={"a": "b"}), later=later)
    assert seen(noted)


def test_a_pod_is_bound_to_a_node_that_exists() -> None:
    story = cluster()
    story.put(pod("a"))
    story.bind("a", "none")
    assert seen(story) == [("bound nowhere", "d/a", "is bound to none, which does not exist")]


def test_what_its_author_bound_at_creation_is_no_promise() -> None:
    story = cluster()
    document = pod("a", cpu="9")
    document["spec"].update(nodeName="n1", tolerations=[])
    story.put(document)
    story.change("Pod", "a", lambda item: item["metadata"].update(labels={"x": "y"}))
    assert not seen(story)


def test_more_than_a_node_has_is_reported_by_resource() -> None:
    story = cluster()
    for name in ("a", "b"):
        story.put(pod(name, cpu="1500m"))
        story.bind(name, "n1")
    message = "pods ask for 3000 of cpu, 2000 are there"
    assert ("overcommitted", "n1", message) in seen(story)
    exact = cluster()
    for name in ("a", "b"):
        exact.put(pod(name, cpu="1"))
        exact.bind(name, "n1")
    assert not seen(exact)


# ------------------------------------------------------------------ evictions


@pytest.mark.parametrize(
    ("leaves", "stays", "broken"),
    [
        (critical("z"), small("a"), True),
        (critical("z", "system-node-critical"), small("a"), True),
        (critical("z", "high"), small("a"), False),
        (small("z", **DAEMON), small("a"), True),
        (critical("z"), small("a", **DAEMON), True),
        (critical("z", **DAEMON), critical("a"), True),
        (small("z"), critical("a"), False),
        (small("z"), small("a"), False),
        (critical("z"), small("a", **MIRROR), False),
        (critical("z"), {**small("a"), "status": {"phase": "Succeeded"}}, False),
    ],
)
def test_pods_leave_in_their_turn(leaves: Document, stays: Document, broken: bool) -> None:
    story = tainted(leaves, stays)
    story.change("Pod", "z", evict)
    message = "is evicted before d/a, whose turn is earlier"
    assert seen(story) == ([("drain order", "d/z", message)] if broken else [])
    story.change("Pod", "z", lambda item: item["metadata"].update(labels={"x": "y"}))
    assert len(seen(story)) == broken  # it is reported once


def test_nothing_is_promised_of_pods_that_wait_or_that_nothing_is_known_of() -> None:
    story = cluster()
    for name in ("a", "b"):
        story.put(small(name))
    story.change("Pod", "a", evict)
    story.remove("Pod", "b")
    story.watchdog.pod_deletion("d/none", "uid")
    assert not seen(story)


def test_an_eviction_of_what_is_protected_is_reported_once() -> None:
    story = tainted(small("a", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    story.change("Pod", "a", evict)
    story.change("Pod", "a", lambda item: item["metadata"].update(labels={"x": "y"}))
    assert [rule for rule, _, _ in seen(story)] == ["do-not-disrupt"]


def test_the_first_whose_turn_is_earlier_is_named() -> None:
    story = tainted(critical("z"), small("c"), small("b"))
    story.change("Pod", "z", evict)
    assert seen(story) == [("drain order", "d/z", "is evicted before d/b, whose turn is earlier")]


@pytest.mark.parametrize(("age", "broken"), [(30 * SECOND, True), (29 * SECOND, False)])
def test_a_pod_that_has_just_come_may_be_unknown(age: int, broken: bool) -> None:
    story = tainted(critical("z"))
    story.put(small("a"))
    tolerated = [{"key": "team", "operator": "Exists"}, {"key": "other", "operator": "Exists"}]
    story.change("Pod", "a", lambda item: item["spec"].update(tolerations=tolerated))
    story.bind("a", "n1")
    story.watchdog._found.clear()  # it crossed the taint, which is another matter
    story.now += age
    story.change("Pod", "z", evict)
    assert bool(seen(story)) is broken


@pytest.mark.parametrize(
    ("since", "broken"),
    # It counts as stuck a minute after it should be gone, by clocks that are 95 s apart.
    [(0, True), (-35 * SECOND, True), (36 * SECOND, False), (60 * SECOND, False)],
)
def test_a_pod_that_will_not_stop_holds_up_nothing(since: int, broken: bool) -> None:
    story = tainted(critical("z"), small("a"))
    gone = to_rfc3339(story.now + 35 * SECOND - since)
    story.change("Pod", "a", lambda item: item["metadata"].update(deletionTimestamp=gone))
    story.change("Pod", "z", evict)
    assert bool(seen(story)) is broken


def test_pods_leave_a_node_that_is_tainted() -> None:
    story = cluster()
    for name in ("a", "b"):
        story.put(small(name))
        story.bind(name, "n1")
        story.change("Pod", name, lambda item: item["status"].update(phase="Running"))
    story.change("Pod", "a", evict)
    message = "is evicted from n1, which lacks the taint karpenter.sh/disrupted"
    assert seen(story) == [("drain without taint", "d/a", message)]
    story.taint("n1")
    story.change("Pod", "b", evict)
    assert len(seen(story)) == 1


def test_pods_leave_a_node_that_is_to_reboot() -> None:
    story = cluster()
    story.put(small("a"))
    story.bind("a", "n1")
    story.change("Pod", "a", lambda item: item["status"].update(phase="Running"))
    taints = [{"key": labels.REBOOTING_TAINT, "effect": "NoSchedule"}]
    story.change("Node", "n1", lambda item: item["spec"].update(taints=taints))
    story.change("Pod", "a", evict)
    assert not seen(story)


@pytest.mark.parametrize(
    ("mark", "status", "broken"),
    [
        ("true", {}, True),
        ("false", {}, False),
        ("90m", {}, True),  # it has not started
        ("90m", {"startTime": to_rfc3339(START)}, True),
        ("60m", {"startTime": to_rfc3339(START + SECOND)}, True),
        ("60m", {"startTime": to_rfc3339(START)}, False),
        ("0s", {}, False),
        ("-5m", {}, False),
    ],
)
def test_which_pods_may_not_be_evicted(mark: str, status: Document, broken: bool) -> None:
    document = small("a", annotations={"karpenter.sh/do-not-disrupt": mark})
    document["status"].update(status)
    story = tainted(document)
    story.change("Pod", "a", evict)
    message = "was evicted in spite of karpenter.sh/do-not-disrupt"
    assert seen(story) == ([("do-not-disrupt", "d/a", message)] if broken else [])


@pytest.mark.parametrize(
    ("edit", "broken"),
    [
        (NOTHING, True),
        (lambda item: item["metadata"].update(namespace="other"), False),
        (lambda item: item["spec"].pop("selector"), False),
        (lambda item: item["spec"].update(selector={"matchLabels": {"app": "x"}}), False),
        (lambda item: item["spec"].update(selector={}), True),
    ],
)
def test_which_budgets_hold_a_pod(edit: Edit, broken: bool) -> None:
    story = tainted(small("a"))
    document = budget()
    edit(document)
    story.put(document)
    story.change("Pod", "a", evict)
    message = "the eviction of d/a leaves 0 healthy pods, 1 are wanted"
    assert seen(story) == ([("disruption budget of pods", document_key(document), message)] if broken else [])


def document_key(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


@pytest.mark.parametrize(
    ("other", "broken"),
    [
        (NOTHING, False),
        (lambda item: item["status"].update(conditions=[]), True),  # not healthy
        (lambda item: item["metadata"].update(deletionTimestamp=to_rfc3339(START)), True),
        (lambda item: item["status"].update(phase="Failed"), True),
        (lambda item: item["metadata"].update(labels={"app": "x"}), True),
        (lambda item: item["metadata"].update(namespace="e"), True),
    ],
)
def test_which_pods_keep_a_budget(other: Edit, broken: bool) -> None:
    second = small("b")
    other(second)
    story = tainted(small("a"), second)
    story.put(budget())
    story.change("Pod", "a", evict)
    assert [rule for rule, *_ in seen(story)] == (["disruption budget of pods"] if broken else [])


def test_a_pod_that_is_not_healthy_breaks_no_budget() -> None:
    document = small("a")
    document["status"]["conditions"] = []
    story = tainted(document)
    story.put(budget())
    story.change("Pod", "a", evict)
    assert not seen(story)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (NOTHING, "is deleted by force though its node has no deadline"),
        (lambda item: item.update(deadline=START), None),
        (lambda item: item.update(going=True), None),
        (lambda item: item.update(unbound=True), "is deleted by force though its node has no deadline"),
        (
            lambda item: item.update(deadline=START + 600 * SECOND),
            f"is deleted by force too early: its node has until {to_rfc3339(START + 600 * SECOND)}",
        ),
    ],
)
def test_when_a_pod_may_be_deleted_by_force(case: Edit, message: str | None) -> None:
    state: Document = {}
    case(state)
    story = cluster()
    document = small("a")
    if state.get("going"):
        document["metadata"]["deletionTimestamp"] = to_rfc3339(START)
    story.put(document)
    if not state.get("unbound"):
        story.bind("a", "n1")
    if "deadline" in state:
        stamp = {STAMP: to_rfc3339(state["deadline"])}
        story.change("NodeClaim", "n1", lambda item: item["metadata"].update(annotations=stamp))
    story.watchdog.pod_deletion("d/a")
    assert seen(story) == ([("forced deletion", "d/a", message)] if message else [])


# ------------------------------------------------------------------ pods that wait beside room


@pytest.mark.parametrize(
    ("edit", "waited", "lost"),
    [
        (NOTHING, 6 * MINUTE, True),
        (NOTHING, 6 * MINUTE - SECOND, False),
        (untolerant, 6 * MINUTE, False),
        (lambda item: item["spec"].update(schedulingGates=[{"name": "g"}]), 6 * MINUTE, False),
        (lambda item: item["spec"].update(schedulerName="mine"), 6 * MINUTE, False),
        (lambda item: item["metadata"].update(deletionTimestamp=to_rfc3339(START)), 6 * MINUTE, False),
        (lambda item: item["status"].update(phase="Failed"), 6 * MINUTE, False),
        (lambda item: item["metadata"].pop("creationTimestamp"), 60 * MINUTE, False),
    ],
)
def test_a_pod_does_not_wait_beside_room(edit: Edit, waited: int, lost: bool) -> None:
    story = cluster()
    document = pod("a")
    edit(document)
    story.put(document)
    story.now += waited
    wanted = [("lost pod", "d/a", "still waits although n1 would take it")] if lost else []
    assert finish(story) == wanted


@pytest.mark.parametrize(
    ("ready", "calm", "lost"), [(True, True, "n1"), (False, True, "n2"), (True, False, "n2")]
)
def test_a_node_that_is_down_or_has_just_changed_is_no_room(ready: bool, calm: bool, lost: str) -> None:
    story = cluster()
    story.put(pod("a"))
    if not ready:
        story.change("Node", "n1", down)
    story.now += 6 * MINUTE
    if not calm:
        story.put(small("b"))
        story.bind("b", "n1")
        story.remove("Pod", "b")
    assert finish(story) == [("lost pod", "d/a", f"still waits although {lost} would take it")]


def test_room_that_a_pod_left_lately_is_not_to_be_known_yet() -> None:
    story = cluster()
    story.remove("Node", "n2")
    story.put(pod("big", cpu="2"))
    story.bind("big", "n1")
    story.put(pod("a"))
    story.now += 30 * MINUTE
    assert not [item for item in finish(story) if item[0] == "lost pod"]
    story.change("Pod", "big", lambda item: item["status"].update(phase="Succeeded"))
    assert not [item for item in finish(story) if item[0] == "lost pod"]
    story.now += 6 * MINUTE
    assert [item for item in finish(story) if item[0] == "lost pod"]


def test_pods_that_are_gone_and_nodes_that_are_gone_are_forgotten() -> None:
    story = cluster()
    story.put(pod("a", cpu="2"))
    story.bind("a", "n1")
    story.remove("Pod", "a")
    story.put(pod("b", cpu="2"))
    story.bind("b", "n1")
    assert not seen(story)
    story.put(pod("c"))
    story.remove("NodeClaim", "n2")
    story.put(node("n2", finalizers=[]))
    story.watchdog.ended("i-n2")
    story.remove("Node", "n2")
    story.now += 20 * MINUTE
    assert not [item for item in finish(story) if item[0] == "lost pod"]


# ------------------------------------------------------------------ volumes, namespaces, pools


def claimed(name: str, volume: str) -> Document:
    document = pod(name)
    document["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": volume}}]
    return document


COMPLETE = {BIND_COMPLETED: "yes"}  # of claims: without it the scheduler takes them for unbound


def test_volumes_keep_a_pod_where_they_are() -> None:
    story = cluster()
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}
    story.change("Node", "n1", lambda item: item["metadata"]["labels"].update({zone["key"]: "a"}))
    story.now += MINUTE
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pv"}}
    story.put({**volume, "spec": {"nodeAffinity": terms, "claimRef": {"namespace": "d", "name": "data"}}})
    meta = {"name": "data", "namespace": "d", "annotations": COMPLETE}
    owner = {"kind": "PersistentVolumeClaim", "metadata": meta}
    story.put({**owner, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}})
    story.put(claimed("a", "data"))
    story.bind("a", "n1")
    assert [rule for rule, *_ in seen(story)] == ["filter"]
    story.put({**volume, "spec": {"claimRef": {"namespace": "d", "name": "data"}}})
    story.put(claimed("b", "data"))
    story.bind("b", "n1")
    assert len(seen(story)) == 1
    story.remove("PersistentVolumeClaim", "data")
    story.put(claimed("c", "data"))
    story.bind("c", "n1")
    assert len(seen(story)) == 2


@pytest.mark.parametrize("order", [("CSINode", "Node"), ("Node", "CSINode")])
def test_a_node_attaches_so_many_volumes(order: tuple[str, str]) -> None:
    story = Story()
    story.put(pool())
    story.put(claim("n1"))
    drivers = [
        {"name": "csi", "nodeID": "n1", "topologyKeys": [], "allocatable": {"count": 1}},
        {"name": "free", "nodeID": "n1", "topologyKeys": []},
    ]
    both = {
        "Node": node("n1"),
        "CSINode": {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": drivers}},
    }
    for kind in order:
        story.put(both[kind])
    for name in ("a", "b"):
        source = {"driver": "csi", "volumeHandle": name}
        volume = {"kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}}
        story.put({**volume, "spec": {"csi": source, "claimRef": {"namespace": "d", "name": name}}})
        meta = {"name": name, "namespace": "d", "annotations": COMPLETE}
        owner = {"kind": "PersistentVolumeClaim", "metadata": meta}
        story.put({**owner, "spec": {"volumeName": f"pv-{name}"}, "status": {"phase": "Bound"}})
        story.put(claimed(name, name))
        story.now += MINUTE
        story.bind(name, "n1")
    found = seen(story)
    assert [(rule, subject) for rule, subject, _ in found] == [("filter", "d/b")]


def test_labels_of_namespaces_count_for_rules_between_pods() -> None:
    def play(*changes: str) -> list[str]:
        story = cluster()
        space: Document = {"kind": "Namespace", "metadata": {"name": "e", "labels": {"kind": "shop"}}}
        for change in changes:
            if change == "remove":
                story.remove("Namespace", "e")
            else:
                story.put(space)
        other = small("other")
        other["metadata"]["namespace"] = "e"
        story.put(other)
        story.bind("other", "n1")
        term = {
            "topologyKey": "karpenter.sh/nodepool",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kind": "shop"}},
        }
        document = small("a")
        document["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        story.put(document)
        story.bind("a", "n1")
        return [rule for rule, *_ in seen(story)]

    assert play("put") == ["filter"]
    assert play() == play("put", "remove") == []


# ------------------------------------------------------------------ gangs


def member(name: str, cpu: str = "500m", **annotations: str) -> Document:
    """Of a gang of three, by what its pods say themselves."""
    group = {
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "3",
    }
    return pod(name, cpu=cpu, labels=group, annotations=annotations)


@pytest.mark.parametrize(
    ("cpu", "bound", "told"), [("500m", 0, 3), ("1500m", 0, 0), ("1500m", 1, 0), ("500m", 1, 2)]
)
def test_pods_wait_with_their_gang_beside_too_few_nodes(cpu: str, bound: int, told: int) -> None:
    """Two nodes of two cores: three pods of half a core have room, three of one and a half do not."""
    story = cluster()
    for at in range(3):
        story.put(member(f"m{at}", cpu))
    for at in range(bound):
        story.bind(f"m{at}", "n1")
    story.now += 6 * MINUTE
    assert [rule for rule, *_ in finish(story)] == ["lost pod"] * told


@pytest.mark.parametrize(
    ("reason", "annotations", "members", "began", "told"),
    [
        ("Underutilized", {}, 3, 10 * MINUTE, True),
        ("Underutilized", {}, 4, 10 * MINUTE, False),  # one more than it needs
        ("Underutilized", {}, 2, 10 * MINUTE, False),  # it does not run
        ("Underutilized", {}, 3, MINUTE, False),  # it may not have run when that was decided
        ("Underutilized", {labels.GANG_MAY_STOP: "true"}, 3, 10 * MINUTE, False),
        ("Drifted", {}, 3, 10 * MINUTE, False),
    ],
)
def test_gangs_are_not_stopped_to_save_money(
    reason: str, annotations: dict[str, str], members: int, began: int, told: bool
) -> None:
    story = cluster()
    for at in range(members):
        story.put(member(f"m{at}", "100m", **annotations))
        story.bind(f"m{at}", "n1")
    story.now += began
    state(story, "n1", condition("DisruptionReason", "True", reason, to_rfc3339(story.now)))
    story.taint("n1")
    story.now += MINUTE
    story.change("Pod", "m0", evict)
    message = "was evicted to save money: 2 of the 3 that d/g needs run"
    assert seen(story) == ([("gang stopped", "d/m0", message)] if told else [])
