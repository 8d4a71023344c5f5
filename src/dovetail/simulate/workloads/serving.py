"""Services under traffic: what their pods use, and how many requests they cannot serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.api.core import PodSpec
from dovetail.api.workloads import Deployment, ReplicaSet, StatefulSet
from dovetail.base.clock import SECOND
from dovetail.base.memo import by_identity
from dovetail.model.resources import CPU
from dovetail.simulate.scenario.traffic import Curve, load, share
from dovetail.simulate.workloads.base import Means
from dovetail.simulate.workloads.pods import Standing
from dovetail.simulate.workloads.view import View
from dovetail.units.quantity import Quantity

STEP = 5  # seconds
_SPECS = 1024  # of pods, of which the sums are known: each service asks every few seconds
_WINDOW = 3  # steps: metrics are means over 15 s, as metrics-server keeps them


def pod_count(view: View, workload: Deployment | StatefulSet, *standings: Standing) -> int:
    """How many pods of a workload (of all replica sets of a deployment) stand at one of these."""
    if isinstance(workload, StatefulSet):
        return view.count(workload, *standings)
    return sum(view.count(replica_set, *standings) for replica_set in view.owned(workload, ReplicaSet))


@by_identity(_SPECS)
def cpu_request(spec: PodSpec) -> int:
    """Milli-CPU that the containers of a pod ask for."""
    zero = Quantity(0)
    return sum(item.resources.requests.get(CPU, zero).milli() for item in spec.containers)


@by_identity(_SPECS)
def cpu_capacity(spec: PodSpec) -> int:
    """Milli-CPU that a pod may use: per container its limit, its request without one."""
    zero = Quantity(0)
    total = 0
    for container in spec.containers:
        resources = container.resources
        total += resources.limits.get(CPU, resources.requests.get(CPU, zero)).milli()
    return total


@dataclass(slots=True)
class _Meter:
    """One service's last steps. `usages` (all pods') holds a window at most; the sums restart per record."""

    usages: list[int] = field(default_factory=list)
    steps: int = 0
    load: float = 0.0
    over: float = 0.0  # requests


class Serving:
    """Plays the curves of the scenario against the pods that are ready."""

    def __init__(self, means: Means, curves: Sequence[Curve], seed: int) -> None:
        self._means = means
        self._curves = tuple(curves)
        self._seed = seed
        self._meters = {curve.deployment: _Meter() for curve in self._curves}

    def usage(self, deployment: str) -> int | None:
        """Milli-CPU of all ready pods, mean of the last window; None without traffic or at the very start."""
        meter = self._meters.get(deployment)
        if meter is None or not meter.usages:
            return None
        return sum(meter.usages) // len(meter.usages)

    async def run(self) -> None:
        """Measure every step, for ever; without traffic there is nothing to measure."""
        while self._curves:
            await self._means.clock.sleep(STEP * SECOND)
            for curve in self._curves:
                self._measure(curve)

    def _measure(self, curve: Curve) -> None:
        deployment = self._means.view.get(Deployment, curve.deployment)
        level = load(curve, self._seed, self._means.clock.now())
        ready = capacity = 0
        if deployment is not None:
            ready = pod_count(self._means.view, deployment, Standing.READY)
            capacity = cpu_capacity(deployment.spec.template.spec)
        result = share(level, curve.cost, ready, capacity)
        meter = self._meters[curve.deployment]
        meter.usages = [*meter.usages, result.usage * ready][-_WINDOW:]
        meter.steps += 1
        meter.load += level
        meter.over += result.over * STEP
        if meter.steps == _WINDOW:
            self._means.log.record(
                "traffic",
                service=curve.service,
                load=round(meter.load / meter.steps, 1),
                over=round(meter.over, 1),
                seconds=meter.steps * STEP,
                pods=ready,
            )
            meter.steps, meter.load, meter.over = 0, 0.0, 0.0
