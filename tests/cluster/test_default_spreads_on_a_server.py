"""A real scheduler with default spread constraints, and a controller that has the same setting."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually
from tests.cluster.world import NODES, Document, World, deployment, node_class, node_pool

ZONE = "topology.kubernetes.io/zone"
ZONES = ["test-zone-a", "test-zone-b"]
SPREADS = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
CONFIG = json.dumps({"podTopologySpread": {"defaultConstraints": SPREADS}})


@pytest.fixture
def spreading(tmp_path: Path) -> Iterator[World]:
    """A cluster of its own: the setting of its scheduler holds for all of it."""
    with ControlPlane(build(), spreads=SPREADS) as plane:
        define(plane)
        world = World(plane, plane.kubeconfig, tmp_path, "spreading")
        plane.run("kubectl", "create", "namespace", world.name)
        world.apply(node_class(world.name))
        yield world


def fixed(world: World, zone: str) -> Document:
    """A node without a pool with room for one pod: without it the scheduler would not know of the zone."""
    room = {"cpu": "1", "memory": "4Gi", "pods": "10"}
    labels = {"world": world.name, ZONE: zone, "kubernetes.io/hostname": f"fixed-{zone}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"fixed-{zone}", "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def test_pods_that_the_scheduler_keeps_apart_get_nodes_apart(spreading: World) -> None:
    for zone in ZONES:
        spreading.send("POST", NODES, fixed(spreading, zone))
    wanted = {"key": ZONE, "operator": "In", "values": ZONES}
    pool = node_pool(spreading)
    pool["spec"]["template"]["spec"]["requirements"].append(wanted)
    # Room for the four that the fixed nodes have none for is on one node, where the scheduler puts two.
    spreading.apply(pool, deployment(spreading, "web", 6, cpu="700m"))
    with spreading.controller("--provider", "kwok", "--scheduler-config", CONFIG) as controller:
        eventually(spreading.running, lambda found: len(found) == 6)
        assert not controller.lines("settings without effect here")
        said = "scheduler-config is set: applying these default topology spread constraints"
        assert [line["constraints"][0]["topologyKey"] for line in controller.lines(said)] == [ZONE]
        assert controller.stop() == 0
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in spreading.nodes()}
    assert Counter(zones[pod["spec"]["nodeName"]] for pod in spreading.running()) == dict.fromkeys(ZONES, 3)
    assert sorted(zones[claim["status"]["nodeName"]] for claim in spreading.claims()) == ZONES
    assert not any("topologySpreadConstraints" in pod["spec"] for pod in spreading.pods())
