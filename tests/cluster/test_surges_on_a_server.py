"""Another pod is up before one has to leave its node, by the real Deployment controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.helm import CHARTS
from tests.cluster.running import eventually
from tests.cluster.world import ACCOUNT_SPACE, World, budget, deployment, node_pool

SWITCH = "settings.surge"
NAMES = [f"s{number}" for number in range(10)]


@pytest.fixture
def surging(world: World) -> Iterator[World]:
    """The account has the rights that come with the switch."""
    upgrade = ("helm", "upgrade", "e2e", str(CHARTS / "dovetail"), "--namespace", ACCOUNT_SPACE)
    world.plane.run(*upgrade, "--reuse-values", "--skip-crds", "--set", f"{SWITCH}=true")
    try:
        yield world
    finally:
        world.plane.run(*upgrade, "--reuse-values", "--skip-crds", "--set", f"{SWITCH}=false")


def asking(world: World, name: str) -> dict[str, Any]:
    made = deployment(world, name, 1)
    made["metadata"]["annotations"] = {"dovetail.dev/surge": "true"}
    return made


def up(world: World) -> set[str]:
    """The services that have a ready pod."""
    return {
        str(pod["metadata"]["labels"]["app"])
        for pod in world.pods()
        if any(
            one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ())
        )
    }


def test_ten_services_of_one_pod_are_never_away_while_all_nodes_are_renewed(surging: World) -> None:
    """Their budgets allow no eviction: without a surge no node would go."""
    world = surging
    services = [asking(world, name) for name in NAMES]
    world.apply(node_pool(world), *services, *(budget(name, minAvailable=1) for name in NAMES))
    with world.controller(SURGE="true") as controller:
        old = {node["metadata"]["name"] for node in world.settled(pods=10)}
        eventually(lambda: up(world), lambda found: found == set(NAMES))
        labels = {"world": world.name, "generation": "new"}
        changed = node_pool(world)
        changed["spec"]["template"]["metadata"]["labels"] = labels
        world.apply(changed)
        away = dict.fromkeys(NAMES, 0)

        def left() -> set[str]:
            there = up(world)
            for name in NAMES:
                away[name] += name not in there
            return old & {node["metadata"]["name"] for node in world.nodes()}

        eventually(left, lambda found: not found, seconds=400)
        assert away == dict.fromkeys(NAMES, 0)
        world.settled(pods=10)
        restarted = world.read(f"/apis/apps/v1/namespaces/{world.name}/deployments")["items"]
        for one in restarted:
            marks, template = one["metadata"]["annotations"], one["spec"]["template"]["metadata"]
            at = template["annotations"]["kubectl.kubernetes.io/restartedAt"]
            assert marks["dovetail.dev/surge-restarted"] == at
            assert marks["deployment.kubernetes.io/revision"] == "2"
        assert ["Normal", "SurgeRestarted"] in [row[:2] for row in world.described("deployment", "s0")]
        assert controller.stop() == 0
