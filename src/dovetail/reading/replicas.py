"""How many pods workloads ask for, counted before any is made."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.api.keda import ScaledJob, ScaledObject
from dovetail.api.workloads import CronJob, Deployment, HorizontalPodAutoscaler, Job, ReplicaSet, StatefulSet
from dovetail.base.errors import InputError
from dovetail.reading.manifests import Manifest


def refuse_too_many(asking: Iterable[Manifest], most: int, taker: str) -> None:
    """Raises InputError, at the workload that asks for most, if they ask for more than `most` pods in all."""
    counted = [(replicas(item), item) for item in asking]
    count = sum(number for number, _ in counted)
    if count <= most:
        return
    number, item = max(counted, key=lambda pair: pair[0])
    path = "spec.parallelism" if isinstance(item.object, Job) else "spec.replicas"
    if isinstance(item.object, CronJob):
        path = "spec.jobTemplate.spec.parallelism"
    message = f"the workloads ask for {count:,} pods, {number:,} of them this one; {taker} takes {most:,}"
    raise _refusal(item, path, message, "ask for fewer replicas")


def refuse_endless(scaling: Iterable[Manifest], most: int, taker: str) -> None:
    """Raises InputError for what may make a workload larger than `most` pods by itself."""
    for item in scaling:
        made = item.object
        if isinstance(made, HorizontalPodAutoscaler):
            number, path = made.spec.max_replicas, "spec.maxReplicas"
        elif isinstance(made, ScaledObject | ScaledJob):
            number, path = made.spec.max_replica_count, "spec.maxReplicaCount"
        else:
            continue
        if number > most:
            message = f"it may ask for {number:,} pods; {taker} takes {most:,}"
            raise _refusal(item, path, message, "set a smaller maximum")


def _refusal(item: Manifest, path: str, message: str, remedy: str) -> InputError:
    kind, name = item.written
    return InputError(
        message,
        source=item.source,
        line=item.located.line_of(path),
        kind=kind,
        name=name,
        path=path,
        remedy=remedy,
    )


def replicas(item: Manifest) -> int:
    """How many pods a workload asks for at once, at most; 0 of anything else."""
    made = item.object
    if isinstance(made, CronJob):
        return made.spec.job_template.spec.parallelism
    if isinstance(made, Job):
        return 0 if made.spec.suspend else made.spec.parallelism
    return made.spec.replicas if isinstance(made, Deployment | ReplicaSet | StatefulSet) else 0
