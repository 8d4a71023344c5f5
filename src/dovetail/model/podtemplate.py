"""The pods that workloads make of their templates, with what their controllers add to them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import ClaimVolumeSource, PersistentVolumeClaim, Pod, PodSpec, PodTemplateSpec, Volume
from dovetail.api.meta import Meta, Object, OwnerReference
from dovetail.api.workloads import (
    CronJob,
    Deployment,
    DeploymentStrategy,
    IntOrString,
    Job,
    JobSpec,
    ReplicaSet,
    StatefulSet,
)
from dovetail.base.memo import by_identity

Workload = Deployment | ReplicaSet | StatefulSet | Job | CronJob

HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"  # a label and an annotation
_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
# No vowels and no look-alikes (0, 1, 3), as in apimachinery's util/rand.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def pods_of(workload: Workload, existing: Collection[Pod] = ()) -> tuple[Pod, ...]:
    """The pods that are missing beside the `existing` ones of it: `<workload>-<index>`, no node yet.

    Of a Job, as many as run at once; of a CronJob, those of one run; none while either is suspended.
    DaemonSets are not here: their pods belong to nodes, and solvers count them as overhead.
    """
    if isinstance(workload, CronJob):
        if workload.spec.suspend:
            return ()
        return _of_job(workload, workload.spec.job_template.spec, "", 0, existing)
    if isinstance(workload, Job):
        done = workload.status
        return _of_job(workload, workload.spec, done.completed_indexes, done.succeeded, existing)
    if isinstance(workload, StatefulSet):
        revision = _newest(existing, REVISION_LABEL) or revision_of(workload)
        names = {pod.metadata.name for pod in existing}
        pods = (stateful_pod(workload, number, revision) for number in workload.spec.numbers)
        return tuple(pod for pod in pods if pod.metadata.name not in names)
    labels = {}
    if isinstance(workload, Deployment):
        labels[HASH_LABEL] = _newest(existing, HASH_LABEL) or template_hash(workload.spec.template)
    first = from_template(workload, workload.spec.template, "", labels=labels)
    return _alike(first, range(len(existing), workload.spec.replicas))


def _of_job(
    owner: Job | CronJob, spec: JobSpec, completed: str, succeeded: int, existing: Collection[Pod]
) -> tuple[Pod, ...]:
    wanted = at_once(spec, succeeded)
    first = from_template(owner, spec.template, "", labels=job_labels(owner))
    if not indexed(spec):
        return _alike(first, range(len(existing), wanted))
    taken = {pod.metadata.annotations.get(COMPLETION_INDEX) for pod in existing}
    free = (number for number in _open(completed, spec.completions or 0) if str(number) not in taken)
    pods = []
    for number in islice(free, max(0, wanted - len(existing))):
        meta = msgspec.structs.replace(
            first.metadata,
            name=f"{owner.metadata.name}-{number}",
            labels={**first.metadata.labels, COMPLETION_INDEX: str(number)},
            annotations={**first.metadata.annotations, **index_annotations(spec, number)},
        )
        pods.append(Pod(metadata=meta, spec=first.spec))
    return tuple(pods)


def volume_claims_of(workload: StatefulSet) -> tuple[PersistentVolumeClaim, ...]:
    """The volume claims of all its pods, one per claim template and pod."""
    if not workload.spec.volume_claim_templates:
        return ()  # however many replicas it has
    return tuple(claim for number in workload.spec.numbers for claim in claims_of_pod(workload, number))


def claims_of_pod(workload: StatefulSet, number: int) -> tuple[PersistentVolumeClaim, ...]:
    """The volume claims of one of its pods."""
    return tuple(
        PersistentVolumeClaim(
            metadata=Meta(
                name=_claim_name(claim, f"{workload.metadata.name}-{number}"),
                namespace=workload.metadata.namespace,
                labels={**claim.metadata.labels, **workload.spec.selector.match_labels},
                annotations=claim.metadata.annotations,
            ),
            spec=claim.spec,
        )
        for claim in workload.spec.volume_claim_templates
    )


def deployment_of(pod: Pod) -> str:
    """Key of the Deployment that the pod's ReplicaSet is of, by their names; "" for any other pod."""
    owner, digest = pod.metadata.controller(), pod.metadata.labels.get(HASH_LABEL, "")
    if owner is None or owner.kind != "ReplicaSet" or not digest or not owner.name.endswith(f"-{digest}"):
        return ""
    return f"{pod.metadata.namespace}/{owner.name[: -len(digest) - 1]}"


def rolling_limits(strategy: DeploymentStrategy, replicas: int) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods: a surge is rounded up, unavailability down; never both 0."""
    surge = _resolve(strategy.rolling_update.max_surge, replicas, up=True)
    unavailable = _resolve(strategy.rolling_update.max_unavailable, replicas, up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _resolve(value: IntOrString, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas
    return -(-share // 100) if up else share // 100


@by_identity(1024)
def template_hash(template: PodTemplateSpec) -> str:
    """The pod-template-hash label: equal for equal templates, in the alphabet of Kubernetes.

    It covers the fields that Dovetail reads; a change of any other field does not roll the pods.
    """
    text = json.dumps(encode(template), sort_keys=True, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    decimal = str(int.from_bytes(digest, "big"))
    # A digit's character code picks from the alphabet: how Kubernetes keeps words out of the hash.
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in decimal)


def revision_of(workload: StatefulSet) -> str:
    """Its controller-revision-hash label; a DaemonSet's is the hash of its template alone."""
    return f"{workload.metadata.name}-{template_hash(workload.spec.template)}"


def at_once(spec: JobSpec, succeeded: int) -> int:
    """How many pods of a job run at once."""
    if spec.suspend:
        return 0
    if spec.completions is None:
        return spec.parallelism
    return min(spec.parallelism, max(0, spec.completions - succeeded))


def indexed(spec: JobSpec) -> bool:
    """True iff each pod of the job has a number of its own."""
    return spec.completion_mode == "Indexed"


def job_labels(job: Job | CronJob) -> dict[str, str]:
    """What a job's pods are called by. One that no server has is known by its name in place of a UID."""
    meta = job.metadata
    labels = {"controller-uid": meta.uid or meta.name, "job-name": meta.name}
    return labels | {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}


def index_annotations(spec: JobSpec, number: int) -> dict[str, str]:
    """What a pod of an indexed job is annotated with."""
    found = {COMPLETION_INDEX: str(number)}
    return found if spec.backoff_limit_per_index is None else {**found, _INDEX_FAILURES: "0"}


def stateful_pod(owner: StatefulSet, number: int, revision: str) -> Pod:
    """A stateful pod: its name is its identity, and each claim template becomes a volume of its own."""
    name = f"{owner.metadata.name}-{number}"
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
    labels = {
        REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
    }
    spec = msgspec.structs.replace(owner.spec.template.spec, volumes=(*kept, *claimed))
    return from_template(owner, owner.spec.template, name, labels=labels, spec=spec)


def owner_reference(owner: Object) -> OwnerReference:
    """The reference that makes `owner` the controller of a child."""
    return OwnerReference(
        api_version=owner.API_VERSION,
        kind=owner.KIND,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def from_template(
    owner: Object,
    template: PodTemplateSpec,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: PodSpec | None = None,
) -> Pod:
    """A pod of `template` owned by `owner`: labels and annotations are added, `spec` replaces its own."""
    return Pod(
        metadata=Meta(
            name=name,
            namespace=owner.metadata.namespace,
            labels={**template.metadata.labels, **(labels or {})},
            annotations={**template.metadata.annotations, **(annotations or {})},
            owner_references=(owner_reference(owner),),
        ),
        spec=template.spec if spec is None else spec,
    )


def _alike(first: Pod, indices: Iterable[int]) -> tuple[Pod, ...]:
    """Pods that share what they have in common, which shows that they are alike and keeps them small."""
    owner = first.metadata.owner_references[0].name
    return tuple(
        Pod(metadata=msgspec.structs.replace(first.metadata, name=f"{owner}-{index}"), spec=first.spec)
        for index in indices
    )


def _claim_name(claim: PersistentVolumeClaim, pod: str) -> str:
    return f"{claim.metadata.name}-{pod}"


def _newest(pods: Collection[Pod], label: str) -> str:
    """What the newest of the pods has there: a revision is called as the server calls it, if it is known."""
    found = max(pods, key=lambda pod: pod.metadata.creation_timestamp, default=None)
    return found.metadata.labels.get(label, "") if found is not None else ""


def _open(completed: str, count: int) -> Iterator[int]:
    """The numbers below `count` that are not among "1,3-5"; what is no such text completes nothing."""
    after = 0
    for first, last in sorted((int(one[1]), int(one[2] or one[1])) for one in _RANGE.finditer(completed)):
        yield from range(after, min(first, count))
        after = max(after, last + 1)
    yield from range(after, count)
