"""Cluster Autoscaler in charge of a simulated cluster: what it buys, what it keeps, what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load

SCENARIO = """\
    apiVersion: simulation.dovetail.dev/v1alpha1
    kind: Scenario
    name: rival
    region: us-east-1
    start: 2026-03-02T10:00
    duration: {duration}
    settings: {{ policy: cluster-autoscaler }}
    latencies:
      boot: {{ median: 26s }}
      ready: {{ median: 8s }}
      terminate: {{ median: 35s }}
    nodeGroups:
      - {{ name: system, instanceType: m5.large, count: 1, zones: [us-east-1a],
          taints: [{{ key: system, effect: NoSchedule }}] }}
      {groups}
    {more}
    """
GROUP = (
    "- {{ name: {name}, instanceType: {type}, count: {count}, max: {max}, zones: [us-east-1a, us-east-1b] }}"
)


def deployment(name: str, replicas: int, cpu: str, extra: str = "") -> str:
    return dedent(f"""\
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{ name: {name} }}
        spec:
          replicas: {replicas}
          selector: {{ matchLabels: {{ app: {name} }} }}
          template:
            metadata: {{ labels: {{ app: {name} }} }}
            spec:
              {extra}
              containers:
                - {{ name: c, image: app, resources: {{ requests: {{ cpu: "{cpu}", memory: 256Mi }} }} }}
        """)


def play(
    folder: Path,
    manifests: str,
    *groups: str,
    duration: str = "6m",
    more: str = "",
    text: str = SCENARIO,
) -> Result:
    lines = "\n      ".join(groups)
    text = text.format(duration=duration, groups=lines, more=more)
    (folder / "scenario.yaml").write_text(dedent(text))
    (folder / "pods.yaml").write_text(manifests)
    return simulate(load(folder))


def group(name: str, kind: str, most: int, count: int = 0) -> str:
    return GROUP.format(name=name, type=kind, count=count, max=most)


def of_kind(result: Result, kind: str) -> list[dict[str, Any]]:
    return [dict(record) for record in result.records if record["kind"] == kind]


def raised(result: Result) -> Iterable[list[Any]]:
    return (change for record in of_kind(result, "group.raised") for change in record["changes"])


def test_pods_that_fit_nowhere_get_nodes_of_one_group(tmp_path: Path) -> None:
    result = play(
        tmp_path, deployment("web", 6, "1500m"), group("m5", "m5.large", 10), group("big", "m5.4xlarge", 10)
    )
    summary = result.summary
    assert (summary.pods.created, summary.pods.unbound) == (6, 0)
    # Six nodes of 2 cores waste a smaller share of cpu and memory together than one of 16.
    assert list(raised(result)) == [["m5", 0, 6, 10]]
    starts = of_kind(result, "instance.started")
    zones = [record["zone"] for record in starts if record["claim"].startswith("m5/")]
    assert sorted(zones) == ["us-east-1a"] * 3 + ["us-east-1b"] * 3
    # A loop of ten seconds, the group, and then the node: never quicker than these together.
    assert summary.pods.pending_seconds.p50 > 35 + 26 + 8


def test_a_full_group_and_a_pod_too_large_are_reported(tmp_path: Path) -> None:
    manifests = deployment("web", 3, "1500m") + "---\n" + deployment("huge", 1, "64")
    result = play(tmp_path, manifests, group("m5", "m5.large", 2))
    assert list(raised(result)) == [["m5", 0, 2, 2]]
    assert result.summary.pods.unbound == 2


@pytest.mark.parametrize(
    ("limit", "nodes", "why"),
    [
        # The machine that no group scales has 2 of the cores, 8 of the GiB and is one of the nodes.
        ("coresTotal: '0:7'", 2, "max cluster cpu limit reached"),
        ("memoryTotal: '0:32'", 3, "max cluster memory limit reached"),
        ("maxNodesTotal: 2", 1, ""),
    ],
)
def test_the_cluster_as_a_whole_has_limits(tmp_path: Path, limit: str, nodes: int, why: str) -> None:
    more = f"clusterAutoscaler: {{ {limit} }}"
    result = play(tmp_path, deployment("web", 4, "1500m"), group("m5", "m5.large", 9), more=more)
    assert list(raised(result)) == [["m5", 0, nodes, 9]]
    assert result.summary.pods.unbound == 4 - nodes
    told = [one for one in of_kind(result, "event") if one["reason"] == "NotTriggerScaleUp"]
    assert any(why in one["message"] for one in told)


def test_what_the_cluster_needs_at_least_stays(tmp_path: Path) -> None:
    more = "clusterAutoscaler: { coresTotal: '6:99' }"
    manifests = deployment("web", 1, "1200m")
    result = play(tmp_path, manifests, group("m5", "m5.large", 5, count=4), duration="30m", more=more)
    assert len(of_kind(result, "group.shrinks")) == 2  # of five machines of two cores


def test_empty_nodes_go_after_ten_minutes_and_used_ones_stay(tmp_path: Path) -> None:
    manifests = deployment("web", 1, "1200m")
    result = play(tmp_path, manifests, group("m5", "m5.large", 5, count=3), duration="30m")
    ended = of_kind(result, "instance.terminated")
    assert len(ended) == 2
    first = min(record["t"] for record in ended) - result.start
    assert first > 10 * MINUTE
    assert result.summary.pods.unbound == 0


def test_a_node_with_little_on_it_is_drained_but_a_pod_without_controller_holds_its_own(
    tmp_path: Path,
) -> None:
    bare = dedent("""\
        apiVersion: v1
        kind: Pod
        metadata: { name: bare }
        spec:
          containers: [{ name: c, image: app, resources: { requests: { cpu: 100m, memory: 128Mi } } }]
        """)
    manifests = deployment("web", 2, "100m", SPREAD) + "---\n" + bare
    result = play(tmp_path, manifests, group("m5", "m5.large", 5, count=2), duration="40m")
    assert len(of_kind(result, "instance.terminated")) == 1
    assert of_kind(result, "group.shrinks")[0]["drained"]
    assert {record["reason"] for record in of_kind(result, "node.kept")} == {"NotReplicated"}
    assert result.summary.pods.unbound == 0


SPREAD = (
    "topologySpreadConstraints: [{ maxSkew: 1, topologyKey: kubernetes.io/hostname, "
    "whenUnsatisfiable: ScheduleAnyway, labelSelector: { matchLabels: { app: web } } }]"
)


def test_a_group_without_capacity_is_given_up_after_a_quarter_of_an_hour(tmp_path: Path) -> None:
    short = 'shortages: [{ from: "09:00", until: "23:00", instanceTypes: [m5.large] }]'
    groups = (group("cheap", "m5.large", 5), group("dear", "m5.xlarge", 5))
    flags = "clusterAutoscaler: { expander: [priority], priorities: { 10: [cheap], 5: [dear] } }"
    more = f"{flags}\n    {short}"
    result = play(tmp_path, deployment("web", 1, "1500m"), *groups, duration="20m", more=more)
    assert [record["group"] for record in of_kind(result, "group.timedOut")] == ["cheap"]
    assert [change[0] for change in raised(result)] == ["cheap", "dear"]
    assert result.summary.pods.unbound == 0
    assert result.summary.pods.pending_seconds.max > 15 * 60


def test_similar_groups_grow_evenly(tmp_path: Path) -> None:
    more = "clusterAutoscaler: { balanceSimilarNodeGroups: true }"
    groups = [
        f"- {{ name: z{z}, instanceType: m5.large, count: 0, max: 9, zones: [us-east-1{z}] }}" for z in "ab"
    ]
    result = play(tmp_path, deployment("web", 4, "1500m"), *groups, more=more)
    assert sorted(raised(result)) == [["za", 0, 2, 9], ["zb", 0, 2, 9]]


def told(result: Result, reason: str) -> list[str]:
    return [str(one["message"]) for one in of_kind(result, "event") if one["reason"] == reason]


@pytest.mark.parametrize(
    ("expander", "group_of_six", "group_of_one"),
    [
        ("[least-waste]", "dear", "dear"),
        ("[price]", "spot", "spot"),
        ("[priority, price]", "small", "small"),  # of the two that have the priority
    ],
)
def test_prices_decide_where_they_are_asked_for(
    tmp_path: Path, expander: str, group_of_six: str, group_of_one: str
) -> None:
    groups = (
        group("dear", "c5.large", 9),
        group("spot", "m5.large", 9).replace("zones", "capacityType: spot, zones"),
        group("small", "m5.xlarge", 9),
        group("large", "m5.4xlarge", 9),
    )
    more = f"clusterAutoscaler: {{ expander: {expander}, priorities: {{ 5: [small, large] }} }}"
    for count, taken in ((6, group_of_six), (1, group_of_one)):
        result = play(tmp_path, deployment("web", count, "1500m"), *groups, more=more)
        assert [change[0] for change in raised(result)] == [taken]
        assert result.summary.pods.unbound == 0
        said = [str(one) for one in load(tmp_path).assumptions if one.subject == "the expander price"]
        assert bool(said) is ("price" in expander)


@pytest.mark.parametrize(
    ("kind", "after"),
    [("spot_interrupted", 120), ("instance_terminated", 0), ("instance_status", 35)],
)
def test_a_group_starts_another_instance_for_one_that_is_gone(tmp_path: Path, kind: str, after: int) -> None:
    more = f'interruptions: [{{ at: "10:05", kind: {kind} }}]'
    spot = group("m5", "m5.large", 5, count=2).replace("zones", "capacityType: spot, zones")
    result = play(tmp_path, deployment("web", 2, "1500m"), spot, duration="15m", more=more)
    ended = [(one["t"] - result.start) / SECOND for one in of_kind(result, "instance.terminated")]
    assert ended == [5 * 60 + after] * 2
    starts = [one for one in of_kind(result, "instance.started") if one["claim"]]
    assert len(starts) == 2 and not of_kind(result, "group.raised")  # the target stays as it was
    assert result.summary.pods.unbound == 0


def test_what_only_announces_an_end_moves_no_group(tmp_path: Path) -> None:
    kinds = ("rebalance_recommendation", "scheduled_change", "event_status")
    more = "interruptions: [" + ", ".join(f'{{ at: "10:05", kind: {kind} }}' for kind in kinds) + "]"
    spot = group("m5", "m5.large", 5, count=1).replace("zones", "capacityType: spot, zones")
    result = play(tmp_path, deployment("web", 1, "1500m"), spot, more=more)
    assert not of_kind(result, "instance.terminated")


def test_instances_that_never_join_are_removed_and_their_group_is_left_alone(tmp_path: Path) -> None:
    groups = (group("broken", "m5.large", 5), group("other", "m5.xlarge", 5))
    flags = "expander: [priority], priorities: { 10: [broken], 5: [other] }, groupJoinFailures: 1"
    result = play(
        tmp_path,
        deployment("web", 2, "1500m"),
        *groups,
        duration="20m",
        more=f"clusterAutoscaler: {{ {flags} }}",
    )
    removed = of_kind(result, "group.unregistered")
    assert [one["group"] for one in removed] == ["broken", "broken"]
    assert min(one["t"] for one in removed) - result.start > 15 * MINUTE
    assert told(result, "DeleteUnregistered") == [
        f"Removed unregistered node {one['node']}" for one in removed
    ]
    assert told(result, "ScaleUpTimedOut") == ["Nodes added to group broken failed to register within 15m10s"]
    assert [change[0] for change in raised(result)] == ["broken", "other"]


FIXED = (
    "- { name: fixed, instanceType: m5.large, count: 9, zones: [us-east-1a], "
    "taints: [{ key: a, effect: NoSchedule }] }"
)
LATE = SCENARIO.replace("ready: {{ median: 8s }}", "ready: {{ median: 60m }}")
ADDED = [
    "Normal TriggeredScaleUp Pod: pod triggered scale-up: [{{m5 0->{new} (max: {most})}}]",
    "Normal ScaledUpGroup ConfigMap: Scale-up: setting group m5 size to {new} instead of 0 (max: {most})",
    "Normal ScaledUpGroup ConfigMap: Scale-up: group m5 size set to {new} instead of 0 (max: {most})",
]
NOT = "Normal NotTriggerScaleUp Pod: pod didn't trigger scale-up: "
TIMED_OUT = "Warning ScaleUpTimedOut ConfigMap: Nodes added to group m5 failed to register within 15m10s"
GONE = [
    "Normal ScaleDown Node: marked the node as toBeDeleted/unschedulable",
    "Normal ScaleDown Node: nodes removed by cluster autoscaler",
]
DRAINED = [
    "Normal ScaleDown ConfigMap: Scale-down: removing node NODE, utilization: "
    "{0.0518135 0.0370853 0 0 cpu 0.0518135}, pods to reschedule: POD",
    "Normal ScaleDown Pod: deleting pod for node scale down",
]


def added(new: int, most: int) -> list[str]:
    return [line.format(new=new, most=most) for line in ADDED]


@pytest.mark.parametrize(
    ("manifests", "groups", "more", "minutes", "texts"),
    [
        pytest.param(
            deployment("web", 3, "1500m") + "---\n" + deployment("huge", 1, "64"),
            (group("m5", "m5.large", 2),),
            "",
            6,
            [*added(2, 2), f"{NOT}1 Insufficient cpu", f"{NOT}1 max node group size reached"],
            id="full",
        ),
        pytest.param(
            deployment("web", 4, "1500m"),
            (group("m5", "m5.large", 9),),
            "clusterAutoscaler: { coresTotal: '0:8', memoryTotal: '0:32' }",
            6,
            [*added(3, 9), f"{NOT}1 max cluster cpu, memory limit reached"],
            id="totals",
        ),
        pytest.param(
            deployment("web", 4, "1500m"),
            (group("m5", "m5.large", 9),),
            "clusterAutoscaler: { maxNodesTotal: 2 }",
            6,
            [
                *added(1, 9),
                "Warning MaxNodesTotalReached ConfigMap: Max total nodes in cluster reached: 2",
                NOT,
            ],
            id="nodes",
        ),
        pytest.param(
            deployment("web", 1, "1500m"),
            (group("m5", "m5.large", 5),),
            'shortages: [{ from: "09:00", until: "23:00", instanceTypes: [m5.large] }]',
            17,
            [*added(1, 5), TIMED_OUT, f"{NOT}1 in backoff after failed scale-up"],
            id="backoff",
        ),
        pytest.param(
            deployment("web", 2, "1500m"),
            (group("m5", "m5.large", 5),),
            "clusterAutoscaler: { groupJoinFailures: 1 }",
            17,
            [
                *added(2, 5),
                TIMED_OUT,
                "Normal DeleteUnregistered ConfigMap: Removed unregistered node NODE",
                f"{NOT}1 in backoff after failed scale-up",
            ],
            id="unregistered",
        ),
        pytest.param(
            deployment("web", 5, "1500m") + "---\n" + deployment("huge", 1, "64"),
            (group("m5", "m5.large", 10), FIXED),
            "clusterAutoscaler: { okTotalUnreadyCount: 2, maxTotalUnreadyPercentage: 50 }",
            22,
            [
                *added(5, 10),
                f"{NOT}1 Insufficient cpu",
                TIMED_OUT,
                f"{NOT}1 in backoff after failed scale-up",
                f"{NOT}1 not ready for scale-up",
            ],
            id="unready",
        ),
        pytest.param(
            deployment("web", 5, "1500m"),
            (group("m5", "m5.large", 10),),
            "clusterAutoscaler: { okTotalUnreadyCount: 2, maxTotalUnreadyPercentage: 50 }",
            17,
            [*added(5, 10), TIMED_OUT, "Warning ClusterUnhealthy ConfigMap: Cluster is unhealthy"],
            id="unhealthy",
        ),
        pytest.param(
            deployment("web", 1, "1200m"),
            (group("m5", "m5.large", 5, count=2),),
            "",
            13,
            [
                *GONE,
                'Normal ScaleDownEmpty ConfigMap: Scale-down: removing empty node "NODE"',
                "Normal ScaleDownEmpty ConfigMap: Scale-down: empty node NODE removed",
            ],
            id="empty",
        ),
        pytest.param(
            deployment("web", 2, "100m", SPREAD),
            (group("m5", "m5.large", 5, count=2),),
            "",
            13,
            [*GONE, *DRAINED, "Normal ScaleDown ConfigMap: Scale-down: node NODE removed with drain"],
            id="drained",
        ),
        pytest.param(  # a budget comes after the node was chosen
            deployment("web", 2, "100m", SPREAD),
            (group("m5", "m5.large", 5, count=2),),
            'changes: [{ at: "10:10:22", file: changes/budget.yaml }]',
            13,
            [
                GONE[0],
                *DRAINED,
                "Warning ScaleDownFailed Node: failed to drain and delete node: Failed to drain node /NODE, "
                "due to following errors: [failed to evict pod default/POD within allowed timeout "
                "(last error: Cannot evict pod as it would violate the pod's disruption budget.)]",
            ],
            id="failed",
        ),
    ],
)
def test_what_it_says_is_what_the_original_says(
    tmp_path: Path, manifests: str, groups: tuple[str, ...], more: str, minutes: int, texts: list[str]
) -> None:
    """Every event that it has a part for, each provoked; names of nodes and pods are left out."""
    (tmp_path / "changes").mkdir()
    budget = "{ name: web }\nspec: { maxUnavailable: 0, selector: { matchLabels: { app: web } } }\n"
    head = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: "
    (tmp_path / "changes" / "budget.yaml").write_text(head + budget)
    text = LATE if "okTotal" in more else SCENARIO
    result = play(tmp_path, manifests, *groups, duration=f"{minutes}m", more=more, text=text)
    ours = {line.split()[1] for line in texts}
    found = {
        f"{one['type']} {one['reason']} {one['object'].split('/')[0]}: "
        + re.sub(r"web-\w+-\w+", "POD", re.sub(r"ip-[\d-]+\.ec2\.internal", "NODE", str(one["message"])))
        for one in of_kind(result, "event")
        if one["reason"] in ours or "Scale" in one["reason"]
    }
    assert found == set(texts)


@pytest.mark.parametrize("rebalancing", [True, False])
def test_a_group_keeps_its_zones_even_whatever_runs_there(tmp_path: Path, rebalancing: bool) -> None:
    more = f"clusterAutoscaler: {{ groupZoneRebalancing: {str(rebalancing).lower()} }}"
    pinned = deployment("web", 2, "1500m", "nodeSelector: { topology.kubernetes.io/zone: us-east-1a }")
    result = play(tmp_path, pinned, group("m5", "m5.large", 5, count=4), duration="15m", more=more)
    assert len(of_kind(result, "group.shrinks")) == 2  # the empty ones, both in the other zone
    moved = of_kind(result, "group.rebalanced")
    assert bool(moved) is rebalancing
    # Its pod waits for the node of a zone that the group has just left.
    assert bool(of_kind(result, "group.raised")) is rebalancing


def test_nothing_is_done_while_many_nodes_are_not_ready(tmp_path: Path) -> None:
    scenario = deployment("web", 5, "1500m") + "---\n" + deployment("late", 1, "64")
    more = "clusterAutoscaler: { okTotalUnreadyCount: 2, maxTotalUnreadyPercentage: 50 }"
    slow = SCENARIO.replace("ready: {{ median: 8s }}", "ready: {{ median: 60m }}")
    result = play(tmp_path, scenario, group("m5", "m5.large", 10), duration="25m", more=more, text=slow)
    unhealthy = of_kind(result, "cluster.unhealthy")
    assert unhealthy and min(one["t"] for one in unhealthy) - result.start > 15 * MINUTE
    assert set(told(result, "ClusterUnhealthy")) == {"Cluster is unhealthy"}
    assert told(result, "ScaledUpGroup") == [
        "Scale-up: setting group m5 size to 5 instead of 0 (max: 10)",
        "Scale-up: group m5 size set to 5 instead of 0 (max: 10)",
    ]
    assert [list(change) for change in raised(result)] == [["m5", 0, 5, 10]]


@pytest.mark.parametrize(
    ("groups", "more", "words"),
    [
        ((), "", "no node group may be scaled"),
        (
            ("- { name: a, instanceType: m5.large, count: 3, max: 2, zones: [us-east-1a] }",),
            "",
            "not in that order",
        ),
        (
            (group("a", "m5.large", 3),),
            "clusterAutoscaler: { expander: [least-wast] }",
            "did you mean 'least-waste'",
        ),
        (
            (group("a", "m5.large", 3),),
            "clusterAutoscaler: { expander: [price, grpc] }",
            "the expander grpc is not played: a server of your own decides",
        ),
        ((group("a", "m5.large", 3),), "clusterAutoscaler: { coresTotal: '9' }", "is not MIN:MAX"),
        ((group("a", "m5.large", 3),), "clusterAutoscaler: { scanInterval: 0s }", "is not more than 0s"),
        ((group("a", "m5.large", 3),), "clusterAutoscaler: { okTotalUnreadyCount: -1 }", "is less than 0"),
        (
            (group("a", "m5.large", 3),),
            "clusterAutoscaler: { maxTotalUnreadyPercentage: 101 }",
            "is not from 0 to 100",
        ),
        ((group("a", "m5.large", 3),), "clusterAutoscaler: { groupJoinFailures: 2 }", "is not from 0 to 1"),
        (
            (group("a", "m5.large", 3),),
            "clusterAutoscaler: { expander: [priority], priorities: { 1: ['('] } }",
            "no regular expression",
        ),
        (
            ("- { name: a, instanceType: m5.large, count: 0, max: 2, zones: [us-east-1a], nodeClass: x }",),
            "",
            "no manifest has the EC2NodeClass 'x'",
        ),
    ],
)
def test_what_cannot_be_played_is_reported(
    tmp_path: Path, groups: tuple[str, ...], more: str, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        play(tmp_path, deployment("web", 1, "1"), *groups, more=more)
    assert words in refused.value.message
