"""What may take a node and what may not, on a whole cluster, as `kubectl` shows it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controlplane.start import StartError
from tests.cluster.running import eventually
from tests.cluster.world import (
    World,
    apart,
    budget,
    deployment,
    node_pool,
    status,
    tainted,
)

MARK = "karpenter.sh/do-not-disrupt"
SMALLEST = "c-1x-amd64-linux"
TYPE = "node.kubernetes.io/instance-type"


def names(found: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["name"] for one in found}


def has_event(world: World, kind: str, name: str, *event: str) -> None:
    """Wait until `kubectl describe` shows an event of ours: type, reason, message."""

    def look() -> list[list[str]]:
        return [[one[0], one[1], one[4]] for one in world.described(kind, name) if one[3] == "karpenter"]

    eventually(look, lambda found: list(event) in found)


def patched(world: World, **spec: Any) -> None:
    """Change the world's NodePool."""
    world.kubectl("patch", "nodepool", world.name, "--type=merge", "-p", json.dumps({"spec": spec}))


def test_do_not_disrupt(world: World) -> None:
    """A pod's mark, then the node's: the node is too large all the time, and goes once neither is there.

    Another controller each time: one alone says why a node is blocked every two minutes only.
    """
    pool = node_pool(world, disruption={"consolidateAfter": "1s"})
    marked = deployment(world, "kept", 1, annotations={MARK: "true"})
    world.apply(pool, marked, deployment(world, "goes", 1, cpu="6"))
    with world.controller() as controller:
        (node,) = world.settled(pods=2, nodes=1)
        assert controller.stop() == 0
    (kept,) = world.running("kept")
    name, pod = node["metadata"]["name"], kept["metadata"]["name"]
    assert "karpenter.sh/termination" in node["metadata"]["finalizers"]
    world.kubectl("scale", "deployment/goes", "--replicas=0")
    with world.controller() as controller:
        by_pod = f'Pod has "{MARK}" annotation (Pod={world.name}/{pod})'
        has_event(world, "node", name, "Normal", "DisruptionBlocked", by_pod)
        assert controller.stop() == 0
    world.kubectl("annotate", "node", name, f"{MARK}=true")
    world.kubectl("annotate", "pod", pod, f"{MARK}-")
    with world.controller() as controller:
        by_node = f'Disruption is blocked through the "{MARK}" annotation'
        has_event(world, "node", name, "Normal", "DisruptionBlocked", by_node)
        assert names(world.nodes()) == {name}
        world.kubectl("annotate", "node", name, f"{MARK}-")
        eventually(
            lambda: names(world.nodes()), lambda found: len(found) == 1 and name not in found, seconds=300
        )
        (node,) = world.settled(pods=1)
        assert node["metadata"]["labels"][TYPE] == SMALLEST
        assert controller.stop() == 0


def test_a_pool_keeps_a_least_number_of_nodes(world: World) -> None:
    """As `minSize` of a node group: bought without pods, and what is spare of them goes."""
    pool = node_pool(world, disruption={"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]})
    pool["metadata"]["annotations"] = {"dovetail.dev/minimum-nodes": "2"}
    world.apply(pool)
    with world.controller() as controller:
        two = world.settled(pods=0, nodes=2)
        world.kubectl("annotate", "nodepool", world.name, "dovetail.dev/minimum-nodes=1", "--overwrite")
        (left,) = eventually(world.nodes, lambda found: len(found) == 1, seconds=180)
        name = left["metadata"]["name"]
        assert name in names(two)
        why = f'NodePool "{world.name}" keeps its least number of nodes (dovetail.dev/minimum-nodes)'
        has_event(world, "node", name, "Normal", "Unconsolidatable", why)
        assert controller.stop() == 0


def test_a_mark_must_be_text(world: World) -> None:
    pod = deployment(world, "a", 1)["spec"]["template"]
    pod |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {MARK: True}}}
    with pytest.raises(StartError, match="annotations"):
        world.kubectl("create", "-f", "-", stdin=json.dumps(pod))


def test_a_mark_does_not_stop_who_deletes_the_node(world: World) -> None:
    """It is drained but for the pod that is marked, and goes with that pod. The rest keeps to its budget."""
    pool = node_pool(world)
    pool["spec"]["template"]["metadata"]["annotations"] = {"example.com/team": "one"}
    web = deployment(world, "web", 3, affinity=apart("web"))
    marked = deployment(world, "marked", 1, annotations={MARK: "true"}, cpu="10m")
    world.apply(pool, web, marked, budget("web", maxUnavailable=1))
    with world.controller() as controller:
        nodes = world.settled(pods=4)
        assert {node["metadata"]["annotations"]["example.com/team"] for node in nodes} == {"one"}
        (kept,) = world.running("marked")
        held = kept["spec"]["nodeName"]
        world.kubectl("delete", "nodes", "-l", f"world={world.name}", "--wait=false")
        fewest = 3

        def old() -> set[str]:
            nonlocal fewest
            fewest = min(fewest, len(world.running("web")))
            return names(world.nodes()) & names(nodes)

        eventually(old, lambda found: found == {held}, seconds=180)
        assert fewest >= 2
        assert ["Warning", "FailedDraining"] in [row[:2] for row in world.described("node", held)]
        assert names(world.running("marked")) == {kept["metadata"]["name"]}
        world.kubectl("delete", "pod", kept["metadata"]["name"])
        eventually(old, lambda found: not found, seconds=180)
        world.settled(pods=4)
        assert controller.stop() == 0


def test_a_changed_template_is_rolled_out(world: World, tmp_path: Path) -> None:
    """One node at a time, its replacement first, as `dovetail diff` says of the server before."""
    pool = node_pool(world, disruption={"budgets": [{"nodes": "1"}]})
    web = deployment(world, "web", 3, affinity=apart("web"))
    world.apply(pool, web, budget("web", maxUnavailable=1))
    with world.controller() as controller:
        nodes = world.settled(pods=3, nodes=3)
        labels = {"world": world.name, "generation": "new"}
        told, back = foretold(world, pool, labels, tmp_path)
        assert {one["node"]: (one["drifts"], one["pods"]) for one in told["nodes"]} == dict.fromkeys(
            names(nodes), ("NodePoolDrifted", 1)
        )
        assert told["atOnce"] == {world.name: 1}
        assert [one["name"] for one in told["changed"]] == [world.name]
        world.kubectl("diff", "-f", str(back))  # the way back is the pool as it is
        patched(world, template={"metadata": {"labels": labels}})
        drifted = eventually(world.claims, lambda found: any(status(one, "Drifted") for one in found))
        assert {one["reason"] for claim in drifted for one in conditions(claim, "Drifted")} == {
            "NodePoolDrifted"
        }
        fewest, most = 3, 0

        def old() -> set[str]:
            nonlocal fewest, most
            there = world.nodes()
            fewest = min(fewest, len(world.running("web")))
            most = max(most, len([node for node in there if tainted(node)]))
            return names(there) & names(nodes)

        eventually(old, lambda found: not found, seconds=300)
        assert (fewest >= 2, most) == (True, 1)
        after = world.settled(pods=3, nodes=3)
        assert {node["metadata"]["labels"].get("generation") for node in after} == {"new"}
        assert not [claim for claim in world.claims() if status(claim, "Drifted")]
        for name in names(nodes):
            assert "Disrupting Node: Drifted" in world.events(name)
        assert controller.stop() == 0


def foretold(
    world: World, pool: dict[str, Any], labels: dict[str, str], folder: Path
) -> tuple[dict[str, Any], Path]:
    """What `dovetail diff` says of the server with the pool's template labelled so, and the way back."""
    new, back, sold = folder / "new.json", folder / "back.yaml", folder / "types.json"
    changed = copy.deepcopy(pool)
    changed["spec"]["template"]["metadata"] = {"labels": labels}
    new.write_text(json.dumps(changed))
    sold.write_text(json.dumps([*{one["name"]: one for one in map(type_of, world.nodes())}.values()]))
    asked = ["--kubeconfig", str(world.plane.kubeconfig), "-f", str(new), "--instance-types", str(sold)]
    command = [sys.executable, "-m", "dovetail", "diff", *asked, "--undo", str(back), "-o", "json"]
    found = subprocess.run(command, capture_output=True, check=False, text=True)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout), back


def type_of(node: dict[str, Any]) -> dict[str, Any]:
    """A node's type as a user writes it for `--instance-types`."""
    known = node["metadata"]["labels"]
    zone, bought = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
    described = (TYPE, zone, bought, "kubernetes.io/arch", "kubernetes.io/os")
    return {
        "name": known[TYPE],
        "requirements": [{"key": key, "operator": "In", "values": [known[key]]} for key in described],
        "offerings": [{"price": 0.1, "requirements": {key: known[key] for key in (zone, bought)}}],
        "capacity": node["status"]["capacity"],
    }


def conditions(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in found["status"]["conditions"] if one["type"] == kind]


def test_old_nodes_go_with_all_that_is_on_them(world: World) -> None:
    """At their age, whatever is marked on them: once their grace period is over it is deleted."""
    pool = node_pool(world, expireAfter="30s", terminationGracePeriod="5s")
    world.apply(pool, deployment(world, "marked", 1, annotations={MARK: "true"}))
    with world.controller() as controller:
        (node,) = world.settled(pods=1)
        (pod,) = world.running()
        name = node["metadata"]["name"]
        eventually(lambda: names(world.nodes()), lambda found: found != set() and name not in found)
        eventually(world.running, lambda found: found != [] and names([pod]).isdisjoint(names(found)))
        assert any(text.startswith("All pods will be deleted by") for text in world.events(name))
        assert 'reason="expired"' in controller.asked("/metrics")[1]
        world.kubectl("delete", "deployment", "marked")
        assert controller.stop() == 0


def test_pods_of_two_nodes_are_put_on_one(world: World, tmp_path: Path) -> None:
    """And what became of it stands in the controller's log and a snapshot."""
    eight = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["8"]}
    pool = node_pool(world, disruption={"consolidateAfter": "1s"})
    pool["spec"]["template"]["spec"]["requirements"].append(eight)
    world.apply(pool, deployment(world, "one", 4, cpu="1500m"), deployment(world, "two", 4, cpu="1500m"))
    with world.controller() as controller:
        world.settled(pods=8, nodes=2)
        world.kubectl("scale", "deployment/one", "deployment/two", "--replicas=2")
        eventually(lambda: len(world.nodes()), lambda found: found == 1, seconds=180)
        world.settled(pods=4, nodes=1)
        lines = controller.lines("disrupting node(s)")
        done = [(line["reason"], line["decision"], line["disrupted-node-count"]) for line in lines]
        assert done == [("Underutilized", "delete", 1)]
        snapshot = tmp_path / "cluster.json"
        given = ("--kubeconfig", str(world.plane.kubeconfig), "-o", str(snapshot))
        subprocess.run((sys.executable, "-m", "dovetail", "snapshot", *given), check=True)
        assert controller.stop() == 0
    (gone,) = [line["Node"]["name"] for line in controller.lines("deleted node")]
    past = ("--history", str(controller.log))

    def explained(*words: str) -> dict[str, Any]:
        asked = (sys.executable, "-m", "dovetail", "explain", *words, "-o", "json")
        return json.loads(subprocess.run(asked, capture_output=True, check=True, text=True).stdout)

    found = explained("node", gone, *past, "-f", str(snapshot))
    texts = [moment["text"] for moment in found["history"]]
    for begin in ("bought for ", "ready", "chosen to go, underutilized: deleted without replacement", "gone"):
        assert [text for text in texts if text.startswith(begin)], (begin, texts)
    assert found["saving"]["came"] == found["saving"]["promised"] > 0
    assert found["pods"]  # the two that were left there, each made anew
    for one in found["pods"]:
        assert one["successor"] != one["pod"] and 0 <= one["pendingSeconds"] <= one["notReadySeconds"] < 120
    oldest = names_of_pods(snapshot, world.name)[0]
    first = explained("wait", oldest, *past, "-f", str(snapshot))
    assert sum(first["parts"].values()) == pytest.approx(first["seconds"])
    plans = explained("realised", *past)
    assert plans["settled"]["pods"]["here"] >= 4 and plans["settled"]["realisedHourly"] > 0


def names_of_pods(snapshot: Path, space: str) -> list[str]:
    """Pods of a namespace, the oldest first."""
    items = json.loads(snapshot.read_text())["items"]
    pods = [
        one["metadata"] for one in items if one["kind"] == "Pod" and one["metadata"]["namespace"] == space
    ]
    return [f"{space}/{one['name']}" for one in sorted(pods, key=lambda one: one["creationTimestamp"])]
