"""CapacityBuffers as values: what one keeps room for, how much, and the virtual pods that stand for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.api.core import Affinity, Pod, PodSpec, PodStatus, PodTemplateSpec, ResourceList
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer, ScalableRef
from dovetail.api.meta import Condition, Meta, Object
from dovetail.api.namespaces import LimitRange
from dovetail.api.pod_resources import with_requests
from dovetail.api.workloads import Deployment, PodTemplate, ReplicaSet, RuntimeClass, StatefulSet
from dovetail.model import labels
from dovetail.model.pod_admission import completed
from dovetail.model.resources import CPU, pod_requests

READY_FOR_PROVISIONING = "ReadyForProvisioning"
PROVISIONING = "Provisioning"
RESOLVED = "Resolved"
_SCALABLE: dict[str, type[Deployment | StatefulSet | ReplicaSet]] = {
    kind.KIND: kind for kind in (Deployment, StatefulSet, ReplicaSet)
}
_LOWEST = -(2**31)  # priority: below that of every real pod
_MOST_REPLICAS = 2**31 - 1  # the definition has 32 bits for them
# Virtual pods of one buffer and of all together that plans look at: whoever may create a buffer may write any
# number into it, and each of them is a pod of every pass. What is beyond counts as without a place.
MOST_OF_ONE = 1_000
MOST_OF_ALL = 5_000

# The object of a kind with a key, if there is one.
Lookup = Callable[[type[Object], str], Object | None]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a buffer's reference came to: a template, or the reason why there is none.

    `generation` is that of a PodTemplate, `scale` the replicas of a workload; None for the other one.
    `unsupported`: the reference is to something that no controller could ever resolve.
    """

    reason: str
    message: str
    template: PodTemplateSpec | None = None
    generation: int | None = None
    scale: int | None = None
    unsupported: bool = False


def resolve(buffer: CapacityBuffer, lookup: Lookup, ranges: Iterable[LimitRange] = ()) -> Resolution:
    """Find the template, as an API server with these ranges would complete pods of it.

    Of two references that to a PodTemplate counts.
    """
    found = _found(buffer, lookup)
    if found.template is None:
        return found
    namespace, spec = buffer.metadata.namespace, _with_requests(found.template.spec)
    own = sorted((one for one in ranges if one.metadata.namespace == namespace), key=lambda one: one.key)
    runtime = lookup(RuntimeClass, spec.runtime_class_name) if spec.runtime_class_name else None
    runtimes = {runtime.metadata.name: runtime} if isinstance(runtime, RuntimeClass) else {}
    spec, _ = completed(spec, own, runtimes)
    return dataclasses.replace(found, template=replace(found.template, spec=spec))


def _found(buffer: CapacityBuffer, lookup: Lookup) -> Resolution:
    spec, namespace = buffer.spec, buffer.metadata.namespace
    if spec.pod_template_ref is not None:
        name = spec.pod_template_ref.name
        found = lookup(PodTemplate, f"{namespace}/{name}")
        if not isinstance(found, PodTemplate):
            return Resolution("PodTemplateNotFound", f'podtemplates "{name}" not found')
        return _resolved(found.template, generation=found.metadata.generation)
    if spec.scalable_ref is not None:
        return _workload(spec.scalable_ref, namespace, lookup)
    return Resolution("ResolutionFailed", "Neither podTemplateRef nor scalableRef is set")


def _workload(ref: ScalableRef, namespace: str, lookup: Lookup) -> Resolution:
    if ref.api_group not in ("", "apps"):
        text = f'unsupported scalableRef API group "{ref.api_group}"'
        return Resolution("ResolutionFailed", text, unsupported=True)
    kind = _SCALABLE.get(ref.kind)
    if kind is None:
        return Resolution("ResolutionFailed", f'unsupported kind "{ref.kind}"', unsupported=True)
    found = lookup(kind, f"{namespace}/{ref.name}")
    if not isinstance(found, Deployment | StatefulSet | ReplicaSet):
        return Resolution("ScalableRefNotFound", f'{kind.PLURAL}.apps "{ref.name}" not found')
    return _resolved(found.spec.template, scale=found.spec.replicas)


def _resolved(
    template: PodTemplateSpec, *, generation: int | None = None, scale: int | None = None
) -> Resolution:
    return Resolution(RESOLVED, "Pod template resolved successfully", template, generation, scale)


def replicas(buffer: CapacityBuffer, found: Resolution) -> int:
    """How many units to keep: the larger of replicas and percentage, or what the limits hold if that is less.

    Limits alone are filled. (The field's text calls the smaller one of the two the size; Karpenter, whose
    answers these are, takes the larger one.)
    """
    spec = buffer.spec
    wanted = [] if spec.replicas is None else [spec.replicas]
    if spec.percentage is not None and found.scale:
        wanted.append(-(-found.scale * spec.percentage // 100))
    held = _held(spec.limits, found)
    if held is not None:
        wanted = [min(max(wanted), held)] if wanted else [held]
    return max(0, min(max(wanted, default=0), _MOST_REPLICAS))


def _held(limits: ResourceList, found: Resolution) -> int | None:
    """How many units go into the limits; None if these are about nothing that a unit asks for."""
    if not limits or found.template is None:
        return None
    asked = pod_requests(Pod(spec=_spec(found.template.spec)))
    held = [
        limit.nanos // (asked[name] * (1_000_000 if name == CPU else 1_000_000_000))
        for name, limit in limits.items()
        if asked.get(name, 0) > 0
    ]
    return min(held, default=None)


def virtual_pods(buffer: CapacityBuffer, template: PodTemplateSpec, number: int) -> tuple[Pod, ...]:
    """The first of the pods that stand for the buffer's units: never created, bound or nominated.

    Annotations of the template are not theirs, nor are its volumes that are made or claimed for one pod.
    """
    meta = buffer.metadata
    first = Pod(
        metadata=Meta(
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations={
                labels.BUFFER_POD: "true",
                labels.BUFFER_NAME: meta.name,
                labels.BUFFER_NAMESPACE: meta.namespace,
            },
        ),
        spec=_spec(template.spec),
        status=PodStatus(
            conditions=(Condition(type="PodScheduled", status="False", reason="Unschedulable"),)
        ),
    )
    # They share what they have in common, which shows that they are alike and keeps many of them small.
    return tuple(
        replace(
            first,
            metadata=replace(
                first.metadata, name=f"capacity-buffer-{meta.name}-{index}", uid=f"{meta.uid}-{index}"
            ),
        )
        for index in range(1, number + 1)
    )


def _spec(spec: PodSpec) -> PodSpec:
    """Without what it only prefers: the room is there for pods of it as well, and no node is worth that.

    (Three of six units went where a wish to be spread had them, and a node was bought for two of another
    buffer that the others had room for.)
    """
    return replace(
        spec,
        affinity=_required(spec.affinity),
        topology_spread_constraints=tuple(
            one for one in spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"
        ),
        node_name="",
        volumes=tuple(
            volume
            for volume in spec.volumes
            if volume.persistent_volume_claim is None and volume.ephemeral is None
        ),
        priority=_LOWEST,
        priority_class_name="",
    )


def _with_requests(spec: PodSpec) -> PodSpec:
    """What has a limit alone asks for as much."""
    return replace(
        spec,
        containers=tuple(map(with_requests, spec.containers)),
        init_containers=tuple(map(with_requests, spec.init_containers)),
    )


def _required(affinity: Affinity | None) -> Affinity | None:
    if affinity is None:
        return None
    node, near, apart = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    return replace(
        affinity,
        node_affinity=node and replace(node, preferred=()),
        pod_affinity=near and replace(near, preferred=()),
        pod_anti_affinity=apart and replace(apart, preferred=()),
    )


def bounded(wanted: Mapping[str, int]) -> dict[str, int]:
    """By key of a buffer, how many of the pods it wants are looked at.

    Namespaces share evenly what all may have, and so do the buffers of one: none is smaller for what others
    want beyond their share.
    """
    capped = {key: min(number, MOST_OF_ONE) for key, number in wanted.items()}
    by_namespace: dict[str, dict[str, int]] = {}
    for key, number in sorted(capped.items()):
        by_namespace.setdefault(key.partition("/")[0], {})[key] = number
    shares = _shares({name: sum(each.values()) for name, each in by_namespace.items()}, MOST_OF_ALL)
    found: dict[str, int] = {}
    for name, each in by_namespace.items():
        found.update(_shares(each, shares[name]))
    return found


def _shares(wanted: Mapping[str, int], most: int) -> dict[str, int]:
    found: dict[str, int] = {}
    left = len(wanted)
    for name, number in sorted(wanted.items(), key=lambda item: (item[1], item[0])):
        found[name] = min(number, most // left)
        most -= found[name]
        left -= 1
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """A condition as it is to be written."""

    status: str
    reason: str
    message: str


def provisioning(
    found: Resolution, wanted: int, pods: Iterable[Pod], bought: Iterable[str], left: Iterable[str]
) -> Standing:
    """The condition Provisioning after a pass: which of the buffer's pods (by key) needed new capacity.

    `left` are those without a place; so are those that are wanted beyond the `pods` that were looked at.
    """
    if found.template is None:
        return Standing("False", "NotReadyForProvisioning", "Buffer is not ReadyForProvisioning")
    if not wanted:
        return Standing("False", "BufferEmpty", "Buffer has zero desired replicas")
    keys = {pod.key for pod in pods}
    new = len(keys.intersection(bought))
    failed = len(keys.intersection(left)) + wanted - len(keys)
    if new or failed:
        text = f"{new}/{wanted} virtual pods required new capacity, {failed} failed"
        return Standing("False", "RequiresNewCapacity", text)
    return Standing("True", "FitsExistingCapacity", f"All {wanted} virtual pods fit on existing capacity")
