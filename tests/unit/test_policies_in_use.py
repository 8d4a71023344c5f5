"""The policies of deploy/terraform allow what is asked of an account, with the tags that are sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dovetail.cloud.aws.launchtemplate.template import cluster_tags
from dovetail.cloud.aws.nodeclass import profiles
from tests.unit.test_node_class_resolution import CLUSTER, REGION, World, node_class, play

POLICIES = Path(__file__).resolve().parents[2] / "deploy" / "terraform" / "policies"
ACCOUNT = "123456789012"
PLACES = {
    "partition": "aws",
    "region": REGION,
    "account": ACCOUNT,
    "cluster": CLUSTER,
    "queue_arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:demo",
    "node_role_arn": f"arn:aws:iam::{ACCOUNT}:role/nodes",
}
OWN = cluster_tags(CLUSTER, "general", "default", {"karpenter.sh/discovery": CLUSTER})


@dataclass(frozen=True)
class Asked:
    """An action on one resource, with the tags that are sent and those that the resource has."""

    action: str
    resource: str
    sent: dict[str, str] | None = None
    has: dict[str, str] | None = None
    while_calling: str = ""  # of tags: the call that makes what is tagged

    def value(self, key: str) -> list[str]:
        """What a condition on the key sees; nothing where the key does not exist."""
        kind, _, name = key.partition("/")
        known = {
            "aws:RequestTag": [(self.sent or {}).get(name)],
            "aws:ResourceTag": [(self.has or {}).get(name)],
            "aws:TagKeys": list(self.sent or {}),
            "ec2:CreateAction": [self.while_calling or None],
            "aws:RequestedRegion": [REGION],
            "iam:PassedToService": ["ec2.amazonaws.com"],
        }
        return [item for item in known[kind] if item is not None]


def statements() -> Iterator[dict[str, Any]]:
    for path in sorted(POLICIES.glob("*.json.tftpl")):
        text = re.sub(r"\$\{(\w+)\}", lambda match: PLACES[match[1]], path.read_text())
        yield from json.loads(text)["Statement"]


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def holds(operator: str, key: str, wanted: list[str], asked: Asked) -> bool:
    """One condition, as IAM reads it."""
    values = asked.value(key)
    if operator == "ForAllValues:StringEquals":
        return all(item in wanted for item in values)
    if operator == "StringEqualsIfExists":
        return not values or values[0] in wanted
    if operator == "StringEquals":
        return bool(values) and values[0] in wanted
    assert operator == "StringLike", operator
    return bool(values) and any(fnmatchcase(values[0], item) for item in wanted)


def allowed(asked: Asked) -> bool:
    return any(
        asked.action in listed(one["Action"])
        and any(fnmatchcase(asked.resource, item) for item in listed(one["Resource"]))
        and all(
            holds(operator, key, listed(wanted), asked)
            for operator, keys in one.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
        for one in statements()
    )


def ec2(kind: str, name: str = "x-1") -> str:
    account = "" if kind in ("image", "snapshot") else ACCOUNT
    return f"arn:aws:ec2:{REGION}:{account}:{kind}/{name}"


def test_a_launch_is_allowed() -> None:
    for call in ("CreateFleet", "RunInstances"):
        for kind in ("image", "snapshot", "subnet", "security-group", "capacity-reservation"):
            assert allowed(Asked(f"ec2:{call}", ec2(kind))), kind
        assert allowed(Asked(f"ec2:{call}", ec2("launch-template"), has=OWN))
        for kind in ("instance", "volume", "network-interface", "fleet", "spot-instances-request"):
            assert allowed(Asked(f"ec2:{call}", ec2(kind), sent=OWN)), kind
            assert allowed(Asked("ec2:CreateTags", ec2(kind), sent=OWN, while_calling=call)), kind
    assert allowed(Asked("ec2:CreateLaunchTemplate", ec2("launch-template"), sent=OWN))
    assert allowed(Asked("iam:PassRole", PLACES["node_role_arn"]))


def test_a_launch_for_another_cluster_is_not() -> None:
    other = cluster_tags("other", "general", "default", {})
    for call in ("CreateFleet", "RunInstances"):
        assert not allowed(Asked(f"ec2:{call}", ec2("instance")))
        assert not allowed(Asked(f"ec2:{call}", ec2("instance"), sent=other))
        assert not allowed(Asked(f"ec2:{call}", ec2("launch-template"), has=other))
    assert not allowed(Asked("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin"))


def test_only_own_instances_are_named_rebooted_and_ended() -> None:
    names = {
        "Name": "ip-10-0-0-1",
        "karpenter.sh/nodeclaim": "general-abcde",
        "eks:eks-cluster-name": CLUSTER,
    }
    assert allowed(Asked("ec2:CreateTags", ec2("instance"), sent=names, has=OWN))
    assert not allowed(Asked("ec2:CreateTags", ec2("instance"), sent=names, has={}))
    assert not allowed(Asked("ec2:CreateTags", ec2("instance"), sent={"team": "x"}, has=OWN))
    for action, kind in (
        ("TerminateInstances", "instance"),
        ("RebootInstances", "instance"),
        ("DeleteLaunchTemplate", "launch-template"),
    ):
        assert allowed(Asked(f"ec2:{action}", ec2(kind), has=OWN))
        assert not allowed(Asked(f"ec2:{action}", ec2(kind), has={"Name": "theirs"}))


def test_own_instance_profiles_are_made_and_taken_away() -> None:
    want = profiles.wanted(node_class(), CLUSTER, REGION)
    own = f"arn:aws:iam::{ACCOUNT}:instance-profile{want.path}{want.name}"
    for verb in ("Create", "Tag"):
        assert allowed(Asked(f"iam:{verb}InstanceProfile", own, sent=dict(want.tags)))
        assert not allowed(Asked(f"iam:{verb}InstanceProfile", own, sent={}))
    for verb in ("AddRoleTo", "RemoveRoleFrom", "Delete"):
        assert allowed(Asked(f"iam:{verb}InstanceProfile", own, has=dict(want.tags)))
        assert not allowed(Asked(f"iam:{verb}InstanceProfile", own, has={}))
    theirs = f"arn:aws:iam::{ACCOUNT}:instance-profile/theirs"
    assert not allowed(Asked("iam:DeleteInstanceProfile", theirs, has=dict(want.tags)))


def test_every_action_that_an_account_sees_is_in_a_policy() -> None:
    """Batches of messages are deleted under the right to delete one."""
    seen: set[str] = set()

    async def body(world: World) -> None:
        await world.resolver.resolve(node_class())
        await world.resolver.tidy(frozenset())
        await world.resolver.release(node_class())
        seen.update(world.aws.gate.calls)

    play(body)
    written = {action for one in statements() for action in listed(one["Action"])}
    assert {"ec2:RunInstances", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile"} <= seen
    assert seen <= written
