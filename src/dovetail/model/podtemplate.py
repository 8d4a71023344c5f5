"""The pods that a workload asks for, as far as they do not exist yet."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import ClaimVolumeSource, PersistentVolumeClaim, Pod, PodSpec, PodTemplateSpec, Volume
from dovetail.api.meta import Meta, Object, OwnerReference
from dovetail.api.workloads import CronJob, Deployment, Job, JobSpec, ReplicaSet, StatefulSet

Workload = Deployment | ReplicaSet | StatefulSet | Job | CronJob


def pods_of(workload: Workload, existing: Collection[str] = ()) -> tuple[Pod, ...]:
    """The pods that are missing beside those named in `existing`: `<workload>-<index>`, no node yet.

    Of a Job, as many as run at once; of a CronJob, those of one run, none while it is suspended. DaemonSets
    are not here: their pods belong to nodes, and solvers count them as overhead.
    """
    if isinstance(workload, CronJob):
        if workload.spec.suspend:
            return ()
        spec = workload.spec.job_template.spec
        return _pods(workload, spec.template, range(len(existing), at_once(spec, 0)), _job_labels(workload))
    if isinstance(workload, Job):
        wanted = at_once(workload.spec, workload.status.succeeded)
        return _pods(workload, workload.spec.template, range(len(existing), wanted), _job_labels(workload))
    if isinstance(workload, StatefulSet):
        pods = (_ordinal(workload, index) for index in range(workload.spec.replicas))
        return tuple(pod for pod in pods if pod.metadata.name not in existing)
    indices = range(len(existing), workload.spec.replicas)
    labels = {"pod-template-hash": template_hash(workload.spec.template)}
    return _pods(
        workload, workload.spec.template, indices, labels if isinstance(workload, Deployment) else {}
    )


def volume_claims_of(workload: StatefulSet) -> tuple[PersistentVolumeClaim, ...]:
    """The volume claims of all its pods, one per claim template and pod."""
    if not workload.spec.volume_claim_templates:
        return ()  # however many replicas it has
    return tuple(
        PersistentVolumeClaim(
            metadata=Meta(
                name=_claim_name(claim, f"{workload.metadata.name}-{index}"),
                namespace=workload.metadata.namespace,
                labels=claim.metadata.labels,
            ),
            spec=claim.spec,
        )
        for index in range(workload.spec.replicas)
        for claim in workload.spec.volume_claim_templates
    )


def template_hash(template: PodTemplateSpec) -> str:
    """Ten hex digits that are equal for equal templates, for the label that distinguishes revisions."""
    text = msgspec.json.encode(encode(template), order="deterministic")
    return hashlib.blake2b(text, digest_size=5).hexdigest()


def at_once(spec: JobSpec, succeeded: int) -> int:
    """How many pods of a job run at once."""
    if spec.completions is None:
        return spec.parallelism
    return min(spec.parallelism, max(0, spec.completions - succeeded))


def _job_labels(job: Job | CronJob) -> dict[str, str]:
    name = job.metadata.name
    return {"job-name": name, "batch.kubernetes.io/job-name": name}


def _pods(
    owner: Object, template: PodTemplateSpec, indices: Iterable[int], labels: Mapping[str, str]
) -> tuple[Pod, ...]:
    # They share what they have in common, which shows that they are alike and keeps many of them small.
    first = _pod(owner, template, "", labels, template.spec)
    return tuple(
        Pod(
            metadata=msgspec.structs.replace(first.metadata, name=f"{owner.metadata.name}-{index}"),
            spec=first.spec,
        )
        for index in indices
    )


def _ordinal(owner: StatefulSet, index: int) -> Pod:
    """A stateful pod: its name is its identity, and each claim template becomes a volume of its own."""
    name = f"{owner.metadata.name}-{index}"
    claims = owner.spec.volume_claim_templates
    own = {claim.metadata.name for claim in claims}
    kept = (volume for volume in owner.spec.template.spec.volumes if volume.name not in own)
    claimed = (
        Volume(
            name=claim.metadata.name,
            persistent_volume_claim=ClaimVolumeSource(claim_name=_claim_name(claim, name)),
        )
        for claim in claims
    )
    spec = msgspec.structs.replace(owner.spec.template.spec, volumes=(*kept, *claimed))
    labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(index)}
    return _pod(owner, owner.spec.template, name, labels, spec)


def _claim_name(claim: PersistentVolumeClaim, pod: str) -> str:
    return f"{claim.metadata.name}-{pod}"


def _pod(
    owner: Object, template: PodTemplateSpec, name: str, labels: Mapping[str, str], spec: PodSpec
) -> Pod:
    reference = OwnerReference(
        api_version=owner.API_VERSION,
        kind=owner.KIND,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
    )
    return Pod(
        metadata=Meta(
            name=name,
            namespace=owner.metadata.namespace,
            labels={**template.metadata.labels, **labels},
            annotations=template.metadata.annotations,
            owner_references=(reference,),
        ),
        spec=spec,
    )
