"""Runs the workload controllers: one view fed by watches, one queue, one worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from dovetail.api.core import Node, PersistentVolumeClaim, Pod
from dovetail.api.meta import Object
from dovetail.api.workloads import DaemonSet, HorizontalPodAutoscaler
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import ApiError, Conflict, Forbidden, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer
from dovetail.simulate.scenario.traffic import Curve
from dovetail.simulate.workloads.autoscaler import HorizontalPodAutoscalers
from dovetail.simulate.workloads.base import Controller, Means
from dovetail.simulate.workloads.cronjob import CronJobs
from dovetail.simulate.workloads.daemonset import DaemonSets, node_matters
from dovetail.simulate.workloads.deployment import Deployments
from dovetail.simulate.workloads.job import Jobs
from dovetail.simulate.workloads.keda import Polled, ScaledJobs, ScaledObjects
from dovetail.simulate.workloads.names import Names
from dovetail.simulate.workloads.pods import standing
from dovetail.simulate.workloads.replicaset import ReplicaSets
from dovetail.simulate.workloads.serving import Serving
from dovetail.simulate.workloads.statefulset import StatefulSets
from dovetail.simulate.workloads.view import View

_RETRY = SECOND
_REFUSED = 30 * SECOND  # a quota may have room again
_CONTROLLERS: tuple[type[Controller], ...] = (
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    CronJobs,
    ScaledObjects,
    ScaledJobs,
)
_WATCHED: tuple[type[Object], ...] = (
    Node,
    *(controller.kind for controller in _CONTROLLERS),
    HorizontalPodAutoscaler,
    PersistentVolumeClaim,
    Pod,
)


def _matters(before: Object, after: Object) -> bool:
    """False for the many changes that no controller would act on."""
    if isinstance(before, Node) and isinstance(after, Node):
        return node_matters(before, after)
    if isinstance(before, Pod) and isinstance(after, Pod):
        return before.metadata.uid != after.metadata.uid or standing(before) != standing(after)
    return True


class Workloads:
    """All workload controllers of a simulated cluster.

    Invariant: a (kind, key) is in the queue at most once, and is worked on in the order in which it was
    first asked for, one at a time.
    """

    def __init__(
        self, client: Client, clock: Clock, log: EventLog, *, seed: int, curves: Sequence[Curve] = ()
    ) -> None:
        self._means = Means(client, clock, log, View(), Names(seed))
        self._controllers = {item.kind.KIND: item(self._means) for item in _CONTROLLERS}
        self._serving = Serving(self._means, curves, seed)
        scaled = self._controllers[ScaledObjects.kind.KIND]
        assert isinstance(scaled, ScaledObjects)
        self._autoscalers = HorizontalPodAutoscalers(self._means, self._serving, scaled.metric)
        self._queue: dict[tuple[str, str], None] = {}
        self._work = asyncio.Event()
        self._timers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._why: dict[tuple[str, str], str] = {}  # the pods of which object are refused

    async def run(self) -> None:
        """Watch and work until cancelled."""
        means = self._means
        async with asyncio.TaskGroup() as tasks:
            for kind in _WATCHED:
                tasks.create_task(Informer(means.client, kind, self._on_event).run())
            tasks.create_task(self._worker(tasks))
            tasks.create_task(self._serving.run())
            tasks.create_task(self._autoscalers.run())
            tasks.create_task(collect_orphans(means))

    def _on_event(self, event: EventType, obj: Object) -> None:
        view = self._means.view
        if event == "DELETED":
            view.forget(obj)
        else:
            before = view.get(type(obj), obj.key)
            # What a controller wrote itself is known by now, but no controller has worked on it yet: go on.
            view.learn(obj)
            if before is not None and not _matters(before, obj):
                return
        if isinstance(obj, Node):
            for daemon_set in view.all(DaemonSet):
                self._ask(daemon_set.KIND, daemon_set.key)
            return
        self._ask(obj.KIND, obj.key)
        owner = obj.metadata.controller()
        if owner is not None:
            self._ask(owner.kind, f"{obj.metadata.namespace}/{owner.name}")

    def _ask(self, kind: str, key: str) -> None:
        if kind in self._controllers:
            self._queue[(kind, key)] = None
            self._work.set()

    async def _worker(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._queue:
                kind, key = item = next(iter(self._queue))
                del self._queue[item]
                controller = self._controllers[kind]
                try:
                    await controller.sync(key)
                except Forbidden as error:
                    self._refused(item, str(error))
                    self._later(tasks, item, _REFUSED)
                    continue
                except ApiError:
                    self._later(tasks, item, _RETRY)
                    continue
                if isinstance(controller, CronJobs | Polled):
                    self._schedule(tasks, controller, key)

    def _refused(self, item: tuple[str, str], message: str) -> None:
        """Of an object only what is new: each of its pods is refused for the same reason."""
        why = message.partition("is forbidden: ")[2] or message
        if self._why.get(item) != why:
            self._why[item] = why
            self._means.log.record("workload.refused", workload=f"{item[0]}/{item[1]}", message=why)

    def _schedule(self, tasks: asyncio.TaskGroup, controller: CronJobs | Polled, key: str) -> None:
        due = controller.next_due(key)
        if due is not None:
            self._later(tasks, (controller.kind.KIND, key), due - self._means.clock.now())

    def _later(self, tasks: asyncio.TaskGroup, item: tuple[str, str], delay: int) -> None:
        """Ask again after `delay`; a timer that runs for the same object is replaced."""
        running = self._timers.pop(item, None)
        if running is not None:
            running.cancel()
        self._timers[item] = tasks.create_task(self._ask_later(item, delay))

    async def _ask_later(self, item: tuple[str, str], delay: int) -> None:
        await self._means.clock.sleep(delay)
        self._timers.pop(item, None)
        self._ask(*item)


PERIOD = 20 * SECOND
QUARANTINE = 40 * SECOND  # a node may be missing for a moment while it is registered anew


def orphans(
    pods: Iterable[Pod], nodes: frozenset[str], missing: dict[str, int], now: int
) -> tuple[tuple[Pod, ...], dict[str, int]]:
    """Pods bound to a node that has been missing for the quarantine, and since when each node is missing."""
    bound = [pod for pod in pods if pod.spec.node_name and pod.spec.node_name not in nodes]
    since = {pod.spec.node_name: missing.get(pod.spec.node_name, now) for pod in bound}
    return tuple(pod for pod in bound if now - since[pod.spec.node_name] >= QUARANTINE), since


async def collect_orphans(means: Means) -> None:
    """Look every period, for ever."""
    missing: dict[str, int] = {}
    while True:
        await means.clock.sleep(PERIOD)
        if not means.view.nodeless():  # nearly always: no pod has to be looked at
            missing = {}
            continue
        nodes = frozenset(node.metadata.name for node in means.view.all(Node))
        gone, missing = orphans(means.view.all(Pod), nodes, missing, means.clock.now())
        for pod in gone:
            options: dict[str, Any] = {"uid": pod.metadata.uid, "grace_period_seconds": 0}
            try:
                await means.client.delete(Pod, pod.metadata.name, pod.metadata.namespace, **options)
            except (NotFound, Conflict):
                means.view.forget(pod)
            except ApiError:
                continue  # the next look tries again
