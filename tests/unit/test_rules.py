"""Selectors, ports, volumes, spread and affinity, as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.core import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
)
from dovetail.api.meta import LabelSelector, Meta
from dovetail.api.workloads import StorageClass
from dovetail.model.affinity import affinity_rules
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.filters import Placement, check, unschedulable_message
from dovetail.model.pod_rules import rules_of
from dovetail.model.ports import HostPort, host_ports, port_error
from dovetail.model.requirement import pod_requirements
from dovetail.model.selector import EVERYTHING, NOTHING, Selector
from dovetail.model.spread import spread_rules
from dovetail.model.volumes import (
    BIND_COMPLETED,
    VolumeIndex,
    csi_volumes,
    ignored_reason,
    volume_alternatives,
    volume_limit_error,
)

ZONE = "topology.kubernetes.io/zone"


def pod(name: str = "p", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    document = {"metadata": {"name": name, "namespace": "default", "labels": labels or {}}, "spec": spec}
    return decode(document, Pod)


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b,c!=d", {"a": "b"}, True),
        ("a=b, c!=d", {"a": "b", "c": "d"}, False),
        ("a in (b, c),!d", {"a": "c"}, True),
        ("a in (b, c),!d", {"a": "c", "d": ""}, False),
        ("a notin (b)", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "4"}, False),
        ("a>3", {"a": "1_0"}, False),
        ("a=", {"a": ""}, True),
    ],
)
def test_selector_text(text: str, labels: dict[str, str], expected: bool) -> None:
    assert Selector.parse(text).matches(labels) is expected


@pytest.mark.parametrize("text", ["a in b", "=b", "a=b c", "a in (b"])
def test_selector_text_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read label selector"):
        Selector.parse(text)


def test_selector_objects() -> None:
    assert Selector.read(None) == NOTHING
    assert not NOTHING.matches({})
    assert Selector.read(LabelSelector()) == EVERYTHING
    assert Selector.read(LabelSelector(match_labels={"a": "b"})) == Selector.parse("a=b")


@pytest.mark.parametrize(
    ("a", "b", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
    ],
)
def test_host_ports_clash(a: HostPort, b: HostPort, clash: bool) -> None:
    assert a.conflicts(b) is b.conflicts(a) is clash
    assert bool(port_error([a], [b])) is clash


def test_host_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    port = {"ports": [{"hostPort": 80, "hostIP": "0.0.0.0"}]}
    assert host_ports(pod(initContainers=[port])) == ()
    assert host_ports(pod(initContainers=[{**port, "restartPolicy": "Always"}])) == (HostPort(80),)


def bound_claim(name: str, volume: str) -> PersistentVolumeClaim:
    return decode(
        {
            "metadata": {"name": name, "namespace": "default", "annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume, "storageClassName": "gp3"},
        },
        PersistentVolumeClaim,
    )


def zonal_volume(name: str, *zones: str, **more: Any) -> PersistentVolume:
    terms = [
        {
            "matchExpressions": [
                {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [zone]},
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["old-node"]},
            ][: 2 if more else 1]
        }
        for zone in zones
    ]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "csi": {"driver": "ebs.csi.aws.com"}}
    return decode({"metadata": {"name": name}, "spec": {**spec, **more}}, PersistentVolume)


def with_claims(*names: str) -> Pod:
    return pod(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names])


def storage_class(**fields: Any) -> StorageClass:
    return decode(
        {"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", **fields},
        StorageClass,
    )


INDEX = VolumeIndex(
    claims={
        "default/a": bound_claim("a", "va"),
        "default/b": bound_claim("b", "vb"),
        "default/late": decode(
            {"metadata": {"name": "late", "namespace": "default"}, "spec": {"storageClassName": "gp3"}},
            PersistentVolumeClaim,
        ),
    },
    volumes={"va": zonal_volume("va", "a", "b"), "vb": zonal_volume("vb", "b", local={"path": "/x"})},
    classes={
        "gp3": storage_class(
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}],
        )
    },
)


@pytest.mark.parametrize(
    ("operator", "values", "meetable"),
    [
        ("Gt", ["9223372036854775806"], True),
        ("Gt", ["9223372036854775807"], False),
        ("Gte", ["9223372036854775807"], True),
        ("Lt", ["-9223372036854775807"], True),
        ("Lt", ["-9223372036854775808"], False),
        ("In", ["a"], True),
        ("In", [], False),
        ("NotIn", ["a"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], True),
    ],
)
def test_no_node_meets_a_term_of_no_values(operator: str, values: list[str], meetable: bool) -> None:
    never = {"matchExpressions": [{"key": "rack", "operator": operator, "values": values}]}
    other = {"matchExpressions": [{"key": "size", "operator": "Exists"}]}
    for terms, left in (([never], int(meetable)), ([never, other], 1 + int(meetable))):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        asking = pod(affinity={"nodeAffinity": required})
        assert len(pod_requirements(asking)) == left
        assert rules_of(asking, respect_preferences=True).hopeless == (left == 0)


def test_volume_alternatives_are_every_combination() -> None:
    assert [str(item) for item in volume_alternatives(pod(), INDEX)] == [""]
    assert [str(item) for item in volume_alternatives(with_claims("a"), INDEX)] == [
        f"{ZONE} In [a]",
        f"{ZONE} In [b]",
    ]
    assert [str(item) for item in volume_alternatives(with_claims("a", "b"), INDEX)] == [
        f"{ZONE} DoesNotExist",
        f"{ZONE} In [b]",
    ]
    assert [str(item) for item in volume_alternatives(with_claims("late"), INDEX)] == [f"{ZONE} In [a c]"]


def test_volumes_of_before_csi_count_under_the_driver_that_has_taken_them_over() -> None:
    old = {"csi": None, "awsElasticBlockStore": {"volumeID": "vol-1"}}
    index = replace(INDEX, volumes={"va": zonal_volume("va", "a", **old)})
    assert csi_volumes(with_claims("a"), index) == {"ebs.csi.aws.com": frozenset({"va"})}


def test_csi_limits_count_each_attachment_once() -> None:
    wanted = csi_volumes(with_claims("a", "late"), INDEX)
    assert wanted == {"ebs.csi.aws.com": frozenset({"va", "default/late"})}
    used = {"ebs.csi.aws.com": frozenset({"va"})}
    assert volume_limit_error(wanted, used, {"ebs.csi.aws.com": 2}) == ""
    assert volume_limit_error(wanted, used, {"ebs.csi.aws.com": 1}) == (
        "checking volume usage, would exceed volume limit "
        "(provisioner=ebs.csi.aws.com, volume-count=2, volume-limit=1)"
    )


@pytest.mark.parametrize(
    ("claim", "class_fields", "reason"),
    [
        (None, {}, 'persistentvolumeclaim "x" not found'),
        ({"metadata": {"deletionTimestamp": "now"}}, {}, "persistentvolumeclaim is being deleted"),
        ({"status": {"phase": "Lost"}}, {}, "persistentvolumeclaim bound to non-existent persistentvolume"),
        ({"spec": {"volumeName": "va"}}, {}, "pvc is considered unbound"),
        ({}, {}, "unbound pvc must define a storage class"),
        ({"spec": {"storageClassName": "no"}}, {}, 'storageclass.storage.k8s.io "no" not found'),
        ({"spec": {"storageClassName": "gp3"}}, {}, "failed to validate pvc, pvc with immediate volume"),
        (
            {"spec": {"storageClassName": "gp3"}},
            {
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "rack", "values": ["1"]}]}],
            },
            "failed to validate pvc, storage class uses unsupported topology key",
        ),
        (
            {"spec": {"storageClassName": "gp3"}},
            {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "ebs.csi.eks.amazonaws.com"},
            "failed to validate pvc, provisioner is not supported",
        ),
        ({"spec": {"storageClassName": "gp3"}}, {"volumeBindingMode": "WaitForFirstConsumer"}, ""),
    ],
)
def test_ignored_for_its_volumes(claim: Any, class_fields: dict[str, Any], reason: str) -> None:
    claims = {} if claim is None else {"default/x": decode(claim, PersistentVolumeClaim)}
    index = VolumeIndex(claims=claims, classes={"gp3": storage_class(**class_fields)})
    answer = ignored_reason(with_claims("x"), index)
    assert answer.startswith(reason)
    assert bool(answer) == bool(reason)


def test_match_label_keys_narrow_selectors() -> None:
    web = pod(
        labels={"app": "web", "hash": "1"},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "topologyKey": ZONE,
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["hash", "absent"],
            }
        ],
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": ZONE,
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "mismatchLabelKeys": ["hash"],
                    }
                ]
            }
        },
    )
    (spread,) = spread_rules(web)
    assert spread.counts("default", {"app": "web", "hash": "1"})
    assert not spread.counts("default", {"app": "web", "hash": "2"})
    assert not spread.counts("other", {"app": "web", "hash": "1"})
    (rule,) = affinity_rules(web).anti_affinity
    assert rule.matches("default", {"app": "web", "hash": "2"}, {})
    assert not rule.matches("default", {"app": "web", "hash": "1"}, {})


def node(name: str, **fields: Any) -> NodeView:
    labels = {"kubernetes.io/hostname": name, ZONE: fields.pop("zone", "a")}
    return NodeView(name, labels, fields.pop("allocatable", {"cpu": 1000, "pods": 2}), **fields)


def test_a_claim_for_one_pod_is_in_use_wherever_that_is() -> None:
    """As a real scheduler of 1.36 said."""
    bound = bound_claim("a", "va")
    alone = msgspec.structs.replace(
        bound, spec=msgspec.structs.replace(bound.spec, access_modes=("ReadWriteOncePod",))
    )
    index = VolumeIndex(claims={**INDEX.claims, "default/a": alone}, volumes=INDEX.volumes)
    view = ClusterView([node("a1"), node("a2")], volumes=index)
    first = with_claims("a")
    second = msgspec.structs.replace(first, metadata=Meta(name="q", namespace="default"))
    assert check(first, "a1", view) == check(second, "a2", view) == ()
    view.add_pod(first, "a1")
    told = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
    )
    assert check(second, "a1", view) == check(second, "a2", view) == told
    assert check(first, "a1", view) == ()
    assert not Placement(second, view).local
    view.remove_pod(first.key)
    assert check(second, "a2", view) == ()


def test_volume_filters() -> None:
    view = ClusterView(
        [node("a1", volume_limits={"ebs.csi.aws.com": 1}), node("c1", zone="c")], volumes=INDEX
    )
    assert check(with_claims("a"), "a1", view) == ()
    assert check(with_claims("a"), "c1", view) == ("node(s) didn't match PersistentVolume's node affinity",)
    assert check(with_claims("late"), "c1", view) == ()
    assert check(with_claims("a", "late"), "a1", view) == ("node(s) exceed max volume count",)
    message = unschedulable_message(with_claims("missing"), view)
    assert message == '0/2 nodes are available: persistentvolumeclaim "missing" not found. not found'


def test_volumes_that_a_real_scheduler_was_asked_about() -> None:
    """As a real scheduler (1.36.3) answered: it names both reasons, and knows labels of old volumes."""
    old = decode(
        {"metadata": {"name": "old", "labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}},
        PersistentVolume,
    )
    local = zonal_volume("free", "a")
    by_hand = storage_class(
        provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    )
    unbound = decode(
        {"metadata": {"name": "local", "namespace": "default"}, "spec": {"storageClassName": "local"}},
        PersistentVolumeClaim,
    )
    index = VolumeIndex(
        claims={**INDEX.claims, "default/old": bound_claim("old", "old"), "default/local": unbound},
        volumes={**INDEX.volumes, "old": old},
        classes={**INDEX.classes, "local": by_hand},
    )
    nodes = [node("a1"), node("b1", zone="b"), node("c1", zone="c"), node("d1", zone="d")]
    elsewhere, none_here, zone = (
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) had no available volume zone",
    )

    def answers(*names: str, volumes: dict[str, PersistentVolume] | None = None) -> list[tuple[str, ...]]:
        known = VolumeIndex(index.claims, {**index.volumes, **(volumes or {})}, index.classes)
        view = ClusterView(nodes, volumes=known)
        return [check(with_claims(*names), one.name, view) for one in nodes]

    assert answers("a", "late") == [(), (none_here,), (elsewhere,), (elsewhere, none_here)]
    assert answers("old") == [(), (), (zone,), (zone,)]
    assert answers("local") == [(none_here,)] * 4
    free = msgspec.structs.replace(
        local, spec=msgspec.structs.replace(local.spec, storage_class_name="local")
    )
    assert answers("local", volumes={"free": free}) == [(), *[(none_here,)] * 3]
    taken = msgspec.structs.replace(free.spec, claim_ref=ObjectReference(namespace="default", name="x"))
    kept = msgspec.structs.replace(free, spec=taken)
    assert answers("local", volumes={"free": kept}) == [(none_here,)] * 4


def test_a_claim_whose_volume_is_gone() -> None:
    lost = msgspec.structs.replace(
        bound_claim("lost", "vl"), status=PersistentVolumeClaimStatus(phase="Lost")
    )
    view = ClusterView([node("a1")], volumes=VolumeIndex(claims={"default/lost": lost}))
    told = 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "vl"'
    assert unschedulable_message(with_claims("lost"), view) == f"0/1 nodes are available: {told}. not found"


def test_view_follows_pods_and_nodes() -> None:
    view = ClusterView([node("a1")])
    small = {"containers": [{"resources": {"requests": {"cpu": "400m"}}, "ports": [{"hostPort": 80}]}]}
    view.add_pod(pod("one", **small), "a1")
    view.add_pod(pod("early", **small), "a2")
    view.check()
    assert check(pod("two", **small), "a1", view) == (
        "node(s) didn't have free ports for the requested pod ports",
    )
    view.remove_pod("default/one")
    assert check(pod("two", **small), "a1", view) == ()
    view.set_node(node("a2"))
    view.check()
    assert list(view.nodes["a2"].pods) == ["default/early"]
    view.set_node(node("a2", unschedulable=True))
    assert check(pod("two"), "a2", view) == ("node(s) were unschedulable",)
    view.remove_node("a2")
    view.remove_pod("default/early")
    view.check()


def test_too_many_pods_and_too_little_cpu() -> None:
    view = ClusterView([node("a1", allocatable={"cpu": 100, "pods": 0})])
    hungry = pod(containers=[{"resources": {"requests": {"cpu": "1"}}}])
    assert check(hungry, "a1", view) == ("Too many pods", "Insufficient cpu")
