"""Controllers of a real control plane make of workloads what the simulated ones do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dovetail.testing.workload_pods import (
    NODE,
    NODE_DOCUMENT,
    OTHERS,
    PODS,
    WORKLOADS,
    Document,
    by_app,
    others_seen,
)
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually

_KINDS = "deployments,replicasets,statefulsets,daemonsets,cronjobs,jobs,pvc,pods"


@pytest.fixture(scope="module")
def plane(whole: ControlPlane) -> Iterator[ControlPlane]:
    for document in (NODE_DOCUMENT, *WORKLOADS):
        whole.run("kubectl", "create", "-f", "-", stdin=json.dumps(document))
    yield whole
    whole.run("kubectl", "delete", _KINDS, "--all", "--force", "--cascade=background")
    whole.run("kubectl", "delete", "node", NODE)


def listed(plane: ControlPlane, kinds: str) -> list[Document]:
    found: list[Document] = json.loads(plane.run("kubectl", "get", kinds, "-o", "json"))["items"]
    return found


@pytest.mark.parametrize("app", PODS)
def test_pods_of_a_workload(plane: ControlPlane, app: str) -> None:
    # A CronJob's first run begins with the next minute.
    eventually(lambda: by_app(listed(plane, "pods"))[app], lambda found: found == PODS[app], seconds=90)


def test_what_is_made_besides(plane: ControlPlane) -> None:
    def made() -> dict[tuple[str, str], tuple[Document, Document]]:
        jobs = [one for one in listed(plane, "jobs") if one["metadata"].get("ownerReferences")]
        return dict(map(others_seen, (*listed(plane, "pvc"), *jobs)))

    eventually(made, lambda found: found == OTHERS, seconds=90)
