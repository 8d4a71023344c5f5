"""Recorded answers on CapacityBuffers: same conditions, same number of virtual pods, the same pods."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode, encode
from dovetail.api.core import Pod
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.meta import Object
from dovetail.api.workloads import Deployment, PodTemplate, ReplicaSet, StatefulSet
from dovetail.model.buffers import replicas, resolve, virtual_pods

with gzip.open(Path(__file__).parent / "vectors" / "buffers.jsonl.gz", "rt") as _file:
    CASES = [json.loads(line) for line in _file]
_LISTS = {
    "podTemplates": PodTemplate,
    "deployments": Deployment,
    "statefulSets": StatefulSet,
    "replicaSets": ReplicaSet,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_buffers(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    buffer = decode(given["buffer"], CapacityBuffer)
    there: dict[tuple[type[Object], str], Object] = {}
    for name, kind in _LISTS.items():
        for item in given[name]:
            found = decode(item, kind)
            there[kind, found.key] = found
    resolution = resolve(buffer, lambda kind, key: there.get((kind, key)))
    condition = expected["status"]["conditions"][0]
    assert (resolution.reason, resolution.message) == (condition["reason"], condition["message"])
    assert (resolution.template is not None) == expected["resolved"]
    assert resolution.unsupported == ("retryError" in expected)
    if resolution.template is None:
        return
    assert resolution.generation == expected["status"].get("podTemplateGeneration")
    number = replicas(buffer, resolution)
    assert number == expected["status"]["replicas"] == expected["virtualPodCount"]
    pods = virtual_pods(buffer, resolution.template, number)
    assert len(pods) == number
    assert list(map(_shown, pods[:2])) == [_shown(decode(pod, Pod)) for pod in expected["virtualPods"] or []]


def _shown(pod: Pod) -> Any:
    return encode(pod)
