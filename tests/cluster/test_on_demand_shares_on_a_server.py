"""A share of a workload's pods stays off spot, by the real Deployment controller and scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.helm import CHARTS
from tests.cluster.running import eventually
from tests.cluster.world import ACCOUNT_SPACE, World, deployment, node_pool

NAME = "dovetail.dev/on-demand"
OFF_SPOT = "dovetail.dev/off-spot"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ON_DEMAND_SHARES = "settings.onDemandShares"


@pytest.fixture
def sharing(world: World) -> Iterator[World]:
    """The account has the rights that come with the switch."""
    upgrade = ("helm", "upgrade", "e2e", str(CHARTS / "dovetail"), "--namespace", ACCOUNT_SPACE)
    world.plane.run(*upgrade, "--reuse-values", "--skip-crds", "--set", f"{ON_DEMAND_SHARES}=true")
    try:
        yield world
    finally:
        world.plane.run(*upgrade, "--reuse-values", "--skip-crds", "--set", f"{ON_DEMAND_SHARES}=false")


def asking(world: World, share: str, replicas: int) -> dict[str, Any]:
    gates = [{"name": NAME}]
    return deployment(world, "web", replicas, annotations={NAME: share}, schedulingGates=gates)


def off_spot(world: World) -> tuple[int, int]:
    """How many pods run that were told to stay off spot, and in all; none of the first is on spot."""
    kinds = {node["metadata"]["name"]: node["metadata"]["labels"][CAPACITY_TYPE] for node in world.nodes()}
    running = world.running("web")
    held = [pod for pod in running if pod["metadata"]["annotations"][OFF_SPOT] == "true"]
    assert {kinds[pod["spec"]["nodeName"]] for pod in held} <= {"on-demand"}
    return len(held), len(running)


def test_a_share_holds_at_each_size_after_a_rollout_and_after_a_deletion(sharing: World) -> None:
    world = sharing
    kinds = {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}
    pool = node_pool(world)
    wanted = pool["spec"]["template"]["spec"]["requirements"]
    wanted[:] = [*(one for one in wanted if one["key"] != CAPACITY_TYPE), kinds]
    world.apply(pool, asking(world, "1 + 40%", 6))
    with world.controller(ON_DEMAND_SHARES="true") as controller:
        world.settled(pods=6)
        assert off_spot(world) == (3, 6)
        for replicas, share in ((3, 2), (8, 4), (1, 1), (5, 3)):
            world.kubectl("scale", "deployment", "web", f"--replicas={replicas}")
            world.settled(pods=replicas)
            assert off_spot(world) == (share, replicas)
        old = {pod["metadata"]["name"] for pod in world.pods()}
        world.kubectl("rollout", "restart", "deployment", "web")
        eventually(lambda: old & {pod["metadata"]["name"] for pod in world.pods()}, lambda found: not found)
        world.settled(pods=5)
        assert off_spot(world) == (3, 5)
        told = {pod["metadata"]["name"]: pod["metadata"]["annotations"][OFF_SPOT] for pod in world.pods()}
        world.kubectl("delete", "pod", next(name for name, held in told.items() if held == "true"))
        eventually(lambda: off_spot(world), lambda found: found == (3, 5))
        assert controller.stop() == 0


def test_a_share_that_is_none_keeps_its_pods_at_the_gate_and_says_so(sharing: World) -> None:
    world = sharing
    world.apply(node_pool(world), asking(world, "half", 1))
    with world.controller(ON_DEMAND_SHARES="true") as controller:
        name = eventually(world.pods, lambda found: len(found) == 1)[0]["metadata"]["name"]
        events = eventually(lambda: world.described("pod", name), lambda found: bool(found), seconds=60)
        assert ["Warning", "InvalidOnDemandShare"] in [row[:2] for row in events]
        assert world.pods()[0]["spec"]["schedulingGates"] == [{"name": NAME}]
        assert controller.stop() == 0
