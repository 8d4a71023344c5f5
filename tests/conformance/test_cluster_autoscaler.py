"""Recorded answers of Cluster Autoscaler: estimates, expanders, utilisation, which pods hold a node, what can
be removed.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.simulate.clusterautoscaler import scaledown, scaleup
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339

_FILE = Path(__file__).parent / "vectors" / "cluster_autoscaler.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]
EXPANDERS = ("least-nodes", "least-waste", "most-pods")


def cases(op: str) -> Any:
    found = [case for case in CASES if case["op"] == op]
    return pytest.mark.parametrize("case", found, ids=[case["name"] for case in found])


def pods(documents: list[dict[str, Any]]) -> list[Pod]:
    return [decode(document, Pod) for document in documents]


def group(given: dict[str, Any]) -> scaleup.PodGroup:
    pod = decode(given["pod"], Pod)
    meta = pod.metadata
    copies = (
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, name=f"{meta.name}-{i}"))
        for i in range(given["count"])
    )
    return scaleup.PodGroup(tuple(copies))


def view(given: dict[str, Any]) -> ClusterView:
    made = ClusterView(NodeView.of(decode(node, Node)) for node in given["existingNodes"])
    for pod in pods(given["existingPods"]):
        made.add_pod(pod)
    return made


@cases("estimate")
def test_estimates(case: dict[str, Any]) -> None:
    given = case["input"]
    template = scaleup.Template(decode(given["template"], Node), tuple(pods(given["templatePods"])))
    groups = [group(item) for item in given["groups"]]
    found = scaleup.estimate(template, groups, view(given), most=given["maxNodes"], fast=given["fastpath"])
    answer = {
        "nodes": found.nodes,
        "scheduledByGroup": dict(Counter(pod.metadata.labels["group"] for pod in found.pods)),
        "scheduledPods": len(found.pods),
    }
    assert answer == case["expected"]


@cases("expand")
def test_expanders(case: dict[str, Any]) -> None:
    templates = {
        item["id"]: decode(item["template"], Node) if item.get("template") else None
        for item in case["input"]["nodeGroups"]
    }
    options = [
        scaleup.Option(
            item["group"],
            templates[item["group"]],
            item["nodes"],
            tuple(pod for given in item["pods"] for pod in group(given).pods),
        )
        for item in case["input"]["options"]
    ]
    answer = {name: sorted(option.group for option in scaleup.EXPANDERS[name](options)) for name in EXPANDERS}
    assert answer == {name: sorted(found) for name, found in case["expected"].items()}


_UNIT = scaleup.CORE_PRICE / 20  # so that a pod of one core costs 20, as in the original's own test


def priced(name: str, cores: int, nodes: int, price: int, asked: list[str], cluster: int) -> scaleup.Option:
    """An option whose node costs so much in the units of the original's test."""
    written = {"metadata": {"name": name}, "status": {"capacity": {"cpu": str(cores), "memory": "1Gi"}}}
    node = decode({"apiVersion": "v1", "kind": "Node", **written}, Node)
    container = {"name": "c", "image": "app"}
    helped = pods(
        [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{i}"},
                "spec": {"containers": [{**container, "resources": {"requests": {"cpu": cpu}}}]},
            }
            for i, cpu in enumerate(asked)
        ]
    )
    unfit = scaleup.unfitness(node, cluster)
    return scaleup.Option(name, node, nodes, tuple(helped), round(price * _UNIT * 1e9), unfit)


@pytest.mark.parametrize(
    ("one", "other", "cluster", "taken"),
    [
        # (nodes, price of one, pods) for nodes of one core and of four; where five nodes are, two cores are
        # preferred, and where ten are, four.
        ((2, 20, ["1", "500m"]), (1, 200, ["1", "500m"]), 5, "one"),
        ((2, 50, ["1", "500m"]), (1, 200, ["1", "500m"]), 10, "other"),  # dearer, but preferred
        ((80, 20, ["1", "500m"]), (40, 200, ["1", "500m"]), 10, "one"),  # so many that it does not matter
        ((2, 200, ["1", "500m"]), (1, 100, ["1", "500m"]), 5, "other"),
        ((2, 200, ["1"]), (1, 200, ["1", "500m"]), 5, "other"),  # more pods for the same
        ((2, 0, ["1"]), (1, 200, ["1", "500m"]), 5, "other"),  # no price, no option
    ],
)
def test_the_price_expander_answers_as_in_the_originals_own_test(
    one: tuple[int, int, list[str]], other: tuple[int, int, list[str]], cluster: int, taken: str
) -> None:
    options = [priced("one", 1, *one, cluster), priced("other", 4, *other, cluster)]
    assert [option.group for option in scaleup.EXPANDERS["price"](options)] == [taken]


def test_unfitness_counts_less_the_more_nodes_come_as_its_proposal_says() -> None:
    said = {1: 4.0, 2: 3.800296, 3: 3.602354, 5: 3.218439, 10: 2.388851, 20: 1.441325, 50: 1.008712}
    assert {nodes: round(scaleup.suppressed(4, nodes), 6) for nodes in said} == said


@pytest.mark.parametrize(
    ("cluster", "cores"), [(2, 1), (3, 2), (6, 2), (7, 4), (20, 4), (60, 8), (200, 16), (201, 32)]
)
def test_larger_machines_are_preferred_in_larger_clusters(cluster: int, cores: int) -> None:
    sizes = {size: priced("one", size, 1, 1, ["1"], cluster).unfitness for size in (1, 2, 4, 8, 16, 32)}
    assert [size for size, unfit in sizes.items() if unfit == 1] == [cores]


@cases("utilization")
def test_utilization(case: dict[str, Any]) -> None:
    given = case["input"]
    try:
        found = scaledown.utilization(
            decode(given["node"], Node),
            pods(given["pods"]),
            parse_rfc3339(given["now"]),
            gpu=given.get("gpuResource", ""),
            ignore_daemons=given.get("ignoreDaemonSetsUtilization", given.get("ignoreDaemonSetPods", False)),
            ignore_mirrors=given.get("ignoreMirrorPods", False),
        )
    except ValueError as error:
        assert {"error": str(error)} == case["expected"]
        return
    expected = case["expected"]
    assert found.resource == expected["resource"]
    shares = {"cpu": found.cpu, "memory": found.memory, "gpu": found.gpu, "utilization": found.share}
    assert shares == pytest.approx({name: expected[name] for name in shares}, rel=1e-12)


def context(given: dict[str, Any]) -> scaledown.DrainContext:
    flags = given.get("flags", {})
    budgets = [decode(item, PodDisruptionBudget) for item in given.get("pdbs", ())]
    controllers = None
    if given.get("useListers"):
        kinds = {
            "replicaSets": "ReplicaSet",
            "replicationControllers": "ReplicationController",
            "statefulSets": "StatefulSet",
            "jobs": "Job",
            "daemonSets": "DaemonSet",
        }
        controllers = {
            (kind, item["metadata"]["namespace"], item["metadata"]["name"]): item.get("spec", {}).get(
                "replicas"
            )
            for name, kind in kinds.items()
            for item in given.get(name, ())
        }
    return scaledown.DrainContext(
        now=parse_rfc3339(given["now"]),
        flags=scaledown.Flags(
            skip_system_pods=flags.get("System", True),
            skip_local_storage=flags.get("Local", True),
            skip_custom_controllers=flags.get("Custom", True),
            min_replicas=flags.get("MinReplica", 0),
            system_pod_timeout=parse_duration(flags.get("Bsp", "1h")),
        ),
        budgets=[(budget, budget.status.disruptions_allowed) for budget in budgets],
        controllers=controllers,
    )


def names(found: tuple[Pod, ...]) -> list[str]:
    return [pod.metadata.name for pod in found]


@cases("drain")
def test_pods_that_hold_a_node(case: dict[str, Any]) -> None:
    found = scaledown.drain(pods(case["input"]["pods"]), context(case["input"]))
    expected = dict(case["expected"])
    if isinstance(found, scaledown.Blocked):
        # The recording prints the address of the number of replicas.
        error = found.error.replace(" spec: 1 ", " spec: <number> ")
        answer: dict[str, Any] = {
            "blockedBy": {"pod": found.pod.metadata.name, "reason": found.reason},
            "error": error,
        }
    else:
        answer = {
            "move": names(found.move),
            "daemonSet": names(found.daemons),
            "waitForCompletion": names(found.awaited),
        }
    assert answer == expected


@cases("remove")
def test_removals(case: dict[str, Any]) -> None:
    given = case["input"]
    on_node: dict[str, list[Pod]] = {}
    for pod in pods(given["existingPods"]):
        on_node.setdefault(pod.spec.node_name, []).append(pod)
    removals = scaledown.Removals(
        view(given), on_node, given["destinations"], context(given), keep=given["persist"]
    )
    results = []
    for name in given["remove"]:
        found = removals.judge(name)
        result: dict[str, Any] = {"node": name, "removable": not found.reason}
        if found.reason:
            result["reason"] = found.reason
        else:
            result["podsToReschedule"] = names(found.drain.move)
            result["daemonSetPods"] = names(found.drain.daemons)
        if found.blocked is not None:
            result["blockingPod"] = found.blocked.pod.metadata.name
            result["blockingReason"] = found.blocked.reason
        results.append(result)
    assert results == case["expected"]["results"]
