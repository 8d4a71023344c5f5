"""User data of every family, word by word as recorded, or the error and where it shows."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Taint
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.aws.amifamily import userdata
from dovetail.cloud.catalog import store

VECTORS = Path(__file__).parent / "vectors" / "aws" / "userdata.jsonl.gz"
_TOML = "the words are those of the library that reads the TOML; ours names line and column"
_TYPE = "the words are those of Go's JSON decoder; ours names the field and what it takes"
# Only the words differ: there is an error in the same place.
DIFFERENT_WORDS = {
    "bottlerocket/ud-shell": _TOML,
    "bottlerocket/ud-shell-no-newline": _TOML,
    "bottlerocket/ud-shell-unicode": _TOML,
    "bottlerocket/ud-text-hello": _TOML,
    "bottlerocket/ud-nodeconfig-yaml": _TOML,
    "bottlerocket/ud-toml-image-gc-int": _TOML,
    "al2/kubelet-wrong-type": _TYPE,
    "bottlerocket/kubelet-wrong-type": _TYPE,
    "windows2022/kubelet-wrong-type": _TYPE,
}
_SPEC = ("amiSelectorTerms", "amiFamily", "kubelet", "userData", "instanceStorePolicy")
Case = dict[str, Any]


def _cases() -> list[Case]:
    with gzip.open(VECTORS, "rt") as lines:
        return [json.loads(line) for line in lines]


@lru_cache(maxsize=1)
def _records() -> dict[str, store.TypeRecord]:
    return {record.name: record for record in store.load().types}


def _bootstrap(case: Case) -> userdata.Bootstrap:
    given = case["input"]
    spec = {name: given[name] for name in _SPEC if given.get(name) is not None}
    machine = userdata.Machine(
        _records()[given["instanceType"]],
        given["capacityType"],
        image_name=given.get("statusAMIName", ""),
        labels=given["nodeClaimLabels"] or {},
        taints=tuple(decode(taint, Taint) for taint in given["taints"]),
        startup_taints=tuple(decode(taint, Taint) for taint in given["startupTaints"]),
    )
    cluster = userdata.Cluster(
        given["clusterName"],
        given["clusterEndpoint"],
        given["caBundle"],
        cidr=given["clusterCIDR"],
        dns_ip=given["kubeDNSIP"],
    )
    return userdata.bootstrap(
        decode({"spec": spec}, EC2NodeClass),
        machine,
        cluster,
        reserved_enis=given["reservedENIs"],
        with_expressions=given["nodeClassCEL"],
    )


def _answer(case: Case) -> tuple[str, str]:
    """(stage of the error or "", text)"""
    try:
        node = _bootstrap(case)
    except InputError as error:
        return "instance type", error.message
    try:
        return "", userdata.render(node)
    except InputError as error:
        return "script", error.message


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_user_data(case: Case) -> None:
    stage, text = _answer(case)
    assert stage == case.get("errorStage", ""), text
    # The Custom family has the class's own user data alone, which may be none at all.
    right = case.get("outputs") or [case.get("error") or case.get("output", "")]
    assert (text in right) == (case["id"] not in DIFFERENT_WORDS), text


def test_labels_and_taints_are_those_recorded() -> None:
    compared = 0
    for case in _cases():
        options = case.get("bootstrapper", {}).get("options")
        if options and options["Labels"] is not None:
            node = _bootstrap(case)
            assert node.labels == options["Labels"], case["id"]
            assert [(taint.key, taint.value, taint.effect) for taint in node.taints] == [
                (taint["key"], taint.get("value", ""), taint["effect"]) for taint in options["Taints"]
            ]
            compared += 1
    assert compared > 200
