"""NodeOverlays on a real API server, with the chart's rights: bought by, told of, and heeded when they go."""

from __future__ import annotations

from typing import Any

from tests.cluster.running import eventually
from tests.cluster.world import World, deployment, node_pool

GATES = {"FEATURE_GATES": "NodeOverlay=true"}
OVERLAYS = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
FUSE = "smarter-devices/fuse"
SMALL, LARGE = "c-2x-amd64-linux", "m-16x-amd64-linux"
TYPE = "node.kubernetes.io/instance-type"
GOOD = ("True", "ValidationSucceeded", "", "True")


def overlay(world: World, name: str, kind: str, **spec: Any) -> dict[str, Any]:
    """One for a type in the world's pool."""
    wanted = {"karpenter.sh/nodepool": world.name, TYPE: kind}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name, "labels": {"world": world.name}},
        "spec": {"requirements": requirements, **spec},
    }


def told(world: World, name: str, wanted: tuple[str, str, str, str]) -> None:
    """Wait for the verdict on an overlay: status, reason and message, and whether it is Ready."""

    def look() -> tuple[str, str, str, str]:
        found = world.read(f"{OVERLAYS}/{name}").get("status", {}).get("conditions", ())
        by_type = {one["type"]: one for one in found}
        if not by_type:
            return ("", "", "", "")
        verdict = by_type["ValidationSucceeded"]
        return verdict["status"], verdict["reason"], verdict.get("message", ""), by_type["Ready"]["status"]

    eventually(look, lambda found: found == wanted)


def bought(world: World) -> list[str]:
    return sorted(one["metadata"]["labels"][TYPE] for one in world.claims())


def test_the_price_decides_until_the_overlay_is_deleted(world: World) -> None:
    cheap, dear = f"{world.name}-z", f"{world.name}-a"
    with world.controller(**GATES) as controller:
        world.apply(node_pool(world))
        world.apply(overlay(world, cheap, LARGE, price="0.0001"), overlay(world, dear, LARGE, price="1000"))
        told(world, cheap, GOOD)
        told(world, dear, ("False", "Conflict", "conflict with another overlay", "False"))
        world.apply(deployment(world, "first", 1))
        world.settled(pods=1, nodes=1)
        assert bought(world) == [LARGE]
        (claim,) = world.claims()
        assert claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"] == "true"

        world.kubectl("delete", "nodeoverlay", cheap)
        told(world, dear, GOOD)
        world.apply(deployment(world, "second", 1, cpu="15500m"))
        world.settled(pods=2, nodes=2)
        assert bought(world).count(LARGE) == 1
        assert controller.stop() == 0
    world.kubectl("delete", "nodeoverlay", dear)


def test_a_resource_that_an_overlay_adds_is_bought(world: World) -> None:
    limits = {"requests": {"cpu": "1", FUSE: "1"}, "limits": {FUSE: "1"}}
    main = {"name": "main", "image": "registry.k8s.io/pause:3.7", "resources": limits}
    with world.controller(**GATES) as controller:
        world.apply(node_pool(world), deployment(world, "device", 1, containers=[main]))
        eventually(lambda: world.pods("device"), bool)
        fuses, wrong = f"{world.name}-fuses", f"{world.name}-wrong"
        world.apply(overlay(world, wrong, SMALL, capacity={"vpc.amazonaws.com/efa": "1"}))
        text = "invalid capacity: vpc.amazonaws.com/efa in resource, restricted"
        told(world, wrong, ("False", "RuntimeValidation", text, "False"))
        assert world.claims() == []

        world.apply(overlay(world, fuses, SMALL, capacity={FUSE: "5"}))
        told(world, fuses, GOOD)
        (node,) = world.settled(pods=1, nodes=1)
        assert node["status"]["allocatable"][FUSE] == "5"
        (claim,) = world.claims()
        assert claim["metadata"]["annotations"]["karpenter.sh/capacity-overlay-applied"] == "true"
        assert bought(world) == [SMALL]
        assert controller.stop() == 0
    world.kubectl("delete", "nodeoverlay", fuses, wrong)
