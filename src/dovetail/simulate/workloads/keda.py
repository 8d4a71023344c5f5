"""KEDA's operator with the cron trigger.

A ScaledObject gets its workload off zero and back, and leaves the rest to an HPA; a ScaledJob makes Jobs.
Played are cron triggers and, for the HPA, `cpu` triggers with a utilisation; `not_played` names the others.
Every object is looked at once per polling interval, from its creation on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.api.codec import encode
from dovetail.api.keda import PAUSED, PAUSED_REPLICAS, ScaledJob, ScaledObject, ScaledObjectSpec, Trigger
from dovetail.api.meta import Condition, Meta
from dovetail.api.workloads import (
    CrossVersionObjectReference,
    Deployment,
    ExternalMetric,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    Job,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ResourceMetric,
    StatefulSet,
)
from dovetail.base.clock import SECOND
from dovetail.kube.recorder import Recorder
from dovetail.model.podtemplate import owner_reference
from dovetail.model.resources import CPU
from dovetail.simulate.workloads.autoscaler import since
from dovetail.simulate.workloads.base import Controller, Means
from dovetail.simulate.workloads.cronjob import expired
from dovetail.simulate.workloads.job import finished
from dovetail.simulate.workloads.keda_cron import CronTrigger, metric_name
from dovetail.simulate.workloads.pods import Standing
from dovetail.units.quantity import Quantity
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

_SCALER_NAME = "cronScaler"  # how KEDA calls a cron trigger that has no name
_NAME = "scaledjob.keda.sh/name"
_WORDS = {
    "ScalerActive": "Scaling is performed because triggers are active",
    "ScalerNotActive": "Scaling is not performed because triggers are not active",
    "ScalerCooldown": "Scaler cooling down because triggers are not active",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What one look comes to: `replicas` to set (None: as they are), and the condition Active."""

    replicas: int | None
    active: bool
    reason: str


def decide(
    spec: ScaledObjectSpec, replicas: int, *, active: bool, now: int, last_active: int | None, created: int
) -> Step:
    """The operator's step for a workload of `replicas`; instants in nanoseconds since 1970.

    What is active gets off zero (or off idleReplicaCount); what is not goes back once the cooldown since it
    was last active, or the initial cooldown since its creation if it never was, is over. All between is the
    HPA's.
    """
    least, idle = spec.min_replica_count, spec.idle_replica_count
    if active:
        asleep = replicas < least if idle is not None else replicas == 0
        return Step(max(least, 1) if asleep else None, True, "ScalerActive")
    rest = 0 if idle is None else idle
    if (idle is not None or least == 0) and replicas > rest:
        if last_active is None:
            over = created + spec.initial_cooldown_period * SECOND
        else:
            over = last_active + spec.cooldown_period * SECOND
        # The original asks for more than that, of an instant in whole seconds: at the look that comes just
        # then, a real clock has passed it by a fraction.
        return Step(rest, False, "ScalerNotActive") if over <= now else Step(None, False, "ScalerCooldown")
    wanted = least if idle is None and replicas < least else None
    return Step(wanted, False, "ScalerNotActive")


@dataclass(frozen=True, slots=True)
class JobCounts:
    running: int  # not finished
    pending: int  # of these without a pod that runs


def new_jobs(scaled: ScaledJob, counts: JobCounts, queue: int) -> int:
    """How many Jobs one look creates for a queue of that length (0: none is active), by its strategy."""
    spec = scaled.spec
    missing = spec.min_replica_count - counts.running
    if missing > 0:
        return missing if queue else 0
    beyond = counts.running - spec.min_replica_count
    most = min(queue, spec.max_replica_count)
    match spec.scaling_strategy.strategy:
        case "accurate":
            fits = most + beyond <= spec.max_replica_count
            room = most - counts.pending if fits else spec.max_replica_count - beyond
        case "eager":
            room = min(spec.max_replica_count - beyond - counts.pending, most)
        case _:
            room = most - beyond
    return max(0, min(room, queue))


_OF_RESOURCES = {"cpu", "memory"}  # types of triggers that are the HPA's alone


def not_played(scaled: ScaledObject | ScaledJob) -> tuple[str, ...]:
    """The types of its triggers that simulations leave out."""
    played = {"cron", "cpu"} if isinstance(scaled, ScaledObject) else {"cron"}
    return tuple(sorted({trigger.type for trigger in scaled.spec.triggers} - played))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the cron triggers of an object say at an instant."""

    names: tuple[str, ...]  # of the active ones
    value: int  # the largest metric


def _read(triggers: Iterable[Trigger], now: int) -> _Reading:
    """Raises ValueError, in KEDA's words, for a trigger that it refuses."""
    names, value = [], 0
    for trigger in triggers:
        if trigger.type == "cron":
            seen = CronTrigger.parse(trigger.metadata).observe(now)
            value = max(value, seen.value)
            if seen.active:
                names.append(trigger.name or _SCALER_NAME)
    return _Reading(tuple(names), value)


class Polled(Controller):
    """What both kinds share: a look per polling interval, however often the object changes in between."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._due: dict[str, int] = {}  # key -> instant of the next look; entries go with their objects
        self._recorder = Recorder(means.client, means.clock, component="keda-operator")

    def next_due(self, key: str) -> int | None:
        """When the runner has to ask for a sync again, None when the object is gone."""
        return self._due.get(key)

    def _is_due(self, key: str, scaled: ScaledObject | ScaledJob | None) -> bool:
        """True iff the object is there and has not been looked at for an interval."""
        if scaled is None or self.view.is_deleting(scaled):
            self._due.pop(key, None)
            return False
        now = self.clock.now()
        if self._due.get(key, now) > now:
            return False
        self._due[key] = now + max(1, scaled.spec.polling_interval) * SECOND
        return True

    async def _report(
        self, scaled: ScaledObject | ScaledJob, ready: Condition, active: Condition | None, last_active: str
    ) -> None:
        """Write the conditions and lastActiveTime where they changed."""
        now, old = to_rfc3339(self.clock.now()), scaled.status
        fresh = [ready] if active is None else [ready, active]
        conditions = [since(item, old.conditions, now) for item in fresh]
        if tuple(conditions) == old.conditions and last_active == old.last_active_time:
            return
        status: dict[str, object] = {"conditions": [encode(item) for item in conditions]}
        if last_active:
            status["lastActiveTime"] = last_active
        meta = scaled.metadata
        self.view.learn(
            await self.client.patch(
                type(scaled), meta.name, meta.namespace, merge={"status": status}, status=True
            )
        )


class ScaledObjects(Polled):
    """Acts on `decide`, and keeps the HPA of each object as its spec says."""

    kind = ScaledObject

    async def sync(self, key: str) -> None:
        scaled = self.view.get(ScaledObject, key)
        if not self._is_due(key, scaled) or scaled is None:
            return
        target = self._target(scaled)
        try:
            if target is None:
                raise ValueError("ScaledObject doesn't have correct scaleTargetRef specification")
            reading = _read(scaled.spec.triggers, self.clock.now())
        except ValueError as error:
            failed = Condition(
                type="Ready", status="False", reason="ScaledObjectCheckFailed", message=str(error)
            )
            await self._report(scaled, failed, None, scaled.status.last_active_time)
            return
        if await self._paused(scaled, target):
            return
        await self._keep_autoscaler(scaled)
        await self._scale(scaled, target, reading)

    def metric(self, autoscaler: HorizontalPodAutoscaler, name: str) -> int | None:
        """The value now of an external metric of one of these HPAs; None for another's, or when it cannot be
        read.
        """
        owner = autoscaler.metadata.controller()
        if owner is None or owner.kind != ScaledObject.KIND:
            return None
        scaled = self.view.get(ScaledObject, f"{autoscaler.metadata.namespace}/{owner.name}")
        for index, trigger in enumerate(scaled.spec.triggers if scaled is not None else ()):
            if trigger.type == "cron" and metric_name(trigger.metadata, index) == name:
                return _read((trigger,), self.clock.now()).value
        return None

    def _target(self, scaled: ScaledObject) -> Deployment | StatefulSet | None:
        reference = scaled.spec.scale_target_ref
        key = f"{scaled.metadata.namespace}/{reference.name}"
        kinds: tuple[type[Deployment] | type[StatefulSet], ...] = (Deployment, StatefulSet)
        found = (self.view.get(kind, key) for kind in kinds if reference.kind == kind.KIND)
        return next((target for target in found if target is not None), None)

    async def _paused(self, scaled: ScaledObject, target: Deployment | StatefulSet) -> bool:
        """Hold what the annotations of a pause ask for; True iff there are any."""
        annotations = scaled.metadata.annotations
        held = annotations.get(PAUSED_REPLICAS)
        if held is None and annotations.get(PAUSED) != "true":
            return False
        autoscaler = self.view.get(HorizontalPodAutoscaler, self._autoscaler_key(scaled))
        if autoscaler is not None and not self.view.is_deleting(autoscaler):
            await self.remove(autoscaler)
        if held is not None and held.isdecimal() and int(held) != target.spec.replicas:
            await self.scale(target, int(held))
        return True

    def _autoscaler_key(self, scaled: ScaledObject) -> str:
        return f"{scaled.metadata.namespace}/{_autoscaler_name(scaled)}"

    async def _keep_autoscaler(self, scaled: ScaledObject) -> None:
        wanted = autoscaler_of(scaled)
        known = self.view.get(HorizontalPodAutoscaler, self._autoscaler_key(scaled))
        if known is None:
            await self.create(wanted)
        elif known.spec != wanted.spec:
            merge = {"spec": encode(wanted.spec)}
            meta = known.metadata
            self.view.learn(
                await self.client.patch(HorizontalPodAutoscaler, meta.name, meta.namespace, merge=merge)
            )

    async def _scale(self, scaled: ScaledObject, target: Deployment | StatefulSet, reading: _Reading) -> None:
        now, status, replicas = self.clock.now(), scaled.status, target.spec.replicas
        # KEDA takes what has no other trigger for active: there is nothing that could wake it again.
        active = bool(reading.names) or {one.type for one in scaled.spec.triggers} <= _OF_RESOURCES
        last = parse_rfc3339(status.last_active_time) if status.last_active_time else None
        created = parse_rfc3339(scaled.metadata.creation_timestamp)
        step = decide(scaled.spec, replicas, active=active, now=now, last_active=last, created=created)
        if step.replicas is not None and step.replicas != replicas:
            await self.scale(target, step.replicas)
            name = f"{target.KIND} {target.key}"
            if step.replicas > replicas:
                text = f"Scaled {name} from {replicas} to {step.replicas}"
                if reading.names:
                    text += f", triggered by {';'.join(reading.names)}"
                await self._recorder.publish(scaled, "Normal", "KEDAScaleTargetActivated", text)
            else:
                text = f"Deactivated {name} from {replicas} to {step.replicas}"
                await self._recorder.publish(scaled, "Normal", "KEDAScaleTargetDeactivated", text)
        ready = Condition(
            type="Ready",
            status="True",
            reason="ScaledObjectReady",
            message="ScaledObject is defined correctly and is ready for scaling",
        )
        state = Condition(
            type="Active", status=str(step.active), reason=step.reason, message=_WORDS[step.reason]
        )
        await self._report(scaled, ready, state, to_rfc3339(now) if active else status.last_active_time)


def _autoscaler_name(scaled: ScaledObject) -> str:
    advanced = scaled.spec.advanced
    config = advanced.horizontal_pod_autoscaler_config if advanced is not None else None
    given = config.name if config is not None else ""
    return given or f"keda-hpa-{scaled.metadata.name}"


def autoscaler_of(scaled: ScaledObject) -> HorizontalPodAutoscaler:
    """The HPA that KEDA makes of a ScaledObject: per cron trigger a metric of which each pod has 1."""
    spec, reference = scaled.spec, scaled.spec.scale_target_ref
    config = spec.advanced.horizontal_pod_autoscaler_config if spec.advanced is not None else None
    metrics = []
    for index, trigger in enumerate(spec.triggers):
        if trigger.type == "cron":
            target = MetricTarget(type="AverageValue", average_value=Quantity(10**9))
            name = MetricIdentifier(name=metric_name(trigger.metadata, index))
            metrics.append(MetricSpec(type="External", external=ExternalMetric(metric=name, target=target)))
        elif trigger.type == "cpu" and trigger.metadata.get("value", "").isdecimal():
            target = MetricTarget(type="Utilization", average_utilization=int(trigger.metadata["value"]))
            metrics.append(MetricSpec(type="Resource", resource=ResourceMetric(name=CPU, target=target)))
    return HorizontalPodAutoscaler(
        metadata=Meta(
            name=_autoscaler_name(scaled),
            namespace=scaled.metadata.namespace,
            labels={
                "app.kubernetes.io/managed-by": "keda-operator",
                "scaledobject.keda.sh/name": scaled.metadata.name,
            },
            owner_references=(owner_reference(scaled),),
        ),
        spec=HorizontalPodAutoscalerSpec(
            scale_target_ref=CrossVersionObjectReference(
                kind=reference.kind, name=reference.name, api_version=reference.api_version
            ),
            min_replicas=max(1, spec.min_replica_count),
            max_replicas=spec.max_replica_count,
            metrics=tuple(metrics),
            behavior=config.behavior if config is not None else None,
        ),
    )


class ScaledJobs(Polled):
    """Acts on `new_jobs`; finished Jobs beyond the history limits go."""

    kind = ScaledJob

    async def sync(self, key: str) -> None:
        scaled = self.view.get(ScaledJob, key)
        if not self._is_due(key, scaled) or scaled is None:
            return
        spec, meta = scaled.spec, scaled.metadata
        try:
            reading = _read(spec.triggers, self.clock.now())
        except ValueError as error:
            failed = Condition(
                type="Ready", status="False", reason="ScaledJobCheckFailed", message=str(error)
            )
            await self._report(scaled, failed, None, scaled.status.last_active_time)
            return
        jobs = self.view.owned(scaled, Job)
        if meta.annotations.get(PAUSED) != "true":
            running = [job for job in jobs if not finished(job)]
            pending = sum(not self.view.count(job, Standing.STARTING, Standing.READY) for job in running)
            for _ in range(new_jobs(scaled, JobCounts(len(running), pending), reading.value)):
                await self.create(self._job(scaled))
        done = [job for job in jobs if finished(job)]
        limits = (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit)
        for job in expired(done, *limits):
            await self.remove(job)
        ready = Condition(
            type="Ready",
            status="True",
            reason="ScaledJobReady",
            message="ScaledJob is defined correctly and is ready to scaling",
        )
        is_active = bool(reading.names)
        state = Condition(
            type="Active",
            status=str(is_active),
            reason="ScalerActive" if is_active else "ScalerNotActive",
            message=_WORDS["ScalerActive" if is_active else "ScalerNotActive"],
        )
        last = to_rfc3339(self.clock.now()) if is_active else scaled.status.last_active_time
        await self._report(scaled, ready, state, last)

    def _job(self, scaled: ScaledJob) -> Job:
        meta = scaled.metadata
        return Job(
            metadata=Meta(
                name=self.names.child(f"{ScaledJob.KIND} {scaled.key}", meta.name),
                namespace=meta.namespace,
                labels={_NAME: meta.name},
                owner_references=(owner_reference(scaled),),
            ),
            spec=scaled.spec.job_target_ref,
        )
