"""Which gangs run, of which no pod is taken to save money."""

from __future__ import annotations

from dovetail.api.core import Pod
from dovetail.api.meta import Object
from dovetail.cluster.state import State
from dovetail.kube.client import ChangeType
from dovetail.model.gangs import Running, marked


class RunningGangs:
    """Follows the pods that say that they are of a group: hardly any, in most clusters."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._marked: dict[str, Pod] = {}
        self._known: tuple[int, Running] | None = None  # as of a revision
        state.subscribe(self._notice, Pod)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        if isinstance(new, Pod) and marked(new):
            self._marked[new.key] = new
        elif isinstance(old, Pod) and self._marked:
            self._marked.pop(old.key, None)

    def stopped_without(self, pod: Pod) -> str:
        """See `Running`."""
        if pod.key not in self._marked:
            return ""
        revision = self._state.revision
        if self._known is None or self._known[0] != revision:
            self._known = revision, Running(self._marked.values(), self._state.groups())
        return self._known[1].stopped_without(pod)
