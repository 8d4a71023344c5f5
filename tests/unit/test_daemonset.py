"""Which nodes a DaemonSet covers, and what it does about them."""

from __future__ import annotations

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, NodeSpec, Pod, PodTemplateSpec, Taint
from dovetail.api.meta import Meta
from dovetail.model.daemons import node_of
from dovetail.model.labels import DISRUPTED_TAINT, UNREGISTERED_TAINT
from dovetail.model.podtemplate import REVISION_LABEL
from dovetail.simulate.workloads.daemonset import (
    Coverage,
    Fit,
    daemon_spec,
    decide,
    fit,
    node_matters,
)

IO = "node.kubernetes.io/"
RUN, STAY, LEAVE = Fit(True, True), Fit(False, True), Fit(False, False)
TOLERATES_ALL = {"tolerations": [{"operator": "Exists"}]}
LINUX = {"nodeSelector": {"kubernetes.io/os": "linux"}}
ZONES = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
                ]
            }
        }
    }
}


def template(spec: dict[str, object]) -> PodTemplateSpec:
    return decode({"spec": spec}, PodTemplateSpec)


def node(*taints: tuple[str, str], name: str = "n1", **labels: str) -> Node:
    return Node(
        metadata=Meta(name=name, labels={"kubernetes.io/os": "linux", **labels}),
        spec=NodeSpec(taints=tuple(Taint(key=key, effect=effect) for key, effect in taints)),
    )


@pytest.mark.parametrize(
    ("why", "spec", "where", "expected"),
    [
        ("plain", {}, node(), RUN),
        ("a selector that holds", LINUX, node(), RUN),
        ("a selector that does not", {"nodeSelector": {"gpu": "yes"}}, node(), LEAVE),
        ("any of the affinity's terms", ZONES, node(zone="b"), RUN),
        ("none of the affinity's terms", ZONES, node(zone="c"), LEAVE),
        ("a taint keeps new pods away", {}, node(("dedicated", "NoSchedule")), STAY),
        ("a taint drives pods away", {}, node(("dedicated", "NoExecute")), LEAVE),
        ("a soft taint does nothing", {}, node(("dedicated", "PreferNoSchedule")), RUN),
        ("tolerates all", TOLERATES_ALL, node((UNREGISTERED_TAINT, "NoExecute")), RUN),
        (
            "not ready is tolerated by every daemon",
            {},
            node((IO + "not-ready", "NoExecute")),
            RUN,
        ),
        (
            "cordoned is tolerated by every daemon",
            {},
            node((IO + "unschedulable", "NoSchedule")),
            RUN,
        ),
        (
            "the network, on the host network only",
            {},
            node((IO + "network-unavailable", "NoSchedule")),
            STAY,
        ),
        (
            "on the host network",
            {"hostNetwork": True},
            node((IO + "network-unavailable", "NoSchedule")),
            RUN,
        ),
        ("a node that leaves takes no new daemons", {}, node((DISRUPTED_TAINT, "NoSchedule")), STAY),
    ],
)
def test_fit(why: str, spec: dict[str, object], where: Node, expected: Fit) -> None:
    assert fit(template(spec), where) == expected, why


def daemon(
    name: str,
    where: str,
    *,
    revision: str = "r1",
    phase: str = "Running",
    bound: bool = True,
    ready: bool = True,
) -> Pod:
    made = Pod(
        metadata=Meta(name=name, uid=name, labels={REVISION_LABEL: revision}),
        spec=daemon_spec(template({}), where),
    )
    document = {
        "metadata": {"name": name, "uid": name, "labels": {REVISION_LABEL: revision}},
        "spec": {"nodeName": where},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return decode(document, Pod) if bound else made


A, B, OLD = daemon("a", "n1"), daemon("b", "n2"), daemon("old", "n1", revision="r0")
OLD2 = daemon("old", "n2", revision="r0")
BROKEN = daemon("broken", "n1", revision="r0", ready=False)


@pytest.mark.parametrize(
    ("why", "fits", "pods", "expected"),
    [
        ("one per node", {"n1": RUN, "n2": RUN}, [], Coverage(("n1", "n2"), ())),
        ("not twice", {"n1": RUN, "n2": RUN}, [A], Coverage(("n2",), ())),
        (
            "not twice while it waits to be bound",
            {"n1": RUN},
            [daemon("w", "n1", bound=False)],
            Coverage((), ()),
        ),
        ("gone nodes", {"n2": RUN}, [A, B], Coverage((), (A,))),
        ("no longer wanted", {"n1": LEAVE}, [A], Coverage((), (A,))),
        ("may stay, is not made", {"n1": STAY, "n2": STAY}, [A], Coverage((), ())),
        ("finished pods are made anew", {"n1": RUN}, [daemon("f", "n1", phase="Failed")], None),
        ("outdated pods go when all are there", {"n1": RUN, "n2": RUN}, [OLD, B], Coverage((), (OLD,))),
        ("one at a time", {"n1": RUN, "n2": RUN}, [daemon("x", "n1", ready=False), OLD2], Coverage((), ())),
        ("broken outdated pods do not wait", {"n1": RUN, "n2": RUN}, [BROKEN, B], Coverage((), (BROKEN,))),
        ("outdated pods wait for the others", {"n1": RUN, "n2": RUN}, [OLD], Coverage(("n2",), ())),
    ],
)
def test_coverage(why: str, fits: dict[str, Fit], pods: list[Pod], expected: Coverage | None) -> None:
    expected = Coverage(("n1",), tuple(pods)) if expected is None else expected
    assert decide(fits, pods, "r1") == expected, why


def test_pods_are_pinned_and_keep_their_preferences() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    spec = daemon_spec(template({"affinity": affinity}), "n7")
    assert node_of(Pod(spec=spec)) == "n7"
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None
    assert len(spec.affinity.node_affinity.preferred) == 1


def test_only_labels_and_taints_matter() -> None:
    assert not node_matters(node(), node())
    assert node_matters(node(), node(zone="a"))
    assert node_matters(node(), node(("x", "NoSchedule")))
