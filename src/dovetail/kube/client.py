"""The API server's port. Behind it: `kube/memory` (embedded) or a real server (`kube/http`).

Reads answer typed, frozen views. Writes are creations and patches, never whole updates: a view holds only
the fields that Dovetail reads, and writing it back would lose the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from dovetail.api.meta import Object
from dovetail.kube.unreadable import Unreadable

T = TypeVar("T", bound=Object)
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
EventType = ChangeType | Literal["BOOKMARK"]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The objects of one kind at one moment, in order of namespace and name.

    `unreadable` are there too, and match: whoever acts on what is missing must count them as present.
    """

    items: tuple[T, ...]
    resource_version: str
    unreadable: tuple[Unreadable[T], ...] = ()


# Made for each change and watch: a quarter of the time that a frozen dataclass takes.
class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change. A BOOKMARK carries only `resource_version`; its `object` is None.

    So it is of one whose object cannot be read, which is `unreadable`.
    """

    type: EventType
    object: T | None
    resource_version: str
    unreadable: Unreadable[T] | None = None


class Client(Protocol):
    """Every method may raise ApiError; each says which of its kinds mean something to the caller.

    `labels` and `fields` are selectors in the text form ("app=web,tier!=db", "spec.nodeName=n1").
    An empty namespace means all namespaces in `list` and `watch`, and "cluster-scoped" elsewhere.
    """

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Raises NotFound."""

    async def list(
        self, kind: type[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """All that match, with the version to start a watch from."""

    def watch(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes after that version, for ever. Raises Expired when the version is no longer kept."""

    async def create(self, obj: T) -> T:
        """Raises AlreadyExists, Invalid, BadRequest. `generate_name` gets five random characters."""

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        json: Sequence[Mapping[str, Any]] | None = None,
        status: bool = False,
    ) -> T:
        """JSON merge patch or JSON patch, on the object or on its status subresource.

        A `metadata.resourceVersion` inside a merge patch is a precondition: Conflict when it differs.
        Raises NotFound, Conflict, Invalid.
        """

    async def delete(
        self,
        kind: type[Object],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """Mark for deletion; the object goes once its finalizers and (pods) its grace period are over.

        Raises NotFound, and Conflict when `uid` is given and differs.
        """

    async def evict(self, name: str, namespace: str, *, uid: str = "", resource_version: str = "") -> None:
        """Delete a pod if its PodDisruptionBudgets allow it.

        Raises TooManyRequests when a budget does not allow it now, ApiError (500) when several budgets
        match, NotFound, and Conflict when `uid` or `resource_version` is given and differs.
        """

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Give a pending pod its node, once. Raises NotFound, Conflict when it already has one."""
