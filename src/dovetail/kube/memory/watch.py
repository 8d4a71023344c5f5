"""One reader of a table's history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dovetail.api.meta import Object
from dovetail.base.errors import BadRequest, Expired
from dovetail.kube.client import EventType
from dovetail.kube.memory.store import Change, Table

T = TypeVar("T", bound=Object)
Document = dict[str, Any]


class Watch(Generic[T]):
    """Iterates over (type, change) for ever; a BOOKMARK comes as its version alone.

    Not an async generator: an abandoned one would need closing, this is just forgotten.
    """

    def __init__(
        self, table: Table[T], version: int, namespace: str, selects: Callable[[Document], bool] | None
    ) -> None:
        """`selects` None: every object."""
        if version < table.compacted:
            raise Expired(f"too old resource version: {version} ({table.compacted})")
        self._table = table
        self._next = table.position(version)
        self._reached = version
        self._namespace = namespace
        self._selects = selects

    def __aiter__(self) -> Watch[T]:
        return self

    async def __anext__(self) -> tuple[EventType, Change[T] | int]:
        while True:
            found = self.read()
            if found is not None:
                return found
            await self._table.news()

    def read(self) -> tuple[EventType, Change[T] | int] | None:
        """The next that is there already."""
        table = self._table
        if self._next < table.forgotten:
            raise Expired(f"too old resource version: {self._reached} ({table.compacted})")
        while self._next - table.forgotten < len(table.history):
            change = table.history[self._next - table.forgotten]
            self._next += 1
            kind = self._classify(change)
            if kind is not None:
                self._reached = change.version
                return kind, change
        if table.bookmark > self._reached:
            self._reached = table.bookmark
            return "BOOKMARK", table.bookmark
        return None

    def _classify(self, change: Change[T]) -> EventType | None:
        """What the change is to this reader: an object that stops matching is DELETED to it."""
        document = change.after.document
        if self._namespace and document["metadata"].get("namespace") != self._namespace:
            return None
        if self._selects is None:
            return change.type
        if change.type == "DELETED":
            state = change.before.document if change.before is not None else document
            return "DELETED" if self._selects(state) else None
        before = change.before is not None and self._selects(change.before.document)
        after = self._selects(document)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


def parse_version(text: str) -> int:
    """The number of a resourceVersion; raises BadRequest."""
    if not text.isascii() or not text.isdigit():
        raise BadRequest(f'Invalid value: "{text}": resourceVersion must be a number')
    return int(text)
