"""Kubelet settings of EC2NodeClasses as the AWS provider of Karpenter 1.15 judges and evaluates them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode, encode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.aws.amifamily.kubelet import PASSED_ON
from dovetail.cloud.aws.nodeclass.validation import Validator, faults
from dovetail.cloud.catalog import kubelet_expressions, store
from dovetail.cloud.catalog.devices import SHARING, gpu_capacity, read_sharing
from dovetail.units.quantity import parse_quantity

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15" / "aws_kubelet.jsonl.gz"
TYPE = next(record for record in store.load().types if record.name == "m5.2xlarge")
# Answered otherwise, with the reason.
OTHERWISE = {
    "expr 1e300": "no value, instead of the least number of 64 bits",
    "expr max(1,2,3)": "min and max take any number of values",
    "expr vcpus > 4 ? 1 : 2.5": "branches may be a whole number and a fraction",
    "reserved huge": "rounded up as others, beyond what 64 bits hold",
    "reserved huge memory": "the same",
    "reserved not an expression": "an error that names the place; the class is refused before either",
}


def _cases(kind: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt") as lines:
        return [case for case in map(json.loads, lines) if case["kind"] == kind]


def _reserved(reserved: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = kubelet_expressions.settle({"kubeReserved": reserved}, TYPE, lambda _: 58)
    return dict(found["kubeReserved"])


@pytest.mark.parametrize("case", _cases("kubelet-validate"), ids=lambda case: str(case["name"]))
def test_settings_are_judged_alike(case: dict[str, Any]) -> None:
    kubelet, (expected,) = case["input"]["kubelet"], case["outcomes"]
    spec = {"kubelet": kubelet, "amiSelectorTerms": [{"alias": "al2023@latest"}]}
    found = [
        item
        for item in faults(decode({"spec": spec}, EC2NodeClass))
        if not item.reason.startswith("KubeletExpression")
    ]
    reasons = {"InvalidKubeletConfiguration"} if expected["errors"] else set()
    assert {item.reason for item in found} == reasons
    if not found:
        assert kubelet_expressions.has_expressions(kubelet) == expected["hasExpressions"]
        assert sorted(set(kubelet) - PASSED_ON) == sorted(expected["unmanagedFields"])


@pytest.mark.parametrize("case", _cases("nvidia-consumable-capacity"), ids=lambda case: str(case["name"]))
def test_annotations_of_shared_gpus_are_judged_alike(case: dict[str, Any]) -> None:
    (expected,) = case["outcomes"]
    spec = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}
    meta = {"name": "default", "annotations": {SHARING: case["input"]["value"]}}
    node_class = decode({"metadata": meta, "spec": spec}, EC2NodeClass)
    messages = [item.message for item in faults(node_class)]
    assert messages == ([f"annotation {SHARING}: {expected['error']}"] if "error" in expected else [])
    shut = {item.reason for item in Validator(gpu_sharing=False).faults(node_class)}
    assert ("DRADisabled" in shut) is expected.get("shareable", False)


@pytest.mark.parametrize(
    "case",
    [one for one in _cases("nvidia-consumable-capacity") if "error" not in one["outcomes"][0]],
    ids=lambda case: str(case["name"]),
)
def test_shared_gpus_have_the_same_capacity(case: dict[str, Any]) -> None:
    (expected,), memory = case["outcomes"], parse_quantity(case["input"]["memory"])
    sharing = read_sharing(case["input"]["value"])
    found = {name: encode(one) for name, one in gpu_capacity(memory, sharing).items()}
    assert (sharing.shareable, sharing.shareable and found) == (
        expected["shareable"],
        expected.get("capacity", False),
    )


@pytest.mark.parametrize("case", _cases("kubelet-expression"), ids=lambda case: str(case["name"]))
def test_expressions_have_the_same_values(case: dict[str, Any]) -> None:
    text, (expected,) = case["input"]["expression"], case["outcomes"]
    assert (_outcome(text) == expected.get("result")) is (case["name"] not in OTHERWISE)


def _outcome(text: str) -> int | None:
    """Of -value where the value is below 0, which no reservation can have; None for no value."""
    for sign, written in ((1, f"({text})"), (-1, f"0 - ({text})"), (-1, f"0.0 - ({text})")):
        try:
            found = _reserved({"pid": written})
        except InputError:
            continue
        if found:
            return sign * int(found["pid"])
    return None


@pytest.mark.parametrize("case", _cases("kubelet-reserved"), ids=lambda case: str(case["name"]))
def test_reservations_have_the_same_amounts(case: dict[str, Any]) -> None:
    (expected,) = case["outcomes"]
    found: dict[str, Any] | None
    try:
        found = _reserved(case["input"]["reserved"])
    except InputError:
        found = None
    assert (found == expected["resolved"]) is (case["name"] not in OTHERWISE)
