"""Labels, capacity, reservations, allocatable of 1,386 types under seven settings, as recorded."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.capacity import POD_ENI
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.resources import CPU

VECTORS = Path(__file__).parent / "vectors" / "aws"
NETWORK_BANDWIDTH = labels.AWS + "instance-network-bandwidth"
RESIDUE = Path(__file__).parents[2] / "docs/reference/instance-types.md"
Record = dict[str, Any]


@lru_cache(maxsize=1)
def _setup() -> Record:
    document: Record = json.loads((VECTORS / "instance_types_settings.json").read_text())
    return document


def _settings(name: str) -> NodeSettings:
    setting = next(item for item in _setup()["settings"] if item["setting"] == name)
    spec = {key: value for key, value in setting["nodeClassSpec"].items() if value is not None}
    return NodeSettings.of(
        decode({"spec": spec}, EC2NodeClass),
        vm_memory_overhead_percent=setting["vmMemoryOverheadPercent"],
        reserved_enis=setting["reservedENIs"],
    )


@lru_cache(maxsize=4)
def _pairs(name: str) -> tuple[tuple[Record, store.TypeRecord, InstanceType], ...]:
    settings = _settings(name)
    zones = tuple((item["zone"], item["zoneID"]) for item in _setup()["subnets"])
    known = {record.name: record for record in store.load().types}
    with gzip.open(VECTORS / f"instance_types_{name}.jsonl.gz", "rt") as lines:
        vectors = [json.loads(line) for line in lines]
    assert {vector["name"] for vector in vectors} == set(known)
    return tuple(
        (
            vector,
            known[vector["name"]],
            catalog.make(known[vector["name"]], settings, region="us-east-1", zones=zones, on_demand=1),
        )
        for vector in vectors
    )


def _amounts(recorded: dict[str, Record]) -> dict[str, int]:
    return {name: item["milli"] if name == CPU else item["value"] for name, item in recorded.items()}


@pytest.mark.parametrize("setting", ["a", "b", "c", "d", "f", "g", "h"])
class TestRecorded:
    def test_capacity_and_allocatable(self, setting: str) -> None:
        for vector, _, made in _pairs(setting):
            for recorded, ours in (
                (vector["capacity"], made.capacity),
                (vector["allocatable"], made.allocatable()),
            ):
                expected = _amounts(recorded)
                assert {**ours, POD_ENI: 0} == {**expected, POD_ENI: 0}, vector["name"]

    def test_what_the_system_keeps(self, setting: str) -> None:
        for vector, _, made in _pairs(setting):
            assert made.overhead.kube_reserved == _amounts(vector["kubeReserved"]), vector["name"]
            assert made.overhead.system_reserved == _amounts(vector["systemReserved"]), vector["name"]
            assert made.overhead.eviction_threshold == _amounts(vector["evictionThreshold"]), vector["name"]

    def test_labels(self, setting: str) -> None:
        for vector, _, made in _pairs(setting):
            expected = {
                key: (item["operator"], sorted(item["values"]))
                for key, item in vector["requirements"].items()
            }
            ours = {
                key: (item.operator(), sorted(item.values)) for key, item in made.requirements.by_key.items()
            }
            expected.pop(NETWORK_BANDWIDTH)
            ours.pop(NETWORK_BANDWIDTH)
            assert ours == expected, vector["name"]

    def test_types_that_the_family_has_no_image_for(self, setting: str) -> None:
        for vector, record, _ in _pairs(setting):
            assert catalog.runs(record, _settings(setting)) == vector["compatibleWithNodeClass"]


def _differences() -> tuple[list[str], list[str]]:
    interfaces, bandwidth = [], []
    for vector, record, made in _pairs("a"):
        if vector["capacity"][POD_ENI]["value"] != made.capacity[POD_ENI]:
            interfaces.append(record.name)
        if (
            set(vector["requirements"][NETWORK_BANDWIDTH]["values"])
            != made.requirements.by_key[NETWORK_BANDWIDTH].values
        ):
            bandwidth.append(record.name)
    return interfaces, bandwidth


def test_known_differences_are_the_documented_ones() -> None:
    """Two values come from tables that the data does not have; the reference lists each type that differs."""
    text = RESIDUE.read_text()
    for heading, names in zip(("### pod-eni", "### instance-network-bandwidth"), _differences(), strict=True):
        section = text.split(heading, 1)[1].split("\n### ", 1)[0]
        documented = section.split("```")[1].split()
        assert Counter(documented) == Counter(names), heading
