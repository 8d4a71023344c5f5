"""The scheduling cycle: one pod after another gets the best node that may take it, or why none may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from dovetail.api.codec import encode
from dovetail.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.meta import Condition, Object, condition
from dovetail.api.workloads import PodDisruptionBudget, StorageClass
from dovetail.base.clock import SECOND, Clock, within
from dovetail.base.errors import ApiError, Conflict, NotFound
from dovetail.devices.allocator import Allocation
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer
from dovetail.kube.recorder import Recorder
from dovetail.model.filters import Examination, examine_all, no_preemption
from dovetail.model.gangs import marked
from dovetail.model.resources import fits, pod_requests
from dovetail.model.scores import best_node
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.devices import CANNOT, DYNAMIC_RESOURCES, KINDS, DynamicResources
from dovetail.simulate.scheduler.feasible import Feasibility, Nominations, Verdict, kind_of
from dovetail.simulate.scheduler.gangs import Gangs, Lacking
from dovetail.simulate.scheduler.hints import (
    LOOK_AT_PODS,
    after_binding,
    after_leaving,
    after_node,
    after_volumes,
)
from dovetail.simulate.scheduler.preemption import BY_SCHEDULER, DISRUPTION_TARGET
from dovetail.simulate.scheduler.queue import SchedulingQueue
from dovetail.units.timestamp import to_rfc3339

NAME = "default-scheduler"
# What one cycle takes: a real scheduler places some hundred pods per second.
_CYCLE = SECOND // 200
_DRAW = "choice among equal nodes"

# Binds the claims of a pod that wait for its node, which has these labels.
BindVolumes = Callable[[Pod, Mapping[str, str]], Awaitable[None]]


class Scheduler:
    """Follows pods and nodes; binds pods of its own name that have no node and no scheduling gates."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        seed: int,
        *,
        bind_volumes: BindVolumes | None = None,
        devices: bool = False,
    ) -> None:
        """With `devices` those that pods claim are allocated; else claims are left alone."""
        self._client = client
        self._clock = clock
        self._seed = seed
        self._bind_volumes = bind_volumes
        self._devices = DynamicResources(client, seed) if devices else None
        self._unclaimed: dict[str, Pod] = {}  # by UID: pods whose claims are still to come
        self._cluster = Cluster()
        self._nominations = Nominations(self._cluster.view)
        self._feasibility = Feasibility(self._cluster, self._nominations, seed)
        self._recorder = Recorder(client, clock, component=NAME, verbatim=True)
        self._gangs = Gangs()
        self._queue = SchedulingQueue()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Schedule, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Informer(self._client, Namespace, self._namespace_changed).run())
            for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass):
                tasks.create_task(Informer(self._client, kind, self._volume_changed).run())
            for group in GANG_KINDS:
                tasks.create_task(Informer(self._client, group, self._group_changed).run())
            tasks.create_task(Informer(self._client, PodDisruptionBudget, self._budget_changed).run())
            for of_devices in KINDS if self._devices is not None else ():
                tasks.create_task(Informer(self._client, of_devices, self._device_changed).run())
            tasks.create_task(Informer(self._client, Node, self._node_changed).run())
            tasks.create_task(Informer(self._client, Pod, self._pod_changed).run())
            tasks.create_task(self._schedule())

    # What changes ---------------------------------------------------------------------------------------

    def _namespace_changed(self, _: EventType, namespace: Namespace) -> None:
        self._cluster.set_namespace(namespace.metadata.name, namespace.metadata.labels)

    def _volume_changed(self, change: EventType, obj: Object) -> None:
        self._cluster.set_volume_object(obj, gone=change == "DELETED")
        self._wake(lambda _, by: after_volumes(by))

    def _device_changed(self, change: EventType, obj: Object) -> None:
        assert self._devices is not None
        self._devices.changed(change, obj)
        for pod in tuple(self._unclaimed.values()):
            self._pod_changed("MODIFIED", pod)
        self._wake(lambda _, by: DYNAMIC_RESOURCES in by)

    def _group_changed(self, change: EventType, group: Object) -> None:
        self._gangs.group_changed(change, group)
        self._wake(lambda pod, _: marked(pod))

    def _budget_changed(self, change: EventType, budget: PodDisruptionBudget) -> None:
        if change == "DELETED":
            self._cluster.budgets.pop(budget.key, None)
        else:
            self._cluster.budgets[budget.key] = budget

    def _node_changed(self, change: EventType, node: Node) -> None:
        view, name = self._cluster.view, node.metadata.name
        old = view.nodes.get(name)
        if change == "DELETED":
            self._cluster.drop_node(name)
        elif not self._cluster.set_node(node):
            return
        new = view.nodes.get(name)
        self._wake(lambda pod, by: after_node(view.facts(pod), by, old, new))

    def _pod_changed(self, change: EventType, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._unclaimed.pop(uid, None)
        self._gangs.pod_changed(change, pod)
        if change == "ADDED" and marked(pod):
            self._wake(lambda other, _: marked(other))  # its gang may be complete now
        if change == "DELETED" or pod.terminal:
            self._forget(pod)
            if self._cluster.unbind(pod.key):
                self._left(pod)
        elif pod.spec.node_name:
            self._queue.remove(uid)
            self._nominations.drop(uid)
            self._bound(pod, pod.spec.node_name)
        elif self._is_mine(pod) and self._devices is not None and self._devices.claims(pod) is None:
            self._forget(pod)
            self._unclaimed[uid] = pod
        elif self._is_mine(pod):
            known = self._queue.add(pod)
            self._nominations.set(pod, pod.status.nominated_node_name)
            if known is not None and known.status.nominated_node_name != pod.status.nominated_node_name:
                self._room_given_up(known)
            if known is not None and _looks(known) != _looks(pod):
                self._queue.wake_one(uid, self._clock.now())
            self._news.set()
        else:
            self._forget(pod)

    def _forget(self, pod: Pod) -> None:
        known = self._queue.remove(pod.metadata.uid)
        self._nominations.drop(pod.metadata.uid)
        if known is not None:
            self._room_given_up(known)

    def _room_given_up(self, pod: Pod) -> None:
        """Pods that had to leave room for this one may fit now, itself among them."""
        if pod.status.nominated_node_name:
            self._left(pod, most=pod.spec.priority)

    def _left(self, pod: Pod, *, most: int | None = None) -> None:
        """The pod's room is free for others, of that priority at most."""
        view = self._cluster.view
        gone = view.facts(pod)

        def concerns(other: Pod, by: frozenset[str]) -> bool:
            within_reach = most is None or other.spec.priority <= most
            return within_reach and after_leaving(view.facts(other), by, gone, view.namespaces)

        self._wake(concerns)

    def _bound(self, pod: Pod, node: str) -> None:
        """The pod is on that node, by this scheduler's doing or another's; the first to say so counts.

        Where it was resized in place to less, others may fit.
        """
        before = self._cluster.bound(pod.key)
        if self._cluster.bind(pod, node):
            view = self._cluster.view
            there = view.facts(pod)
            self._wake(
                lambda other, by: (
                    not by.isdisjoint(LOOK_AT_PODS)
                    and after_binding(view.facts(other), by, there, view.namespaces)
                )
            )
        elif before is not None and not fits(pod_requests(before), pod_requests(pod)):
            self._left(before)

    def _is_mine(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name == NAME and not pod.spec.scheduling_gates and not pod.deleting

    def _wake(self, concerns: Callable[[Pod, frozenset[str]], bool]) -> None:
        self._queue.wake(self._clock.now(), concerns)
        self._news.set()

    # One pod after another ------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        while True:
            pod = self._queue.pop(self._clock.now())
            if pod is None:
                await self._wait()
            else:
                await self._clock.sleep(_CYCLE)
                # Of one moment with the nodes that it is tried on: it may have been nominated meanwhile.
                await self._try(self._queue.present(pod))

    async def _wait(self) -> None:
        """Until something changes or a back-off ends."""
        self._news.clear()
        due = self._queue.next_due()
        if due is None:
            await self._news.wait()
            return
        await within(self._clock, self._news, due - self._clock.now())

    async def _try(self, pod: Pod) -> None:
        gang = self._gangs.lacking(pod)
        if gang is not None:
            await self._try_together(pod, gang)
        else:
            await self._try_alone(pod)

    async def _try_together(self, pod: Pod, gang: Lacking) -> None:
        """Nodes for all pods of the gang that wait, or for none while too few of them find one."""
        placed, refused = list[Pod](), dict[str, Verdict]()
        for one in filter(self._is_mine, gang.waiting):
            verdict, _ = self._judge(one)
            if verdict.nodes:
                node = best_node(one, verdict.nodes, self._cluster.occupancy, self._seed, _DRAW)
                self._cluster.bind(one, node.name)
                placed.append(one)
            else:
                refused[one.key] = verdict
        for one in placed:
            self._cluster.unbind(one.key)
        if gang.bound + len(placed) >= gang.minimum:
            for one in (*placed, *((pod,) if pod.key in refused else ())):
                await self._try_alone(one)
            return
        fits = f"pod group {gang.name}: {gang.bound + len(placed)} of {gang.minimum} pods find a node"
        first = next(iter(refused.values()), Verdict((), fits, frozenset()))
        await self._fail(
            pod, replace(first, message=f"{fits}; {first.message}", preemption=None, keeps=False)
        )

    async def _try_alone(self, pod: Pod) -> None:
        verdict, found = self._judge(pod)
        meta = pod.metadata
        try:
            if verdict.nodes:
                node = best_node(pod, verdict.nodes, self._cluster.occupancy, self._seed, _DRAW)
                if self._bind_volumes is not None and pod.spec.volumes:
                    await self._bind_volumes(pod, node.labels)
                if self._devices is not None and node.name in found:
                    await self._devices.reserve(pod, node, found[node.name])
                await self._client.bind(meta.name, meta.namespace, node.name)
                self._queue.remove(meta.uid)
                self._nominations.drop(meta.uid)
                self._bound(pod, node.name)
            else:
                await self._fail(pod, verdict)
        except (NotFound, Conflict):
            self._queue.remove(meta.uid)
        except ApiError:
            self._queue.failed(meta.uid, self._clock.now())

    def _judge(self, pod: Pod) -> tuple[Verdict, Mapping[str, Allocation]]:
        """Where the pod may go, and the devices that its claims get there.

        For a pod that claims devices all nodes are looked at, and no other has to go for it.
        """
        if self._devices is None or not pod.spec.resource_claims:
            return self._feasibility.judge(pod), {}
        view = self._cluster.view
        seen = examine_all(pod, view, partial(self._nominations.ahead_of, pod))
        found: dict[str, Allocation] = {}
        for name in seen.feasible:
            allocation = self._devices.allocate(pod, view.nodes[name])
            if allocation is not None:
                found[name] = allocation
        if found:
            nominated = pod.status.nominated_node_name
            names = [nominated] if nominated in found else sorted(found)
            return Verdict(nodes=tuple(view.nodes[name] for name in names)), found
        refused = Examination({name: why or CANNOT for name, why in seen.reasons.items()}, seen.nowhere)
        by = frozenset(one.by for why in refused.reasons.values() for one in why)
        return Verdict(message=refused.message(no_preemption(pod, refused)), by=by), {}

    async def _fail(self, pod: Pod, verdict: Verdict) -> None:
        """Put the pod back and say why. It is nominated to the node where others go for it, and loses its
        nomination where none can; a pod that was not asked to preempt keeps it.
        """
        # Without any node no filter refused the pod, so that no change is known to help it.
        empty = not self._cluster.view.nodes
        cause = kind_of(pod), verdict.by
        latest = self._queue.failed(pod.metadata.uid, self._clock.now(), cause, again=empty)
        if latest is None:
            return
        chosen = verdict.preemption
        if chosen is None:
            if not verdict.keeps:
                self._nominations.drop(pod.metadata.uid)
            await self._report(latest, verdict.message, None if verdict.keeps else "")
            return
        self._nominations.set(latest, chosen.node)
        await self._report(latest, verdict.message, chosen.node)
        victims = [victim for victim in chosen.victims if not victim.deleting]
        # Others that wait for the same victims keep their nominations, although they will be disappointed.
        for other in self._nominations.below(latest.spec.priority, chosen.node) if victims else ():
            with suppress(NotFound, Conflict):
                await self._patch(other, {"nominatedNodeName": None})
        for victim in victims:
            await self._evict(victim, latest, chosen.node)

    async def _evict(self, victim: Pod, preemptor: Pod, node: str) -> None:
        """Delete it, with the grace period that it has, and say for what."""
        meta = victim.metadata
        target = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=BY_SCHEDULER,
            message=f"{NAME}: preempting to accommodate a higher priority pod",
            last_transition_time=to_rfc3339(self._clock.now()),
        )
        kept = [item for item in victim.status.conditions if item.type != DISRUPTION_TARGET]
        with suppress(NotFound, Conflict):
            await self._patch(victim, {"conditions": [encode(item) for item in (*kept, target)]})
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
            text = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
            await self._recorder.publish(victim, "Normal", "Preempted", text)

    async def _report(self, pod: Pod, message: str, nominated: str | None) -> None:
        """Set PodScheduled=False where the reason is news, and the nomination: None leaves it, "" is none."""
        known = condition(pod.status.conditions, "PodScheduled")
        changes = nominated is not None and nominated != pod.status.nominated_node_name
        status: dict[str, object] = {"nominatedNodeName": nominated or None} if changes else {}
        if known is None or known.reason != "Unschedulable" or known.message != message:
            since = known is not None and known.status == "False" and known.last_transition_time
            made = Condition(
                type="PodScheduled",
                status="False",
                reason="Unschedulable",
                message=message,
                last_transition_time=since or to_rfc3339(self._clock.now()),
            )
            kept = [item for item in pod.status.conditions if item.type != "PodScheduled"]
            status["conditions"] = [encode(item) for item in (*kept, made)]
        if status:
            await self._patch(pod, status)

    async def _patch(self, pod: Pod, status: Mapping[str, object]) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        await self._client.patch(Pod, name, namespace, merge={"status": status}, status=True)


def _looks(pod: Pod) -> tuple[object, ...]:
    """What filters see of a pod that waits, and may change."""
    return (pod.metadata.labels, pod.spec.tolerations)
