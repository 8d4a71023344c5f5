"""Simulated controllers and plans make the pods of workloads that a real control plane of 1.36 made.

`tests/cluster/test_workload_pods_on_a_server.py` asks it once more for the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from dovetail.api.codec import encode
from dovetail.api.core import PersistentVolumeClaim, Pod
from dovetail.api.workloads import Job
from dovetail.base.clock import MINUTE
from dovetail.cli.plan_input import read_cluster
from dovetail.kube.memory import MemoryServer
from dovetail.reading import Located, read_objects
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.simulate.workloads.runner import Workloads
from dovetail.testing.workload_pods import (
    NODE_DOCUMENT,
    OTHERS,
    PODS,
    WORKLOADS,
    Document,
    by_app,
    others_seen,
)
from dovetail.units.timestamp import parse_rfc3339


@pytest.fixture(scope="module")
def made() -> MemoryServer:
    """A cluster in which the simulated controllers have worked for a minute."""

    async def main(clock: VirtualClock) -> MemoryServer:
        server = MemoryServer(clock)
        for document in (NODE_DOCUMENT, *WORKLOADS):
            server.create(document)
        workloads = Workloads(server.client(), clock, JsonlLog(clock), seed=1)
        running = asyncio.ensure_future(workloads.run())
        await clock.sleep(MINUTE + MINUTE // 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return server

    return run_virtual(main, start=parse_rfc3339("2026-03-02T12:00:00Z"))


def documents(server: MemoryServer, kind: type[Pod | PersistentVolumeClaim | Job]) -> list[Document]:
    return [{"kind": kind.KIND, **one.document} for one in server.list(kind)]


@pytest.mark.parametrize("app", PODS)
def test_pods_of_the_simulated_controllers(made: MemoryServer, app: str) -> None:
    assert by_app(documents(made, Pod))[app] == PODS[app]


def test_what_they_make_besides(made: MemoryServer) -> None:
    jobs = [one for one in documents(made, Job) if one["metadata"].get("ownerReferences")]
    found = dict(map(others_seen, (*documents(made, PersistentVolumeClaim), *jobs)))
    assert found == OTHERS


def planned(documents: Iterable[Document]) -> tuple[Pod, ...]:
    return read_cluster(read_objects(map(Located, documents))).pods


@pytest.mark.parametrize("app", [app for app in PODS if app not in ("agent", "network")])
def test_pods_of_plans(app: str) -> None:
    """They have names of their own, and belong to what is written: no ReplicaSet, no Job of a CronJob."""
    found = by_app(encode(pod) for pod in planned(WORKLOADS))[app]
    named = ("name", "owner")
    expected = [{key: value for key, value in one.items() if key not in named} for one in PODS[app]]
    for one in expected if app == "minutely" else ():
        one["labels"] = {key: value.removesuffix("-TIME") for key, value in one["labels"].items()}
    for one in found:
        for key in one["labels"].keys() & {"controller-uid", "batch.kubernetes.io/controller-uid"}:
            assert one["labels"][key] == app, "the name in place of a UID that no server has given"
            one["labels"][key] = "UID"
    assert [{key: value for key, value in one.items() if key not in named} for one in found] == expected


def test_pods_beside_those_that_are_there_are_of_their_revision_and_have_other_numbers() -> None:
    def there(name: str, kind: str, owner: str, **meta: Document) -> Document:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference], **meta},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }

    index = "batch.kubernetes.io/job-completion-index"
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    sets = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-7f", "namespace": "default", "ownerReferences": [owner]},
        "spec": {**WORKLOADS[0]["spec"], "replicas": 1},
    }
    numbered = next(one for one in WORKLOADS if one["metadata"]["name"] == "numbered")
    pods = planned(
        [
            WORKLOADS[0],
            sets,
            there("web-7f-aaaaa", "ReplicaSet", "web-7f", labels={"app": "web", "pod-template-hash": "7f"}),
            {**numbered, "status": {"completedIndexes": "0", "succeeded": 1}},
            there("numbered-1-aaaaa", "Job", "numbered", annotations={index: "1"}),
        ]
    )
    assert {pod.metadata.name: pod.metadata.labels.get("pod-template-hash") for pod in pods} == {
        "web-7f-aaaaa": "7f",
        "web-1": "7f",
        "numbered-1-aaaaa": None,
        "numbered-2": None,
    }
