"""What a pod's do-not-disrupt annotation comes to, told as events on the pod."""

from __future__ import annotations

from dovetail.api.core import Pod
from dovetail.api.meta import Object
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import Reconciler
from dovetail.disrupt.pods import do_not_disrupt_error, do_not_disrupt_until
from dovetail.model import labels
from dovetail.units.timestamp import to_rfc3339


class DoNotDisrupt:
    """Says of a value that cannot be read that it is ignored, and of a duration when it begins and ends."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = Reconciler("pod.donotdisrupt", context.clock, self.reconcile)
        context.state.subscribe(self.notice)

    def notice(self, _: type[Object], __: str, old: Object | None, new: Object | None) -> None:
        """Look at pods whose annotation or start is news."""
        if not isinstance(new, Pod) or new.metadata.annotations.get(labels.DO_NOT_DISRUPT, "true") == "true":
            return
        if not isinstance(old, Pod) or _facts(old) != _facts(new):
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> int | None:
        """Tell what there is to tell; come back when the duration is over."""
        pod = self._context.state.get(Pod, key)
        if pod is None or pod.terminal or pod.deleting:
            return None
        publish, name = self._context.recorder.publish, labels.DO_NOT_DISRUPT
        error = do_not_disrupt_error(pod)
        if error:
            message = f"Invalid {name} annotation: {error}, ignoring annotation"
            await publish(pod, "Warning", "InvalidDoNotDisruptAnnotation", message)
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


def _facts(pod: Pod) -> tuple[str, str]:
    return pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, ""), pod.status.start_time
