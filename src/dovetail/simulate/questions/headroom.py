"""How much room must be kept ahead of time so that a workload can grow without waiting, and what it costs.

Room is kept by placeholders of the workload's own size. Each number of them is played; the least one that is
enough is looked for by halves, as more of them never make pods wait longer but for luck.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api.workloads import Deployment, HorizontalPodAutoscaler, ReplicaSet, StatefulSet
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.simulate.analysis.log import Meter
from dovetail.simulate.analysis.waiting import waits
from dovetail.simulate.experiment.measures import nearest_rank
from dovetail.simulate.questions.stage import Addition, Document, refuse_too_long, time_of_day
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.changed import Change
from dovetail.simulate.scenario.history import Step
from dovetail.simulate.scenario.scenario import MOST_PODS, Scenario, load
from dovetail.simulate.workloads.hpa import SYNC_PERIOD
from dovetail.units.money import dollars

NAME = "dovetail-headroom"
_STEP = 5 * SECOND  # between two steps of the growth
_SCALED = (Deployment, ReplicaSet, StatefulSet)
# Of a pod's spec, what says where it may run; its affinity to other pods is not the placeholders'.
_PLACE = ("nodeSelector", "tolerations", "runtimeClassName", "overhead")


@dataclass(frozen=True, slots=True)
class Growth:
    """`workload` (Kind/namespace/name) grows to `to` replicas, evenly over `over` from `after` on (ns).

    Where a HorizontalPodAutoscaler scales it, that is what it has at least: its minReplicas grow.
    """

    workload: tuple[str, str, str]
    to: int
    after: int
    over: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of so many placeholders. Waits in seconds, until a pod that the growth made had a node."""

    placeholders: int
    p50: float
    p99: float
    most: float
    hourly: float  # dollars per hour, when the growth begins
    nodes: int  # then

    def enough(self, within: float) -> bool:
        return self.p99 <= within


def addition(scenario: Scenario, growth: Growth, length: int) -> tuple[Addition, int]:
    """What the scenario gets: the growth, and placeholders, none yet. Answers the pods that come, too.

    Raises InputError where the workload is unknown, scaled by something else, or does not grow.
    """
    found = {item.written: item for item in scenario.manifests}
    kind, namespace, name = growth.workload
    key = (kind, f"{namespace}/{name}")
    if key not in found or not isinstance(found[key].object, _SCALED):
        known = sorted("/".join(key) for key, item in found.items() if isinstance(item.object, _SCALED))
        remedy = (
            f"there are {', '.join(known[:10])}" if known else "the scenario has no workload that is scaled"
        )
        raise InputError(f"there is no {'/'.join(key)}", source="--workload", remedy=remedy)
    scaler = _scaler(scenario, growth)
    document = found[key].document
    first = max(document["spec"].get("replicas", 1), scaler.spec.min_replicas if scaler is not None else 0)
    if growth.to <= first:
        raise InputError(f"{growth.to} is not more than its {first} replicas", source="--to")
    refuse_too_long(length, scenario.folder)
    if growth.to > MOST_PODS:
        raise InputError(
            f"{growth.to:,} replicas are more than the {MOST_PODS:,} that are played", source="--to"
        )
    objects = (_priority_class(), _placeholder(document, namespace))
    count = max(1, growth.over // (_STEP if scaler is None else SYNC_PERIOD))
    numbers = {
        growth.after + growth.over * number // count: first + (growth.to - first) * number // count
        for number in range(1, count + 1)
    }
    if scaler is None:
        steps = [Step(at, scale=growth.workload, replicas=number) for at, number in numbers.items()]
        return Addition(objects=objects, steps=steps, duration=length), growth.to - first
    later = {time_of_day(scenario, at): [_at_least(scaler, number)] for at, number in numbers.items()}
    return Addition(objects=objects, objects_later=later, duration=length), growth.to - first


def _scaler(scenario: Scenario, growth: Growth) -> HorizontalPodAutoscaler | None:
    """The one that scales the workload, if one does. Raises InputError where the growth cannot be its."""
    kind, namespace, name = growth.workload
    for item in scenario.manifests:
        target = item.document.get("spec", {}).get("scaleTargetRef", {})
        who, here = "/".join(item.written), item.object.metadata.namespace == namespace
        if not here or (target.get("kind", "Deployment"), target.get("name")) != (kind, name):
            continue
        if not isinstance(item.object, HorizontalPodAutoscaler):
            remedy = "leave it out of the scenario"
            raise InputError(
                f"{who} scales it, and would undo the growth", source="--workload", remedy=remedy
            )
        most = item.object.spec.max_replicas
        if growth.to > most:
            message = f"{growth.to} is more than the maxReplicas of {who}, {most}"
            raise InputError(message, source="--to", remedy="ask for less, or raise it in the scenario")
        return item.object
    return None


def _at_least(scaler: HorizontalPodAutoscaler, number: int) -> Document:
    """The change that has it keep so many replicas."""
    meta = {"name": scaler.metadata.name, "namespace": scaler.metadata.namespace}
    kind, version = scaler.KIND, scaler.API_VERSION
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"minReplicas": number}}


def search(
    folder: Path, growth: Growth, within: float, most: int, seed: int | None, done: Callable[[Kept], None]
) -> list[Kept]:
    """None, all, and numbers between, until the least that is enough is known to a sixteenth of all.

    Ordered by number; `done` is called with each as it ends.
    """
    known: dict[int, Kept] = {}

    def look(count: int) -> Kept:
        if count not in known:
            known[count] = play(folder, growth, count, seed)
            done(known[count])
        return known[count]

    if look(0).enough(within) or not look(most).enough(within):
        return sorted(known.values(), key=lambda one: one.placeholders)
    low, high = 0, most
    while high - low > max(1, most // 16):
        middle = (low + high) // 2
        if look(middle).enough(within):
            high = middle
        else:
            low = middle
    return sorted(known.values(), key=lambda one: one.placeholders)


def play(folder: Path, growth: Growth, placeholders: int, seed: int | None = None) -> Kept:
    """Simulate that number of them."""
    change = Change.parse(f"Deployment/{NAME}.spec.replicas={placeholders}")
    scenario = load(folder, changes=[change])
    result = simulate(scenario if seed is None else scenario.seeded(seed))
    begins = result.start + growth.after
    before = [record for record in result.records if record["t"] < begins]
    then = Meter(result.start, result.end).read(before, begins)
    pending = sorted(
        wait.pending / SECOND
        for wait in waits(result.records, result.end)
        if wait.created >= begins and _of(wait.owner, wait.pod, growth.workload)
    )
    p50, p99, most = (nearest_rank(pending, percent) for percent in (50, 99, 100))
    return Kept(placeholders, p50, p99, most, dollars(then.hourly), then.nodes)


def _of(owner: str, pod: str, workload: tuple[str, str, str]) -> bool:
    """Pods of a Deployment belong to a ReplicaSet of its name and a hash."""
    kind, namespace, name = workload
    made = owner.partition("/")[2]
    return (
        pod.startswith(f"{namespace}/")
        and (made.rpartition("-")[0] if kind == "Deployment" else made) == name
    )


def _priority_class() -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAME},
        "value": -1,
        "preemptionPolicy": "Never",
    }


def _placeholder(workload: Mapping[str, Any], namespace: str) -> Document:
    """One with the requests of the workload's pod that may run where that may."""
    template = workload["spec"]["template"]
    spec = {name: copy.deepcopy(value) for name, value in template["spec"].items() if name in _PLACE}
    affinity = template["spec"].get("affinity", {}).get("nodeAffinity")
    if affinity:
        spec["affinity"] = {"nodeAffinity": copy.deepcopy(affinity)}
    spec["priorityClassName"] = NAME
    spec["terminationGracePeriodSeconds"] = 0
    spec["containers"] = [
        {
            "name": f"room-{number}",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": copy.deepcopy(one.get("resources", {}).get("requests", {}))},
        }
        for number, one in enumerate(template["spec"]["containers"])
    ]
    chosen = {"app": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": spec},
        },
    }


def manifests(folder: Path, placeholders: int) -> Sequence[Document]:
    """What has to be applied to keep that room."""
    found = load(folder, changes=[Change.parse(f"Deployment/{NAME}.spec.replicas={placeholders}")])
    return [item.document for item in found.manifests if item.object.metadata.name == NAME]
