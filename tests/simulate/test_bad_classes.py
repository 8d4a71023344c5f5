"""Classes on AWS that nothing can be launched from: what is reported, and that other pools go on."""

from __future__ import annotations

from typing import Any

import operated
import pytest
from operated import Operated, play, pod
from stories import POOL, keeping, travel_class, travel_pool

from dovetail.api.core import Event, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.model import labels

BROKEN = "broken"
NOWHERE = [{"tags": {"karpenter.sh/discovert": "demo"}}]


@pytest.fixture(autouse=True)
def _on_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operated, "CLOUD", "aws")


NOWHERE = [{"tags": {"karpenter.sh/discovert": "demo"}}]


def named(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {"name": BROKEN}}


def broken_pool() -> dict[str, Any]:
    """The pool that pods would go to first."""
    pool = named(keeping(travel_pool(capacity=("on-demand",))))
    template = pool["spec"]["template"]["spec"]
    reference = {**template["nodeClassRef"], "name": BROKEN}
    spec = {**pool["spec"], "weight": 50, "template": {"spec": {**template, "nodeClassRef": reference}}}
    return {**pool, "spec": spec}


def broken_class(**spec: Any) -> dict[str, Any]:
    return named(travel_class(**spec))


def volume(size: str) -> list[dict[str, Any]]:
    return [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]


CASES = [
    (
        "no subnets",
        {"subnetSelectorTerms": NOWHERE},
        ("SubnetsReady", "SubnetsNotFound", "SubnetSelector did not match any Subnets"),
    ),
    (
        "no groups",
        {"securityGroupSelectorTerms": NOWHERE},
        (
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            "SecurityGroupSelector did not match any SecurityGroups",
        ),
    ),
    (
        "no images",
        {"amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}], "amiFamily": "AL2023"},
        ("AMIsReady", "AMINotFound", "AMISelector did not match any AMIs"),
    ),
    (
        "an unknown version",
        {"amiSelectorTerms": [{"alias": "al2023@v20990101"}]},
        ("AMIsReady", "AMINotFound", "v20990101"),
    ),
    (
        "an alias that the cluster is too new for",
        {"amiSelectorTerms": [{"alias": "al2@latest"}]},
        ("AMIsReady", "UnsupportedAlias", "1.33"),
    ),
    (
        "a NodeConfig that is none",
        {"userData": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: [\n"},
        ("ValidationSucceeded", "InvalidUserData", "spec.userData: line 4: malformed YAML"),
    ),
    (
        "TOML that is none",
        {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "userData": "[settings"},
        ("ValidationSucceeded", "InvalidUserData", "invalid UserData toml"),
    ),
    (
        "MIME that is none",
        {"userData": "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nno colon\n\n"},
        ("ValidationSucceeded", "InvalidUserData", "spec.userData"),
    ),
    (
        "user data that is too long",
        {"userData": "#!/bin/sh\n" + "x" * 17_000},
        ("ValidationSucceeded", "UserDataSizeLimitExceeded", "EC2 takes 16384"),
    ),
    (
        "a volume that is too small",
        {"blockDeviceMappings": volume("1Gi")},
        (
            "ValidationSucceeded",
            "BlockDeviceMappingInvalid",
            "spec.blockDeviceMappings[0].ebs.volumeSize: 1 GiB, but /dev/xvda",
        ),
    ),
    (
        "a tag of AWS's own",
        {"tags": {"aws:mine": "x"}},
        ("ValidationSucceeded", "TagValidationFailed", "reserved by AWS"),
    ),
]


@pytest.mark.parametrize(("spec", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_class_that_is_wrong_is_reported_and_others_go_on(
    spec: dict[str, Any], wanted: tuple[str, str, str]
) -> None:
    world = play(lambda world: side_by_side(world, broken_class(**spec)))
    check_refusal(world, *wanted)


def test_a_profile_without_permissions_is_reported_and_others_go_on() -> None:
    own = broken_class(instanceProfile="mine")
    del own["spec"]["role"]

    async def script(world: Operated) -> None:
        world.create(travel_class(), keeping(travel_pool(capacity=("on-demand",))))
        await world.clock.sleep(MINUTE)
        world.aws.gate.options = GateOptions(denied=frozenset({"ec2:RunInstances"}))
        world.create(own, broken_pool())
        await world.clock.sleep(MINUTE)
        world.create(pod("a"))
        await world.clock.sleep(2 * MINUTE)

    words = "Controller isn't authorized to call ec2:RunInstances"
    check_refusal(play(script), "ValidationSucceeded", "RunInstancesAuthCheckFailed", words)


async def side_by_side(world: Operated, node_class: dict[str, Any]) -> None:
    """Both pools, and a pod that either could have."""
    world.create(node_class, broken_pool())
    world.create(travel_class(), keeping(travel_pool(capacity=("on-demand",))), pod("a"))
    await world.clock.sleep(2 * MINUTE)


def events(world: Operated, kind: type[Any]) -> list[str]:
    """Messages of the events on the broken object of that kind."""
    about = kind.KIND, BROKEN
    found = [record.view for record in world.server.list(Event)]
    return [one.message for one in found if (one.involved_object.kind, one.involved_object.name) == about]


def check_refusal(world: Operated, kind: str, reason: str, words: str) -> None:
    """The condition, its event, the pool that is not ready, and a pod that runs elsewhere."""
    node_class = world.state.get(EC2NodeClass, BROKEN)
    assert node_class is not None
    found = condition(node_class.status.conditions, kind)
    assert found is not None and (found.status, found.reason) == ("False", reason)
    assert words in found.message
    start = f"Status condition transitioned, Type: {kind}, Status: Unknown -> False, Reason: {reason}"
    assert f"{start}, Message: {found.message}" in events(world, EC2NodeClass)
    pool = world.state.get(NodePool, BROKEN)
    assert pool is not None
    for name in ("NodeClassReady", "Ready"):
        ready = condition(pool.status.conditions, name)
        assert ready is not None and ready.status == "False", name
    assert any("Type: NodeClassReady, Status: Unknown -> False" in text for text in events(world, NodePool))
    assert [one.metadata.labels[labels.NODEPOOL] for one in world.state.all(NodeClaim)] == [POOL]
    assert world.server.get(Pod, "a", "default")["status"]["phase"] == "Running"
