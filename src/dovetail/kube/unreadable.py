"""Objects that the API server keeps and Dovetail cannot read: each costs itself only.

What can be read of one is read (`salvaged`): its name at least, or it would look gone.
"""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dovetail.api.codec import salvage
from dovetail.api.core import Container, Node, Pod, ResourceRequirements
from dovetail.api.meta import Object
from dovetail.model import labels
from dovetail.units.quantity import parse_quantity

T = TypeVar("T", bound=Object)
# What decoding raises for what it does not take. Our own parsers raise ValueErrors, msgspec's is one too.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_DEPTH = 100  # of nested values; no kind that is read has more than 20
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|-?\d[\d.eE+-]{300,}', re.DOTALL)
_TEXT = 300  # characters of a cause: it may quote what a user wrote
# More than any machine has: a pod whose requests are unknown leaves no room beside it.
_ALL_ROOM = {"cpu": parse_quantity("1M")}


class Unreadable(msgspec.Struct, Generic[T], frozen=True):
    """One version of an object that cannot be read. `salvaged` has what fits and defaults for the rest."""

    kind: type[T]
    salvaged: T
    cause: str

    @property
    def key(self) -> str:
        return self.salvaged.key

    @property
    def version(self) -> str:
        return self.salvaged.metadata.resource_version


def unreadable(kind: type[T], document: object, error: Exception) -> Unreadable[T] | None:
    """What can be known of it; None if that is not even its name and version."""
    if not isinstance(document, dict):
        return None
    found = salvage(document, kind)
    if not found.metadata.name or not found.metadata.resource_version.isdigit():
        return None
    text = " ".join(f"{error}".split()) or type(error).__name__
    return Unreadable(kind, found, text if len(text) <= _TEXT else text[:_TEXT] + "...")


def plain(body: bytes) -> bytes:
    """A body of JSON that every reader takes alike. O(length).

    It is UTF-8, with null for what is nested too deeply, and for a number of more than 300 digits one that
    no integer takes.
    """
    body = body.decode(errors="replace").encode()
    pieces, depth, begin = [], 0, 0
    for token in _TOKEN.finditer(body):
        mark = token[0]
        if mark in b"{[":
            depth += 1
            if depth == _DEPTH + 1:
                pieces += [body[begin : token.start()], b"null"]
        elif mark in b"}]":
            depth -= 1
            if depth == _DEPTH:
                begin = token.end()
        elif mark[:1] != b'"' and depth <= _DEPTH:
            pieces += [body[begin : token.start()], b"1e308"]
            begin = token.end()
    return b"".join([*pieces, body[begin:]])


def stand_in(found: Unreadable[T], last: T | None) -> T | None:
    """What takes the object's place, given its last readable version if there is one; None for nothing.

    A node takes no new pods, and a pod on a node leaves no room there; neither is disrupted of free will. A
    pod that waits for a node is in no plan. Of all others the last readable version stays.
    """
    given: Object = found.salvaged
    if isinstance(given, Pod):
        if not given.spec.node_name:
            return None
        room = Container(name="unreadable", resources=ResourceRequirements(requests=_ALL_ROOM))
        spec = replace(given.spec, containers=(*given.spec.containers, room))
        return cast("T", _undisturbed(replace(given, spec=spec)))
    if isinstance(given, Node):
        base = replace(last, metadata=given.metadata) if isinstance(last, Node) else given
        return cast("T", _undisturbed(replace(base, spec=replace(base.spec, unschedulable=True))))
    return last


def _undisturbed(item: Pod | Node) -> Pod | Node:
    meta: Any = item.metadata
    annotations = {**meta.annotations, labels.DO_NOT_DISRUPT: "true"}
    return replace(item, metadata=replace(meta, annotations=annotations))
