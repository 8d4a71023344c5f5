"""What opens a batching window, and when it closes.

Pods that fit nowhere and nodes that are about to go away open it; pods that become unschedulable together are
planned together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Node, Pod
from dovetail.api.devices import ResourceClaim
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import SECOND, Clock
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INITIALIZED
from dovetail.controllers.provisioning.pods import provisionable
from dovetail.model import labels
from dovetail.model.devices import claim_keys
from dovetail.model.resources import fits, pod_requests


@dataclass(frozen=True, slots=True)
class Window:
    """One batching window; instants in nanoseconds."""

    opened: int
    closed: int
    triggers: Mapping[str, int] = field(default_factory=dict)  # UID -> when it triggered first


class Batcher:
    """The first trigger opens a window; it closes `idle` after the last new UID, at most after `maximum`.

    A UID that the window has seen already does not extend it. What comes in while nothing waits (a plan is
    being made) opens the next window as soon as something does.
    """

    def __init__(self, clock: Clock, idle: int, maximum: int) -> None:
        self._clock = clock
        self._idle = idle
        self._maximum = maximum
        self._seen: dict[str, int] = {}
        self._latest = 0  # when a new UID came last, by the monotonic clock
        self._triggered = asyncio.Event()

    def trigger(self, uid: str) -> None:
        """Something wants a plan: a pod, or a node that is going away."""
        if uid not in self._seen:
            self._seen[uid], self._latest = self._clock.now(), self._clock.monotonic()
        self._triggered.set()

    async def wait(self) -> Window:
        """Wait for a trigger, then until the window closes."""
        await self._triggered.wait()
        opened, began = self._clock.now(), self._clock.monotonic()
        while True:
            closes = min(max(began, self._latest) + self._idle, began + self._maximum)
            left = closes - self._clock.monotonic()
            if left <= 0:
                break
            await self._clock.sleep(left)
        triggers, self._seen = self._seen, {}
        self._triggered.clear()
        return Window(opened, self._clock.now(), triggers)


_REPEAT = 10 * SECOND
ALL_PODS = "all"  # the one key of the queue that is no pod's


def until_repeat(clock: Clock) -> int:
    """Nanoseconds to the next multiple of 10 s.

    All that wait trigger again at the same instants: then one plan is made each 10 s for all of them. With a
    timer of its own per pod, 60 pods that fit nowhere had a plan made each second.
    """
    return _REPEAT - clock.monotonic() % _REPEAT


class PodTrigger:
    """Triggers for a pod when it becomes provisionable, then every 10 s while it is, with all others in one
    turn of the queue: of 1,500 pods that waited for their nodes a turn each was a third of all turns.

    A claim that goes without ever getting a node leaves its pods behind: then all that wait trigger at once.
    So do pods that lost the places they were planned to, once they are refused again or a node is up, and
    those whose claims for devices come, go, or are allocated.
    """

    def __init__(self, context: Context, batcher: Batcher) -> None:
        self._context = context
        self._state = context.state
        self._batcher = batcher
        # By name of one that is up: keys of the pods with a place there that do not fit into that room.
        self._crowds: dict[str, tuple[str, ...]] = {}
        self._changed = self._state.follow()
        self._waiting: dict[str, None] = {}  # keys of the pods to trigger for again
        self.queue = context.queue("provisioner.trigger.pod", self.reconcile, of=Pod)
        context.state.subscribe(self.notice, Pod, NodeClaim, Node, ResourceClaim)

    def notice(self, _: type[Object], __: str, old: Object | None, new: Object | None) -> None:
        """Look at pods that turn provisionable or are crowded out, at all when a claim came to nothing."""
        if isinstance(new, Pod) and provisionable(new):
            before = isinstance(old, Pod) and provisionable(old) and claim_keys(old) == claim_keys(new)
            if not before or any(self._crowded_out((new,))):
                self.queue.add(new.key)
        elif isinstance(claim := new or old, ResourceClaim):
            if not _same_devices(old, new):
                self._add(pod for pod in self._users(claim) if claim.key in claim_keys(pod))
        elif isinstance(new, NodeClaim):
            before = isinstance(old, NodeClaim) and is_true(old.status.conditions, INITIALIZED)
            if not before and is_true(new.status.conditions, INITIALIZED):
                self._add(self._all_crowded_out())
        elif new is None and isinstance(old, Node):
            for known in (self._crowds, self._changed):
                known.pop(old.metadata.name, None)
        elif new is None and isinstance(old, NodeClaim):
            self._changed.pop(old.metadata.name, None)
            if not is_true(old.status.conditions, "Registered"):
                self._add(self._state.pods_on(""))

    def _users(self, claim: ResourceClaim) -> Iterable[Pod]:
        """The pod that the claim was made for, or all without a node: any of these may name it."""
        names = [owner.name for owner in claim.metadata.owner_references if owner.kind == Pod.KIND]
        if not names:
            return self._state.pods_on("")
        found = (self._state.get(Pod, f"{claim.metadata.namespace}/{name}") for name in names)
        return (pod for pod in found if pod is not None)

    def _add(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if provisionable(pod):
                self.queue.add(pod.key)

    def _all_crowded_out(self) -> Iterator[Pod]:
        """Every pod that waits whose place has no room for it any more, in order of key.

        Only machines of which something changed are looked at: there may be thousands, each of which asks.
        """
        for name in self._changed:
            self._crowds.pop(name, None)
            machine = self._state.staying(name)
            if machine is not None and machine.initialized:
                self._crowds[machine.name] = self._too_large(machine)
        self._changed.clear()
        self._crowds = {name: keys for name, keys in self._crowds.items() if keys}
        found = (self._state.get(Pod, key) for keys in self._crowds.values() for key in keys)
        pods = [pod for pod in found if pod is not None and not pod.spec.node_name]
        return self._crowded_out(sorted(pods, key=lambda pod: pod.key))

    def _too_large(self, machine: Machine) -> tuple[str, ...]:
        """Pods with a place on the machine, which is up, that do not fit into the room that is left of it."""
        room = self._state.room_left(machine)
        pods = ((key, self._state.get(Pod, key)) for key in self._state.promised_on(machine))
        return tuple(key for key, pod in pods if pod is not None and not fits(pod_requests(pod), room))

    def _crowded_out(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Those of them whose places have no room for them any more."""
        for pod, machine in self._state.places(pods):
            if machine.initialized and not fits(pod_requests(pod), self._state.room_left(machine)):
                yield pod

    async def reconcile(self, key: str) -> int | None:
        """Trigger for the pod, or for all that still wait; come back for all while any does."""
        if key == ALL_PODS:
            return self._trigger_again()
        if self._trigger(key):
            self._waiting[key] = None
            self.queue.add_after(ALL_PODS, until_repeat(self._context.clock))
        return None

    def _trigger_again(self) -> int | None:
        waiting, self._waiting = self._waiting, {}
        for key in waiting:
            try:
                if self._trigger(key):
                    self._waiting[key] = None
            except Exception:  # a pod that cannot be understood: its own turn reports that, and only it waits
                self.queue.add(key)
        return until_repeat(self._context.clock) if self._waiting else None

    def _trigger(self, key: str) -> bool:
        """True iff the pod waits."""
        pod = self._state.get(Pod, key)
        if pod is None or not provisionable(pod):
            return False
        self._context.waits.seen(pod.metadata.uid, self._context.clock.now())
        self._batcher.trigger(pod.metadata.uid)
        return True


def _same_devices(old: Object | None, new: Object | None) -> bool:
    """True iff only who uses the claim changed, or what is written about it."""
    if not isinstance(old, ResourceClaim) or not isinstance(new, ResourceClaim):
        return False
    return old.spec == new.spec and old.status.allocation == new.status.allocation


class NodeTrigger:
    """Triggers for a node with the disrupted taint, every 10 s while it is there: its pods need places."""

    def __init__(self, context: Context, batcher: Batcher) -> None:
        self._clock = context.clock
        self._state = context.state
        self._batcher = batcher
        self.queue = context.queue("provisioner.trigger.node", self.reconcile, of=Node)
        context.state.subscribe(self.notice, Node)

    def notice(self, _: type[Object], __: str, old: Object | None, new: Object | None) -> None:
        """Look at nodes when they get the taint."""
        before = isinstance(old, Node) and disrupted(old)
        if not before and isinstance(new, Node) and disrupted(new):
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> int | None:
        """Trigger, and come back while the node is still there."""
        node = self._state.get(Node, key)
        if node is None or not disrupted(node):
            return None
        self._batcher.trigger(node.metadata.uid)
        return until_repeat(self._clock)


def disrupted(node: Node) -> bool:
    """True iff the node carries the taint of a disruption."""
    return any(taint.key == labels.DISRUPTED_TAINT for taint in node.spec.taints)
