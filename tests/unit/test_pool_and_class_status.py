"""Conditions, hashes and health of pools, classes and claims: their pure parts as tables."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.api.karpenter.fingerprint import class_hash, pool_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import SECOND
from dovetail.cloud.provider import (
    NodeClassResolution,
    ResolvedImage,
    ResolvedSecurityGroup,
    ResolvedSubnet,
)
from dovetail.cloud.unready import near_miss
from dovetail.controllers.conditions import Stamp, set_condition, set_ready
from dovetail.controllers.disruption.consolidatable import quiet_from
from dovetail.controllers.disruption.podevents import event
from dovetail.controllers.nodeclass.readiness import judge
from dovetail.controllers.nodepool.readiness import class_ready, validation
from dovetail.controllers.nodepool.registrationhealth import RegistrationHealth, failure
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

NOW = 1_772_409_600 * SECOND
STAMP = Stamp(NOW, 3)
REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def pool(**template: Any) -> NodePool:
    metadata = template.pop("metadata", {})
    document = {
        "metadata": {"name": "general"},
        "spec": {"template": {"metadata": metadata, "spec": {"nodeClassRef": REF, **template}}},
    }
    return decode(document, NodePool)


def test_only_a_new_status_moves_the_transition_time() -> None:
    first = set_condition((), "A", "True", STAMP)
    assert first[0].reason == "A"
    again = set_condition(first, "A", "True", Stamp(NOW + SECOND, 4), reason="Other")
    assert (again[0].last_transition_time, again[0].reason) == (to_rfc3339(NOW), "Other")
    moved = set_condition(again, "A", "False", Stamp(NOW + SECOND, 4))
    assert moved[0].last_transition_time == to_rfc3339(NOW + SECOND)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("True", "True"), ("True", "Ready", "")),
        (("True", "False"), ("False", "UnhealthyDependents", "B=False")),
        (("Unknown", "False"), ("False", "UnhealthyDependents", "A=Unknown, B=False")),
        (("Unknown", "True"), ("Unknown", "ReconcilingDependents", "A=Unknown")),
    ],
)
def test_ready_follows_from_its_dependents(statuses: tuple[str, str], expected: tuple[str, str, str]) -> None:
    conditions = set_condition(set_condition((), "A", statuses[0], STAMP), "B", statuses[1], STAMP)
    ready = condition(set_ready(conditions, ("A", "B"), STAMP), "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == expected


SUBNETS = (ResolvedSubnet("subnet-1", "a", "a1"),)
GROUPS = (ResolvedSecurityGroup("sg-1", "nodes"),)
IMAGES = (ResolvedImage("ami-1", "al2023"),)
TERMS = (SelectorTerm(tags={"karpenter.sh/discovert": "demo"}),)
KEYS = ("Name", "karpenter.sh/discovery")
HINT = " (found key 'karpenter.sh/discovery', but the selector asks for 'karpenter.sh/discovert')"


@pytest.mark.parametrize(
    ("resolution", "kind", "reason", "message"),
    [
        (
            NodeClassResolution((), GROUPS, IMAGES, KEYS, KEYS),
            "SubnetsReady",
            "SubnetsNotFound",
            "SubnetSelector did not match any Subnets" + HINT,
        ),
        (
            NodeClassResolution(SUBNETS, (), IMAGES, KEYS, ("Name",)),
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            "SecurityGroupSelector did not match any SecurityGroups",
        ),
        (
            NodeClassResolution(SUBNETS, GROUPS, (), KEYS, KEYS),
            "AMIsReady",
            "AMINotFound",
            "AMISelector did not match any AMIs",
        ),
        (
            NodeClassResolution(SUBNETS, GROUPS, (), KEYS, KEYS, unsupported_alias="AL2 ends with 1.32"),
            "AMIsReady",
            "UnsupportedAlias",
            "AL2 ends with 1.32",
        ),
    ],
)
def test_a_class_that_does_not_resolve(
    resolution: NodeClassResolution, kind: str, reason: str, message: str
) -> None:
    spec = {
        "subnetSelectorTerms": [{"tags": TERMS[0].tags}],
        "securityGroupSelectorTerms": [{"tags": TERMS[0].tags}],
    }
    found = judge(decode({"spec": spec}, EC2NodeClass), resolution, STAMP)
    broken = condition(found, kind)
    assert broken is not None
    assert (broken.status, broken.reason, broken.message) == ("False", reason, message)
    validated, ready = condition(found, "ValidationSucceeded"), condition(found, "Ready")
    assert validated is not None
    assert validated.reason == "DependenciesNotReady"
    assert ready is not None
    assert ready.message == f"{kind}=False, ValidationSucceeded=False"
    assert (
        class_ready(decode({"status": {}}, EC2NodeClass), (), STAMP)[0].reason == "NodeClassReadinessUnknown"
    )


@pytest.mark.parametrize("images", [IMAGES, ()])
def test_a_class_that_no_node_can_use(images: tuple[ResolvedImage, ...]) -> None:
    broken = (("InvalidKubeletConfiguration", "one"), ("InvalidKubeletConfiguration", "two"))
    resolution = NodeClassResolution(SUBNETS, GROUPS, images, KEYS, KEYS, faults=broken)
    found = condition(judge(EC2NodeClass(), resolution, STAMP), "ValidationSucceeded")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "InvalidKubeletConfiguration", "one; two")


def test_a_class_that_resolves_is_ready() -> None:
    found = judge(EC2NodeClass(), NodeClassResolution(SUBNETS, GROUPS, IMAGES, KEYS, KEYS), STAMP)
    assert {item.status for item in found} == {"True"}


def test_near_misses_are_only_named_for_keys_that_do_not_exist() -> None:
    assert near_miss(TERMS, KEYS) == HINT
    assert near_miss((SelectorTerm(tags={"karpenter.sh/discovery": "other"}),), KEYS) == ""
    assert near_miss(TERMS, ("Name",)) == ""


@pytest.mark.parametrize(
    ("node_class", "reason", "message"),
    [
        (None, "NodeClassNotFound", "NodeClass not found on cluster"),
        (
            {"metadata": {"deletionTimestamp": "2026-03-02T00:00:00Z"}},
            "NodeClassTerminating",
            "NodeClass is Terminating",
        ),
        ({}, "NodeClassReadinessUnknown", "Node Class Readiness Unknown"),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "m"}]}},
            "R",
            "m",
        ),
    ],
)
def test_a_pool_whose_class_is_not_ready(
    node_class: dict[str, Any] | None, reason: str, message: str
) -> None:
    found = decode(node_class, EC2NodeClass) if node_class is not None else None
    result = class_ready(found, (), STAMP)[0]
    assert (result.status, result.reason, result.message) == ("False", reason, message)


def test_rules_that_the_server_does_not_check() -> None:
    assert validation(pool(), (), STAMP)[0].status == "True"
    twice = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "v"}]
    broken = validation(pool(taints=twice), (), STAMP)[0]
    assert (broken.status, broken.reason) == ("False", "NodePoolValidationFailed")
    assert broken.message == "duplicate taint Key/Effect pair a=NoSchedule"


@pytest.mark.parametrize(
    ("changed", "drifts"),
    [
        ({"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}, False),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, True),
        ({"startupTaints": [{"key": "a", "effect": "NoSchedule"}]}, True),
        ({"expireAfter": "24h"}, True),
        ({"terminationGracePeriod": "1h"}, True),
        ({"metadata": {"labels": {"team": "a"}}}, True),
        ({"metadata": {"annotations": {"team": "a"}}}, True),
        ({"nodeClassRef": {**REF, "name": "other"}}, True),
    ],
)
def test_what_the_hash_of_a_pool_covers(changed: dict[str, Any], drifts: bool) -> None:
    assert (pool_hash(pool(**changed)) != pool_hash(pool())) is drifts


_TAINTS = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute", "value": "v"}]


@pytest.mark.parametrize(
    ("one", "other", "drifts"),
    [
        ({"taints": _TAINTS}, {"taints": _TAINTS[::-1]}, False),
        ({"startupTaints": _TAINTS}, {"startupTaints": _TAINTS[::-1]}, False),
        ({"taints": _TAINTS}, {"startupTaints": _TAINTS}, True),
        ({"taints": _TAINTS}, {"taints": _TAINTS[:1]}, True),
        ({"expireAfter": "1h"}, {"expireAfter": "60m"}, False),
        ({"expireAfter": "1h30m"}, {"expireAfter": "90m0s"}, False),
        ({"expireAfter": "Never"}, {"expireAfter": "0s"}, True),
        ({"expireAfter": "720h"}, {}, False),
        ({"terminationGracePeriod": "1h"}, {"terminationGracePeriod": "3600s"}, False),
        ({"terminationGracePeriod": "0s"}, {}, True),
        (
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"b": "2", "a": "1"}}},
            False,
        ),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"annotations": {"a": "1"}}}, True),
        ({"metadata": {"labels": {"a": "1,b:2"}}}, {"metadata": {"labels": {"a": "1", "b": "2"}}}, True),
        ({"metadata": {"labels": {}, "annotations": {}}}, {}, False),
        ({"taints": [], "startupTaints": []}, {}, False),
    ],
)
def test_a_pool_that_says_the_same_in_another_way(
    one: dict[str, Any], other: dict[str, Any], drifts: bool
) -> None:
    assert (pool_hash(pool(**one)) != pool_hash(pool(**other))) is drifts


@pytest.mark.parametrize(
    ("spec", "drifts"),
    [
        ({"subnetSelectorTerms": [{"id": "subnet-1"}]}, False),
        ({"securityGroupSelectorTerms": [{"id": "sg-1"}]}, False),
        ({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, False),
        ({"userData": "x"}, True),
        ({"role": "nodes"}, True),
        ({"tags": {"team": "a"}}, True),
        ({"kubelet": {"maxPods": 30}}, True),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"kmsKeyID": "key"}}]}, True),
        ({"associatePublicIPAddress": False}, True),
        ({"detailedMonitoring": True}, True),
        ({"enclaveOptions": {"enabled": True}}, True),
        ({"context": "c"}, True),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, True),
        (
            {"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]},
            True,
        ),
    ],
)
def test_what_the_hash_of_a_class_covers(spec: dict[str, Any], drifts: bool) -> None:
    assert (class_hash(decode({"spec": spec}, EC2NodeClass)) != class_hash(EC2NodeClass())) is drifts


def _disks(*sizes: str) -> dict[str, Any]:
    return {
        "blockDeviceMappings": [{"deviceName": f"/dev/{size}", "ebs": {"volumeSize": size}} for size in sizes]
    }


def _disk(**ebs: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}


@pytest.mark.parametrize(
    ("one", "other", "drifts"),
    [
        (_disks("20Gi", "1Ti"), _disks("1Ti", "20Gi"), False),
        (_disks("20Gi", "1Ti"), _disks("20Gi"), True),
        (_disk(volumeSize="1Ti"), _disk(volumeSize="1024Gi"), False),
        (_disk(volumeSize="1T"), _disk(volumeSize="1000G"), False),
        (_disk(volumeSize="1T"), _disk(volumeSize="1Ti"), True),
        (_disk(volumeSize="Ti"), _disk(volumeSize="1Ti"), True),
        ({"tags": {"a": "1", "b": "2"}}, {"tags": {"b": "2", "a": "1"}}, False),
        ({"tags": {}, "kubelet": {}, "blockDeviceMappings": []}, {}, False),
        (
            {"kubelet": {"clusterDNS": ["10.0.0.1", "10.0.0.2"]}},
            {"kubelet": {"clusterDNS": ["10.0.0.2", "10.0.0.1"]}},
            True,
        ),
        ({"kubelet": {"maxPods": 1, "podsPerCore": 2}}, {"kubelet": {"podsPerCore": 2, "maxPods": 1}}, False),
        ({"detailedMonitoring": False}, {}, True),
        ({"associatePublicIPAddress": True}, {"associatePublicIPAddress": False}, True),
    ],
)
def test_a_class_that_says_the_same_in_another_way(
    one: dict[str, Any], other: dict[str, Any], drifts: bool
) -> None:
    hashes = [class_hash(decode({"spec": spec}, EC2NodeClass)) for spec in (one, other)]
    assert (hashes[0] != hashes[1]) is drifts


def test_two_failures_of_four_make_a_pool_unhealthy() -> None:
    health = RegistrationHealth()
    verdicts = []
    for registered in (False, False, True, True, True, False):
        health.record("u", registered=registered)
        verdicts.append(health.healthy("u"))
    # A single failure proves nothing, neither at first nor after successes.
    assert verdicts == [None, False, False, False, True, None]
    health.reset("u")
    assert health.healthy("u") is None


def test_why_a_registration_failed() -> None:
    def claim(*conditions: dict[str, str]) -> NodeClaim:
        return decode({"spec": {"nodeClassRef": REF}, "status": {"conditions": list(conditions)}}, NodeClaim)

    never = {"type": "Launched", "status": "Unknown", "reason": "LaunchFailed", "message": "m"}
    assert failure(claim(never)) == ("LaunchFailed", "m")
    launched = {"type": "Launched", "status": "True", "reason": "Launched"}
    assert failure(claim(launched)) == ("RegistrationFailed", "Failed to register node")


BOUND = "2026-03-01T23:00:00Z"


def pod(node: str = "n", *, phase: str = "Running", deleting: bool = False) -> Pod:
    meta = {"deletionTimestamp": BOUND} if deleting else {}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
    status = {"phase": phase, "conditions": [scheduled]}
    return decode({"metadata": meta, "spec": {"nodeName": node}, "status": status}, Pod)


@pytest.mark.parametrize(
    ("old", "new", "live", "expected"),
    [
        (None, pod(), True, NOW),
        (None, pod(), False, parse_rfc3339(BOUND)),
        (pod(""), pod(), True, NOW),
        (pod(), pod(), True, None),
        (pod(), pod(phase="Succeeded"), True, NOW),
        (pod(phase="Failed"), pod(phase="Failed"), True, None),
        (pod(), pod(deleting=True), True, NOW),
        (pod(deleting=True), pod(deleting=True), True, None),
        (pod(deleting=True), None, True, None),
        (pod(), None, True, NOW),
    ],
)
def test_pod_events(old: Pod | None, new: Pod | None, live: bool, expected: int | None) -> None:
    assert event(old, new, NOW, live=live) == expected


@pytest.mark.parametrize(
    ("after", "initialized", "last", "expected"),
    [
        ("30s", True, "", 30),
        ("30s", True, to_rfc3339(NOW + 60 * SECOND), 90),
        ("0s", True, "", 0),
        ("Never", True, "", None),
        ("30s", False, "", None),
    ],
)
def test_quiet_time(after: str, initialized: bool, last: str, expected: int | None) -> None:
    conditions = [{"type": "Initialized", "status": "True", "lastTransitionTime": to_rfc3339(NOW)}]
    status = {"conditions": conditions if initialized else [], "lastPodEventTime": last}
    claim = decode({"spec": {"nodeClassRef": REF}, "status": status}, NodeClaim)
    document = {
        "spec": {"template": {"spec": {"nodeClassRef": REF}}, "disruption": {"consolidateAfter": after}}
    }
    found = quiet_from(claim, decode(document, NodePool))
    assert found == (None if expected is None else NOW + expected * SECOND)
