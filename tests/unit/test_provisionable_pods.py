"""Which pods nodes are bought for: one row per rule."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import PersistentVolumeClaim, Pod
from dovetail.api.workloads import PodDisruptionBudget, StorageClass
from dovetail.base.clock import HOUR, SECOND
from dovetail.controllers.provisioning.pods import (
    MATCH_FIELDS,
    NOT_FOR_US,
    InUse,
    ignored,
    moves_with_node,
    opted_out,
    provisionable,
)
from dovetail.disrupt.pods import Budgets
from dovetail.model.left_out import DEVICES
from dovetail.model.volumes import VolumeIndex
from dovetail.units.timestamp import to_rfc3339

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
NOW = 1_772_409_600 * SECOND


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any) -> Pod:
    return decode(
        {
            "metadata": {"name": "p", "namespace": "default", "labels": {"app": "web"}, **meta},
            "spec": spec or {},
            "status": {"conditions": [UNSCHEDULABLE], **(status or {})},
        },
        Pod,
    )


def owner(kind: str) -> dict[str, Any]:
    return {
        "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": True}]
    }


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": rule}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    item: dict[str, Any] = {"key": key, "operator": operator}
    return {"matchExpressions": [{**item, "values": list(values)} if values else item]}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (pod(), True),
        (pod(status={"conditions": []}), False),
        (pod(status={"conditions": [{**UNSCHEDULABLE, "reason": "SchedulingGated"}]}), False),
        (pod(status={"conditions": [{**UNSCHEDULABLE, "status": "True"}]}), False),
        (pod({"nodeName": "n"}), False),
        (pod(status={"nominatedNodeName": "n"}), False),
        (pod(status={"nominatedNodeName": "n"}, annotations={"dovetail.dev/nominated-node": "n"}), True),
        (pod(status={"nominatedNodeName": "n"}, annotations={"dovetail.dev/nominated-node": "m"}), False),
        (pod(status={"phase": "Failed"}), False),
        (pod(deletionTimestamp="2026-03-02T00:00:00Z"), False),
        (pod(**owner("DaemonSet")), False),
        (pod(**owner("Node")), False),
        (pod(**owner("ReplicaSet")), True),
    ],
)
def test_provisionable(case: Pod, expected: bool) -> None:
    assert provisionable(case) is expected


OUT = expression("karpenter.sh/nodepool", "DoesNotExist")
IN = expression("topology.kubernetes.io/zone", "In", "a")
CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (pod(), ""),
        (pod({"nodeSelector": {"karpenter.sh/nodepool": "general"}}), ""),
        (pod({"nodeSelector": {"team": "a"}}), ""),
        (
            pod({"nodeSelector": {"karpenter.sh/registered": "true"}}),
            "using label karpenter.sh/registered is not",
        ),
        (pod({"nodeSelector": {"kubernetes.io/hostname": "n"}}), "using label kubernetes.io/hostname is not"),
        (
            pod(required(expression("karpenter.sh/custom", "In", "x"))),
            "using label karpenter.sh/custom is not",
        ),
        (pod(required(OUT)), NOT_FOR_US),
        (pod(required(OUT, IN)), ""),
        (pod({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}), DEVICES),
        (
            pod(required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})),
            MATCH_FIELDS,
        ),
    ],
)
def test_ignored(case: Pod, expected: str) -> None:
    reason = ignored(case, VolumeIndex())
    assert reason.startswith(expected)
    assert bool(reason) is bool(expected)
    assert opted_out(case) is (expected == NOT_FOR_US)


CLASSES = {
    "late": StorageClass(provisioner="ebs.csi.aws.com", volume_binding_mode="WaitForFirstConsumer"),
    "now": StorageClass(provisioner="ebs.csi.aws.com"),
    "auto": StorageClass(provisioner="ebs.csi.eks.amazonaws.com", volume_binding_mode="WaitForFirstConsumer"),
}


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (None, "not found"),
        ({"spec": {"storageClassName": "late"}}, ""),
        (
            {"spec": {"storageClassName": "now"}},
            "failed to validate pvc, pvc with immediate volume binding mode",
        ),
        ({"spec": {"storageClassName": "auto"}}, "failed to validate pvc, provisioner is not supported"),
        ({"spec": {"storageClassName": "gone"}}, "not found"),
        ({"spec": {}}, "unbound pvc must define a storage class"),
        ({"spec": {"volumeName": "pv"}}, "pvc is considered unbound"),
        ({"spec": {"storageClassName": "late"}, "status": {"phase": "Lost"}}, "bound to non-existent"),
        ({"metadata": {"deletionTimestamp": "2026-03-02T00:00:00Z"}}, "is being deleted"),
    ],
)
def test_ignored_for_its_volume(claim: dict[str, Any] | None, expected: str) -> None:
    claims = {} if claim is None else {"default/data": decode(claim, PersistentVolumeClaim)}
    reason = ignored(pod(CLAIM), VolumeIndex(claims=claims, classes=CLASSES))
    assert expected in reason
    assert bool(reason) is bool(expected)


def budget(**spec: Any) -> PodDisruptionBudget:
    return decode(
        {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        },
        PodDisruptionBudget,
    )


BLOCKED = {"karpenter.sh/do-not-disrupt": "true"}
HOUR_LONG = {"karpenter.sh/do-not-disrupt": "1h"}
STARTED = {"startTime": to_rfc3339(NOW - HOUR // 2)}


@pytest.mark.parametrize(
    ("case", "budgets", "expected"),
    [
        (pod(), (), True),
        (pod(**owner("DaemonSet")), (), False),
        (pod(**owner("Node")), (), False),
        (pod(status={"phase": "Succeeded"}), (), False),
        (pod(deletionTimestamp="2026-03-02T00:00:00Z"), (), False),
        (pod(deletionTimestamp="2026-03-02T00:00:00Z", **owner("StatefulSet")), (), True),
        (pod(annotations=BLOCKED), (), False),
        (pod(annotations=HOUR_LONG, status=STARTED), (), False),
        (pod(annotations={"karpenter.sh/do-not-disrupt": "20m"}, status=STARTED), (), True),
        (pod(annotations={"karpenter.sh/do-not-disrupt": "maybe"}), (), True),
        (pod(), (budget(maxUnavailable=0),), False),
        (pod(), (budget(maxUnavailable="0%"),), False),
        (pod(), (budget(minAvailable="100%"),), False),
        (pod(), (budget(maxUnavailable=1),), True),
        (pod(), (budget(minAvailable=1),), True),
    ],
)
def test_moves_with_its_node(case: Pod, budgets: tuple[PodDisruptionBudget, ...], expected: bool) -> None:
    assert moves_with_node(case, Budgets(budgets), NOW) is expected


def test_a_budget_that_cannot_be_understood_holds_for_its_namespace_only() -> None:
    broken = decode({"metadata": {"name": "broken", "namespace": "default"}}, PodDisruptionBudget)
    spoilt = replace(broken, spec=replace(broken.spec, selector=object()))
    budgets = Budgets([spoilt])
    inside = decode({"metadata": {"name": "a", "namespace": "default"}}, Pod)
    outside = decode({"metadata": {"name": "a", "namespace": "other"}}, Pod)
    assert (budgets.of(inside), budgets.of(outside)) == ((spoilt,), ())


def test_a_claim_for_one_pod_is_for_the_first() -> None:
    claim = decode(
        {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "storageClassName": "gp3"},
        },
        PersistentVolumeClaim,
    )
    volumes = VolumeIndex(claims={claim.key: claim})
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    running = pod({**spec, "nodeName": "n"}, name="runs")
    for using, free in (
        ((), True),
        ((running,), False),
        ((pod({**spec, "nodeName": "n"}, name="leaves", deletionTimestamp=to_rfc3339(NOW)),), True),
        ((pod({**spec, "nodeName": "n"}, {"phase": "Succeeded"}, name="ended"),), True),
        ((pod({"nodeName": "n"}, name="without"),), True),
    ):
        in_use = InUse(volumes, lambda using=using: using)  # type: ignore[misc]
        assert in_use.refuses(pod(name="other")) == ""
        assert (in_use.refuses(pod(spec, name="first")) == "") is free
        # Asked again it is the first still; another one waits for it.
        assert (in_use.refuses(pod(spec, name="first")) == "") is free
        assert f"is in use by pod default/{'first' if free else 'runs'}" in in_use.refuses(
            pod(spec, name="next")
        )
