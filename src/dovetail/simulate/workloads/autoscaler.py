"""The controller behind HorizontalPodAutoscaler objects: every 15 s it scales Deployments, StatefulSets."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dovetail.api.codec import encode
from dovetail.api.meta import Condition, condition
from dovetail.api.workloads import (
    Deployment,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerStatus,
    MetricSpec,
    StatefulSet,
)
from dovetail.base.errors import ApiError
from dovetail.model.resources import CPU
from dovetail.simulate.workloads.base import Controller, Means
from dovetail.simulate.workloads.hpa import (
    SYNC_PERIOD,
    Decision,
    History,
    decide,
    recommend,
    recommend_by_value,
)
from dovetail.simulate.workloads.pods import Standing
from dovetail.simulate.workloads.serving import Serving, cpu_request, pod_count
from dovetail.units.timestamp import to_rfc3339

# The value of an external metric of an autoscaler, by the metric's name; None where it cannot be read.
ExternalMetrics = Callable[[HorizontalPodAutoscaler, str], int | None]

_REASONS = {
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "DesiredWithinRange": "the desired count is within the acceptable range",
}


class HorizontalPodAutoscalers(Controller):
    """Acts on `hpa.decide`. Without a metric that can be read nothing but the bounds is held."""

    kind = HorizontalPodAutoscaler

    def __init__(self, means: Means, serving: Serving, external: ExternalMetrics) -> None:
        super().__init__(means)
        self._serving = serving
        self._external = external
        self._histories: dict[str, History] = {}
        self._recorded: dict[str, dict[str, object]] = {}

    async def run(self) -> None:
        """Sync every autoscaler each period, in order of arrival, for ever."""
        while True:
            await self.clock.sleep(SYNC_PERIOD)
            for autoscaler in tuple(self.view.all(HorizontalPodAutoscaler)):
                try:
                    await self.sync(autoscaler.key)
                except ApiError:
                    continue  # the next period starts afresh from what is there then

    async def sync(self, key: str) -> None:
        autoscaler = self.view.get(HorizontalPodAutoscaler, key)
        if autoscaler is None or self.view.is_deleting(autoscaler):
            return
        reference = autoscaler.spec.scale_target_ref
        target = f"{autoscaler.metadata.namespace}/{reference.name}"
        workload: Deployment | StatefulSet | None = self.view.get(Deployment, target)
        if reference.kind == StatefulSet.KIND:
            workload = self.view.get(StatefulSet, target)
        if workload is None or workload.spec.replicas == 0:
            return  # nothing to scale, or switched off by hand
        spec, current = autoscaler.spec, workload.spec.replicas
        decision = self._decide(autoscaler, workload)
        if decision.desired != current:
            await self.scale(workload, decision.desired)
        self._histories[key] = decision.history
        waiting = pod_count(self.view, workload, Standing.WAITING)
        self._record(
            key,
            {
                "target": target,
                "current": current,
                "desired": decision.desired,
                "max": spec.max_replicas,
                "limited": decision.reason == "TooManyReplicas",
                "waiting": waiting,
            },
        )
        await self._write_status(autoscaler, current, decision)

    def _decide(self, autoscaler: HorizontalPodAutoscaler, workload: Deployment | StatefulSet) -> Decision:
        spec, current = autoscaler.spec, workload.spec.replicas
        now, history = self.clock.now(), self._histories.get(autoscaler.key, History())
        if not spec.min_replicas <= current <= spec.max_replicas:
            bounded = min(max(current, spec.min_replicas), spec.max_replicas)
            reason = "TooManyReplicas" if current > bounded else "TooFewReplicas"
            return Decision(bounded, limited=True, reason=reason, stabilised=False, history=history)
        return decide(spec, current, self._recommend(autoscaler, workload), now, history)

    def _recommend(self, autoscaler: HorizontalPodAutoscaler, workload: Deployment | StatefulSet) -> int:
        """The most that any metric asks for; the current number when none can be read."""
        found = (self._of_metric(autoscaler, metric, workload) for metric in autoscaler.spec.metrics)
        return max((count for count in found if count is not None), default=workload.spec.replicas)

    def _of_metric(
        self, autoscaler: HorizontalPodAutoscaler, metric: MetricSpec, workload: Deployment | StatefulSet
    ) -> int | None:
        current, external = workload.spec.replicas, metric.external
        if external is not None and external.target.average_value is not None:
            value = self._external(autoscaler, external.metric.name)
            per_pod = external.target.average_value.milli()
            return None if value is None else recommend_by_value(current, 1000 * value, per_pod)
        target = _cpu_target(metric)
        usage = self._serving.usage(workload.key)
        serving = pod_count(self.view, workload, Standing.READY)
        if usage is None or target is None or not serving:
            return None
        unready = pod_count(self.view, workload, Standing.WAITING, Standing.STARTING)
        request = cpu_request(workload.spec.template.spec)
        return recommend(current, [usage // serving] * serving, request, unready=unready, target=target)

    def _record(self, key: str, fields: dict[str, object]) -> None:
        """Write a record only when something changed since the last one."""
        if self._recorded.get(key) != fields:
            self._recorded[key] = fields
            self.log.record("hpa", name=key, **fields)

    async def _write_status(
        self, autoscaler: HorizontalPodAutoscaler, current: int, decision: Decision
    ) -> None:
        old, meta = autoscaler.status, autoscaler.metadata
        now = to_rfc3339(self.clock.now())
        conditions = [since(item, old.conditions, now) for item in _conditions(decision)]
        new = HorizontalPodAutoscalerStatus(
            current_replicas=current, desired_replicas=decision.desired, conditions=tuple(conditions)
        )
        if new == old:
            return
        merge = {"status": encode(new)}
        self.view.learn(
            await self.client.patch(type(autoscaler), meta.name, meta.namespace, merge=merge, status=True)
        )


def _conditions(decision: Decision) -> tuple[Condition, Condition]:
    able = Condition(
        type="AbleToScale",
        status="True",
        reason="ScaleDownStabilized" if decision.stabilised else "ReadyForNewScale",
        message="recent recommendations were higher than the current one, applying the highest recent one"
        if decision.stabilised
        else "the replica count may change now",
    )
    limited = Condition(
        type="ScalingLimited",
        status=str(decision.limited),
        reason=decision.reason,
        message=_REASONS[decision.reason],
    )
    return able, limited


def since(item: Condition, before: tuple[Condition, ...], now: str) -> Condition:
    """The condition with the instant at which its status last changed."""
    known = condition(before, item.type)
    unchanged = known is not None and known.status == item.status
    since = known.last_transition_time if known is not None and unchanged else now
    return msgspec.structs.replace(item, last_transition_time=since)


def _cpu_target(metric: MetricSpec) -> int | None:
    """Percent of the request, None when the metric is not CPU utilisation."""
    if metric.type == "Resource" and metric.resource is not None and metric.resource.name == CPU:
        return metric.resource.target.average_utilization
    return None
