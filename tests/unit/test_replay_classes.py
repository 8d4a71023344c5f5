"""Node classes of a real account buy nodes in the simulated one, and no others than they bought before."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.redact import hashing
from dovetail.base.clock import MINUTE
from dovetail.cli.main import run
from dovetail.reading import read
from dovetail.simulate.replay.folder import Wanted, write_replay
from dovetail.simulate.replay.nodeclass import Surroundings, rewrite
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

Document = dict[str, Any]
DEMO = {"tags": {"karpenter.sh/discovery": "demo"}}
ACCOUNT: Document = {
    "subnetSelectorTerms": [{"id": "subnet-0aa"}, {"tags": {"Name": "private-*"}}],
    "securityGroupSelectorTerms": [{"name": "nodes"}, {"id": "sg-0bb"}],
}


def node_class(name: str, version: str = "v1", status: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": {"name": name, "uid": f"uid-{name}", "managedFields": [{}], "generation": 3},
        "spec": {**ACCOUNT, **({} if "instanceProfile" in spec else {"role": "KarpenterNode"}), **spec},
        "status": status or {},
    }


def pool(name: str, version: str = "v1", types: tuple[str, ...] = ("m5.large",), **more: Any) -> Document:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
    if version != "v1":
        reference = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": name}
    wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}]
    wanted += [
        {"key": key, "operator": "In", "values": values}
        for key, values in more.pop("requirements", {}).items()
    ]
    spec = {"nodeClassRef": reference, "requirements": wanted, **more}
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": {"name": name, "uid": f"uid-pool-{name}"},
        "spec": {"template": {"spec": spec}, "disruption": {"consolidateAfter": "1m"}},
    }


def deployment(name: str, system: str) -> Document:
    main = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    chosen = {"karpenter.sh/nodepool": name, "kubernetes.io/os": system}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-web-{name}"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": chosen, "containers": [main]},
            },
        },
    }


def node(version: str = "v1.33.1-eks-ab12") -> Document:
    stamped = {
        "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": "us-east-1a",
        "node.kubernetes.io/instance-type": "m5.large",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": stamped},
        "spec": {},
        "status": {"nodeInfo": {"kubeletVersion": version}},
    }


AMD64 = {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
RICH: tuple[tuple[Document, str], ...] = (
    (
        node_class("ids", amiFamily="AL2023", amiSelectorTerms=[{"id": "ami-1"}, {"tags": {"t": "x"}}]),
        "linux",
    ),
    (node_class("old", amiSelectorTerms=[{"alias": "al2@v20240807"}]), "linux"),
    (
        node_class(
            "rocket", amiFamily="Bottlerocket", amiSelectorTerms=[{"name": "b-*"}], instanceProfile="p"
        ),
        "linux",
    ),
    (node_class("win", amiFamily="Windows2022", amiSelectorTerms=[{"name": "Windows*"}]), "windows"),
    (
        node_class(
            "own",
            amiFamily="Custom",
            amiSelectorTerms=[{"tags": {"os": "hardened"}}],
            capacityReservationSelectorTerms=[{"id": "cr-1"}],
            placementGroupSelector={"name": "close"},
            blockDeviceMappings=[{"deviceName": "/dev/sda1", "ebs": {"snapshotID": "snap-1"}}],
            status={
                "subnets": [{"id": "subnet-0aa", "zone": "us-east-1b"}],
                "amis": [{"id": "ami-3", **AMD64}],
            },
        ),
        "linux",
    ),
    (node_class("beta", "v1beta1", amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-7"}]), "linux"),
    (node_class("beta-plain", "v1beta1", amiFamily="AL2"), "linux"),
)


def snapshot(path: Path, salt: bytes | None) -> Path:
    items: list[Document] = [node()]
    for each, system in RICH:
        name, version = each["metadata"]["name"], each["apiVersion"].partition("/")[2]
        wanted = {"kubernetes.io/os": [system]} if system == "windows" else {}
        items += [each, pool(name, version, requirements=wanted), deployment(name, system)]
    elsewhere = pool("auto")
    elsewhere["spec"]["template"]["spec"]["nodeClassRef"] = {
        "group": "eks.amazonaws.com",
        "kind": "NodeClass",
        "name": "default",
    }
    items += [elsewhere, deployment("auto", "linux")]
    clean = hashing(salt)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [clean(item) for item in items]})
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_every_pool_of_a_snapshot_buys_nodes_for_its_pods(tmp_path: Path) -> None:
    path, kept = snapshot(tmp_path / "prod.json.gz", None), tmp_path / "kept"
    wanted = Wanted("prod", "us-east-1", length=3 * MINUTE)
    assumed = write_replay(read([path]).manifests, wanted, kept)
    rewritten = {f"{subject}: {value}" for subject, value in assumed.items()}
    both = "EC2NodeClass ids, old, rocket, win, own, beta, beta-plain"
    assert rewritten >= {
        "EC2NodeClass ids: amiSelectorTerms: id ami-1 or t=x -> id ami-1",
        "EC2NodeClass old: amiSelectorTerms: alias al2@v20240807 -> al2023@latest",
        "EC2NodeClass rocket: amiSelectorTerms: name b-* -> bottlerocket@latest",
        "EC2NodeClass win: amiSelectorTerms: name Windows* -> windows2022@latest",
        "EC2NodeClass own: amiSelectorTerms: os=hardened -> al2023@latest",
        "EC2NodeClass own: capacityReservationSelectorTerms: id cr-1 -> none",
        "EC2NodeClass own: placementGroupSelector: name close -> none",
        f"{both}: subnetSelectorTerms: id subnet-0aa or Name=private-* -> karpenter.sh/discovery=demo",
        f"{both}: securityGroupSelectorTerms: name nodes or id sg-0bb -> karpenter.sh/discovery=demo",
        "NodePool own: zones: us-east-1b, where its class has subnets",
        "NodePool own: architectures: amd64, of which its class has images",
        "NodePool auto: class: NodeClass default is another provider's -> a class of AL2023",
        "Kubernetes: 1.33, the newest that a node of the snapshot runs",
    }
    scenario = load(kept)
    assert scenario.file.cluster.version == "1.33"
    result = simulate(scenario)
    assert result.summary.pods.created == result.summary.pods.bound == 2 * (len(RICH) + 1)
    claims = {item["claim"]: item["pool"] for item in result.records if item["kind"] == "claim.created"}
    started = [item for item in result.records if item["kind"] == "instance.started" and item["claim"]]
    assert len({claims[item["claim"]] for item in started}) == len(RICH) + 1
    assert {item["zone"] for item in started if claims[item["claim"]] == "own"} == {"us-east-1b"}
    assert not [item for item in result.records if item["kind"] == "violation"]


def test_an_anonymised_snapshot_buys_nodes_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = snapshot(tmp_path / "prod.json.gz", b"salt")
    assert run(["replay", str(path), "--until", "3m", "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert "must be an id" not in printed.err  # what stands for an id is one
    summary = json.loads(printed.out)
    assert summary["pods"]["created"] == summary["pods"]["bound"] == 2 * (len(RICH) + 1)


def terms(version: str, family: str | None, *given: Document) -> tuple[list[Document], str | None]:
    named: Document = {"amiFamily": family} if family else {}
    document = node_class("x", amiSelectorTerms=[*given], **named)
    rewrite([document], [], Surroundings("demo", version, "us-east-1"))
    assert document["spec"]["subnetSelectorTerms"] == document["spec"]["securityGroupSelectorTerms"] == [DEMO]
    return document["spec"]["amiSelectorTerms"], document["spec"].get("amiFamily")


@pytest.mark.parametrize(
    ("version", "family", "given", "images", "kept"),
    [
        ("1.31", None, {"alias": "al2@v1"}, {"alias": "al2@v1"}, None),  # its images are still there
        ("1.33", None, {"alias": "al2@v1"}, {"alias": "al2023@latest"}, None),
        ("1.33", "AL2", {"alias": "al2@v1"}, {"alias": "al2023@latest"}, None),
        ("1.33", "Custom", {"alias": "al2@v1"}, {"alias": "al2023@latest"}, "Custom"),
        ("1.31", "AL2", {"name": "mine-*"}, {"alias": "al2@latest"}, "AL2"),
        ("1.33", "AL2023", {"tags": {"a": "b"}}, {"alias": "al2023@latest"}, "AL2023"),
        ("1.33", "Custom", {"name": "mine"}, {"alias": "al2023@latest"}, "Custom"),
        ("1.33", "Custom", {"id": "ami-1"}, {"id": "ami-1"}, "Custom"),
        ("1.33", "AL2023", {"ssmParameter": "/my/ami"}, {"ssmParameter": "/my/ami"}, "AL2023"),
        ("1.33", None, {"alias": "bottlerocket@v1.20.0"}, {"alias": "bottlerocket@v1.20.0"}, None),
        ("1.34", "Windows2025", {"name": "w"}, {"alias": "windows2022@latest"}, None),
        ("1.35", "Windows2025", {"name": "w"}, {"alias": "windows2025@latest"}, "Windows2025"),
        ("1.35", None, {"alias": "windows2025@latest"}, {"alias": "windows2025@latest"}, None),
        ("1.33", "Windows2019", {"tags": {"a": "b"}}, {"alias": "windows2019@latest"}, "Windows2019"),
    ],
)
def test_images_of_a_class(
    version: str, family: str | None, given: Document, images: Document, kept: str | None
) -> None:
    assert terms(version, family, given) == ([images], kept)


@pytest.mark.parametrize(
    ("asked", "zones", "arches", "added", "rewritten"),
    [
        ({}, ["us-east-1a"], [], [("topology.kubernetes.io/zone", ["us-east-1a"])], "zones"),
        ({"topology.kubernetes.io/zone": ["us-east-1a"]}, ["us-east-1a", "us-east-1b"], [], [], ""),
        (
            {"topology.kubernetes.io/zone": ["us-east-1a", "us-east-1c"]},
            ["us-east-1a", "us-east-1b"],
            [],
            [("topology.kubernetes.io/zone", ["us-east-1a", "us-east-1b"])],
            "zones",
        ),
        ({}, ["us-east-1-bos-1a"], [], [], "zones without instance types"),
        ({}, [], ["arm64"], [("kubernetes.io/arch", ["arm64"])], "architectures"),
        ({"kubernetes.io/arch": ["amd64"]}, [], ["amd64", "arm64"], [], ""),
        ({"karpenter.sh/capacity-type": ["reserved"]}, [], [], [], "karpenter.sh/capacity-type"),
        ({"karpenter.sh/capacity-type": ["reserved", "spot"]}, [], [], [], ""),
    ],
)
def test_a_pool_buys_what_its_class_let_it_buy(
    asked: dict[str, list[str]],
    zones: list[str],
    arches: list[str],
    added: list[tuple[str, list[str]]],
    rewritten: str,
) -> None:
    image = {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": arches}]}
    status = {"subnets": [{"id": "s", "zone": zone} for zone in zones], "amis": [image] if arches else []}
    known = node_class("x", status=status, amiFamily="AL2023", amiSelectorTerms=[{"id": "ami-1"}])
    asking = pool("x", requirements=asked)
    before = len(asking["spec"]["template"]["spec"]["requirements"])
    assumed = rewrite([asking, known], [known], Surroundings("demo", "1.33", "us-east-1"))
    wanted = asking["spec"]["template"]["spec"]["requirements"]
    assert [(each["key"], each["values"]) for each in wanted[before:]] == added
    subjects = [key.partition(": ")[2] for key in assumed if key.startswith("NodePool")]
    assert subjects == ([rewritten] if rewritten else [])
    if rewritten == "karpenter.sh/capacity-type":
        assert wanted[-1]["values"] == ["on-demand"]


def test_what_the_simulated_account_has_stays_and_user_data_is_told() -> None:
    document = node_class("x", amiSelectorTerms=[{"alias": "al2023@latest"}])
    document["spec"] |= {"subnetSelectorTerms": [DEMO], "securityGroupSelectorTerms": [DEMO]}
    around = Surroundings("demo", "1.33", "us-east-1")
    assert rewrite([document], [document], around) == {}
    written = {**document, "spec": {**document["spec"], "userData": "[settings]"}}
    rewritten = rewrite([document], [written], around)
    assert list(rewritten) == ["EC2NodeClass x: userData"]


def test_a_pool_whose_class_is_missing_gets_one() -> None:
    asking = pool("x")
    objects = [asking]
    rewritten = rewrite(objects, [], Surroundings("demo", "1.33", "us-east-1"))
    assert [each["metadata"]["name"] for each in objects] == ["x", "x"]
    assert rewritten == {"NodePool x: class": "EC2NodeClass x is not in the snapshot -> a class of AL2023"}
