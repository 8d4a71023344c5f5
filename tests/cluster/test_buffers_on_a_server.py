"""CapacityBuffers on a real API server and scheduler, with the chart's rights for that gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.helm import CHARTS
from tests.cluster.running import eventually
from tests.cluster.world import ACCOUNT_SPACE, World, deployment, node_pool

GATE = "settings.featureGates.capacityBuffer"


@pytest.fixture
def buffering(world: World) -> Iterator[World]:
    """The account has the rights that come with the gate."""
    upgrade = ("helm", "upgrade", "e2e", str(CHARTS / "dovetail"), "--namespace", ACCOUNT_SPACE)
    world.plane.run(*upgrade, "--reuse-values", "--skip-crds", "--set", f"{GATE}=true")
    try:
        yield world
    finally:
        world.plane.run(*upgrade, "--reuse-values", "--skip-crds", "--set", f"{GATE}=false")


def buffer(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name},
        "spec": spec,
    }


def cpus(world: World) -> float:
    return sum(float(node["status"]["allocatable"]["cpu"]) for node in world.nodes())


def told(world: World, name: str) -> dict[str, tuple[str, str]]:
    path = f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{world.name}/capacitybuffers/{name}"
    found = world.read(path).get("status", {}).get("conditions", ())
    return {one["type"]: (one["reason"], one["message"]) for one in found}


def test_pods_take_the_room_and_it_comes_back(buffering: World) -> None:
    world = buffering
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    with world.controller(FEATURE_GATES="CapacityBuffer=true") as controller:
        world.apply(
            node_pool(world, disruption={"consolidateAfter": "1s"}),
            deployment(world, "web", 2, cpu="700m"),
            buffer("room", scalableRef=ref, replicas=2),
            buffer("lost", scalableRef={**ref, "name": "gone"}, replicas=2),
            buffer("odd", scalableRef={**ref, "kind": "DaemonSet"}, replicas=2),
        )
        fits = ("FitsExistingCapacity", "All 2 virtual pods fit on existing capacity")

        def kept() -> tuple[bool, int]:
            return told(world, "room").get("Provisioning") == fits, len(world.running("web"))

        eventually(kept, lambda found: found == (True, 2), seconds=180)
        missing = 'deployments.apps "gone" not found'
        assert told(world, "lost")["ReadyForProvisioning"] == ("ScalableRefNotFound", missing)
        text = 'unsupported kind "DaemonSet"'
        assert told(world, "odd")["ReadyForProvisioning"] == ("ResolutionFailed", text)
        world.kubectl("scale", "deployment/web", "--replicas=4")
        eventually(kept, lambda found: found == (True, 4), seconds=180)
        # Four pods and the room for two more: what the condition says may be from before the last ones came.
        eventually(lambda: cpus(world), lambda found: found >= 6 * 0.7)
        eventually(kept, lambda found: found == (True, 4))
        shown = world.kubectl("get", "cb", "room", "--no-headers").split()
        assert shown[:3] == ["room", "buffer.x-k8s.io/active-capacity", "2"]  # there is no template
        world.kubectl("scale", "deployment/web", "--replicas=0")
        eventually(lambda: len(world.running()), lambda found: found == 0)
        eventually(kept, lambda found: found == (True, 0))
        assert cpus(world) >= 2 * 0.7
        world.kubectl("delete", "cb", "--all")
        eventually(lambda: len(world.nodes()), lambda found: found == 0, seconds=180)
        assert not controller.lines("reconcile.panicked")
        assert controller.stop() == 0
