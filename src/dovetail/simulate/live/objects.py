"""A scenario's manifests on a real cluster: applied, changed, and taken away again."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from dovetail.api.core import Namespace, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, InputError, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.kube.http import wire
from dovetail.kube.http.client import HttpClient
from dovetail.kube.http.transport import Request
from dovetail.reading import Manifest
from dovetail.simulate.scenario.manifests import Change, in_order, laid_over, wanted

_ROUNDS = 120  # in which everything is taken away; each takes half a second
_MERGE = "application/merge-patch+json"


class Objects:
    """Remembers what it made, so that all of it can be taken away."""

    def __init__(self, client: HttpClient, clock: Clock, log: EventLog) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._made: list[tuple[type[Object], str, str]] = []  # (kind, name, namespace), in order

    async def apply(self, manifests: Sequence[Manifest]) -> None:
        """Create all. Raises InputError for one that the server refuses."""
        for manifest in in_order(manifests):
            if manifest.object.metadata.namespace:
                await self._namespace(manifest.object.metadata.namespace)
            await self._put(manifest, patch=False)

    async def change(self, changes: Sequence[Change]) -> None:
        """Each at its time. Raises InputError for a manifest that the server refuses then."""
        for change in sorted(changes, key=lambda change: change.at):
            await self._clock.sleep(max(0, change.at - self._clock.now()))
            for manifest in change.manifests:
                await self._put(manifest, patch=True)
                self._log.record("change", what=manifest.object.KIND, name=manifest.object.key)

    async def remove(self) -> None:
        """Everything that was made, and what the controllers made of it; no controller runs any more.

        All nodes of the cluster are ours, and so is what stands on them.
        """
        for kind, name, namespace in reversed(self._made):
            await self._delete(kind, name, namespace)
            await self._release(kind, name, namespace)
        for _ in range(_ROUNDS):
            if not await self._remains():
                return
            await self._clock.sleep(SECOND // 2)

    async def _remains(self) -> bool:
        """Take away what is still there; True iff something was."""
        found = False
        for kind in (Pod, NodeClaim, Node):
            for item in (await self._client.list(kind)).items:
                if isinstance(item, Pod) and not item.spec.node_name:
                    continue
                found, meta = True, item.metadata
                if meta.finalizers:
                    await self._release(kind, meta.name, meta.namespace)
                await self._delete(kind, meta.name, meta.namespace)
        return found

    async def _put(self, manifest: Manifest, *, patch: bool) -> None:
        kind, meta, document = type(manifest.object), manifest.object.metadata, wanted(manifest)
        document.pop("status", None)
        namespace = (meta.namespace or "default") if kind.NAMESPACED else ""
        try:
            try:
                await self._ask("POST", wire.path(kind, namespace), document)
                self._made.append((kind, meta.name, namespace))
            except AlreadyExists:
                if patch:
                    fields = laid_over(manifest)
                    await self._ask("PATCH", wire.path(kind, namespace, meta.name), fields, _MERGE)
        except ApiError as error:
            raise _refused(manifest, error) from None

    async def _namespace(self, name: str) -> None:
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._ask("POST", wire.path(Namespace), document)
            self._made.append((Namespace, name, ""))
        except AlreadyExists:
            return

    async def _ask(self, method: str, path: str, body: Any, content: str = "application/json") -> None:
        await self._client.transport.ask(Request(method, path, body=body, content=content))

    async def _release(self, kind: type[Object], name: str, namespace: str) -> None:
        """Nothing runs any more that does what its finalizers wait for."""
        merge: dict[str, Any] = {"metadata": {"finalizers": []}}
        await _unless_gone(self._client.patch(kind, name, namespace, merge=merge))

    async def _delete(self, kind: type[Object], name: str, namespace: str) -> None:
        grace = 0 if kind is Pod else None
        await _unless_gone(self._client.delete(kind, name, namespace, grace_period_seconds=grace))


async def _unless_gone(asking: Awaitable[object]) -> None:
    try:
        await asking
    except NotFound:
        return


def _refused(manifest: Manifest, error: ApiError) -> InputError:
    kind, key = manifest.object.KIND, manifest.object.key
    return InputError(f"{kind} {key}: {error}", source=manifest.source, line=manifest.line)
