"""The API server restarted while nodes come, and again while they go."""

from __future__ import annotations

from tests.cluster.running import eventually
from tests.cluster.world import World, apart, deployment, node_pool

COUNT = 20


def restarted(world: World) -> None:
    world.plane.processes.stop("apiserver")
    world.plane.start_api_server()


def test_the_api_server_restarts_under_load(world: World) -> None:
    world.apply(node_pool(world), deployment(world, "web", COUNT, affinity=apart("web")))
    with world.controller() as controller:
        eventually(lambda: controller.lines("launched nodeclaim"), bool, seconds=120)
        restarted(world)
        nodes = world.settled(pods=COUNT, nodes=COUNT, seconds=300)
        assert len({node["spec"]["providerID"] for node in nodes}) == COUNT
        world.kubectl("delete", "nodepool", world.name, "--wait=false")
        world.kubectl("delete", "deployment", "web")
        eventually(lambda: controller.lines("deleted node"), bool, seconds=120)
        restarted(world)
        eventually(lambda: [*world.claims(), *world.nodes()], lambda found: not found, seconds=300)
        # All parts of the cluster are back, for whoever comes next.
        world.apply(node_pool(world), deployment(world, "again", 1))
        world.settled(pods=1, nodes=1, seconds=300)
        assert controller.stop() == 0
