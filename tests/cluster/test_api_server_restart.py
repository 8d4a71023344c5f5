"""The API server restarted while nodes come, and again while they go."""

from __future__ import annotations

from tests.cluster.running import eventually
from tests.cluster.world import Document, World, apart, deployment, node_pool

COUNT = 20


def restarted(world: World) -> None:
    world.plane.processes.stop("apiserver")
    world.plane.start_api_server()


def up(world: World) -> list[Document]:
    """The nodes that are initialized."""
    return [node for node in world.nodes() if "karpenter.sh/initialized" in node["metadata"]["labels"]]


def test_the_api_server_restarts_under_load(world: World) -> None:
    world.apply(node_pool(world), deployment(world, "web", COUNT, affinity=apart("web")))
    with world.controller() as controller:
        eventually(lambda: controller.lines("launched nodeclaim"), bool, seconds=120)
        restarted(world)
        # Not the pods: the scheduler and kwok lose one now and then when the API server goes.
        nodes = eventually(lambda: up(world), lambda found: len(found) == COUNT, seconds=300)
        assert len({node["spec"]["providerID"] for node in nodes}) == len(world.claims()) == COUNT
        world.kubectl("delete", "nodepool", world.name, "--wait=false")
        world.kubectl("delete", "deployment", "web")
        eventually(lambda: controller.lines("deleted node"), bool, seconds=120)
        restarted(world)
        eventually(lambda: [*world.claims(), *world.nodes()], lambda found: not found, seconds=300)
        assert controller.stop() == 0
