"""CustomResourceDefinitions: custom kinds exist as long as their definition does, and go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.meta import Object
from dovetail.api.scheme import KINDS
from dovetail.base.errors import ApiError, NotFound
from dovetail.kube.memory import rules, texts
from dovetail.kube.memory.store import Change

if TYPE_CHECKING:
    from dovetail.kube.memory.server import MemoryServer

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """One for each custom kind that the scheme knows; of what they say, only that they are there."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._kinds = {definition_name(kind): kind for kind in KINDS if texts.group(kind) in rules.CUSTOM}
        self._names = {kind: name for name, kind in self._kinds.items()}
        self._ending: set[type[Object]] = set()

    def add_all(self) -> None:
        """Define every custom kind."""
        for kind in self._names:
            self.add(kind)

    def add(self, kind: type[Object]) -> None:
        """Define a custom kind (again). Raises AlreadyExists."""
        made, name = CustomResourceDefinition, self._names[kind]
        document: dict[str, Any] = {"apiVersion": made.API_VERSION, "kind": made.KIND}
        document["metadata"] = {"name": name, "finalizers": [_CLEANUP]}
        self._server.store_new(made, document, ("", name))

    def check(self, kind: type[Object]) -> None:
        """Raises NotFound or ApiError where no object of the kind may be created now."""
        name = self._names.get(kind)
        if name is None:
            return
        record = self._server.store.table(CustomResourceDefinition).records.get(("", name))
        if record is None:
            raise NotFound("the server could not find the requested resource")
        if "deletionTimestamp" in record.document["metadata"]:
            raise ApiError("create not allowed while custom resource definition is terminating")

    def notice(self, change: Change[Any]) -> None:
        """A deleted definition deletes all objects of its kind, and goes with the last of them."""
        kind = change.after.kind
        if kind is CustomResourceDefinition and change.type == "MODIFIED":
            self._end(self._kinds[change.after.document["metadata"]["name"]])
        elif kind in self._names and change.type == "DELETED":
            self._end(kind)

    def _end(self, kind: type[Object]) -> None:
        """Go on with the end of a definition, if it is deleted; what is deleted here is noticed as well."""
        server, name = self._server, self._names[kind]
        record = server.store.table(CustomResourceDefinition).records.get(("", name))
        if record is None or "deletionTimestamp" not in record.document["metadata"] or kind in self._ending:
            return
        self._ending.add(kind)
        for (namespace, key), item in list(server.store.table(kind).records.items()):
            if "deletionTimestamp" not in item.document["metadata"]:
                server.delete(kind, key, namespace)
        self._ending.discard(kind)
        if not server.store.table(kind).records and record.document["metadata"].get("finalizers"):
            server.patch(CustomResourceDefinition, name, merge_patch={"metadata": {"finalizers": None}})
