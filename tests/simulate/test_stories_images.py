"""Acceptance: six types are too few to go from spot to spot; new images of AL2 roll through a pool."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cloud
import pytest
from operated import Operated, play
from stories import ASKED, OFFERED, POOL, apart, condition_of, inflate, keeping, travel_class, travel_pool

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.model import labels
from dovetail.reading import read
from dovetail.runtime.settings import FeatureGates

OFF = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
TOO_FEW = (
    "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to "
    "consolidate, got "
)
# As an operations guide has it: v1beta1 knows no terms for the images that EKS recommends.
GUIDE = """
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: AL2
  role: nodes
  subnetSelectorTerms: [{tags: {alpha.eksctl.io/cluster-name: demo}}]
  securityGroupSelectorTerms: [{tags: {alpha.eksctl.io/cluster-name: demo}}]
  tags: {intent: apps, managed-by: karpenter}
"""


def asking(*types: str) -> list[dict[str, Any]]:
    requirements: list[dict[str, Any]] = travel_pool(capacity=("spot",))["spec"]["template"]["spec"][
        "requirements"
    ]
    return [
        {**item, "values": list(types)} if item["key"] == labels.INSTANCE_TYPE else item
        for item in requirements
    ]


@pytest.mark.parametrize("gate", [False, True])
def test_six_types_are_too_few_to_replace_spot_with_spot(gate: bool) -> None:
    """The dearest of them was all there was; the others come, and still the node stays."""

    async def script(world: Operated) -> None:
        soon = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
        pool = keeping(travel_pool(capacity=("spot",)), **soon)
        pool["spec"]["template"]["spec"]["requirements"] = asking("m5ad.2xlarge")
        world.create(travel_class(), pool, inflate(3))
        await world.clock.sleep(2 * MINUTE)
        merge = {"spec": {"template": {"spec": {"requirements": asking(*ASKED)}}}}
        await world.client.patch(NodePool, POOL, merge=merge)
        await world.clock.sleep(20 * MINUTE)
        (node,) = world.state.all(Node)
        assert node.metadata.labels[labels.INSTANCE_TYPE] == "m5ad.2xlarge"

    world = play(script, gates=FeatureGates(spot_to_spot_consolidation=gate))
    assert not world.records("disruption")
    said = world.messages("Unconsolidatable")
    if gate:
        (counted,) = {text.removeprefix(TOO_FEW) for text in said if text.startswith(TOO_FEW)}
        assert 1 <= int(counted) < len(OFFERED)
    else:
        assert OFF in said


def test_a_class_of_an_older_version_is_taken_as_what_it_has_become(tmp_path: Path) -> None:
    file = tmp_path / "class.yaml"
    file.write_text(GUIDE)
    reading = read([file])
    (found,) = reading.manifests
    assert found.document["spec"]["amiSelectorTerms"] == [{"alias": "al2@latest"}]
    assert any("v1beta1" in note for note in reading.notes)
    # With nothing but the version changed, what v1 wants besides is named.
    file.write_text(GUIDE.replace("v1beta1", "v1"))
    with pytest.raises(InputError) as raised:
        read([file])
    assert raised.value.path == "spec.amiSelectorTerms"
    file.write_text(GUIDE.replace("v1beta1", "v1") + "  amiSelectorTerms: [{alias: al2@latest}]\n")
    (found,) = read([file]).manifests
    assert found.document["spec"]["amiFamily"] == "AL2"


def recommend(world: Operated) -> None:
    """EKS recommends other images of AL2 from now on."""
    aws = world.aws
    known = {item.id: item for item in aws.ec2.account.images}
    newer = []
    for name, old in list(aws.ssm.parameters.items()):
        if "/amazon-linux-2" in name and "recommended" in name and "2023" not in name:
            aws.ssm.parameters[name] = f"ami-0newer{old[-8:]}"
            newer.append(replace(known[old], id=aws.ssm.parameters[name], created="2026-03-02T00:00:30.000Z"))
    aws.ec2.account = replace(aws.ec2.account, images=(*aws.ec2.account.images, *newer))


def test_newly_recommended_images_of_al2_roll_through_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws_cloud, "VERSION", "1.32")  # the last with images of AL2

    async def script(world: Operated) -> None:
        terms = {"amiFamily": "AL2", "amiSelectorTerms": [{"alias": "al2@latest"}]}
        pool = keeping(
            travel_pool(capacity=("on-demand",), expireAfter="Never"),
            consolidateAfter="Never",
            budgets=[{"nodes": "1"}],
        )
        tags = {"intent": "apps", "managed-by": "karpenter"}
        world.create(travel_class(**terms, tags=tags), pool, inflate(3, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        old = {node.metadata.name for node in world.state.all(Node)}
        assert len(old) == 3
        recommend(world)
        drifted = set()
        for _ in range(90):
            await world.clock.sleep(MINUTE)
            claims = world.state.all(NodeClaim)
            drifted |= {
                condition_of(one, "Drifted").reason
                for one in claims
                if condition(one.status.conditions, "Drifted")
            }
            assert sum(claim.deleting for claim in claims) <= 1
        assert drifted == {"AMIDrift"}
        assert not old & {node.metadata.name for node in world.state.all(Node)}

    world = play(script)
    machines = [item.instance for item in world.aws.machines.visible() if item.instance.state == "running"]
    assert len(machines) == 3
    assert all(item.image.startswith("ami-0newer") for item in machines)
    assert {(item.tags["intent"], item.tags["managed-by"]) for item in machines} == {("apps", "karpenter")}
    commands = world.records("disruption")
    assert [(one["reason"], one["decision"]) for one in commands] == [("Drifted", "replace")] * 3
    (document,) = {
        base64.b64decode(data["UserData"]) for _, data in world.aws.ec2.launches.templates.values()
    }
    assert b"/etc/eks/bootstrap.sh" in document
