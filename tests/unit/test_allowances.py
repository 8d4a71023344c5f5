"""LimitRanges and ResourceQuotas, as a real API server of 1.36 answered.

`tests/cluster/test_allowances_on_a_server.py` asks it once more for the same pods.
"""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import Forbidden
from dovetail.kube.memory.server import MemoryServer
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.allowances import ADMITTED, REFUSED, Document, limit_range, pod, quota, scoped


def server(*documents: Document) -> MemoryServer:
    async def made(clock: VirtualClock) -> MemoryServer:
        return MemoryServer(clock)

    found = run_virtual(made, start=1_790_000_000 * SECOND)
    for document in documents:
        found.create(document)
    return found


@pytest.mark.parametrize(("rules", "asked", "resources"), ADMITTED)
def test_what_is_filled_in(rules: list[Document], asked: Document, resources: Document) -> None:
    made = server(*rules).create(pod("web", asked))
    assert made.document["spec"]["containers"][0].get("resources", {}) == resources


@pytest.mark.parametrize(("rules", "before", "asked", "why"), REFUSED)
def test_what_is_refused(rules: list[Document], before: list[Document], asked: Document, why: str) -> None:
    found = server(*rules)
    for number, resources in enumerate(before):
        found.create(pod(f"there-{number}", resources))
    with pytest.raises(Forbidden) as caught:
        found.create(pod("web", asked))
    assert str(caught.value).partition("is forbidden: ")[2] == why


def test_only_pods_of_the_namespace_count() -> None:
    found = server(quota({"pods": "1"}))
    other: dict[str, Any] = pod("web", {})
    other["metadata"]["namespace"] = "kube-system"
    found.create(other)
    found.create(pod("web", {}))
    with pytest.raises(Forbidden):
        found.create(pod("second", {}))


@pytest.mark.parametrize(
    ("scope", "counted"),
    [
        ({"scopes": ["BestEffort"]}, True),
        ({"scopes": ["NotBestEffort"]}, False),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotTerminating"]}, True),
        (scoped("PriorityClass", "Exists"), False),
        (scoped("PriorityClass", "DoesNotExist"), True),
        (scoped("PriorityClass", "In", "high"), False),
        (scoped("PriorityClass", "NotIn", "high"), True),
    ],
)
def test_quotas_of_some_pods_only(scope: Document, counted: bool) -> None:
    """These ask for nothing, and have no class."""
    found = server(quota({"pods": "0"}, **scope))
    if counted:
        with pytest.raises(Forbidden):
            found.create(pod("web", {}))
    else:
        found.create(pod("web", {}))


def test_several_ranges_in_order_of_name() -> None:
    first = limit_range({"type": "Container", "defaultRequest": {"cpu": "100m"}}, name="a")
    second = limit_range({"type": "Container", "defaultRequest": {"cpu": "200m", "memory": "1Gi"}}, name="b")
    made = server(second, first).create(pod("web", {}))
    assert made.document["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "1Gi"}
    }
