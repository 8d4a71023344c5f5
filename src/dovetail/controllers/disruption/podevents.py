"""status.lastPodEventTime of claims: when a pod last came to or left their node."""

from __future__ import annotations

from contextlib import suppress

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, condition, is_true
from dovetail.base.clock import SECOND
from dovetail.base.errors import NotFound
from dovetail.controllers.context import Context
from dovetail.disrupt.pods import owned_by
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

DEDUPE = 10 * SECOND


class PodEvents:
    """Notes binds, ends and deletions of pods, daemon pods excepted; written at most every 10 s per claim.

    The first sight of a pod after a start is no event: only its binding counts, at the time it happened. A
    restart therefore does not begin consolidateAfter anew.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._latest: dict[str, int] = {}  # claim -> the newest event, nanoseconds
        self.queue = context.queue("nodeclaim.podevents", self.reconcile, of=NodeClaim)
        context.state.subscribe(self.notice)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Note the pod's event for the claim of its node; look again at claims that got their node."""
        if kind is Pod:
            before, after = _pod(old), _pod(new)
            present = after or before
            if present is None or not present.spec.node_name or owned_by(present, "DaemonSet"):
                return
            instant = event(before, after, self._context.clock.now(), live=self._context.state.news())
            node = self._context.state.get(Node, present.spec.node_name)
            claim = self._context.state.claim_of(node) if node is not None else None
            if instant is not None and claim is not None:
                self._note(claim.metadata.name, instant)
        elif kind is NodeClaim and new is None and old is not None:
            self._latest.pop(old.key, None)
        elif isinstance(new, Node) and old is None:
            for pod in self._context.state.pods_on(new.metadata.name):
                self.notice(Pod, "ADDED", None, pod)

    async def reconcile(self, key: str) -> int | None:
        """Write the newest event, unless one was written less than 10 s before it."""
        claim = self._context.state.get(NodeClaim, key)
        latest = self._latest.get(key)
        if claim is None or latest is None:
            self._latest.pop(key, None)
            return None
        written = claim.status.last_pod_event_time
        if not written or latest >= parse_rfc3339(written) + DEDUPE:
            merge = {"status": {"lastPodEventTime": to_rfc3339(latest)}}
            with suppress(NotFound):
                await self._context.client.patch(NodeClaim, key, merge=merge, status=True)
        if self._latest.get(key) == latest:  # it is forgotten once it is written: the server may refuse
            del self._latest[key]
        return None

    def _note(self, claim: str, instant: int) -> None:
        self._latest[claim] = max(instant, self._latest.get(claim, 0))
        self.queue.add(claim)


def event(old: Pod | None, new: Pod | None, now: int, *, live: bool) -> int | None:
    """When something happened to a bound pod that its node's quiet time counts; None if nothing did. Pure.

    `live` is False while the first lists come in.
    """
    if new is None:
        # Its end was seen before, unless it went at once.
        return now if old is not None and not old.terminal and not old.deleting else None
    if old is None and not live:
        bound = condition(new.status.conditions, "PodScheduled")
        known = bound is not None and is_true(new.status.conditions, "PodScheduled")
        return parse_rfc3339(bound.last_transition_time) if bound and known else None
    bound_now = old is None or not old.spec.node_name
    ended_now = new.terminal and not (old is not None and old.terminal)
    leaving_now = new.deleting and not (old is not None and old.deleting)
    return now if bound_now or ended_now or leaving_now else None


def _pod(obj: Object | None) -> Pod | None:
    return obj if isinstance(obj, Pod) else None
