"""NodePool rules beyond admission: what the ValidationSucceeded condition says."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.karpenter.runtime import validate_node_pool


def pool(
    *, labels: dict[str, str] | None = None, name: str = "x", node_class: str = "default", **spec: Any
) -> NodePool:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"nodeClassRef": ref, "requirements": [], **spec},
    }
    return decode({"metadata": {"name": name}, "spec": {"template": template}}, NodePool)


def requirement(key: str, operator: str = "In", *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_plain_pool_is_valid() -> None:
    plain = pool(
        labels={"team": "a", "example.com/tier": "web", "kubernetes.io/custom": "x"},
        taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}],
        requirements=[
            requirement("karpenter.sh/capacity-type", "In", "spot", "typo"),
            requirement("karpenter.k8s.aws/instance-cpu", "Gt", "0"),
            requirement("team", "Exists"),
        ],
    )
    assert validate_node_pool(plain) == ()


@pytest.mark.parametrize(
    ("labels", "spec", "message"),
    [
        (
            {"karpenter.sh/nodepool": "x"},
            {},
            'invalid key name "karpenter.sh/nodepool" in labels, restricted',
        ),
        ({"bad key": "x"}, {}, 'invalid key name "bad key" in labels, name part must consist of'),
        ({"team": "a b"}, {}, 'invalid value "a b" for label[team], a valid label must be'),
        (
            {"karpenter.sh/foo": "x"},
            {},
            'invalid key name "karpenter.sh/foo" in labels, using label karpenter.sh/foo is not allowed as '
            "it might interfere with the internal provisioning logic; specify a well known label: [",
        ),
        (
            {},
            {
                "taints": [{"key": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "a", "effect": "NoSchedule", "value": "b"}],
            },
            "duplicate taint Key/Effect pair a=NoSchedule",
        ),
        ({}, {"taints": [{"key": "a", "effect": "Never"}]}, 'invalid taint effect "Never"'),
        (
            {},
            {"requirements": [requirement("karpenter.sh/nodepool", "In", "x")]},
            'invalid key: "karpenter.sh/nodepool" in requirements, restricted',
        ),
        (
            {},
            {"requirements": [requirement("kubernetes.io/hostname", "In", "x")]},
            "using label kubernetes.io/hostname is not allowed",
        ),
        (
            {},
            {"requirements": [requirement("karpenter.sh/capacity-type", "In", "spott", "od")]},
            "no valid values found in [spott od] for karpenter.sh/capacity-type, "
            "expected one of: [on-demand reserved spot], got: [spott od]",
        ),
        ({}, {"requirements": [requirement("a", "in", "x")]}, "key a has an unsupported operator in"),
        ({}, {"requirements": [requirement("a", "Lt", "-1")]}, "must have a single positive integer value"),
        ({}, {"requirements": [requirement("a")]}, "key a with operator In must have a value defined"),
    ],
)
def test_broken_rules(labels: dict[str, str], spec: dict[str, Any], message: str) -> None:
    messages = validate_node_pool(pool(labels=labels, **spec))
    assert [text for text in messages if text.startswith(message) or message in text]


@pytest.mark.parametrize(
    ("names", "key"),
    [
        ({"name": "x" * 64}, "karpenter.sh/nodepool"),
        ({"node_class": "x" * 64}, "karpenter.k8s.aws/ec2nodeclass"),
    ],
)
def test_names_that_no_label_takes(names: dict[str, Any], key: str) -> None:
    (message,) = validate_node_pool(pool(**names))
    assert message.endswith(f"nodes carry it as label[{key}]: must be no more than 63 bytes")


def test_the_longest_names() -> None:
    assert validate_node_pool(pool(name="x" * 63, node_class="x" * 63)) == ()
