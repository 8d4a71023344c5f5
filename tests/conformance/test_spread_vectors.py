"""Default spread constraints as Karpenter 1.15 reads and hands them out: recorded verdicts and selectors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode, encode
from dovetail.api.core import Pod
from dovetail.api.services import ReplicationController, Service
from dovetail.api.workloads import ReplicaSet, StatefulSet
from dovetail.base.errors import InputError
from dovetail.cluster.default_spreads import DefaultSpreads, Owner
from dovetail.cluster.scheduler_config import read_default_constraints

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15"
OWNERS = {kind.KIND: kind for kind in (ReplicationController, ReplicaSet, StatefulSet)}
VERSIONS = {"Job": "batch/v1", "DaemonSet": "apps/v1"} | {
    name: kind.API_VERSION for name, kind in OWNERS.items()
}


def _cases() -> list[dict[str, Any]]:
    with gzip.open(VECTORS / "default_spread.jsonl.gz", "rt") as lines:
        return list(map(json.loads, lines))


def _meta(item: dict[str, Any]) -> dict[str, Any]:
    space, labels = item.get("namespace", "default"), item.get("labels", {})
    return {"name": item["name"], "namespace": space, "labels": labels}


def _pod(item: dict[str, Any]) -> Pod:
    meta = _meta(item)
    kind, _, name = item.get("owner", "").partition("/")
    if kind:
        owner = {"apiVersion": VERSIONS[kind], "kind": kind, "name": name, "uid": name}
        meta["ownerReferences"] = [{**owner, "controller": not item.get("ownerIsNotController", False)}]
    return decode({"metadata": meta, "spec": {"containers": []}}, Pod)


def _owner(item: dict[str, Any]) -> Owner:
    selector = item.get("mapSelector", item.get("selector"))
    spec = {"selector": selector, "serviceName": "", "template": {}}
    return decode({"metadata": _meta(item), "spec": spec}, OWNERS[item["kind"]])


@pytest.mark.parametrize("case", _cases(), ids=lambda case: str(case["name"]))
def test_same_as_recorded(case: dict[str, Any]) -> None:
    given, (expected,) = case["input"], case["outcomes"]
    if "error" in expected:
        with pytest.raises(InputError):
            read_default_constraints(given["schedulerConfig"], "--scheduler-config")
        return
    constraints = read_default_constraints(given["schedulerConfig"], "--scheduler-config")
    if "valid" in expected:
        return
    spreads = DefaultSpreads(
        constraints,
        tuple(
            decode({"metadata": _meta(item), "spec": {"selector": item["selector"]}}, Service)
            for item in given.get("services", ())
        ),
        tuple(map(_owner, given.get("owners", ()))),
    )
    pods = spreads.given(tuple(map(_pod, given["pods"])))
    found = {
        f"{pod.metadata.namespace}/{pod.metadata.name}": [
            encode(item) for item in pod.spec.topology_spread_constraints
        ]
        or None
        for pod in pods
    }
    assert found == expected
