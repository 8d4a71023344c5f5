"""Types from a file, and pools that are deleted while no controller runs: the next one takes all away."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.running import eventually
from tests.cluster.world import World, deployment, node_pool

TYPE = {
    "Name": "own-2x",
    "Architecture": "amd64",
    "OperatingSystems": ["linux"],
    "Resources": {"cpu": "2", "memory": "4Gi", "pods": "8"},
    "Offerings": [
        {
            "Price": 0.01,
            "Available": True,
            "Requirements": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["own-zone"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            ],
        }
    ],
}


def test_pools_deleted_without_a_controller(world: World, tmp_path: Path) -> None:
    """Their nodes have a finalizer: they stay, deleted or about to be, until one runs again."""
    types = tmp_path / "types.json"
    types.write_text(json.dumps([TYPE]))
    world.apply(node_pool(world), deployment(world, "web", 3))
    with world.controller("--instance-types", str(types)) as controller:
        nodes = world.settled(pods=3)
        marks = [node["metadata"]["labels"] for node in nodes]
        assert {one["node.kubernetes.io/instance-type"] for one in marks} == {"own-2x"}
        assert {one["topology.kubernetes.io/zone"] for one in marks} == {"own-zone"}
        assert {one["eks-node-viewer/instance-price"] for one in marks} == {"0.01"}
        assert controller.stop() == 0
    world.kubectl("delete", "deployment", "web")
    world.kubectl("delete", "nodepool", world.name)
    eventually(world.claims, lambda found: all("deletionTimestamp" in one["metadata"] for one in found))
    assert len(world.nodes()) == len(nodes)
    with world.controller("--instance-types", str(types)) as controller:
        eventually(lambda: [*world.claims(), *world.nodes()], lambda found: not found)
        assert controller.stop() == 0
