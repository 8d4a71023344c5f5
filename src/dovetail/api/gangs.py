"""Objects that say how many pods of a group must run together: what is read of them, and their schemas.

Each scheduler that places gangs has its own: coscheduling, Volcano, and kube-scheduler itself (a Workload in
1.35, a PodGroup since 1.36). A cluster has the kinds of the scheduler that it uses, if any.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from dovetail.api.karpenter.common_schema import ANY, INTEGER, RESOURCES, STRING, STRINGS, document
from dovetail.api.meta import Object, Part
from dovetail.api.schema import Schema


class MinMember(Part, frozen=True, kw_only=True):
    min_member: int = 0


class CoschedulingGroup(Object, frozen=True, kw_only=True):
    """The PodGroup of the scheduler plugin coscheduling."""

    API_VERSION: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"
    KIND: ClassVar[str] = "PodGroup"
    PLURAL: ClassVar[str] = "podgroups"

    spec: MinMember = MinMember()


class VolcanoGroup(Object, frozen=True, kw_only=True):
    """The PodGroup of Volcano."""

    API_VERSION: ClassVar[str] = "scheduling.volcano.sh/v1beta1"
    KIND: ClassVar[str] = "PodGroup"
    PLURAL: ClassVar[str] = "podgroups"

    spec: MinMember = MinMember()


class GangPolicy(Part, frozen=True, kw_only=True):
    min_count: int = 0


class Policy(Part, frozen=True, kw_only=True):
    gang: GangPolicy | None = None  # without it each pod is on its own


class PodGroupSpec(Part, frozen=True, kw_only=True):
    scheduling_policy: Policy = Policy()


class PodGroup(Object, frozen=True, kw_only=True):
    """Kubernetes' own, since 1.36."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    KIND: ClassVar[str] = "PodGroup"
    PLURAL: ClassVar[str] = "podgroups"

    spec: PodGroupSpec = PodGroupSpec()


class WorkloadGroup(Part, frozen=True, kw_only=True):
    name: str
    policy: Policy = Policy()


class WorkloadSpec(Part, frozen=True, kw_only=True):
    pod_groups: tuple[WorkloadGroup, ...] = ()


class Workload(Object, frozen=True, kw_only=True):
    """Kubernetes' own in 1.35."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha1"
    KIND: ClassVar[str] = "Workload"
    PLURAL: ClassVar[str] = "workloads"

    spec: WorkloadSpec = WorkloadSpec()


GANG_KINDS: tuple[type[Object], ...] = (CoschedulingGroup, VolcanoGroup, PodGroup, Workload)


def schema(version: str, kind: str) -> Schema | None:
    """The schema of one of these kinds that Kubernetes' own tables lack; None for another."""
    spec = {
        (CoschedulingGroup.API_VERSION, CoschedulingGroup.KIND): _coscheduling,
        (VolcanoGroup.API_VERSION, VolcanoGroup.KIND): _volcano,
        (Workload.API_VERSION, Workload.KIND): _workload,
    }.get((version, kind))
    return None if spec is None else document(spec())


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return Schema(type="object", properties=properties, required=required)


@lru_cache(maxsize=1)
def _coscheduling() -> Schema:
    return _object(minMember=INTEGER, minResources=RESOURCES, scheduleTimeoutSeconds=INTEGER)


@lru_cache(maxsize=1)
def _volcano() -> Schema:
    return _object(
        minMember=INTEGER,
        minTaskMember=Schema(type="object", values=INTEGER),
        minResources=RESOURCES,
        queue=STRING,
        priorityClassName=STRING,
        networkTopology=ANY,
        subGroupPolicy=ANY,
    )


@lru_cache(maxsize=1)
def _workload() -> Schema:
    policy = _object(basic=Schema(type="object", values=ANY), gang=_object(("minCount",), minCount=INTEGER))
    return _object(
        ("podGroups",),
        controllerRef=STRINGS,
        podGroups=Schema(type="array", items=_object(("name", "policy"), name=STRING, policy=policy)),
    )
