"""What kubelets do with pods that are bound to their nodes: pull, start, complete, stop, start anew.

And what becomes of pods on nodes of which nothing is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Pod
from dovetail.api.meta import Condition, is_true
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import Conflict, NotFound
from dovetail.kube.client import Client
from dovetail.simulate.scenario.latency import Distribution
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import to_rfc3339

# How long the containers of a pod work before they complete (a Job's: one minute without the annotation), and
# how long an application needs after its containers started.
DURATION = "simulation.dovetail.dev/duration"
STARTUP = "simulation.dovetail.dev/startup"
_DEFAULT_DURATION = MINUTE
_READY_TYPES = ("Initialized", "ContainersReady", "Ready")


@dataclass(slots=True)
class _Host:
    """A running machine. `images` maps an image to the instant from which it is there.

    `dead` are pods (by uid) whose containers ended with the last boot, and are to be started anew.
    """

    images: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    work: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # pod uid -> what is done with it now


class PodRunner:
    """Runs the pods of every node. Feed it with `start_node`, `stop_node`, `lose_node` and `pod_changed`."""

    def __init__(
        self, client: Client, clock: Clock, seed: int, latencies: Mapping[str, Distribution]
    ) -> None:
        self._client = client
        self._clock = clock
        self._seed = seed
        self._latencies = latencies
        self._hosts: dict[str, _Host] = {}  # by node name; only nodes whose kubelet runs
        self._bound: dict[str, dict[str, Pod]] = {}  # node name -> uid -> latest state, until it is gone
        self._stopping: dict[str, None] = {}  # uids of pods that are being stopped
        self._images: dict[str, dict[str, int]] = {}  # by node without a kubelet that runs: see _Host
        self._until: dict[str, int] = {}  # by uid: when the work of its containers is done

    def start_node(self, node: str) -> None:
        """The kubelet runs now and sees the pods that were bound before; those that run it reports anew."""
        host = self._hosts[node] = _Host(self._images.pop(node, {}))
        for pod in list(self._bound.get(node, {}).values()):
            self._consider(pod)
            if _runs(pod) and pod.metadata.uid not in host.work:
                self._do(host, pod, self._go_on(pod))

    def restart_node(self, node: str) -> None:
        """The same after a boot: no container has outlived it."""
        running = [pod for pod in self._bound.get(node, {}).values() if _runs(pod)]
        self._hosts[node] = _Host(self._images.pop(node, {}), {pod.metadata.uid for pod in running})
        for pod in list(self._bound.get(node, {}).values()):
            self._consider(pod)

    async def lose_node(self, node: str) -> None:
        """Nothing is heard of the node: none of its pods is ready any more, as its controller has it."""
        for pod in list(self._bound.get(node, {}).values()):
            if is_true(pod.status.conditions, "Ready"):
                await _unless_gone(self._write(pod, {}, ("Ready",), "False", "NodeNotReady"))

    def stop_node(self, node: str) -> None:
        """The machine is off: whatever ran on it has stopped, and nothing reports it."""
        host = self._hosts.pop(node, None)
        if host is None:
            return
        self._images[node] = host.images
        for uid, task in host.work.items():
            task.cancel()
            self._stopping.pop(uid, None)

    def forget_node(self, node: str) -> None:
        """Its machine is gone for good, with its disk."""
        self._images.pop(node, None)

    def runs_on(self, node: str) -> bool:
        """True iff the node's kubelet runs."""
        return node in self._hosts

    def pod_changed(self, change: str, pod: Pod) -> None:
        """A watch event of any pod."""
        node, uid = pod.spec.node_name, pod.metadata.uid
        if not node:
            return
        if change == "DELETED":
            self._bound.get(node, {}).pop(uid, None)
            self._stopping.pop(uid, None)
            self._until.pop(uid, None)
            self._end_work(node, uid)
            return
        self._bound.setdefault(node, {})[uid] = pod
        self._consider(pod)

    def _consider(self, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        host = self._hosts.get(node)
        if host is None or uid in self._stopping:
            return
        if pod.deleting:
            self._stopping[uid] = None
            self._end_work(node, uid)
            self._do(host, pod, self._stop(pod))
        elif uid in host.dead:
            host.dead.discard(uid)
            self._do(host, pod, self._run_again(host, pod))
        elif uid not in host.work and pod.status.phase == "Pending":
            self._do(host, pod, self._run(host, pod))

    def _do(self, host: _Host, pod: Pod, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_unless_gone(work), name=f"kubelet: pod {pod.key}")
        host.work[pod.metadata.uid] = task

    def _end_work(self, node: str, uid: str) -> None:
        host = self._hosts.get(node)
        task = host.work.pop(uid, None) if host is not None else None
        if task is not None:
            task.cancel()

    async def _run(self, host: _Host, pod: Pod) -> None:
        began = pod.status.start_time or to_rfc3339(self._clock.now())
        await self._pull(host, pod)
        start = self._latencies["start"].draw(self._seed, pod.key, "start")
        await self._clock.sleep(start + _annotated(pod, STARTUP, 0))
        status = {"phase": "Running", "startTime": began}
        await self._report(pod, status, "True", "")
        owner = pod.metadata.controller()
        if DURATION in pod.metadata.annotations or (owner is not None and owner.kind == "Job"):
            self._until[pod.metadata.uid] = self._clock.now() + _annotated(pod, DURATION, _DEFAULT_DURATION)
            await self._complete(pod)

    async def _complete(self, pod: Pod) -> None:
        """Once its work is done, if it has an end."""
        until = self._until.get(pod.metadata.uid)
        if until is not None:
            await self._clock.sleep(max(0, until - self._clock.now()))
            await self._report(pod, {"phase": "Succeeded"}, "False", "PodCompleted")

    async def _go_on(self, pod: Pod) -> None:
        """What ran without its kubelet runs on."""
        if not is_true(pod.status.conditions, "Ready"):
            await self._report(pod, {}, "True", "")
        await self._complete(pod)

    async def _run_again(self, host: _Host, pod: Pod) -> None:
        """Its containers have ended: they are started anew, or never."""
        if pod.spec.restart_policy == "Never":
            await self._report(pod, {"phase": "Failed"}, "False", "PodFailed")
            return
        await self._write(pod, {}, ("ContainersReady", "Ready"), "False", "ContainersNotReady")
        await self._run(host, pod)

    async def _pull(self, host: _Host, pod: Pod) -> None:
        """Pull images one after another, each once per node; pods that need the same one wait for it."""
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        for image in dict.fromkeys(container.image for container in containers):
            if image not in host.images:
                entity = f"{pod.spec.node_name} {image}"
                host.images[image] = self._clock.now() + self._latencies["pull"].draw(
                    self._seed, entity, "pull"
                )
            await self._clock.sleep(host.images[image] - self._clock.now())

    async def _report(self, pod: Pod, status: dict[str, Any], ready: str, reason: str) -> None:
        await self._write(pod, status, _READY_TYPES, ready, reason)

    async def _write(
        self, pod: Pod, status: dict[str, Any], kinds: Sequence[str], ready: str, reason: str
    ) -> None:
        """The status with conditions of these kinds. Raises NotFound and Conflict."""
        now = to_rfc3339(self._clock.now())
        current = self._bound.get(pod.spec.node_name, {}).get(pod.metadata.uid, pod)
        kept = [item for item in current.status.conditions if item.type not in kinds]
        made = [
            Condition(
                type=kind,
                status="True" if kind == "Initialized" else ready,
                reason=reason,
                last_transition_time=now,
            )
            for kind in kinds
        ]
        conditions = [encode(item) for item in (*kept, *made)]
        meta = pod.metadata
        merge = {"status": {**status, "conditions": conditions}}
        await self._client.patch(Pod, meta.name, meta.namespace, merge=merge, status=True)

    async def _stop(self, pod: Pod) -> None:
        """Let the containers stop: as long as they need, but no longer than the grace period."""
        meta = pod.metadata
        grace = meta.deletion_grace_period_seconds
        limit = (pod.spec.termination_grace_period_seconds if grace is None else grace) * SECOND
        if not pod.terminal:
            await self._clock.sleep(min(limit, self._latencies["stop"].draw(self._seed, pod.key, "stop")))
        await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running" and not pod.deleting


async def _unless_gone(work: Coroutine[Any, Any, None]) -> None:
    """Work on a pod that was deleted meanwhile has come to its end."""
    try:
        await work
    except (NotFound, Conflict):
        return


def _annotated(pod: Pod, name: str, default: int) -> int:
    """A length of time from an annotation, checked when the manifests were read."""
    text = pod.metadata.annotations.get(name)
    return default if text is None else parse_duration(text)
