"""Kubelet settings and user data that the API server lets in and nodes cannot use."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.aws.nodeclass.validation import Validator, faults

MIME = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n\nx\n'
ARCHIVED = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n'
    "Content-Type: application/node.eks.aws\n\nkind: NodeConfig\n\tspec: {}\n--B--\n"
)
HARD = {"memory.available": "5%", "nodefs.available": "1Gi"}


def node_class(alias: str = "al2023", *, user_data: str = "", **kubelet: Any) -> EC2NodeClass:
    spec = {"amiSelectorTerms": [{"alias": f"{alias}@latest"}], "kubelet": kubelet, "userData": user_data}
    return decode({"metadata": {"name": "default"}, "spec": spec}, EC2NodeClass)


@pytest.mark.parametrize(
    "kubelet",
    [
        {},
        {"evictionHard": HARD, "evictionSoft": HARD, "evictionSoftGracePeriod": dict.fromkeys(HARD, "1m30s")},
        {"featureGates": {"A": True}, "shutdownGracePeriod": "30s", "reservedMemory": [{"numaNode": 0}]},
        {"maxPods": "min(110, vcpus * 12)", "kubeReserved": {"memory": "255 + 11 * max_pods", "pid": "100"}},
        {"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "cpuCFSQuota": False},
        # As `clusterDNS:` with nothing behind it: a server keeps nulls where it knows no fields.
        dict.fromkeys(("clusterDNS", "maxPods", "kubeReserved", "evictionSoft", "cpuCFSQuota", "memorySwap")),
        {"kubeReserved": {"cpu": None}, "evictionHard": {"memory.available": None, "nodefs.available": "5%"}},
    ],
)
def test_good_settings(kubelet: dict[str, Any]) -> None:
    assert faults(node_class(**kubelet)) == ()


@pytest.mark.parametrize(
    ("kubelet", "message"),
    [
        ({"evictionHardd": {}}, 'spec.kubelet: unknown field "evictionHardd", did you mean evictionHard?'),
        ({"podsPerCore": "ten"}, "spec.kubelet.podsPerCore must be a whole number, not 'ten'"),
        ({"podsPerCore": True}, "spec.kubelet.podsPerCore must be a whole number, not True"),
        ({"cpuCFSQuota": 1}, "spec.kubelet.cpuCFSQuota must be true or false, not 1"),
        ({"clusterDNS": "10.0.0.1"}, "must be a list, each item text, not '10.0.0.1'"),
        ({"kubeReserved": {"cpu": 1}}, "spec.kubelet.kubeReserved must be a map, each value text"),
        ({"registerWithTaints": []}, "spec.kubelet.registerWithTaints can't be set"),
        ({"evictionHard": {"memory": "5%"}}, "spec.kubelet.evictionHard: 'memory' is not one of imagefs"),
        ({"systemReserved": {"gpu": "1"}}, "'gpu' is not one of cpu, ephemeral-storage, memory, pid"),
        ({"evictionHard": {"memory.available": "105%"}}, "neither a quantity nor a percentage from 0%"),
        ({"evictionHard": {"memory.available": "much"}}, "neither a quantity nor a percentage from 0%"),
        ({"evictionSoft": HARD}, "evictionSoftGracePeriod lacks memory.available: soft thresholds and grace"),
        (
            {"evictionSoft": {"pid.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": "5"}},
            "did you mean 5s?",
        ),
        ({"podsPerCore": -1}, "spec.kubelet.podsPerCore must be from 0 to 2147483647, not -1"),
        ({"maxPods": 1 << 31}, "spec.kubelet.maxPods must be from 0 to 2147483647, not 2147483648"),
        ({"evictionMaxPodGracePeriod": -1}, "evictionMaxPodGracePeriod must be from 0 to 2147483647"),
        ({"kubeReserved": {"cpu": "-1"}}, "spec.kubelet.kubeReserved.cpu must not be negative, but is '-1'"),
        ({"systemReserved": {"pid": "-5"}}, "spec.kubelet.systemReserved.pid must not be negative"),
        ({"evictionHard": {"memory.available": "-1Mi"}}, "neither a quantity nor a percentage from 0%"),
        (
            {"evictionSoft": {"pid.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": "-1m"}},
            "evictionSoftGracePeriod.pid.available must not be negative, but is '-1m'",
        ),
        ({"imageGCHighThresholdPercent": 101}, "imageGCHighThresholdPercent must be from 0 to 100, not 101"),
        (
            {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50},
            "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
        ),
    ],
)
def test_invalid_settings(kubelet: dict[str, Any], message: str) -> None:
    found = faults(node_class(**kubelet))
    assert found[0].reason == "InvalidKubeletConfiguration"
    assert message in found[0].message


@pytest.mark.parametrize(
    ("alias", "more", "reason", "message"),
    [
        (
            "al2023",
            {"maxPods": "vcpus *"},
            "KubeletExpressionInvalid",
            "is not a whole number, nor an expression: ends where",
        ),
        (
            "al2023",
            {"maxPods": "cores"},
            "KubeletExpressionInvalid",
            "there is no variable cores; there are vcpus",
        ),
        (
            "al2",
            {"shutdownGracePeriod": "30s", "featureGates": {}},
            "UnsupportedKubeletConfiguration",
            "spec.kubelet has fields not applied by the AL2 AMI family that would be silently dropped: "
            "featureGates, shutdownGracePeriod",
        ),
        ("al2", {"clusterDNS": ["10.0.0.1", "10.0.0.2"]}, "UnsupportedKubeletConfiguration", "one address"),
        ("bottlerocket", {"user_data": "a ="}, "InvalidUserData", "spec.userData: invalid UserData toml"),
        ("al2023", {"user_data": MIME}, "InvalidUserData", "unexpected EOF"),
        (
            "al2023",
            {"user_data": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet: [\n"},
            "InvalidUserData",
            "spec.userData: line 5: malformed YAML: did not find expected",
        ),
        (
            "al2023",
            {"user_data": ARCHIVED},
            "InvalidUserData",
            "spec.userData: line 8: malformed YAML: found a tab",
        ),
        ("al2", {"user_data": "x" * 16_000}, "UserDataSizeLimitExceeded", "EC2 takes 16384"),
    ],
)
def test_other_faults(alias: str, more: dict[str, Any], reason: str, message: str) -> None:
    found = faults(node_class(alias, **more))
    assert found[0].reason == reason
    assert message in found[0].message


def test_expressions_need_their_feature_gate() -> None:
    made = node_class(maxPods="vcpus * 10", kubeReserved={"cpu": "100m", "memory": "255 + 11 * max_pods"})
    assert not faults(made)
    shut = faults(made, with_expressions=False)
    assert {one.reason for one in shut} == {"KubeletExpressionsDisabled"}
    most, memory = (one.message for one in shut)
    assert most == (
        "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled: "
        "spec.kubelet.maxPods is 'vcpus * 10', not a whole number"
    )
    assert "spec.kubelet.kubeReserved.memory is " in memory
    assert not faults(node_class(maxPods=20, kubeReserved={"cpu": "100m"}), with_expressions=False)


def test_an_expression_without_a_value_for_some_type() -> None:
    (found,) = faults(node_class(maxPods="vcpus - 4"))
    assert found.reason == "KubeletExpressionEvaluationFailed"
    assert found.message.startswith("spec.kubelet.maxPods: 'vcpus - 4' gives -2, expected 0 to 2147483647")
    assert found.message.endswith("(for c1.medium)")


@pytest.mark.parametrize(
    "user_data", ["echo 'unfinished: [", "#!/bin/sh\ncat <<E\napiVersion: node.eks.aws/v1\n: [\nE"]
)
def test_scripts_are_nobodys_yaml(user_data: str) -> None:
    assert not faults(node_class(user_data=user_data))


def test_a_class_is_looked_at_again_when_it_changes() -> None:
    validator = Validator()
    assert validator.faults(node_class()) == ()
    broken = validator.faults(node_class(maxPods="x"))
    assert broken
    assert validator.faults(node_class(maxPods="x")) is broken
