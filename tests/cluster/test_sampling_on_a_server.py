"""Which nodes of a large cluster the real scheduler looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually
from tests.cluster.world import NODES, World
from tests.conformance import sampling_cases as cases


@pytest.fixture
def one_by_one(tmp_path: Path) -> Iterator[World]:
    """A cluster of its own, whose scheduler has not looked at anything yet."""
    with ControlPlane(build(), one_by_one=True, controllers="namespace,serviceaccount") as plane:
        yield World(plane, plane.kubeconfig, tmp_path, "sampling")


def test_the_real_scheduler_ends_its_search_where_the_simulated_one_does(one_by_one: World) -> None:
    world, pods = one_by_one, f"/api/v1/namespaces/{one_by_one.name}/pods"
    world.plane.run("kubectl", "create", "namespace", world.name)
    eventually(
        lambda: world.read(f"/api/v1/namespaces/{world.name}/serviceaccounts")["items"],
        lambda found: bool(found),
    )
    for number in range(cases.NODES):
        world.send("POST", NODES, cases.node(number))
    for number in range(cases.PODS):
        document = cases.pod(number)
        del document["metadata"]["uid"]
        world.send("POST", pods, document)

    def places() -> dict[str, str]:
        found = world.read(pods)["items"]
        return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in found}

    assert cases.got(eventually(places, lambda found: all(found.values()))) == cases.GOT
