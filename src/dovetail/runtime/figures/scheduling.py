"""Gauges about plans that are being made, and about pods that wait for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dovetail.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import StorageClass
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.metrics import CONTROLLER
from dovetail.controllers.provisioning.pods import provisionable
from dovetail.model import labels
from dovetail.model.requirement import pod_requirements
from dovetail.model.volumes import VolumeIndex, volume_alternatives
from dovetail.runtime.figures.text import header, series

UNFINISHED = Metric(
    "karpenter_scheduler_unfinished_work_seconds",
    "gauge",
    "For how long a plan is being made.",
    ("controller", "scheduling_id"),
)
ZONES = Metric(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "gauge",
    "Pods that wait for a plan, by the zone that they must be in; flexible: any of several, none: nowhere.",
    ("controller", "zone"),
)
FLEXIBLE, NONE = "flexible", "none"


class SchedulingFigures:
    """Made anew each time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def text(self) -> Iterator[str]:
        """The lines."""
        now = self._context.clock.now()
        yield header(UNFINISHED)
        for number, since in self._context.waits.plans.items():
            named = series(UNFINISHED, (("controller", CONTROLLER), ("scheduling_id", number)))
            yield f"{named}{(now - since) / SECOND}\n"
        yield header(ZONES)
        yield from self._zones()

    def _zones(self) -> Iterator[str]:
        state = self._context.state
        waiting = [pod for pod in state.pods_on("") if provisionable(pod)]
        if not waiting:
            return
        volumes = VolumeIndex.of(
            state.all(PersistentVolumeClaim), state.all(PersistentVolume), state.all(StorageClass)
        )
        offered, found = self._offered(), Counter[str]()
        for pod in waiting:
            with self._context.panics.alone("metrics", pod.key, pod):
                found[effective_zone(pod, volumes, offered)] += 1
            yield ""  # a place for others to go on
        for zone in sorted(found):
            yield f"{series(ZONES, (('controller', CONTROLLER), ('zone', zone)))}{found[zone]}\n"

    def _offered(self) -> tuple[str, ...]:
        """The zones in which some pool may launch something now."""
        return tuple(
            sorted(
                {
                    offering.zone
                    for pool in self._context.state.all(NodePool)
                    for item in self._context.instance_types(pool)
                    for offering in item.offerings
                    if offering.available
                }
            )
        )


def effective_zone(pod: Pod, volumes: VolumeIndex, offered: tuple[str, ...]) -> str:
    """The only one of the zones that the pod's node may be in; FLEXIBLE for several, NONE for none. Pure.

    What counts are its node selector, its required node affinity and its volumes.
    """
    spec = pod.spec
    asks = [pod_requirements(pod)] if spec.node_selector or spec.affinity is not None else []
    if spec.volumes and (places := volume_alternatives(pod, volumes)):
        asks.append(places)
    left = [
        zone
        for zone in offered
        if all(any(one.get(labels.ZONE).has(zone) for one in choices) for choices in asks)
    ]
    return left[0] if len(left) == 1 else FLEXIBLE if left else NONE
