"""Sets of objects of old generations in v1: what each field becomes, and what only a set shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.api.admission import SCHEMAS, admit
from dovetail.api.generations import beta_schema, beta_to_v1
from dovetail.api.generations.admission import broken_rules, old_schema
from dovetail.api.generations.editing import ABSENT, Editor, shown
from dovetail.api.generations.upgrade import downgrade, upgrade
from dovetail.api.schema import with_defaults
from tests.conformance.generation_cases import as_go_writes, read_cases

Document = dict[str, Any]

_COMPATIBILITY = (beta_to_v1.KUBELET, beta_to_v1.REFERENCE, beta_to_v1.UBUNTU)


def _provisioner(name: str = "default", **spec: Any) -> Document:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "default"}, **spec},
    }


def _pool(name: str = "default", kubelet: Any = None, **spec: Any) -> Document:
    template: Document = {
        "nodeClassRef": {"name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
    }
    if kubelet is not None:
        template["kubelet"] = kubelet
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": template}, **spec},
    }


def _class(name: str = "default", **spec: Any) -> Document:
    terms = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "amiFamily": "AL2023",
            "role": "nodes",
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            **spec,
        },
    }


def _by_name(documents: list[Document]) -> dict[str, Document]:
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in documents}


BETA = [
    case["expected"].get("stored")
    for case in read_cases("v1beta1_v1")
    if case["from"].endswith("v1beta1") and case["expected"]["admission"]["accepted"]
]


@pytest.mark.parametrize("document", BETA, ids=lambda item: f"{item['kind']}")
def test_one_way_means_the_same_as_the_webhook(document: Document) -> None:
    """With v1's defaults both ways lead to one object, but for what is kept for the way back."""
    ours = upgrade([document])[0]
    if any(trouble.whole for trouble in ours.troubles):
        assert ours.document == document, "what cannot be converted is left as it is"
        return
    theirs = beta_to_v1.convert(document)
    schema = SCHEMAS[theirs["apiVersion"], theirs["kind"]]
    left, right = (with_defaults(schema, item) for item in (ours.document, theirs))
    for item in (left, right):
        for key in _COMPATIBILITY:
            item["metadata"].get("annotations", {}).pop(key, None)
    assert as_go_writes(left) == as_go_writes(right)


ACCEPTED_BETA = [case["object"] for case in read_cases("admission_v1beta1") if case["operation"] == "CREATE"]
ALPHA = [case["object"] for case in read_cases("alpha_validate")]


@pytest.mark.parametrize("document", [*ACCEPTED_BETA, *ALPHA], ids=lambda item: f"{item['kind']}")
def test_what_its_own_generation_admits_today_admits(document: Document) -> None:
    schema = old_schema(document)
    assert schema is not None
    before = json.dumps(document)
    unknown = not admits_all_fields(document)
    if unknown or broken_rules(schema, document):
        return
    for result in upgrade([document], role="nodes"):
        if not result.troubles:
            admit(result.document)
            assert list(result.document)[:2] == ["apiVersion", "kind"]
    assert json.dumps(document) == before


def admits_all_fields(document: Document) -> bool:
    from dovetail.api.schema import unknown_fields

    schema = old_schema(document)
    assert schema is not None
    return not list(unknown_fields(schema, document))


def test_defaults_of_the_webhook_are_written_out() -> None:
    spec = upgrade([_provisioner()])[0].document["spec"]["template"]["spec"]
    assert [(item["key"], item["values"]) for item in spec["requirements"]] == [
        ("kubernetes.io/os", ["linux"]),
        ("kubernetes.io/arch", ["amd64"]),
        ("karpenter.sh/capacity-type", ["on-demand"]),
        ("karpenter.k8s.aws/instance-category", ["c", "m", "r"]),
        ("karpenter.k8s.aws/instance-generation", ["2"]),
    ]


@pytest.mark.parametrize(
    ("spec", "disruption", "expire"),
    [
        ({}, ("WhenEmpty", "Never"), "Never"),
        ({"consolidation": {"enabled": False}}, ("WhenEmpty", "Never"), "Never"),
        ({"consolidation": {"enabled": True}}, ("WhenEmptyOrUnderutilized", "0s"), "Never"),
        ({"ttlSecondsAfterEmpty": 0}, ("WhenEmpty", "0s"), "Never"),
        (
            {"ttlSecondsAfterEmpty": 90, "ttlSecondsUntilExpired": 2_592_000},
            ("WhenEmpty", "1m30s"),
            "720h0m0s",
        ),
    ],
)
def test_when_nodes_go(spec: Document, disruption: tuple[str, str], expire: str) -> None:
    made = upgrade([_provisioner(**spec)])[0].document["spec"]
    assert (made["disruption"]["consolidationPolicy"], made["disruption"]["consolidateAfter"]) == disruption
    assert made["template"]["spec"]["expireAfter"] == expire


def test_a_full_reference_points_at_what_the_class_became() -> None:
    reference = {"name": "a", "kind": "AWSNodeTemplate", "apiVersion": "karpenter.k8s.aws/v1alpha1"}
    made = upgrade([_provisioner(providerRef=reference)])[0].document["spec"]["template"]["spec"]
    assert made["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}


def test_the_same_kubelet_everywhere_goes_into_the_class() -> None:
    made = _by_name(
        [
            item.document
            for item in upgrade([_pool("a", {"maxPods": 20}), _pool("b", {"maxPods": 20}), _class()])
        ]
    )
    assert list(made) == ["NodePool/a", "NodePool/b", "EC2NodeClass/default"]
    assert made["EC2NodeClass/default"]["spec"]["kubelet"] == {"maxPods": 20}
    assert all("kubelet" not in made[f"NodePool/{name}"]["spec"]["template"]["spec"] for name in "ab")


def test_pools_that_differ_get_classes_of_their_own() -> None:
    documents = [_pool("plain"), _pool("small", {"maxPods": 20}), _pool("large", {"maxPods": 200}), _class()]
    made = _by_name([item.document for item in upgrade(documents)])
    assert "kubelet" not in made["EC2NodeClass/default"]["spec"]
    for name, pods in (("small", 20), ("large", 200)):
        assert made[f"EC2NodeClass/default-{name}"]["spec"]["kubelet"] == {"maxPods": pods}
        reference = made[f"NodePool/{name}"]["spec"]["template"]["spec"]["nodeClassRef"]
        assert reference["name"] == f"default-{name}"
    assert made["NodePool/plain"]["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default"


def test_two_kubelets_without_a_plain_pool_take_one_copy() -> None:
    documents = [_class(), _pool("small", {"maxPods": 20}), _pool("large", {"maxPods": 200})]
    made = _by_name([item.document for item in upgrade(documents)])
    assert made["EC2NodeClass/default"]["spec"]["kubelet"] == {"maxPods": 20}
    assert made["EC2NodeClass/default-large"]["spec"]["kubelet"] == {"maxPods": 200}
    assert len(made) == 4


def test_a_kubelet_without_its_class_is_reported_and_kept() -> None:
    (made,) = upgrade([_pool(kubelet={"maxPods": 20})])
    assert [shown(trouble.path) for trouble in made.troubles] == ["spec.template.spec.kubelet"]
    assert made.document["metadata"]["annotations"][beta_to_v1.KUBELET] == '{"maxPods":20}'


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (_class(amiFamily="Ubuntu"), "spec.amiFamily"),
        (
            {
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "metadata": {"name": "a"},
                "spec": {"launchTemplate": "mine", "subnetSelector": {"a": "b"}},
            },
            "spec",
        ),
        (
            _class(subnetSelectorTerms=[{"id": "subnet-1", "tags": {"a": "b"}}, {"id": "subnet-2"}]),
            "spec.subnetSelectorTerms",
        ),
    ],
)
def test_what_needs_a_person_is_left_and_reported(document: Document, path: str) -> None:
    (made,) = upgrade([document])
    assert made.document == document
    assert [(shown(trouble.path), trouble.whole) for trouble in made.troubles] == [(path, True)]
    assert all(trouble.text and trouble.remedy for trouble in made.troubles)


def test_a_class_without_a_role_asks_for_one() -> None:
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "a"},
        "spec": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
    }
    (made,) = upgrade([template])
    assert made.troubles
    assert not made.troubles[0].whole
    (made,) = upgrade([template], role="KarpenterNodeRole-demo")
    assert not made.troubles
    assert made.document["spec"]["role"] == "KarpenterNodeRole-demo"


def test_what_kubectl_applied_last_is_of_another_generation() -> None:
    document = _pool()
    document["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert "annotations" not in upgrade([document])[0].document["metadata"]


def test_hop_limit_of_two_is_kept() -> None:
    assert upgrade([_class()])[0].document["spec"]["metadataOptions"] == {"httpPutResponseHopLimit": 2}
    given = {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert upgrade([_class(metadataOptions=given)])[0].document["spec"]["metadataOptions"] == given


def _pod(**spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "annotations": {"karpenter.sh/do-not-evict": "true", "x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def test_workloads_name_what_nodes_are_labelled_today() -> None:
    old, new = "karpenter.sh/provisioner-name", "karpenter.sh/nodepool"
    expression = {"key": old, "operator": "In", "values": ["team"]}
    spec = {
        "nodeSelector": {old: "team", "disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [expression]}]
                }
            }
        },
        "topologySpreadConstraints": [
            {"topologyKey": old, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "tolerations": [{"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"}],
    }
    pod = _pod(**spec)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"template": {"metadata": pod["metadata"], "spec": pod["spec"]}},
    }
    for made in (
        upgrade([pod])[0].document,
        upgrade([deployment])[0].document["spec"]["template"],
    ):
        assert made["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true", "x": "y"}
        assert list(made["spec"]["nodeSelector"].items()) == [(new, "team"), ("disk", "ssd")]
        assert old not in json.dumps(made["spec"])
        assert made["spec"]["tolerations"] == [
            {"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"}
        ]


def test_a_label_that_is_gone_is_reported() -> None:
    (made,) = upgrade([_pod(nodeSelector={"karpenter.k8s.aws/instance-pods": "29"})])
    assert [shown(trouble.path) for trouble in made.troubles] == [
        "spec.nodeSelector.karpenter.k8s.aws/instance-pods"
    ]


def test_what_v1_has_no_place_for_goes_where_it_meant_nothing() -> None:
    pool = _pool()
    pool["spec"]["template"]["spec"]["resources"] = {"requests": {"cpu": "1"}}
    old = _provisioner(taints=[{"key": "team", "value": "", "effect": "NoSchedule"}])
    for document in (pool, old):
        (made,) = upgrade([document])
        assert made.troubles == []
        admit(made.document)


def test_other_objects_are_left_as_they_are() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}
    (made,) = upgrade([document])
    assert (made.document, made.changes(), made.troubles) == (document, (), [])


def test_down_reports_what_is_lost() -> None:
    pool = upgrade([_pool()])[0].document
    pool["spec"]["disruption"] = {
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "1", "reasons": ["Drifted"]}],
    }
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = "1h"
    (made,) = downgrade([pool])
    assert {shown(trouble.path) for trouble in made.troubles} == {
        "spec.disruption.budgets[0].reasons",
        "spec.template.spec.terminationGracePeriod",
    }
    schema = beta_schema.schemas(beta_schema.V0_37)[beta_schema.NODE_POOL]
    assert not broken_rules(schema, made.document)


def test_every_change_leads_from_the_file_to_the_object() -> None:
    document = _provisioner(ttlSecondsAfterEmpty=30, limits={"resources": {"cpu": 1000}}, weight=5)
    (made,) = upgrade([document])
    changed = {
        (shown(change.old) if change.old else "", shown(change.new) if change.new else ""): (
            change.was,
            change.now,
        )
        for change in made.changes()
    }
    assert changed["apiVersion", "apiVersion"] == ("karpenter.sh/v1alpha5", "karpenter.sh/v1")
    assert changed["spec.ttlSecondsAfterEmpty", "spec.disruption.consolidateAfter"] == (30, "30s")
    assert changed["spec.limits.resources", "spec.limits"] == ({"cpu": 1000}, {"cpu": 1000})
    assert changed["spec.providerRef", "spec.template.spec.nodeClassRef"][0] == {"name": "default"}
    assert changed["", "spec.template.spec.expireAfter"] == (ABSENT, "Never")
    assert all(change.why for change in made.changes())


def test_an_editor_keeps_track_through_several_moves() -> None:
    edit = Editor({"a": {"b": 1}, "z": 0})
    edit.move(("a", "b"), ("c", "d"), "first")
    edit.set(("c", "d"), 2, "second")
    edit.move(("c",), ("e", "f"), "third")
    assert edit.document == {"a": {}, "z": 0, "e": {"f": {"d": 2}}}
    assert edit.origin(("e", "f", "d")) == ("a", "b")
    first, *_ = edit.changes()
    assert (first.old, first.new, first.was, first.now) == (("a", "b"), ("e", "f", "d"), 1, 2)
    edit.drop(("e", "f", "d"), "last")
    assert [(change.old, change.new) for change in edit.changes()][-1] == (("a", "b"), None)
