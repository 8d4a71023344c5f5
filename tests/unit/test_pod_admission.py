"""What admission plugins make of pods, as a real API server of 1.36 answered.

`tests/cluster/test_pod_admission_on_a_server.py` asks it once more for the same pods.
"""

from __future__ import annotations

import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, Forbidden, Invalid
from dovetail.kube.memory.server import MemoryServer
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.pod_admission import CASES, INVALID, RULES, Document, pod, seen


@pytest.fixture
def server() -> MemoryServer:
    async def made(clock: VirtualClock) -> MemoryServer:
        return MemoryServer(clock)

    found = run_virtual(made, start=1_790_000_000 * SECOND)
    for document in RULES:
        found.create(document)
    return found


@pytest.mark.parametrize(("namespace", "spec", "expected"), CASES.values(), ids=CASES)
def test_what_becomes_of_a_pod(
    server: MemoryServer, namespace: str, spec: Document, expected: Document | str
) -> None:
    try:
        answer: Document | str = seen(server.create(pod(namespace, spec)).document)
    except Forbidden as error:
        answer = str(error).partition("is forbidden: ")[2]
    assert answer == expected


@pytest.mark.parametrize(("spec", "why"), INVALID.values(), ids=INVALID)
def test_resources_that_cannot_be(server: MemoryServer, spec: Document, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        server.create(pod("default", spec))


def test_what_is_added_is_not_refused_when_it_comes_again(server: MemoryServer) -> None:
    """As a copy of a pod that a server has."""
    made = server.create(pod("default", {"runtimeClassName": "kata"})).document
    try:
        again = server.create({**made, "metadata": {"name": "copy", "namespace": "default"}})
    except ApiError as error:  # pragma: no cover
        pytest.fail(str(error))
    assert seen(again.document) == seen(made)
