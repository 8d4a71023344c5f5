"""Admission plugins of a real API server make of pods what the one in memory does, in the same words."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dovetail.testing.pod_admission import CASES, INVALID, NAMESPACES, RULES, Document, pod, seen
from tests.cluster.controlplane.start import ControlPlane, StartError
from tests.cluster.running import eventually


@pytest.fixture(scope="module")
def plane(whole: ControlPlane) -> Iterator[ControlPlane]:
    for document in RULES:
        whole.run("kubectl", "create", "-f", "-", stdin=json.dumps(document))
    yield whole
    whole.run("kubectl", "delete", "namespaces", *NAMESPACES, "--wait=false")
    whole.run("kubectl", "delete", "runtimeclasses", "kata", "plain")
    whole.run("kubectl", "delete", "priorityclasses", "default", "high")


def answer(plane: ControlPlane, asked: Document) -> Document | str:
    command = ("kubectl", "create", "-o", "json", "--dry-run=server", "-f", "-")
    try:
        return seen(json.loads(plane.run(*command, stdin=json.dumps(asked))))
    except StartError as error:
        return str(error).partition("is forbidden: ")[2] or str(error)


@pytest.mark.parametrize(("namespace", "spec", "expected"), CASES.values(), ids=CASES)
def test_both_servers_make_the_same_of_a_pod(
    plane: ControlPlane, namespace: str, spec: Document, expected: Document | str
) -> None:
    # The server takes a moment to know of classes, ranges and quotas.
    asked = pod(namespace, spec)
    eventually(lambda: answer(plane, asked), lambda found: found == expected, seconds=30)


@pytest.mark.parametrize(("spec", "why"), INVALID.values(), ids=INVALID)
def test_both_refuse_resources_that_cannot_be(plane: ControlPlane, spec: Document, why: str) -> None:
    assert why in answer(plane, pod("default", spec))
