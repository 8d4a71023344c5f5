"""Says in `status.nominatedNodeName` where pods are meant to go: the scheduler keeps their room there.

A nomination counts from when its Node exists, and a failed attempt to schedule the pod takes it away. So pods
are nominated when their node registers, before the taint goes that keeps pods off it, and again whenever the
nomination was taken away while the place holds.

An annotation that is written with it tells Dovetail's own nominations from the scheduler's, which are for
pods that evict others: those are never touched. A later process takes up the places that it finds so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from dovetail.base.metrics import Metric
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.pods import evicts
from dovetail.kube.client import ChangeType
from dovetail.model import labels

NOMINATIONS = Metric(
    "dovetail_pod_nominations_total",
    "counter",
    "Nominations of pods to nodes that were written, by whether they were set or taken away, or refused.",
    ("outcome",),
)
ALL = (NOMINATIONS,)
SET, CLEARED, REFUSED = "set", "cleared", "refused"
AT_ONCE = 50  # requests, as when claims are created: a burst takes as long as the server needs
LOOK_AGAIN = 10 * SECOND  # as often as a pod that waits triggers a plan: the place may not hold any more
WITHOUT_RIGHT = 5 * MINUTE  # before it is tried again, after the API server said that it is not allowed

Operations = Sequence[Mapping[str, Any]]
_STATUS, _ANNOTATIONS = "/status/nominatedNodeName", "/metadata/annotations"
_MARK = f"{_ANNOTATIONS}/{labels.NOMINATED.replace('/', '~1')}"


def nomination(pod: Pod, node: str) -> Operations:
    """The JSON patch of the pod's status after which it is nominated to that node, "" being none; empty if
    nothing has to change, or nothing may.

    It fails where the pod was bound, nominated by somebody else, or replaced since it was seen. Pure.
    """
    now, mark = pod.status.nominated_node_name, pod.metadata.annotations.get(labels.NOMINATED, "")
    if pod.spec.node_name or pod.deleting or pod.terminal or evicts(pod) or (now, mark) == (node, node):
        return ()
    tests = [
        _test("/metadata/uid", pod.metadata.uid),
        _test("/spec/nodeName", None),
        _test(_STATUS, now or None),
    ]
    if not node:
        gone = ((_STATUS, now), (_MARK, mark))
        return [*tests, *({"op": "remove", "path": path} for path, there in gone if there)]
    if pod.metadata.annotations:
        marks = [_add(_MARK, node)]
    else:
        marks = [_test(_ANNOTATIONS, None), _add(_ANNOTATIONS, {labels.NOMINATED: node})]
    return [*tests, *marks, _add(_STATUS, node)]


def destination(place: Machine | None) -> str:
    """The node to nominate for a pod that is promised this machine: none before its Node is there. Pure."""
    return place.node.metadata.name if place is not None and place.node is not None else ""


def _test(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "add", "path": path, "value": value}


class Nominator:
    """Keeps the nominations of pods that wait as their promised places are."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._state = context.state
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._not_before = 0  # the instant from which it may be tried again after it was not allowed
        self.queue = context.queue("pod.nomination", self.reconcile, of=Pod, concurrency=AT_ONCE)
        self._state.subscribe(self._notice)
        self._state.on_promise(self.queue.add)

    def _notice(self, kind: type[Object], _: ChangeType, old: Object | None, new: Object | None) -> None:
        if isinstance(new, Pod):
            if new.spec.node_name:
                return
            if not self._state.news():
                self._resume(new)
            if self._wanted(new):
                self.queue.add(new.key)
        elif kind is Node or kind is NodeClaim:
            self._look_at(old, new)

    def _look_at(self, old: Object | None, new: Object | None) -> None:
        """Pods of a machine whose node came, or that goes."""
        came = old is None and isinstance(new, Node)
        goes = old is not None and not old.deleting and (new is None or new.deleting)
        if came or goes:
            node, claim = self._machine(new or old)
            for key in self._state.promised_on(Machine(node, claim)):
                self.queue.add(key)
        if goes and isinstance(old, Node):
            self._add(pod for pod in self._state.pods_on("") if _named(pod, old.metadata.name))

    def _machine(self, found: Object | None) -> tuple[Node | None, NodeClaim | None]:
        if isinstance(found, Node):
            return found, self._state.claim_of(found)
        assert isinstance(found, NodeClaim)
        return self._state.node_of(found), found

    def _add(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.queue.add(pod.key)

    def _resume(self, pod: Pod) -> None:
        """A place that an earlier process gave the pod is promised still."""
        name = pod.status.nominated_node_name
        if name and not evicts(pod) and self._state.get(Node, name) is not None:
            self._state.promise(pod, name)

    def _wanted(self, pod: Pod) -> Operations:
        return nomination(pod, destination(self._state.promised(pod)))

    async def reconcile(self, key: str) -> int | None:
        """Write what the pod's nomination should be; come back while it has one of ours."""
        pod = self._state.get(Pod, key)
        if pod is None or pod.spec.node_name:
            return None
        wanted = self._wanted(pod)
        if wanted:
            await self._write(pod, wanted)
        elif not pod.status.nominated_node_name or evicts(pod):
            return None
        return LOOK_AGAIN

    async def before_registration(self, claim: NodeClaim, node: Node) -> None:
        """Nominate the pods of a node that is about to be opened to all. Whatever fails, the node goes on:
        pods that could not be nominated are tried again by themselves.
        """
        name = node.metadata.name
        pods = [self._state.get(Pod, key) for key in self._state.promised_on(Machine(node, claim))]
        writes = [(pod, wanted) for pod in pods if pod is not None and (wanted := nomination(pod, name))]
        await asyncio.gather(*(self._try(pod, wanted) for pod, wanted in writes))

    async def _try(self, pod: Pod, wanted: Operations) -> None:
        try:
            await self._write(pod, wanted)
        except ApiError:
            self.queue.add(pod.key)

    async def _write(self, pod: Pod, wanted: Operations) -> None:
        """Raises ApiError, but not where the pod is not as it was seen: once that shows it is looked at."""
        clock, metrics, name = self._context.clock, self._context.metrics, pod.metadata.name
        async with self._slots:
            if clock.monotonic() < self._not_before:
                return
            try:
                await self._context.client.patch(Pod, name, pod.metadata.namespace, json=wanted, status=True)
            except (Conflict, Invalid, NotFound):
                metrics.add(NOMINATIONS, outcome=REFUSED)
                return
            except Forbidden as error:
                if clock.monotonic() >= self._not_before:
                    self._not_before = clock.monotonic() + WITHOUT_RIGHT
                    self._context.log.record("nominations.forbidden", message=str(error))
                return
        metrics.add(NOMINATIONS, outcome=CLEARED if wanted[-1]["op"] == "remove" else SET)


def _named(pod: Pod, node: str) -> bool:
    return node in (pod.status.nominated_node_name, pod.metadata.annotations.get(labels.NOMINATED))
