"""The API server restarted while nodes come, and again while they go."""

from __future__ import annotations

from tests.cluster.running import eventually
from tests.cluster.world import NODES, Document, World, apart, deployment, node_pool, tainted

COUNT = 20
NOT_READY = "node.kubernetes.io/not-ready"


def restarted(world: World) -> None:
    world.plane.processes.stop("apiserver")
    world.plane.start_api_server()


def up(world: World) -> list[Document]:
    """The nodes that are initialized.

    Kubernetes tries once to take the taint off a node that turned Ready: if that fails, the taint stays until
    the node changes. A kubelet tells of itself every five minutes; here nodes do so sooner.
    """
    found = world.nodes()
    for node in found:
        if tainted(node, NOT_READY):
            beat = {"metadata": {"annotations": {"beat": node["metadata"]["resourceVersion"]}}}
            world.send("PATCH", f"{NODES}/{node['metadata']['name']}", beat)
    return [node for node in found if "karpenter.sh/initialized" in node["metadata"]["labels"]]


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
        # All parts of the cluster are back, for whoever comes next.
        world.apply(node_pool(world), deployment(world, "again", 1))
        world.settled(pods=1, nodes=1, seconds=300)
        assert controller.stop() == 0
