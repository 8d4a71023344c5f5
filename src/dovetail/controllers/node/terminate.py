"""The end of a Node: taint, drain, volumes, instance, finalizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dovetail.api.codec import encode
from dovetail.api.core import Node, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, Object, condition
from dovetail.api.workloads import VolumeAttachment
from dovetail.base.clock import SECOND
from dovetail.base.errors import InstanceNotFound, NotFound
from dovetail.cluster.nodes import Machine, allocatable
from dovetail.cluster.state import State
from dovetail.controllers.brakes.guard import HELD_POLL, TerminationGuard
from dovetail.controllers.context import Context
from dovetail.controllers.node.drain import Deletion, DrainStep, decide, drainable
from dovetail.controllers.node.evict import EvictionQueue
from dovetail.controllers.node.places import PlacesInTurn
from dovetail.controllers.nodeclaim.register import lacks_only_opening
from dovetail.controllers.nodeclaim.status import (
    DISRUPTION_REASON,
    DRAINED,
    INSTANCE_TERMINATING,
    VOLUMES_DETACHED,
    since,
    status_of,
    write,
)
from dovetail.controllers.nodeclaim.terminate import POLL, deadline, drop_finalizer, instance_gone
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.pods import DISRUPTED
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.taints import same_taint
from dovetail.units.timestamp import to_rfc3339


def blocking(
    attachments: Iterable[VolumeAttachment], node: str, spared: frozenset[str]
) -> tuple[VolumeAttachment, ...]:
    """The attachments that the node's end waits for: all but those of the spared volumes, in their order."""
    return tuple(
        item
        for item in attachments
        if item.spec.node_name == node and item.spec.source.persistent_volume_name not in spared
    )


def volumes_of(pods: Sequence[Pod], state: State) -> frozenset[str]:
    """Names of the volumes that the pods hold through claims."""
    found = set()
    for pod in pods:
        for volume in pod.spec.volumes:
            name = ""
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            claim = state.get(PersistentVolumeClaim, f"{pod.metadata.namespace}/{name}") if name else None
            if claim is not None and claim.spec.volume_name:
                found.add(claim.spec.volume_name)
    return frozenset(found)


MIN_DRAIN = 5 * SECOND
_VOLUME_POLL = SECOND
_DRAIN_POLL = 10 * SECOND
_OPENING_POLL = SECOND // 5  # while a node is about to open to pods that are to be evicted then


class NodeTermination:
    """Takes deleted nodes to their end. What it remembers is in the API objects, evictions excepted."""

    def __init__(self, context: Context, evictions: EvictionQueue) -> None:
        self._context = context
        self._guard = TerminationGuard(context)
        self._evictions = evictions
        self._places = PlacesInTurn(context)
        self._queue = context.queue(
            "node.termination",
            self.reconcile,
            of=Node,
            concurrency=100,
            on_failure=failure_log(context.log),
        )
        context.state.subscribe(self._notice)

    async def run(self) -> None:
        """Work for ever."""
        for node in self._context.state.all(Node):
            self._queue.add(node.key)
        await self._queue.run()

    def _notice(
        self,
        kind: type[Object],
        _change: ChangeType,
        old: Object | None,
        new: Object | None,
    ) -> None:
        state = self._context.state
        if kind is Node and new is not None and new.deleting:
            self._queue.add(new.key)
        elif kind is Pod:
            for pod in (old, new):
                node = state.get(Node, pod.spec.node_name) if isinstance(pod, Pod) else None
                if node is not None and node.deleting:
                    self._queue.add(node.key)

    async def reconcile(self, name: str) -> int | None:
        """Bring one node nearer to its end; answers when to look again."""
        context = self._context
        try:
            node = await context.read(Node, name)
        except NotFound:
            await self._places.end(name)
            return None
        if not node.deleting or labels.TERMINATION_FINALIZER not in node.metadata.finalizers:
            return None
        claim = await self._claim(node)
        if claim is not None and not claim.deleting:
            await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
            claim = await self._claim(node)
        if await self._is_dead(node):
            await self._finish(node)
            return None
        if claim is None and node.spec.provider_id in await self._guarded():
            return HELD_POLL
        node = await self._taint(node)
        again, claim = await self._drain(node, claim)
        if again is None:
            again, claim = await self._detach(node, claim)
        if again is None:
            again = await self._end_instance(node, claim)
        if again is None:
            await self._finish(node)
        return again

    async def _guarded(self) -> frozenset[str]:
        """Provider ids of the nodes that lost their claims, if those are too many to be ended now."""
        state = self._context.state
        ours = [node for node in state.all(Node) if labels.TERMINATION_FINALIZER in node.metadata.finalizers]
        unclaimed = [node.spec.provider_id for node in ours if state.claim_of(node) is None]
        return await self._guard.kept(unclaimed, len(ours))

    async def _claim(self, node: Node) -> NodeClaim | None:
        """The node's claim as the API server has it now."""
        known = self._context.state.claim_of(node)
        if known is None:
            return None
        try:
            return await self._context.read(NodeClaim, known.metadata.name)
        except NotFound:
            return None

    async def _is_dead(self, node: Node) -> bool:
        """True iff the kubelet is silent and the cloud has no such instance: nothing is left to drain.

        One that says it is not ready speaks: the cloud may not show an instance that has just begun.
        """
        ready = condition(node.status.conditions, "Ready")
        if ready is not None and ready.status != "Unknown":
            return False
        try:
            await self._context.provider.get(node.spec.provider_id)
        except InstanceNotFound:
            return True
        return False

    async def _taint(self, node: Node) -> Node:
        """Keep new pods away, and new connections of load balancers."""
        tainted = any(same_taint(taint, DISRUPTED) for taint in node.spec.taints)
        if tainted and node.metadata.labels.get(labels.EXCLUDE_BALANCERS):
            return node
        taints = [taint for taint in node.spec.taints if not same_taint(taint, DISRUPTED)]
        merge = {
            "metadata": {
                "resourceVersion": node.metadata.resource_version,
                "labels": {labels.EXCLUDE_BALANCERS: "karpenter"},
            },
            "spec": {"taints": [encode(taint) for taint in (*taints, DISRUPTED)]},
        }
        return await self._context.client.patch(Node, node.metadata.name, merge=merge)

    async def _drain(self, node: Node, claim: NodeClaim | None) -> tuple[int | None, NodeClaim | None]:
        """When to look again while pods are left, or the least time of a drain is not over."""
        if claim is not None and status_of(claim, DRAINED) == "True":
            return None, claim
        claim = await self._mark(claim, DRAINED, "Unknown", "Draining")
        now = self._context.clock.now()
        limit = deadline(claim) if claim is not None else None
        pods = self._context.state.pods_on(node.metadata.name)
        step = decide(pods, now, limit, allocatable(Machine(node, claim)))
        step = await self._surged(step, node, claim)
        due = await self._places.due(node.metadata.name, step.evict)
        first = tuple(pod for pod in due if not self._later(pod))
        poll = _DRAIN_POLL if len(first) == len(step.evict) else _OPENING_POLL
        await self._act(replace(step, evict=first), node, claim, limit)
        if step.waiting:
            return min(poll, step.again - now) if step.again else poll, claim
        begun = since(claim, DRAINED) if claim is not None else now - MIN_DRAIN
        if now - begun < MIN_DRAIN:
            return MIN_DRAIN - (now - begun), claim
        return None, await self._mark(claim, DRAINED, "True", "")

    async def _surged(self, step: DrainStep, node: Node, claim: NodeClaim | None) -> DrainStep:
        """Without the pods whose owners bring up others first: those leave by themselves then."""
        surges = self._context.surges
        if surges is None or not surges.enabled or claim is None:
            return step
        begun, name = since(claim, DRAINED), node.metadata.name
        held = await surges.hold(step.evict, (name,), begun, claim.metadata.uid)
        return replace(step, evict=tuple(pod for pod in step.evict if pod.metadata.uid not in held))

    def _later(self, pod: Pod) -> bool:
        """True iff the node that the pod's successor is planned to go to is up, and about to open.

        It does once those of the other pods are placed, for which there is room elsewhere: by the scheduler's
        scores they would go to the new node, and crowd out the ones that it was bought for.
        """
        state = self._context.state
        place = state.moves_to(pod)
        if place is None or place.claim is None:
            return False
        return lacks_only_opening(state, place.node, place.claim)

    async def _act(self, step: DrainStep, node: Node, claim: NodeClaim | None, limit: int | None) -> None:
        name = node.metadata.name
        reason = "Forceful Termination"
        found = condition(claim.status.conditions, DISRUPTION_REASON) if claim is not None else None
        if found is not None:
            reason = found.reason
        if limit is not None and step.waiting:
            await self._warn_of_deadline(node, claim, limit)
        for deletion in step.delete:
            await self._delete(deletion, limit or 0, reason)
        self._evictions.keep_only(name, frozenset(pod.metadata.uid for pod in step.evict))
        for pod in step.evict:
            self._evictions.add(pod, node, reason)
        if step.waiting:
            text = f"Failed to drain node, {len(step.waiting)} pods are waiting to be evicted"
            await self._context.recorder.publish(node, "Warning", "FailedDraining", text, dedupe=(name,))

    async def _warn_of_deadline(self, node: Node, claim: NodeClaim | None, limit: int) -> None:
        text = f"All pods will be deleted by {to_rfc3339(limit)}"
        for obj in (node, claim):
            if obj is not None:
                await self._context.recorder.publish(
                    obj,
                    "Warning",
                    "TerminationGracePeriodExpiring",
                    text,
                    dedupe=(obj.KIND, obj.metadata.name),
                )

    async def _delete(self, deletion: Deletion, limit: int, reason: str) -> None:
        """Delete past budgets and do-not-disrupt: the node's time is nearly up."""
        pod, meta = deletion.pod, deletion.pod.metadata
        text = (
            f"Deleting the pod to accommodate the terminationTime {to_rfc3339(limit)} of the node."
            f" The pod was granted {deletion.grace_seconds} seconds of grace-period of its"
            f" {pod.spec.termination_grace_period_seconds} terminationGracePeriodSeconds."
            " This bypasses the PDB of the pod and the do-not-disrupt annotation."
        )
        await self._context.recorder.publish(pod, "Normal", "Disrupted", text, dedupe=(meta.uid,))
        log, node = self._context.log, pod.spec.node_name
        log.record("pod.forced", pod=pod.key, node=node, grace=deletion.grace_seconds, reason=reason)
        try:
            await self._context.client.delete(
                Pod, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=deletion.grace_seconds
            )
        except NotFound:
            return
        self._evictions.drained(meta.uid, reason)

    async def _detach(self, node: Node, claim: NodeClaim | None) -> tuple[int | None, NodeClaim | None]:
        """When to look again while volumes are attached that pods elsewhere may wait for."""
        if claim is not None and status_of(claim, VOLUMES_DETACHED) != "Unknown":
            return None, claim
        state, now = self._context.state, self._context.clock.now()
        staying = [pod for pod in state.pods_on(node.metadata.name) if not drainable(pod)]
        listing = await self._context.client.list(VolumeAttachment)
        attachments = (*listing.items, *(item.salvaged for item in listing.unreadable))
        held = blocking(attachments, node.metadata.name, volumes_of(staying, state))
        if not held:
            return None, await self._mark(claim, VOLUMES_DETACHED, "True", "")
        limit = deadline(claim) if claim is not None else None
        if limit is not None and now >= limit:
            return None, await self._mark(claim, VOLUMES_DETACHED, "False", "TerminationGracePeriodElapsed")
        claim = await self._mark(claim, VOLUMES_DETACHED, "Unknown", "AwaitingVolumeDetachment")
        names = ", ".join(item.metadata.name for item in held)
        await self._context.recorder.publish(
            node,
            "Normal",
            "AwaitingVolumeDetachment",
            f"Awaiting deletion of bound volumeattachments ({names})",
            dedupe=(node.metadata.name,),
        )
        return _VOLUME_POLL, claim

    async def _end_instance(self, node: Node, claim: NodeClaim | None) -> int | None:
        if await instance_gone(self._context, node.spec.provider_id):
            return None
        await self._mark(claim, INSTANCE_TERMINATING, "True", "")
        return POLL

    async def _mark(self, claim: NodeClaim | None, kind: str, status: str, reason: str) -> NodeClaim | None:
        if claim is None:
            return None
        return await write(self._context, claim, Condition(type=kind, status=status, reason=reason))

    async def _finish(self, node: Node) -> None:
        self._evictions.keep_only(node.metadata.name, frozenset())
        await self._places.end(node.metadata.name)
        await drop_finalizer(self._context, await self._context.read(Node, node.metadata.name))
