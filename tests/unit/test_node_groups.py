"""Node groups of eksctl and of the AWS CLI's answers: NodePools are assumed of them, as of nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cli.group_shares import shares_of
from dovetail.cli.main import run
from dovetail.model.on_demand import Share
from dovetail.reading.nodegroups import NodeGroup, node_groups

_TAGS = "k8s.io/cluster-autoscaler/node-template/"
CASES: dict[str, tuple[dict[str, Any], list[NodeGroup]]] = {
    "eksctl": (
        {
            "apiVersion": "eksctl.io/v1alpha5",
            "kind": "ClusterConfig",
            "metadata": {"name": "shop", "region": "eu-north-1"},
            "availabilityZones": ["eu-north-1a"],
            "managedNodeGroups": [
                {
                    "name": "web",
                    "instanceType": "m7g.large",
                    "labels": {"role": "web", "edge": True},
                    "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
                },
                {"name": "spot", "spot": True, "instanceTypes": ["c5.large", "c5a.large"]},
            ],
            "nodeGroups": [
                {
                    "name": "gpu",
                    "instanceType": "mixed",
                    "instancesDistribution": {
                        "instanceTypes": ["g4dn.xlarge"],
                        "onDemandPercentageAboveBaseCapacity": 0,
                    },
                    "availabilityZones": ["eu-north-1b"],
                    "taints": {"nvidia.com/gpu": "true:NoExecute"},
                }
            ],
        },
        [
            NodeGroup(
                "web",
                ("m7g.large",),
                ("eu-north-1a",),
                (("edge", "true"), ("role", "web")),
                (("dedicated", "web", "NoSchedule"),),
                arm=True,
                cluster="shop",
                region="eu-north-1",
            ),
            NodeGroup(
                "spot",
                ("c5.large", "c5a.large"),
                ("eu-north-1a",),
                spot=True,
                cluster="shop",
                region="eu-north-1",
            ),
            NodeGroup(
                "gpu",
                ("g4dn.xlarge",),
                ("eu-north-1b",),
                taints=(("nvidia.com/gpu", "true", "NoExecute"),),
                spot=True,
                cluster="shop",
                region="eu-north-1",
            ),
        ],
    ),
    "describe-nodegroup": (
        {
            "nodegroup": {
                "nodegroupName": "ng",
                "nodegroupArn": "arn:aws:eks:us-west-2:012345678910:nodegroup/shop/ng/x",
                "clusterName": "shop",
                "capacityType": "SPOT",
                "instanceTypes": ["t3.medium"],
                "amiType": "AL2023_x86_64_STANDARD",
                "labels": {"team": "web"},
                "taints": [{"key": "dedicated", "effect": "NO_EXECUTE"}],
            }
        },
        [
            NodeGroup(
                "ng",
                ("t3.medium",),
                (),
                (("team", "web"),),
                (("dedicated", "", "NoExecute"),),
                spot=True,
                cluster="shop",
                region="us-west-2",
            )
        ],
    ),
    "describe-auto-scaling-groups": (
        {
            "AutoScalingGroups": [
                {
                    "AutoScalingGroupName": "asg",
                    "AvailabilityZones": ["us-west-2a", "us-west-2b"],
                    "MixedInstancesPolicy": {
                        "LaunchTemplate": {"Overrides": [{"InstanceType": "m5.large"}]},
                        "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 20},
                    },
                    "Instances": [{"InstanceType": "m5a.large"}, {"InstanceType": "m5.large"}],
                    "Tags": [
                        {"Key": f"{_TAGS}label/team", "Value": "web"},
                        {"Key": f"{_TAGS}taint/dedicated", "Value": "web:NoSchedule"},
                        {"Key": "kubernetes.io/cluster/shop", "Value": "owned"},
                    ],
                }
            ]
        },
        [
            NodeGroup(
                "asg",
                ("m5.large", "m5a.large"),
                ("us-west-2a", "us-west-2b"),
                (("team", "web"),),
                (("dedicated", "web", "NoSchedule"),),
                spot=True,
                cluster="shop",
                above=20,
            )
        ],
    ),
    "describe-instances": (
        {
            "Reservations": [
                {
                    "Instances": [
                        {
                            "InstanceType": "m6g.large",
                            "Architecture": "arm64",
                            "Placement": {"AvailabilityZone": "us-west-2a"},
                            "State": {"Name": "running"},
                            "Tags": [{"Key": "eks:nodegroup-name", "Value": "ng"}],
                        },
                        {"InstanceType": "m5.large", "State": {"Name": "terminated"}},
                    ]
                }
            ]
        },
        [NodeGroup("ng", ("m6g.large",), ("us-west-2a",), arm=True)],
    ),
}
_WORKLOAD = """\
apiVersion: v1
kind: Pod
metadata: {name: x}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""


@pytest.mark.parametrize("case", CASES)
def test_what_their_nodes_are_like(case: str) -> None:
    document, wanted = CASES[case]
    assert list(node_groups(document)[1]) == wanted


@pytest.mark.parametrize("case", CASES)
def test_pods_beside_them_are_planned_for(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "groups.json").write_text(json.dumps(CASES[case][0]))
    (tmp_path / "pod.yaml").write_text(_WORKLOAD)
    assert run(["plan", "-f", str(tmp_path), "-o", "json", "--work", "1000"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["pods"]["onNewNodes"] == 1
    assert answer["region"] == ("eu-north-1" if case == "eksctl" else "us-west-2")
    assert "where no NodePool is given, those that are assumed buy what their nodes are like" in printed.err


def _mixed(name: str, prefix: str = "onDemand", **shares: Any) -> dict[str, Any]:
    shares = {f"{prefix}{key}": value for key, value in shares.items()}
    if prefix == "onDemand":
        return {"name": name, "instancesDistribution": {"instanceTypes": ["m5.large"], **shares}}
    return {"AutoScalingGroupName": name, "MixedInstancesPolicy": {"InstancesDistribution": shares}}


_BASE, _ABOVE = "BaseCapacity", "PercentageAboveBaseCapacity"


@pytest.mark.parametrize(
    ("shares", "annotation", "who"),
    [
        ({_BASE: 2, _ABOVE: 30}, "2 + 30%", "1 node group that keeps 2 machines and 30% of the others"),
        ({_BASE: 1, _ABOVE: 0}, "1", "1 node group that keeps 1 machine off spot: web"),
        ({_ABOVE: 45}, "45%", "1 node group that keeps 45% of the machines off spot: web"),
        ({_BASE: 0, _ABOVE: 0}, "", ""),
        ({_BASE: 3, _ABOVE: 100}, "", ""),
        ({_BASE: 3}, "", ""),  # of what is not said all is on demand
        ({}, "", ""),
        ({_BASE: -1, _ABOVE: 30}, "", ""),
        ({_BASE: "2", _ABOVE: 30}, "", ""),
        ({_BASE: True, _ABOVE: 30}, "", ""),
        ({_BASE: 2, _ABOVE: 30.5}, "", ""),
        ({_BASE: 2, _ABOVE: -5}, "", ""),
    ],
)
@pytest.mark.parametrize("prefix", ["onDemand", "OnDemand"])
@pytest.mark.parametrize("command", [["plan", "--region", "us-east-1"], ["convert"]])
def test_what_they_keep_off_spot_is_told_as_their_pods_say_it(
    command: list[str],
    prefix: str,
    shares: dict[str, Any],
    annotation: str,
    who: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    group = _mixed("web", prefix, **shares)
    document: dict[str, Any] = {"AutoScalingGroups": [group]}
    if prefix == "onDemand":
        document = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "nodeGroups": [group]}
    (tmp_path / "groups.json").write_text(json.dumps(document))
    run([command[0], "-f", str(tmp_path / "groups.json"), *command[1:]])
    shown = capsys.readouterr().err
    assert (f'write the annotation dovetail.dev/on-demand: "{annotation}" and' in shown) == bool(annotation)
    assert ("off spot" in shown) == bool(annotation)
    assert who in shown
    if annotation:
        assert str(Share.read(annotation)) == annotation


def test_groups_that_keep_the_same_off_spot_are_told_together() -> None:
    groups = [_mixed(name, **{_BASE: 2, _ABOVE: 30}) for name in ("web", "api", "web")]
    document = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig"}
    both = node_groups({**document, "nodeGroups": [*groups, _mixed("batch", **{_ABOVE: 50})]})[1]
    first, second = shares_of(both)
    assert first.startswith("2 node groups that keep 2 machines and 30% of the others off spot: web and api.")
    assert second.startswith("1 node group that keeps 50% of the machines off spot: batch. ")


def test_their_pools_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, pools = tmp_path / "cluster.yaml", tmp_path / "pools.yaml"
    file.write_text(yaml.safe_dump(CASES["eksctl"][0]))
    assert run(["plan", "-f", str(file), "--write-pools", str(pools)]) == 0
    assert f"the assumed NodePools are in {pools}" in capsys.readouterr().err
    made = {one["metadata"]["name"]: one for one in yaml.safe_load_all(pools.read_text())}
    assert set(made) == {"assumed", "assumed-web", "assumed-gpu", "assumed-spot"}
    web = made["assumed-web"]["spec"]["template"]
    assert web["metadata"]["labels"] == {"role": "web", "edge": "true"}
    assert {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]} in web["spec"]["requirements"]
    assert made["assumed"]["spec"]["role"] == "KarpenterNodeRole-shop"


@pytest.mark.parametrize("case", CASES)
def test_alone_they_are_no_plan(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps(CASES[case][0]))
    assert run(["plan", "-f", str(file), "--region", "us-east-1"]) == 2
    shown = capsys.readouterr().err
    assert "what runs there is not among the manifests" in shown
    assert "kubectl get nodes,pods -A -o yaml | dovetail plan -f -" in shown


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(sorted(CASES)), st.data())
def test_whatever_stands_in_them_is_no_fault(case: str, data: st.DataObject) -> None:
    document = json.loads(json.dumps(CASES[case][0]))
    place: Any = document
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if data.draw(st.booleans()):
            place[key] = data.draw(_ANYTHING)
            break
        place = place[key]
    for group in node_groups(document)[1]:
        assert isinstance(group.name, str)
        assert all(isinstance(one, str) for one in (*group.types, *group.zones))


def test_a_replay_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps(CASES["eksctl"][0]))
    assert run(["replay", str(file)]) == 2
    assert f"{file}: there is nothing to play: no pods, workloads or nodes" in capsys.readouterr().err
