"""Core kinds: Pod, Node, Namespace, volumes, Event and their parts."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from dovetail.api.meta import Condition, LabelSelector, Object, Part
from dovetail.units.quantity import Quantity

ResourceList = dict[str, Quantity]


class Taint(Part, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: str = ""


class Toleration(Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class SelectorRequirement(Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Part, frozen=True, kw_only=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Part, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Part, frozen=True, kw_only=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Part, frozen=True, kw_only=True):
    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(Part, frozen=True, kw_only=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Part, frozen=True, kw_only=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Part, frozen=True, kw_only=True):
    """Also the shape of podAntiAffinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Part, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Part, frozen=True, kw_only=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ContainerClaim(Part, frozen=True, kw_only=True):
    """A claim of the pod, by its name in `spec.resourceClaims`, or one request of it."""

    name: str
    request: str = ""


class ResourceRequirements(Part, frozen=True, kw_only=True):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(Part, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(Part, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class ClaimVolumeSource(Part, frozen=True, kw_only=True):
    claim_name: str


class ClaimSpec(Part, frozen=True, kw_only=True):
    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()


class ClaimTemplate(Part, frozen=True, kw_only=True):
    spec: ClaimSpec = ClaimSpec()


class EphemeralVolumeSource(Part, frozen=True, kw_only=True):
    volume_claim_template: ClaimTemplate = ClaimTemplate()


class CsiVolumeSource(Part, frozen=True, kw_only=True):
    driver: str
    volume_handle: str = ""


class EmptyDirVolumeSource(Part, frozen=True, kw_only=True):
    medium: str = ""


class HostPathVolumeSource(Part, frozen=True, kw_only=True):
    path: str = ""


class Volume(Part, frozen=True, kw_only=True):
    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CsiVolumeSource | None = None


class SchedulingGate(Part, frozen=True, kw_only=True):
    name: str


class PodResourceClaim(Part, frozen=True, kw_only=True):
    """A claim that exists already, or one that is made for the pod from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class WorkloadReference(Part, frozen=True, kw_only=True):
    """Of Kubernetes 1.35: which group of which Workload the pod is of."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSchedulingGroup(Part, frozen=True, kw_only=True):
    """Since Kubernetes 1.36: which PodGroup the pod is of."""

    pod_group_name: str = ""


class PodSpec(Part, frozen=True, kw_only=True, weakref=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    runtime_class_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduler_name: str = "default-scheduler"
    workload_ref: WorkloadReference | None = None
    scheduling_group: PodSchedulingGroup | None = None
    host_network: bool = False


class PodResourceClaimStatus(Part, frozen=True, kw_only=True):
    """The claim that was made from a template; without one the pod turned out to need none."""

    name: str
    resource_claim_name: str = ""


class GrantedResources(Part, frozen=True, kw_only=True):
    """Of a running container, what it was started with or resized to in place."""

    requests: ResourceList = {}


_granted: dict[tuple[tuple[str, Quantity], ...], ResourceList] = {}
_MOST_GRANTED = 4_096  # that are remembered: replicas are given the same, and statuses of all pods are kept


def _shared(given: ResourceList) -> ResourceList:
    """The same for all containers that are given as much: a dict of two takes as much as all else of them."""
    if not given:
        return given
    if len(_granted) >= _MOST_GRANTED:
        _granted.clear()
    return _granted.setdefault(tuple(given.items()), given)


class ContainerStatus(Part, frozen=True, kw_only=True):
    """Of servers since 1.33, what the kubelet has given a container, whatever its spec asks for by now.

    `resources` is None where nothing of it is said.
    """

    name: str = ""
    resources: GrantedResources | None = None
    allocated_resources: ResourceList = {}

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "allocated_resources", _shared(self.allocated_resources))
        if self.resources is not None:
            shared = GrantedResources(requests=_shared(self.resources.requests))
            msgspec.structs.force_setattr(self, "resources", shared)


class PodStatus(Part, frozen=True, kw_only=True):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    start_time: str = ""
    reason: str = ""
    message: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Pod"
    PLURAL: ClassVar[str] = "pods"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminal(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


class PodTemplateMeta(Part, frozen=True, kw_only=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplateSpec(Part, frozen=True, kw_only=True):
    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodSpec = PodSpec()


class NodeSpec(Part, frozen=True, kw_only=True):
    provider_id: str = msgspec.field(name="providerID", default="")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeSystemInfo(Part, frozen=True, kw_only=True):
    boot_id: str = msgspec.field(name="bootID", default="")


class NodeStatus(Part, frozen=True, kw_only=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Node"
    PLURAL: ClassVar[str] = "nodes"
    NAMESPACED: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Namespace"
    PLURAL: ClassVar[str] = "namespaces"
    NAMESPACED: ClassVar[bool] = False


class PersistentVolumeClaimStatus(Part, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolumeClaim"
    PLURAL: ClassVar[str] = "persistentvolumeclaims"

    spec: ClaimSpec = ClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Part, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class ObjectReference(Part, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class PersistentVolumeSpec(Part, frozen=True, kw_only=True):
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    csi: CsiVolumeSource | None = None
    aws_elastic_block_store: dict[str, Any] | None = None  # of before CSI
    local: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    capacity: ResourceList = {}
    claim_ref: ObjectReference | None = None


class PersistentVolume(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolume"
    PLURAL: ClassVar[str] = "persistentvolumes"
    NAMESPACED: ClassVar[bool] = False

    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class EventSource(Part, frozen=True, kw_only=True):
    component: str = ""


class Event(Object, frozen=True, kw_only=True):
    """core/v1 Event."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Event"
    PLURAL: ClassVar[str] = "events"

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: str = ""
    last_timestamp: str = ""
    source: EventSource = EventSource()


class Secret(Object, frozen=True, kw_only=True):
    """core/v1 Secret: the values are in base64."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Secret"
    PLURAL: ClassVar[str] = "secrets"

    type: str = ""
    data: dict[str, str] = {}
