"""Expressions on an instance type: what they evaluate to, and what is said of broken ones."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud import catalog
from dovetail.cloud.catalog import cel
from dovetail.model.resources import CPU, MEMORY, PODS

SCOPE: cel.Scope = {"vcpus": 8, "memory_mib": 16_384, "instance_type": "m5.2xlarge"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("- - 3", 3),
        ("1.5 * 2.0", 3.0),
        ("int(double(vcpus) * 0.06)", 0),
        ("min(110, vcpus * 12)", 96),
        ("max(1, 2, 3)", 3),
        ("vcpus > 4 ? vcpus : 4", 8),
        ("vcpus > 8 ? 1 : vcpus > 4 ? 2 : 3", 2),
        ("vcpus >= 8 && !(memory_mib < 1024)", True),
        ("false || 1 == 1.0", True),
        ("true == 1", False),
        ("1 in [2, 3]", False),
        ('instance_type in ["m5.large", "m5.2xlarge"]', True),
        ("instance_type.startsWith('m5.') && instance_type.endsWith('xlarge')", True),
        ("size(instance_type) + instance_type.size()", 20),
        ("'a' + \"b\" != 'ab'", False),
        ("'a' < 'b'", True),
        ("string(vcpus).contains('8')", True),
        ("instance_type.matches('^m[0-9][.]')", True),
    ],
)
def test_values(text: str, value: object) -> None:
    found = cel.read(text).value(SCOPE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "ends where a value was expected"),
        ("1 +", "ends where a value was expected"),
        ("1 2", "unexpected '2' at character 3"),
        ("1 # 2", "unexpected '#' at character 3"),
        ("(1", "')' is missing at the end"),
        ("vcpus.", "a name is missing after '.'"),
        ("cores * 2", "there is no variable 'cores'; there are vcpus, memory_mib, instance_type"),
        ("floor(1)", "there is no function 'floor'"),
        ("min(1)", "min takes at least 2 arguments"),
        ("int(1, 2)", "int takes 1 arguments"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("1 + 1.0", "mixes a whole number and a fraction"),
        ("1 + true", "True is no number"),
        ("1 ? 2 : 3", "1 is neither true nor false"),
        ("vcpus in 8", "the right side of 'in' is no list"),
        ("int('x')", "'x' is no whole number"),
        ("size(1)", "1 has no size"),
        ("instance_type.matches('[')", "is no pattern"),
        (f"'{'a' * 40}!'.matches('(a+)+$')", "may take too long to match"),
        (f"'{'a' * 40}!'.matches('{'a*' * 40}$')", "may take too long to match"),
        (f"'{'a' * 40}!'.matches('{'(a|aa)' * 40}$')", "may take too long to match"),
        (f"'{'a' * 40}!'.matches('{'a?' * 40}{'a' * 40}$')", "may take too long to match"),
        ("9223372036854775807 + 1", "does not fit into 64 bits"),
        ("(" * 50 + "1", "is nested deeper than 40 levels"),
        ("-" * 50 + "1", "is nested deeper than 40 levels"),
        ("1+" * 600 + "1", "is longer than 1000 characters"),
    ],
)
def test_complaints(text: str, complaint: str) -> None:
    with pytest.raises(cel.ExpressionError, match=complaint.replace("(", r"\(").replace(")", r"\)")):
        cel.read(text).value(SCOPE)


def test_the_longest_chain_is_evaluated() -> None:
    assert cel.read("1+" * 499 + "1").value({}) == 500


def m5_large(**kubelet: Any) -> tuple[dict[str, int], dict[str, int]]:
    """(capacity, kube-reserved) of m5.large."""
    document = {"spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], "kubelet": kubelet}}
    types = catalog.instance_types("us-east-1", decode(document, EC2NodeClass))
    found = next(item for item in types if item.name == "m5.large")
    return dict(found.capacity), dict(found.overhead.kube_reserved)


def test_reservations_are_rounded_up_to_whole_steps() -> None:
    room, kept = m5_large(
        maxPods="vcpus * 12", kubeReserved={"cpu": "vcpus * 33", "memory": "255 + 11 * max_pods"}
    )
    assert room[PODS] == 24
    assert (kept[CPU], kept[MEMORY]) == (70, 528 << 20)


def test_pods_of_a_class_without_a_maximum() -> None:
    _, kept = m5_large(kubeReserved={"memory": "max_pods * 16", "pid": "vcpus * 100", "cpu": "50m"})
    assert (kept[CPU], kept[MEMORY], kept["pid"]) == (50, 29 * 16 << 20, 200)


def test_reservations_without_an_amount_do_not_exist() -> None:
    usual = m5_large()[1]
    _, kept = m5_large(kubeReserved={"cpu": "vcpus - 500", "memory": "1 / (vcpus - 2)", "pid": "10.9 * 1.0"})
    assert (kept[CPU], kept[MEMORY], kept["pid"]) == (usual[CPU], usual[MEMORY], 10)


@pytest.mark.parametrize(
    ("kubelet", "complaint"),
    [
        (
            {"maxPods": "vcpus -"},
            "spec.kubelet.maxPods: 'vcpus -' is not a whole number, nor an expression: ends",
        ),
        ({"maxPods": "vcpus - 500"}, "spec.kubelet.maxPods: 'vcpus - 500' gives -"),
        ({"maxPods": "4 / (vcpus - vcpus)"}, "'4 / (vcpus - vcpus)' has no value: division by zero"),
        ({"maxPods": "2147483648 * vcpus"}, "expected 0 to 2147483647"),
        ({"kubeReserved": {"cpu": "vcpus > 2"}}, "spec.kubelet.kubeReserved.cpu: 'vcpus > 2' gives"),
    ],
)
def test_broken_settings_name_their_place(kubelet: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as raised:
        m5_large(**kubelet)
    assert complaint in str(raised.value)
