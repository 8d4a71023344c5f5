"""What the API server held a moment ago."""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeVar

from dovetail.api.meta import Object
from dovetail.kube.client import Listing
from dovetail.kube.memory import MemoryServer, texts
from dovetail.kube.memory.client import listing
from dovetail.kube.memory.selectors import selection
from dovetail.kube.memory.store import Key, Record

T = TypeVar("T", bound=Object)


class Past:
    """Answers reads as of an instant, as a cache of the API server that lags behind would."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        # Parallel: at each instant the version that the store had reached.
        self._instants: list[int] = [server.clock.now()]
        self._versions: list[int] = [server.store.version]
        server.observe(self._changed)

    def version(self, instant: int) -> int:
        """The store's version at an instant."""
        return self._versions[max(0, bisect_right(self._instants, instant) - 1)]

    def get(self, kind: type[T], name: str, namespace: str, instant: int) -> T:
        """Raises NotFound."""
        found = self._records(kind, self.version(instant)).get((namespace, name))
        if found is None:
            raise texts.not_found(kind, name)
        return found.view

    def list(self, kind: type[T], namespace: str, labels: str, fields: str, instant: int) -> Listing[T]:
        """All that matched then, with the version to start a watch from."""
        version, selects = self.version(instant), selection(kind, labels, fields)
        found = (
            record
            for key, record in sorted(self._records(kind, version).items())
            if namespace in ("", key[0]) and selects(record.document)
        )
        return listing(found, version)

    def _records(self, kind: type[T], version: int) -> dict[Key, Record[T]]:
        """The table as it was, by undoing what came later."""
        table = self._server.store.table(kind)
        records = dict(table.records)
        for change in reversed(table.history):
            if change.version <= version:
                break
            meta = change.after.document["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            if change.before is None:
                records.pop(key, None)
            else:
                records[key] = change.before
        return records

    def _changed(self, _: object) -> None:
        now, version = self._server.clock.now(), self._server.store.version
        if self._instants[-1] == now:
            self._versions[-1] = version
        else:
            self._instants.append(now)
            self._versions.append(version)
