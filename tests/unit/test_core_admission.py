"""Admission of Kubernetes' own kinds: defaults that are read, and rules with their paths."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dovetail.api.admission import admit
from dovetail.api.codec import decode, encode
from dovetail.api.core import Pod
from dovetail.base.errors import BadRequest, Invalid
from dovetail.model.resources import pod_requests


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def workload(kind: str, version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}},
            **spec,
        },
    }


def causes(document: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        admit(document, old)
    return [(cause.field, cause.message) for cause in caught.value.causes]


def test_requests_default_from_limits() -> None:
    container = {
        "name": "c",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    }
    given = pod(containers=[container], initContainers=[{**copy.deepcopy(container), "name": "i"}])
    before = copy.deepcopy(given)
    spec = admit(given)["spec"]
    for item in (*spec["containers"], *spec["initContainers"]):
        assert item["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert given == before, "the input is left as it is"
    assert admit(admit(given)) == admit(given), "a second time changes nothing"


@pytest.mark.parametrize(
    ("amount", "milli"),
    [(0.5, 500), (1, 1000), (1.5, 1500), (0.1, 100), ("250m", 250), (2e-3, 2), (1e3, 1_000_000)],
)
def test_quantities_may_be_numbers(amount: float | str, milli: int) -> None:
    """`cpu: 0.5` without quotes, as a server reads it; those of CustomResourceDefinitions may not."""
    container = {"name": "c", "resources": {"requests": {"cpu": amount}, "limits": {"cpu": amount}}}
    for document in (pod(containers=[container]), workload("Deployment")):
        if document["kind"] == "Deployment":
            document["spec"]["template"]["spec"]["containers"] = [container]
        admit(document)
    found = decode(admit(pod(containers=[container])), Pod)
    assert pod_requests(found)["cpu"] == milli


def test_defaults_reach_the_template_of_a_cron_job() -> None:
    inner = {"restartPolicy": "Never", "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}
    document = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "x"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": inner}}}},
    }
    template = admit(document)["spec"]["jobTemplate"]["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


def test_host_network_takes_the_ports_of_the_host() -> None:
    given = pod(hostNetwork=True, containers=[{"name": "c", "ports": [{"containerPort": 80}]}])
    assert admit(given)["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80}]


def test_namespaces_are_labelled_with_their_name() -> None:
    given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}}
    assert admit(given)["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "shop"}


def test_nulls_are_absent_fields() -> None:
    given = pod(nodeSelector=None)
    given["metadata"]["creationTimestamp"] = None
    assert admit(given) == pod()


def test_kinds_without_rules_of_ours_pass() -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Thing", "anything": 1}
    assert admit(unknown) == unknown


def test_typed_objects_are_admitted_as_they_are_written() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "b"}},
    }
    document = pod(topologySpreadConstraints=[spread], tolerations=[{"operator": "Exists"}])
    assert admit(encode(decode(document, Pod)))["spec"] == document["spec"]


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        (
            workload("Deployment", selector={"matchLabels": {"app": "y"}}),
            "spec.template.metadata.labels",
            "`selector`",
        ),
        (
            workload(
                "StatefulSet", selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
            ),
            "spec.template.metadata.labels",
            "does not match template `labels`",
        ),
        (workload("DaemonSet", selector={}), "spec.selector", "empty selector is invalid"),
        (workload("ReplicaSet", replicas=-1), "spec.replicas", "greater than or equal to 0"),
        (
            workload("Job", "batch/v1"),
            "spec.template.spec.restartPolicy",
            'valid values: "OnFailure", "Never"',
        ),
        (
            pod(restartPolicy="Sometimes"),
            "spec.restartPolicy",
            'supported values: "Always", "OnFailure", "Never"',
        ),
        (
            pod(tolerations=[{"operator": "Exists", "value": "a", "key": "b"}]),
            "spec.tolerations[0].value",
            "empty",
        ),
        (
            pod(tolerations=[{"value": "a"}]),
            "spec.tolerations[0].operator",
            "must be Exists when `key` is empty",
        ),
        (
            pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]),
            "spec.containers[0].resources.requests",
            "less than or equal to the limit",
        ),
        (
            pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "-2"}}}]),
            "spec.containers[0].resources",
            "greater than or equal to 0",
        ),
        (
            pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z"}]),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            "Required value",
        ),
        (
            pod(
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DonotSchedule"}
                ]
            ),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            'Unsupported value: "DonotSchedule"',
        ),
        (pod(nodeSelector={"a": True}), "spec.nodeSelector.a", "must be of type string"),
        (
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "x"},
                "spec": {"minAvailable": 1, "maxUnavailable": "50%"},
            },
            "spec",
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "x"},
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "x"},
                    "minReplicas": 5,
                    "maxReplicas": 3,
                },
            },
            "spec.maxReplicas",
            "greater than or equal to `minReplicas`",
        ),
        (
            {**pod(), "metadata": {"name": "x", "labels": {"a b": "c"}}},
            "metadata.labels",
            "name part must consist of",
        ),
        ({**pod(), "metadata": {"name": "X"}}, "metadata.name", "RFC 1123 subdomain"),
    ],
)
def test_broken_rules(document: dict[str, Any], path: str, message: str) -> None:
    found = causes(document)
    assert [field for field, text in found if message in text] == [path], found


def test_unknown_field() -> None:
    with pytest.raises(BadRequest, match=r'strict decoding error: unknown field "spec.affinitty"'):
        admit(pod(affinitty={}))


def test_what_was_admitted_stays_admitted() -> None:
    """An object that broke a rule before the rule existed can still be labelled or finalised."""
    old = pod(restartPolicy="Sometimes")
    assert admit({**old, "metadata": {"name": "x", "finalizers": ["a/b"]}}, old)
    assert causes({**old, "metadata": {"name": "x", "labels": {"a": "b"}}}, old)


def budget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}, "spec": spec}


def terms(*found: dict[str, Any]) -> dict[str, Any]:
    needed = {"nodeSelectorTerms": list(found)}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}})


def bound(operator: str, value: str) -> dict[str, Any]:
    return terms({"matchExpressions": [{"key": "a", "operator": operator, "values": [value]}]})


PORT = {"containerPort": 80, "hostPort": 80}
COST = "controller.kubernetes.io/pod-deletion-cost"
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}


def with_meta(**meta: Any) -> dict[str, Any]:
    return {**pod(), "metadata": {"name": "x", **meta}}


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (budget(minAvailable="1000%"), "spec"),
        (budget(maxUnavailable="-1"), "spec"),
        (budget(maxUnavailable=-1), "spec"),
        (terms(), "nodeSelectorTerms"),
        (bound("Gt", "-1"), "values"),
        (bound("In", "9" * 64), "values"),
        (with_meta(annotations={COST: str(2**31)}), COST),
        (with_meta(annotations={COST: "NaN"}), COST),
        (with_meta(annotations={"a": "x" * 2**18}), "metadata.annotations"),
        (with_meta(ownerReferences=[OWNER, OWNER]), "metadata.ownerReferences"),
        (pod(containers=[{"name": "c"}, {"name": "c"}]), "spec.containers"),
        (pod(containers=[{"name": "c", "ports": [PORT]}, {"name": "d", "ports": [PORT]}]), "spec.containers"),
        (
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "x"},
                "status": {"capacity": {"cpu": "-1"}},
            },
            "status",
        ),
    ],
)
def test_refused_as_a_real_server_does(document: dict[str, Any], where: str) -> None:
    ((field, _),) = causes(document)
    assert where in field


@pytest.mark.parametrize(
    "document",
    [budget(minAvailable="100%"), budget(maxUnavailable=2**31 - 1), bound("Gt", "abc"), bound("Lt", "")],
)
def test_admitted_as_a_real_server_does(document: dict[str, Any]) -> None:
    admit(document)


def test_copies_of_a_pod_share_their_spec() -> None:
    first, second = (admit({**pod(priority=7), "metadata": {"name": name}}) for name in ("a", "b"))
    assert first["spec"] is second["spec"]
    assert [one["metadata"]["name"] for one in (first, second)] == ["a", "b"]
    other = admit(pod(priority=8))
    assert (first["spec"]["priority"], other["spec"]["priority"]) == (7, 8)


def test_what_is_wrong_with_copies_is_said_of_each() -> None:
    nameless = {**pod(), "spec": {"containers": []}}
    assert causes(nameless) == causes(nameless) != []
    named = {**pod(), "metadata": {"name": "x", "labels": {"-": "x"}}}
    assert admit(pod())["spec"] == pod()["spec"]
    assert causes(named) == causes(named) != []
    for _ in range(2):
        with pytest.raises(BadRequest):
            admit(pod(unheardOf=1))


@pytest.mark.parametrize("value", [float("nan"), 1 << 70, object()])
def test_a_spec_that_is_no_json_is_refused_and_not_taken_for_another(value: Any) -> None:
    admit(pod(priority=None))
    with pytest.raises((Invalid, BadRequest)):
        admit(pod(priority=value))


ZONE = "topology.kubernetes.io/zone"
_APP = {"matchLabels": {"app": "a"}}


def _spread(**fields: Any) -> dict[str, Any]:
    one = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [one]}


def _beside(**fields: Any) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": _APP, **fields}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _near(key: str) -> dict[str, Any]:
    expression = {"key": key, "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("spec", "at", "told"),
    [
        (_spread(topologyKey=""), "topologySpreadConstraints[0].topologyKey", "can not be empty"),
        (
            _spread(matchLabelKeys=["v"]),
            "topologySpreadConstraints[0].matchLabelKeys",
            "must not be specified when labelSelector is not set",
        ),
        (
            _spread(matchLabelKeys=["a b"], labelSelector={}),
            "topologySpreadConstraints[0].matchLabelKeys",
            "a b",
        ),
        (
            {"topologySpreadConstraints": _spread(labelSelector=_APP)["topologySpreadConstraints"] * 2},
            "topologySpreadConstraints",
            f"Duplicate value: {{{ZONE}, DoNotSchedule}}",
        ),
        (
            _spread(labelSelector={"matchLabels": {"a b": "c"}}),
            "topologySpreadConstraints[0].labelSelector.matchLabels",
            '"a b": name part must',
        ),
        (
            _spread(labelSelector={"matchExpressions": [{"key": "", "operator": "Exists"}]}),
            "topologySpreadConstraints[0].labelSelector.matchExpressions[0].key",
            "name part must be non-empty",
        ),
        (
            _beside(topologyKey="a b"),
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            '"a b": name part must',
        ),
        (
            _beside(topologyKey=""),
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "can not be empty",
        ),
        (
            _beside(matchLabelKeys=["v"], mismatchLabelKeys=["v"]),
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys",
            '"v": exists in both matchLabelKeys and mismatchLabelKeys',
        ),
        (
            _near("a b"),
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].key",
            '"a b": name part must',
        ),
        ({"nodeSelector": {"a": "b c"}}, "nodeSelector", '"b c": a valid label must'),
        ({"nodeSelector": {"": "b"}}, "nodeSelector", "name part must be non-empty"),
        (
            {"tolerations": [{"key": "a b", "operator": "Exists"}]},
            "tolerations[0].key",
            '"a b": name part must',
        ),
        (
            {"tolerations": [{"operator": "Exists", "tolerationSeconds": 5}]},
            "tolerations[0].effect",
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
    ],
)
def test_rules_of_where_pods_may_go(spec: dict[str, Any], at: str, told: str) -> None:
    """As a real API server (1.36.3) refused random pods."""
    for document, path in (
        (pod(**spec), "spec"),
        (
            workload(
                "Deployment",
                template={
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {"containers": [{"name": "c"}], **spec},
                },
            ),
            "spec.template.spec",
        ),
    ):
        (found,) = causes(document)
        assert found[0] == f"{path}.{at}"
        assert told in found[1]


@pytest.mark.parametrize(
    "spec",
    [
        _spread(labelSelector=_APP, matchLabelKeys=["v"]),
        _spread(matchLabelKeys=[]),
        _spread(topologyKey="a b"),
        _beside(mismatchLabelKeys=["v"], matchLabelKeys=["w"]),
        {"tolerations": [{"operator": "Exists"}, {"key": "", "operator": "Exists", "effect": "NoExecute"}]},
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]},
        {"nodeSelector": {"a/b": ""}},
        {
            "topologySpreadConstraints": [
                *_spread()["topologySpreadConstraints"],
                *_spread(whenUnsatisfiable="ScheduleAnyway")["topologySpreadConstraints"],
            ]
        },
    ],
)
def test_pods_that_may_say_where_they_go(spec: dict[str, Any]) -> None:
    admit(pod(**spec))


def _selected(**selector: Any) -> list[dict[str, Any]]:
    """The same in a spread, and in required and preferred terms."""
    keys = {"labelSelector": selector, "matchLabelKeys": ["v"]}
    term = {"topologyKey": "rack", **keys}
    beside = "requiredDuringSchedulingIgnoredDuringExecution"
    apart = "preferredDuringSchedulingIgnoredDuringExecution"
    return [
        _spread(**keys),
        {"affinity": {"podAffinity": {beside: [term]}}},
        {"affinity": {"podAntiAffinity": {apart: [{"weight": 1, "podAffinityTerm": term}]}}},
    ]


def _expressions(*found: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in found]}


@pytest.mark.parametrize(
    ("selector", "refused"),
    [
        ({"matchLabels": {"v": "1"}}, True),
        ({"matchLabels": {"v": "2"}}, True),
        (_expressions(("v", "NotIn", ["2"])), True),
        (_expressions(("v", "In", ["1", "2"])), True),
        ({"matchLabels": {"v": "1"}, **_expressions(("v", "In", ["1"]))}, True),
        ({"matchLabels": {"app": "x"}}, False),
        # As a server has written it, which is what a dump of a cluster has.
        ({"matchLabels": {"app": "x"}, **_expressions(("v", "In", ["1"]))}, False),
    ],
)
def test_what_is_matched_twice_is_refused_of_pods_alone(selector: dict[str, Any], refused: bool) -> None:
    """As a real API server (1.36.3) answered; of a pod without the label it takes all."""
    for spec in _selected(**selector):
        made = pod(**spec)
        made["metadata"]["labels"] = {"app": "x", "v": "1"}
        if refused:
            assert "exists in both matchLabelKeys and labelSelector" in causes(made)[0][1]
        else:
            admit(made)
        made["metadata"]["labels"] = {"app": "x"}
        admit(made)
        owned, inner = {"app": "x", "v": "1"}, {"containers": [{"name": "c"}], **spec}
        admit(workload("Deployment", template={"metadata": {"labels": owned}, "spec": inner}))
