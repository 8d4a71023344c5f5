"""A hundred nodes of Karpenter's change hands, and back: not one of them is replaced."""

from __future__ import annotations

import json
from typing import Any

from dovetail.api.karpenter.fingerprint import HASH_VERSION
from tests.cluster.running import Controller, eventually
from tests.cluster.world import CLAIMS, CLASS, NODES, POOLS, World, apart, deployment, node_pool, status

HASH, VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
THEIRS = {HASH: "1234567890123456789", VERSION: "v3"}  # as Karpenter stamps pools and claims
OURS = HASH_VERSION
COUNT = 100
FINALIZERS = ["karpenter.sh/termination"]
SIZE = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "20Gi", "pods": "16"}

Document = dict[str, Any]


def claim(world: World, pool_uid: str, number: int) -> Document:
    """A NodeClaim as Karpenter's kwok provider leaves it once its node is up."""
    name = f"{world.name}-{number:03}"
    labels = {
        "world": world.name,
        "karpenter.sh/nodepool": world.name,
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.kwok.sh/instance-cpu": "1",
        "karpenter.kwok.sh/instance-family": "c",
        "karpenter.kwok.sh/instance-memory": "2048",
        "karpenter.kwok.sh/instance-size": "1x",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "c-1x-amd64-linux",
        "topology.kubernetes.io/zone": f"test-zone-{'abcd'[number % 4]}",
    }
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": world.name, "uid": pool_uid}
    types = ["c-1x-amd64-linux", "s-1x-amd64-linux", "m-1x-amd64-linux"]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": THEIRS,
            "finalizers": FINALIZERS,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {
            "expireAfter": "720h",
            "nodeClassRef": {**CLASS, "name": world.name},
            "requirements": [
                {"key": "karpenter.sh/nodepool", "operator": "In", "values": [world.name]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
            ],
            "resources": {"requests": {"cpu": "500m", "pods": "1"}},
        },
    }


def node(made: Document) -> Document:
    """The Node of a claim that the API server has."""
    meta, name = made["metadata"], made["metadata"]["name"]
    up = {f"karpenter.sh/{step}": "true" for step in ("registered", "initialized")}
    played = {"kwok.x-k8s.io/node": "fake"}
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**meta["labels"], **up, **played, "kubernetes.io/hostname": name},
            "annotations": {**played, **THEIRS},
            "finalizers": FINALIZERS,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {"providerID": f"kwok://{name}"},
        "status": {"capacity": SIZE, "allocatable": SIZE},
    }


def launched(made: Document) -> Document:
    """The status of a claim whose node is up."""
    name, since = made["metadata"]["name"], made["metadata"]["creationTimestamp"]
    kinds = ("Launched", "Registered", "Initialized", "Ready")
    up = {"status": "True", "message": "", "lastTransitionTime": since, "observedGeneration": 1}
    return {
        "providerID": f"kwok://{name}",
        "nodeName": name,
        "capacity": SIZE,
        "allocatable": SIZE,
        "conditions": [{"type": kind, "reason": kind, **up} for kind in kinds],
    }


def karpenters(world: World) -> None:
    """A pool, a hundred claims, and their nodes, all of them by Karpenter."""
    pool = node_pool(world, disruption={"consolidateAfter": "0s"})
    pool["metadata"]["annotations"] = THEIRS
    world.apply(pool)
    uid = world.read(f"{POOLS}/{world.name}")["metadata"]["uid"]
    for number in range(COUNT):
        made = world.send("POST", CLAIMS, claim(world, uid, number))
        world.send("POST", NODES, node(made))
        world.send("PATCH", f"{CLAIMS}/{made['metadata']['name']}/status", {"status": launched(made)})


def stamps(world: World) -> set[str]:
    """The versions of the hashes that the pool and its claims bear."""
    found = [world.read(f"{POOLS}/{world.name}"), *world.claims()]
    return {one["metadata"]["annotations"][VERSION] for one in found}


def identities(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in (*world.nodes(), *world.claims())}


def looked(controller: Controller) -> int:
    """How often it has looked for something to consolidate, once all else was looked at."""
    rows = controller.asked("/metrics")[1].splitlines()
    counts = [row for row in rows if "evaluation_duration_seconds_count{" in row and "underutilized" in row]
    return sum(int(float(row.split()[-1])) for row in counts)


def quiet(world: World, controller: Controller) -> None:
    """It leads, has stamped all there is, and has then looked at everything twice."""
    eventually(lambda: stamps(world), lambda found: found == {OURS}, seconds=180)
    assert {one["metadata"]["annotations"][HASH] for one in world.claims()}.isdisjoint(THEIRS.values())
    seen = looked(controller)
    eventually(lambda: looked(controller), lambda found: found >= seen + 2, seconds=300)
    assert not [one for one in world.claims() if status(one, "Drifted") or status(one, "DisruptionReason")]
    assert not controller.lines("disrupting node(s)")


def test_a_hundred_nodes_are_taken_over_and_handed_back(world: World) -> None:
    karpenters(world)
    world.apply(deployment(world, "web", COUNT, cpu="500m", affinity=apart("web")))
    eventually(lambda: len(world.running()), lambda found: found == COUNT, seconds=180)
    before = identities(world)
    pods = {pod["metadata"]["uid"] for pod in world.running()}
    with world.controller() as controller:
        quiet(world, controller)
        assert identities(world) == before
        world.kubectl("scale", "deployment/web", f"--replicas={COUNT + 1}")
        world.settled(pods=COUNT + 1, nodes=COUNT + 1)
        assert before.items() <= identities(world).items()
        assert controller.stop() == 0
    before = identities(world)
    # Karpenter's first step: another version than its own says nothing about drift, and is stamped over.
    assert stamps(world) == {OURS}
    theirs = json.dumps({"metadata": {"annotations": THEIRS}})
    names = [one["metadata"]["name"] for one in world.claims()]
    world.kubectl("patch", "nodeclaims", *names, "--type=merge", "-p", theirs)
    world.kubectl("patch", "nodepool", world.name, "--type=merge", "-p", theirs)
    with world.controller() as controller:
        quiet(world, controller)
        assert controller.stop() == 0
    assert identities(world) == before
    assert pods < {pod["metadata"]["uid"] for pod in world.running()}
