"""What a do-not-disrupt annotation comes to, as events on the pod, the node or the claim that has it."""

from __future__ import annotations

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.controllers.context import Context
from dovetail.disrupt.faults import ignored_mark, node_mark_fault
from dovetail.disrupt.pods import do_not_disrupt_error, do_not_disrupt_until
from dovetail.model import labels
from dovetail.units.timestamp import to_rfc3339

_KINDS: tuple[type[Object], ...] = (Pod, Node, NodeClaim)


class DoNotDisrupt:
    """Says of a value that cannot be read that it is ignored, and of a duration when it begins and ends."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("pod.donotdisrupt", self.reconcile, of=self._marked)
        context.state.subscribe(self.notice)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Look at objects whose annotation is news, or their start."""
        if old is not None and new is None and kind in _KINDS:
            self.queue.forget(f"{kind.KIND} {old.key}")
        if kind not in _KINDS or new is None or _value(new) in ("", "true"):
            return
        if old is None or _facts(old) != _facts(new):
            self.queue.add(f"{kind.KIND} {new.key}")

    async def reconcile(self, key: str) -> int | None:
        """Report what there is about "KIND KEY"; come back when the duration of a pod is over."""
        found = self._marked(key)
        if found is None or found.deleting:
            return None
        if isinstance(found, Pod):
            return await self._pod(found)
        if not found.metadata.labels.get(labels.NODEPOOL):
            return None
        message = ignored_mark(node_mark_fault(found))
        await self._context.recorder.publish(found, "Warning", "InvalidDoNotDisruptAnnotation", message)
        return None

    def _marked(self, key: str) -> Object | None:
        """The object of "KIND KEY"."""
        name, _, found = key.partition(" ")
        return next((self._context.state.get(kind, found) for kind in _KINDS if name == kind.KIND), None)

    async def _pod(self, pod: Pod) -> int | None:
        if pod.terminal:
            return None
        publish, name = self._context.recorder.publish, labels.DO_NOT_DISRUPT
        error = do_not_disrupt_error(pod)
        if error:
            await publish(pod, "Warning", "InvalidDoNotDisruptAnnotation", ignored_mark(error))
            return None
        until = do_not_disrupt_until(pod)
        if until is None:
            return None
        left = until - self._context.clock.now()
        if left > 0:
            message = f"The {name} grace period will elapse at {to_rfc3339(until)}"
            await publish(pod, "Normal", "DoNotDisruptUntil", message)
            return left
        message = f"The {name} grace period has elapsed, pod is now disruptable"
        await publish(pod, "Normal", "DoNotDisruptGracePeriodElapsed", message)
        return None


def _value(obj: Object) -> str:
    return obj.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")


def _facts(obj: Object) -> tuple[str, str]:
    return _value(obj), obj.status.start_time if isinstance(obj, Pod) else ""
