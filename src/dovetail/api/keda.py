"""keda.sh/v1alpha1 ScaledObject and ScaledJob: what is read of them, and what their definitions admit."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from dovetail.api.core_schema import core_type
from dovetail.api.karpenter.common_schema import BOOLEAN, INTEGER, STRING, STRINGS, document
from dovetail.api.meta import Condition, Object, Part
from dovetail.api.schema import Schema
from dovetail.api.workloads import JobSpec, ScalingBehavior

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"


class ScaleTarget(Part, frozen=True, kw_only=True):
    name: str
    api_version: str = "apps/v1"
    kind: str = "Deployment"


class Trigger(Part, frozen=True, kw_only=True):
    type: str
    metadata: dict[str, str] = {}
    name: str = ""
    metric_type: str = ""


class HorizontalPodAutoscalerConfig(Part, frozen=True, kw_only=True):
    name: str = ""
    behavior: ScalingBehavior | None = None


class Advanced(Part, frozen=True, kw_only=True):
    horizontal_pod_autoscaler_config: HorizontalPodAutoscalerConfig | None = None


class ScaledObjectSpec(Part, frozen=True, kw_only=True):
    scale_target_ref: ScaleTarget
    triggers: tuple[Trigger, ...] = ()
    polling_interval: int = 30  # seconds, like the two cooldowns
    cooldown_period: int = 300
    initial_cooldown_period: int = 0
    idle_replica_count: int | None = None
    min_replica_count: int = 0
    max_replica_count: int = 100
    advanced: Advanced | None = None


class ScaledObjectStatus(Part, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    last_active_time: str = ""


class ScaledObject(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "keda.sh/v1alpha1"
    KIND: ClassVar[str] = "ScaledObject"
    PLURAL: ClassVar[str] = "scaledobjects"

    spec: ScaledObjectSpec
    status: ScaledObjectStatus = ScaledObjectStatus()


class ScalingStrategy(Part, frozen=True, kw_only=True):
    strategy: str = "default"


class ScaledJobSpec(Part, frozen=True, kw_only=True):
    job_target_ref: JobSpec
    triggers: tuple[Trigger, ...] = ()
    polling_interval: int = 30
    min_replica_count: int = 0
    max_replica_count: int = 100
    successful_jobs_history_limit: int = 100
    failed_jobs_history_limit: int = 100
    scaling_strategy: ScalingStrategy = ScalingStrategy()


class ScaledJob(Object, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "keda.sh/v1alpha1"
    KIND: ClassVar[str] = "ScaledJob"
    PLURAL: ClassVar[str] = "scaledjobs"

    spec: ScaledJobSpec
    status: ScaledObjectStatus = ScaledObjectStatus()


def schema(version: str, kind: str) -> Schema | None:
    """The schema of one of these kinds; None for another."""
    if version != ScaledObject.API_VERSION:
        return None
    spec = {ScaledObject.KIND: _scaled_object, ScaledJob.KIND: _scaled_job}.get(kind)
    return None if spec is None else document(spec())


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return Schema(type="object", properties=properties, required=required)


_TRIGGERS = Schema(
    type="array",
    items=_object(
        ("metadata", "type"),
        authenticationRef=_object(("name",), name=STRING, kind=STRING),
        metadata=STRINGS,
        metricType=STRING,
        name=STRING,
        type=STRING,
        useCachedMetrics=BOOLEAN,
    ),
)


@lru_cache(maxsize=1)
def _scaled_object() -> Schema:
    return _object(
        ("scaleTargetRef", "triggers"),
        scaleTargetRef=_object(
            ("name",), apiVersion=STRING, envSourceContainerName=STRING, kind=STRING, name=STRING
        ),
        triggers=_TRIGGERS,
        pollingInterval=INTEGER,
        cooldownPeriod=INTEGER,
        initialCooldownPeriod=INTEGER,
        idleReplicaCount=INTEGER,
        minReplicaCount=INTEGER,
        maxReplicaCount=INTEGER,
        fallback=_object(
            ("failureThreshold", "replicas"), failureThreshold=INTEGER, replicas=INTEGER, behavior=STRING
        ),
        advanced=_object(
            horizontalPodAutoscalerConfig=_object(
                behavior=core_type("V2HorizontalPodAutoscalerBehavior"), name=STRING
            ),
            restoreToOriginalReplicaCount=BOOLEAN,
            scalingModifiers=_object(
                formula=STRING, target=STRING, activationTarget=STRING, metricType=STRING
            ),
        ),
    )


@lru_cache(maxsize=1)
def _scaled_job() -> Schema:
    return _object(
        ("jobTargetRef", "triggers"),
        jobTargetRef=core_type("V1JobSpec"),
        triggers=_TRIGGERS,
        pollingInterval=INTEGER,
        minReplicaCount=INTEGER,
        maxReplicaCount=INTEGER,
        successfulJobsHistoryLimit=INTEGER,
        failedJobsHistoryLimit=INTEGER,
        envSourceContainerName=STRING,
        rolloutStrategy=STRING,
        rollout=_object(strategy=STRING, propagationPolicy=STRING),
        scalingStrategy=_object(
            strategy=STRING,
            customScalingQueueLengthDeduction=INTEGER,
            customScalingRunningJobPercentage=STRING,
            pendingPodConditions=Schema(type="array", items=STRING),
            multipleScalersCalculation=STRING,
        ),
    )
