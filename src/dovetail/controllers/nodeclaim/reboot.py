"""Nodes that node repair reboots: drained for a while, rebooted, awaited; replaced if that comes to nothing.

What is known of a reboot is on the claim: its condition Rebooting, and annotations. See `request`.
"""

from __future__ import annotations

from contextlib import suppress

from dovetail.api.codec import encode
from dovetail.api.core import Node, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, Object, condition, is_true
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import CloudError, InstanceNotFound, NotFound, RebootRefused
from dovetail.base.metrics import Metric
from dovetail.cloud.provider import REJECTED
from dovetail.cluster.nodes import REBOOTING_TAINT, Machine, allocatable
from dovetail.controllers.brakes.guard import HELD_POLL, held
from dovetail.controllers.context import Context
from dovetail.controllers.node.drain import decide
from dovetail.controllers.node.evict import EvictionQueue
from dovetail.controllers.nodeclaim.disrupted import (
    EVENTUAL,
    FORCEFUL,
    GRACEFUL,
    count_disrupted,
    count_unhealthy,
)
from dovetail.controllers.nodeclaim.status import (
    DISRUPTION_REASON,
    INITIALIZED,
    REBOOTING,
    cut,
    since,
    write,
)
from dovetail.controllers.nodeclaim.terminate import limit_drain
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.command import UNHEALTHY
from dovetail.disrupt.repair import committed
from dovetail.model import labels
from dovetail.model.taints import same_taint
from dovetail.units.duration import format_duration, parse_duration
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

REQUESTED, ISSUED = "RebootRequested", "RebootIssued"
SUCCEEDED, FAILED = "RebootSucceeded", "RebootFailed"
MIN_DRAIN = 5 * SECOND
_DRAIN_POLL = 2 * SECOND
ISSUANCE = 5 * MINUTE  # how long the cloud is asked
OBSERVE_POLL = 15 * SECOND
OBSERVATION = 20 * MINUTE  # how long the node may take
NOT_ISSUED = "reboot was not issued within the issuance timeout"
NOT_RECOVERED = "node did not recover within the observation window"
_AWAY = Condition(type=INITIALIZED, status="Unknown", reason="Rebooting", message="node is rebooting")

_SECONDS = tuple(10.0 * 2**power for power in range(8))
REBOOTS = Metric(
    "karpenter_nodes_reboots_total",
    "counter",
    "Reboots of unhealthy nodes that are over, by how they ended.",
    ("result",),
)
DURATION = Metric(
    "karpenter_nodes_reboot_duration_seconds",
    "histogram",
    "How long reboots of unhealthy nodes took, from the request to their end.",
    ("result",),
    _SECONDS,
)
RECOVERY = Metric(
    "karpenter_nodes_reboot_recovery_duration_seconds",
    "histogram",
    "How long it took from the cloud's consent to a reboot until the node was ready.",
    (),
    _SECONDS,
)
ALL = (REBOOTS, DURATION, RECOVERY)
_SUCCESS, _REFUSED = "succeeded", "provider_error"
_TIMED_OUT, _INVALID = "recovery_timeout", "invalid_request"
_WHY = "rebooting for "  # condition/reason


async def request(context: Context, claim: NodeClaim, bound: int | None, why: str) -> None:
    """Have the claim's node rebooted for `why`; its pods get `bound` (ns) to leave, None for no limit.

    Raises ApiError: then nothing is requested.
    """
    known = await context.read(NodeClaim, claim.metadata.name)
    annotations = {
        labels.REBOOT_GRACE: None if bound is None else format_duration(bound),
        labels.PRE_BOOT_ID: None,
        labels.REBOOT_DRAINED: None,
        labels.REBOOTS: ",".join(map(to_rfc3339, committed(known, context.clock.now()))),
    }
    merge = {
        "metadata": {"resourceVersion": known.metadata.resource_version, "annotations": annotations},
    }
    known = await context.client.patch(NodeClaim, known.metadata.name, merge=merge)
    asked = Condition(type=REBOOTING, status="True", reason=REQUESTED, message=cut(_WHY + why))
    begun = Condition(type=DISRUPTION_REASON, status="True", reason=UNHEALTHY)
    await write(context, known, asked, begun)


class Reboots:
    """Carries out what was requested. A restart may happen between any two steps."""

    def __init__(self, context: Context, evictions: EvictionQueue) -> None:
        self._context = context
        self._evictions = evictions
        self.queue = context.queue(
            "nodeclaim.reboot", self.reconcile, of=NodeClaim, on_failure=failure_log(context.log)
        )
        context.state.subscribe(self._notice, NodeClaim)

    def _notice(self, _: type[Object], __: str, ___: Object | None, new: Object | None) -> None:
        if isinstance(new, NodeClaim) and is_true(new.status.conditions, REBOOTING):
            self.queue.add(new.key)

    async def reconcile(self, name: str) -> int | None:
        """Bring one reboot nearer to its end; answers when to look again."""
        context = self._context
        try:
            claim = await context.read(NodeClaim, name)
        except NotFound:
            return None
        asked = condition(claim.status.conditions, REBOOTING)
        if claim.deleting or asked is None or asked.status != "True":
            return None
        try:
            bound = _bound(claim)
        except ValueError as error:
            await self._give_up(claim, f"invalid reboot request: {error}")
            return None
        known = context.state.node_of(claim)
        if known is None:
            return OBSERVE_POLL  # whoever finds that it is gone ends the claim
        node = await context.read(Node, known.metadata.name)
        if asked.reason == ISSUED:
            return await self._observe(claim, node, bound)
        if labels.REBOOT_DRAINED not in claim.metadata.annotations:
            again = await self._drain(claim, node, bound)
            if again is not None:
                return again
            claim = await self._drained(claim, node)
        return await self._issue(claim, node, bound)

    async def _drain(self, claim: NodeClaim, node: Node, bound: int | None) -> int | None:
        """When to look again while pods may still leave: they are evicted, and none is deleted by force."""
        node = await self._taint(node)
        now, name = self._context.clock.now(), node.metadata.name
        end = None if bound is None else since(claim, REBOOTING) + (max(bound, MIN_DRAIN) if bound else 0)
        pods = self._context.state.pods_on(name)
        step = decide(pods, now, None, allocatable(Machine(node, claim)))
        if not step.waiting or (end is not None and now >= end):
            self._evictions.keep_only(name, frozenset())
            return None
        self._evictions.keep_only(name, frozenset(pod.metadata.uid for pod in step.evict))
        for pod in step.evict:
            self._evictions.add(pod, node, UNHEALTHY)
        return _DRAIN_POLL if end is None else min(_DRAIN_POLL, end - now)

    async def _drained(self, claim: NodeClaim, node: Node) -> NodeClaim:
        """The claim, with the boot that is to be the last one and the time from which the cloud is asked."""
        annotations = {
            labels.PRE_BOOT_ID: node.status.node_info.boot_id,
            labels.REBOOT_DRAINED: to_rfc3339(self._context.clock.now()),
        }
        meta = claim.metadata
        merge = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}}
        return await self._context.client.patch(NodeClaim, meta.name, merge=merge)

    async def _issue(self, claim: NodeClaim, node: Node, bound: int | None) -> int:
        """Raises CloudError: then the cloud is asked again."""
        before = claim.metadata.annotations[labels.PRE_BOOT_ID]
        if node.status.node_info.boot_id == before:  # else it was asked, and the answer was lost
            operation = f"{claim.metadata.uid}-{since(claim, REBOOTING)}-{before}"
            try:
                await self._context.provider.machines.reboot(claim.status.provider_id, operation)
            except InstanceNotFound as error:
                return await self._fail(claim, bound, f"{REJECTED}: {error}", _REFUSED)
            except RebootRefused as error:
                return await self._fail(claim, bound, str(error), _REFUSED)
            except CloudError:
                if self._context.clock.now() < _drained_at(claim) + ISSUANCE:
                    raise
                return await self._fail(claim, bound, NOT_ISSUED, _REFUSED)
        issued = Condition(
            type=REBOOTING,
            status="True",
            reason=ISSUED,
            message=_message(claim),
        )
        await write(self._context, claim, issued, _AWAY)
        self._context.log.record("reboot.issued", claim=claim.metadata.name, node=node.metadata.name)
        return OBSERVE_POLL

    async def _observe(self, claim: NodeClaim, node: Node, bound: int | None) -> int | None:
        """It is over once the node has booted anew and is ready, or has taken too long."""
        context = self._context
        await self._drop_label(Node, node)
        await self._drop_label(NodeClaim, claim)
        now, issued = context.clock.now(), max(_drained_at(claim), since(claim, INITIALIZED))
        if node.status.node_info.boot_id != claim.metadata.annotations.get(labels.PRE_BOOT_ID, ""):
            if await self._untaint(node):
                text = "New boot observed (bootID changed); awaiting node readiness"
                await context.recorder.publish(claim, "Normal", "RebootObserved", text)
            if is_true(node.status.conditions, "Ready"):
                context.metrics.observe(RECOVERY, (now - issued) / SECOND)
                await self._succeed(claim)
                return None
        if now - issued >= OBSERVATION:
            return await self._fail(claim, bound, NOT_RECOVERED, _TIMED_OUT)
        return min(OBSERVE_POLL, issued + OBSERVATION - now)

    async def _succeed(self, claim: NodeClaim) -> None:
        text = "node rebooted and rejoined the cluster"
        done = Condition(type=REBOOTING, status="False", reason=SUCCEEDED, message=text)
        requested = since(claim, REBOOTING)
        await write(self._context, await self._latest(claim), done, drop=DISRUPTION_REASON)
        self._ended(claim, requested, _SUCCESS)

    async def _give_up(self, claim: NodeClaim, text: str) -> None:
        """What cannot be read is no request: the node stays as it is."""
        node = self._context.state.node_of(claim)
        if node is not None:
            self._evictions.keep_only(node.metadata.name, frozenset())
            await self._untaint(await self._context.read(Node, node.metadata.name))
        await self._context.recorder.publish(claim, "Warning", FAILED, cut(text))
        done = Condition(type=REBOOTING, status="False", reason=FAILED, message=cut(text))
        requested = since(claim, REBOOTING)
        await write(self._context, claim, done, drop=DISRUPTION_REASON)
        self._ended(claim, requested, _INVALID)

    async def _fail(self, claim: NodeClaim, bound: int | None, text: str, result: str) -> int:
        """The node is replaced, unless a brake keeps it: its pods have as much time as they were given."""
        context, name = self._context, claim.metadata.name
        if await held(context, claim, "unhealthy"):
            return HELD_POLL
        await context.recorder.publish(claim, "Warning", FAILED, cut(text))
        mode = GRACEFUL if bound is None else EVENTUAL if bound else FORCEFUL
        count_disrupted(context, claim, UNHEALTHY.lower(), mode)
        count_unhealthy(context, claim, _message(claim).removeprefix(_WHY).partition("/")[0], mode)
        if bound is not None:
            await limit_drain(context, claim, bound)
        await context.client.delete(NodeClaim, name, uid=claim.metadata.uid)
        self._ended(claim, since(claim, REBOOTING), result)
        failed = Condition(type=REBOOTING, status="False", reason=FAILED, message=cut(text))
        with suppress(NotFound):
            await write(context, await context.read(NodeClaim, name), failed)
        return OBSERVE_POLL

    def _ended(self, claim: NodeClaim, requested: int, result: str) -> None:
        context = self._context
        took = (context.clock.now() - requested) / SECOND
        context.metrics.add(REBOOTS, result=result)
        context.metrics.observe(DURATION, took, result=result)
        context.log.record("reboot.ended", claim=claim.metadata.name, result=result, seconds=took)

    async def _latest(self, claim: NodeClaim) -> NodeClaim:
        return await self._context.read(NodeClaim, claim.metadata.name)

    async def _drop_label(self, kind: type[Node] | type[NodeClaim], obj: Node | NodeClaim) -> None:
        """It is not initialized any more."""
        if labels.INITIALIZED in obj.metadata.labels:
            merge = {"metadata": {"uid": obj.metadata.uid, "labels": {labels.INITIALIZED: None}}}
            await self._context.client.patch(kind, obj.metadata.name, merge=merge)

    async def _taint(self, node: Node) -> Node:
        if any(same_taint(taint, REBOOTING_TAINT) for taint in node.spec.taints):
            return node
        return await self._write_taints(node, [*node.spec.taints, REBOOTING_TAINT])

    async def _untaint(self, node: Node) -> bool:
        """True iff it had the taint."""
        kept = [taint for taint in node.spec.taints if taint.key != labels.REBOOTING_TAINT]
        if len(kept) == len(node.spec.taints):
            return False
        await self._write_taints(node, kept)
        return True

    async def _write_taints(self, node: Node, taints: list[Taint]) -> Node:
        merge = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [encode(taint) for taint in taints]},
        }
        return await self._context.client.patch(Node, node.metadata.name, merge=merge)


def _message(claim: NodeClaim) -> str:
    found = condition(claim.status.conditions, REBOOTING)
    return found.message if found is not None else ""


def _bound(claim: NodeClaim) -> int | None:
    """How long its pods may take to leave, None for ever. Raises ValueError."""
    text = claim.metadata.annotations.get(labels.REBOOT_GRACE)
    found = None if text is None else parse_duration(text)
    if found is not None and found < 0:
        raise ValueError(f"{text!r} is less than no time")
    if labels.REBOOT_DRAINED in claim.metadata.annotations:
        _drained_at(claim)
    return found


def _drained_at(claim: NodeClaim) -> int:
    """Raises ValueError."""
    return parse_rfc3339(claim.metadata.annotations[labels.REBOOT_DRAINED])
