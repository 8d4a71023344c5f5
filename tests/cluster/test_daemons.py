"""DaemonSets whose pods ask for more than their templates say."""

from __future__ import annotations

from tests.cluster.running import eventually
from tests.cluster.world import Document, World, deployment, node_class, node_pool

TYPE = "node.kubernetes.io/instance-type"


def daemonset(world: World, resources: Document) -> Document:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9", "resources": resources}
    spec = {"nodeSelector": {"karpenter.sh/nodepool": world.name}, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": spec},
        },
    }


def types(world: World) -> list[str]:
    return sorted(node["metadata"]["labels"][TYPE].rsplit("-", 2)[0] for node in world.nodes())


def test_a_limit_alone_is_a_request(world: World) -> None:
    """The API server makes one of it in pods, and not in templates."""
    world.apply(node_class(world.name), node_pool(world), deployment(world, "web", 1))
    world.apply(daemonset(world, {"limits": {"cpu": "900m"}}))
    with world.controller() as controller:
        world.settled(pods=2, nodes=1)
        assert types(world) == ["c-2x"]
        assert controller.stop() == 0


def test_what_a_limit_range_adds_is_seen_in_the_first_pod(world: World) -> None:
    """The first node has room for one of the two, of which nobody could know; any other has it for both."""
    least = {"type": "Container", "defaultRequest": {"cpu": "900m"}}
    limits = {"kind": "LimitRange", "metadata": {"name": "usual"}, "spec": {"limits": [least]}}
    world.apply({"apiVersion": "v1", **limits}, node_class(world.name), node_pool(world))
    world.apply(deployment(world, "web", 1), daemonset(world, {}))

    def running() -> tuple[int, bool]:
        """Pods of the Deployment, and whether the DaemonSet lacks one at most."""
        return len(world.running("web")), len(world.running("agent")) >= len(world.nodes()) - 1

    with world.controller() as controller:
        eventually(running, lambda found: found == (1, True), seconds=120)
        world.kubectl("scale", "deployment/web", "--replicas=3")
        eventually(running, lambda found: found == (3, True), seconds=120)
        first, *others = types(world)
        assert first == "c-1x"
        assert "c-1x" not in others
        assert controller.stop() == 0
