"""The pods that workloads ask for."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.meta import Meta
from dovetail.api.scheme import BY_GVK
from dovetail.model.podtemplate import Workload, pods_of, template_hash, volume_claims_of


def make(kind: str, **spec: Any) -> Any:
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "data"}]},
    }
    inner = {"jobTemplate": {"spec": {"template": template, **spec.pop("job", {})}}}
    document = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {**(inner if kind == "CronJob" else {"template": template}), **spec},
    }
    return decode(document, BY_GVK[version, kind])


@pytest.mark.parametrize(
    ("workload", "existing", "names"),
    [
        (make("Deployment"), (), ["web-0"]),
        (make("Deployment", replicas=0), (), []),
        (make("Deployment", replicas=3), ("web-abc-x",), ["web-1", "web-2"]),
        (make("ReplicaSet", replicas=2), ("a", "b", "c"), []),
        (make("StatefulSet", replicas=3), ("web-1",), ["web-0", "web-2"]),
        (make("Job"), (), ["web-0"]),
        (make("Job", parallelism=5, completions=3), (), ["web-0", "web-1", "web-2"]),
        (make("Job", parallelism=2, completions=9), ("web-x",), ["web-1"]),
        (make("CronJob", job={"parallelism": 2}), (), ["web-0", "web-1"]),
        (make("CronJob", suspend=True), (), []),
        (make("Job", suspend=True), (), []),
        (make("StatefulSet", replicas=2, ordinals={"start": 5}), ("web-5",), ["web-6"]),
    ],
)
def test_names(workload: Workload, existing: tuple[str, ...], names: list[str]) -> None:
    there = [Pod(metadata=Meta(name=name)) for name in existing]
    assert [pod.metadata.name for pod in pods_of(workload, there)] == names


def test_a_finished_part_of_a_job_is_not_asked_for() -> None:
    job = decode(
        {"metadata": {"name": "j"}, "spec": {"parallelism": 5, "completions": 6}, "status": {"succeeded": 4}},
        BY_GVK["batch/v1", "Job"],
    )
    assert isinstance(job, Workload)
    assert len(pods_of(job)) == 2


def test_what_a_pod_carries() -> None:
    deployment = make("Deployment")
    (pod,) = pods_of(deployment)
    assert pod.key == "shop/web-0"
    assert pod.metadata.labels == {"app": "x", "pod-template-hash": template_hash(deployment.spec.template)}
    assert pod.metadata.annotations == {"a": "b"}
    owner = pod.metadata.controller()
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Deployment", "web", "u")
    assert pod.spec == deployment.spec.template.spec
    assert pods_of(deployment) == pods_of(deployment)


def test_stateful_pods_have_volumes_of_their_own() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}
    workload = make("StatefulSet", replicas=2, volumeClaimTemplates=[claim])
    _, second = pods_of(workload)
    (volume,) = second.spec.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-web-1"
    assert second.metadata.labels["statefulset.kubernetes.io/pod-name"] == "web-1"
    assert [item.key for item in volume_claims_of(workload)] == ["shop/data-web-0", "shop/data-web-1"]
    assert volume_claims_of(workload)[0].spec.storage_class_name == "gp3"
