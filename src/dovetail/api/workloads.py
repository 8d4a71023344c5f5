"""Kinds that make pods, scale them or protect them: apps, batch, autoscaling, policy, storage."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.core import (
    NodeSelectorTerm,
    PersistentVolumeClaim,
    PodTemplateMeta,
    PodTemplateSpec,
    ResourceList,
    SelectorRequirement,
    Toleration,
)
from dovetail.api.meta import Condition, LabelSelector, Object, Part
from dovetail.units.quantity import Quantity

IntOrString = int | str


class RollingUpdate(Part, frozen=True, kw_only=True):
    max_surge: IntOrString = "25%"
    max_unavailable: IntOrString = "25%"


class DeploymentStrategy(Part, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class ScaleStatus(Part, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    observed_generation: int = 0


class DeploymentStatus(Part, frozen=True, kw_only=True):
    replicas: int = 0
    updated_replicas: int = 0  # of the newest template
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class DeploymentSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    paused: bool = False
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()


class Deployment(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "Deployment"
    PLURAL: ClassVar[str] = "deployments"

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ReplicaSet"
    PLURAL: ClassVar[str] = "replicasets"

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ScaleStatus = ScaleStatus()


class StatefulSetOrdinals(Part, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def numbers(self) -> range:
        """The numbers of its pods."""
        return range(self.ordinals.start, self.ordinals.start + self.replicas)


class StatefulSet(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "StatefulSet"
    PLURAL: ClassVar[str] = "statefulsets"

    spec: StatefulSetSpec = StatefulSetSpec()
    status: ScaleStatus = ScaleStatus()


class DaemonSetSpec(Part, frozen=True, kw_only=True):
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "DaemonSet"
    PLURAL: ClassVar[str] = "daemonsets"

    spec: DaemonSetSpec = DaemonSetSpec()


class PodTemplate(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PodTemplate"
    PLURAL: ClassVar[str] = "podtemplates"

    template: PodTemplateSpec = PodTemplateSpec()


class JobSpec(Part, frozen=True, kw_only=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Part, frozen=True, kw_only=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""  # such as "1,3-5"
    start_time: str = ""
    completion_time: str = ""
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "Job"
    PLURAL: ClassVar[str] = "jobs"

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(Part, frozen=True, kw_only=True):
    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Part, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    suspend: bool = False
    concurrency_policy: str = "Allow"
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    job_template: JobTemplate = JobTemplate()


class CronJobStatus(Part, frozen=True, kw_only=True):
    last_schedule_time: str = ""


class CronJob(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "CronJob"
    PLURAL: ClassVar[str] = "cronjobs"

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class CrossVersionObjectReference(Part, frozen=True, kw_only=True):
    kind: str
    name: str
    api_version: str = ""


class MetricTarget(Part, frozen=True, kw_only=True):
    type: str
    average_utilization: int | None = None
    average_value: Quantity | None = None


class ResourceMetric(Part, frozen=True, kw_only=True):
    name: str
    target: MetricTarget


class MetricIdentifier(Part, frozen=True, kw_only=True):
    name: str


class ExternalMetric(Part, frozen=True, kw_only=True):
    metric: MetricIdentifier
    target: MetricTarget


class MetricSpec(Part, frozen=True, kw_only=True):
    type: str
    resource: ResourceMetric | None = None
    external: ExternalMetric | None = None


class ScalingPolicy(Part, frozen=True, kw_only=True):
    type: str
    value: int
    period_seconds: int


class ScalingRules(Part, frozen=True, kw_only=True):
    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()


class ScalingBehavior(Part, frozen=True, kw_only=True):
    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


class HorizontalPodAutoscalerSpec(Part, frozen=True, kw_only=True):
    scale_target_ref: CrossVersionObjectReference
    max_replicas: int
    min_replicas: int = 1
    metrics: tuple[MetricSpec, ...] = ()
    behavior: ScalingBehavior | None = None


class HorizontalPodAutoscalerStatus(Part, frozen=True, kw_only=True):
    current_replicas: int = 0
    desired_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class HorizontalPodAutoscaler(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "autoscaling/v2"
    KIND: ClassVar[str] = "HorizontalPodAutoscaler"
    PLURAL: ClassVar[str] = "horizontalpodautoscalers"

    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


class PodDisruptionBudgetSpec(Part, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(Part, frozen=True, kw_only=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}  # evicted but not seen to go yet: name -> when


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"
    PLURAL: ClassVar[str] = "poddisruptionbudgets"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class TopologyExpression(Part, frozen=True, kw_only=True):
    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Part, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyExpression, ...] = ()

    def as_node_selector_term(self) -> NodeSelectorTerm:
        """This rule as a node selector term (each expression is an In)."""
        return NodeSelectorTerm(
            match_expressions=tuple(
                SelectorRequirement(key=item.key, operator="In", values=item.values)
                for item in self.match_label_expressions
            )
        )


class StorageClass(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "StorageClass"
    PLURAL: ClassVar[str] = "storageclasses"
    NAMESPACED: ClassVar[bool] = False

    provisioner: str = ""
    parameters: dict[str, str] = {}
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class CsiAllocatable(Part, frozen=True, kw_only=True):
    count: int | None = None


class CsiNodeDriver(Part, frozen=True, kw_only=True):
    name: str
    allocatable: CsiAllocatable = CsiAllocatable()


class CsiNodeSpec(Part, frozen=True, kw_only=True):
    drivers: tuple[CsiNodeDriver, ...] = ()


class CSINode(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSINode"
    PLURAL: ClassVar[str] = "csinodes"
    NAMESPACED: ClassVar[bool] = False

    spec: CsiNodeSpec = CsiNodeSpec()


class VolumeAttachmentSource(Part, frozen=True, kw_only=True):
    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Part, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "VolumeAttachment"
    PLURAL: ClassVar[str] = "volumeattachments"
    NAMESPACED: ClassVar[bool] = False

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


# Of the classes that every cluster has.
BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClass(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"
    PLURAL: ClassVar[str] = "priorityclasses"
    NAMESPACED: ClassVar[bool] = False

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class Overhead(Part, frozen=True, kw_only=True):
    pod_fixed: ResourceList = {}


class RuntimeScheduling(Part, frozen=True, kw_only=True):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "node.k8s.io/v1"
    KIND: ClassVar[str] = "RuntimeClass"
    PLURAL: ClassVar[str] = "runtimeclasses"
    NAMESPACED: ClassVar[bool] = False

    overhead: Overhead | None = None
    scheduling: RuntimeScheduling = RuntimeScheduling()
