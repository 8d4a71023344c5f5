"""From what watches show to records of the event log, as the embedded API server's own changes give them."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Event, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer
from dovetail.simulate.observer import Observer

# Claims before nodes: a Node names its claim in no other way than by its instance.
_KINDS: tuple[type[Object], ...] = (NodeClaim, Node, Pod, Event)


class Watching:
    """Informers that tell an Observer. What is there at the start is told as well: the cluster is empty."""

    def __init__(self, client: Client, observer: Observer) -> None:
        self._observer = observer
        self._known: dict[tuple[type[Object], str], Any] = {}
        self._informers = [Informer(client, kind, self._take) for kind in _KINDS]

    def parts(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """One for each kind, for ever."""
        for kind, informer in zip(_KINDS, self._informers, strict=True):
            yield f"log {kind.PLURAL}", informer.run()

    async def synced(self) -> None:
        """Return once all first lists were taken in."""
        for informer in self._informers:
            await informer.wait_synced()

    def _take(self, change: EventType, obj: Object) -> None:
        key, document = (type(obj), obj.key), encode(obj)
        old = self._known.pop(key, None)
        if change != "DELETED":
            self._known[key] = document
        self._observer.observe(change, document, old)
