"""Manifests that hold only what is to change of an object: they are laid over the object itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from dovetail.api.admission import admit, schema_of
from dovetail.api.generations.upgrade import is_old
from dovetail.api.scheme import BY_GVK
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.errors import BadRequest, InputError, Invalid
from dovetail.base.guess import nearest
from dovetail.base.mergepatch import merge
from dovetail.reading.kinds import DEFAULT_NAMESPACE, group_of
from dovetail.reading.located import Located
from dovetail.reading.refusals import refusal, subject


@dataclass(frozen=True)
class Part(Located):
    """Some fields of an object, which are `given`; `value` is the object with them."""

    given: Any = None


def wholes(
    found: Iterable[Located], known: Mapping[tuple[str, str], Located], fault: Callable[[InputError], None]
) -> Iterator[Located]:
    """The documents as whole objects; what cannot be one goes to `fault`."""
    for located in found:
        try:
            yield _whole(located, known)
        except InputError as error:
            fault(error)


def with_changes(found: Iterable[Located]) -> Iterator[Located]:
    """The documents; those in files that a scenario among them names as its changes as whole objects."""
    everything = list(found)
    named = {path for located in everything for path in _changes(located)}
    if not named:
        yield from everything
        return
    objects = [(PurePath(one.source), one) for one in everything if isinstance(one.value, dict)]
    known = {_key(one.value): one for source, one in objects if source not in named}
    parts = {id(one) for source, one in objects if source in named}
    for located in everything:
        yield _whole(located, known, guess=False) if id(located) in parts else located


def _changes(located: Located) -> Iterator[PurePath]:
    value = located.value
    changes = value.get("changes") if isinstance(value, dict) and value.get("kind") == "Scenario" else None
    for change in changes if isinstance(changes, list) else ():
        name = change.get("file") if isinstance(change, dict) else None
        if isinstance(name, str):
            yield PurePath(located.source).parent / name


def _whole(located: Located, known: Mapping[tuple[str, str], Located], *, guess: bool = True) -> Located:
    """The document, or if it is no object by itself, what it makes of the known one of its kind and name.

    `known` is by (kind, namespace/name). As in a JSON merge patch lists are replaced, and a null removes.
    Raises InputError where the name looks like a slip, if that is to be guessed.
    """
    document, key = located.value, _key(located.value)
    base = known.get(key)
    if base is None and all(kind != key[0] for kind, _ in known):
        return located
    if not isinstance(document.get("apiVersion"), str) or _stands_alone(document):
        return located
    if is_old(document):  # it is converted later, and today's objects are of another form
        return located
    if base is None:
        space, slash, name = key[1].rpartition("/")
        near = nearest(name, [other.removeprefix(space + slash) for kind, other in known if kind == key[0]])
        if not near or not guess:
            return located
        message = f"no {key[0]} has this name, and these fields alone make none; did you mean {near[0]}?"
        remedy = "name the one that they change, or give all its fields"
        raise refusal(located, "metadata.name", message, remedy)
    old = base.value
    if group_of(str(old.get("apiVersion"))) != group_of(document["apiVersion"]):
        return located
    return Part(
        merge(old, document),
        located.source,
        located.line,
        located.column,
        located.text,
        located.spans,
        located.outer,
        given=document,
    )


def _key(document: dict[str, Any]) -> tuple[str, str]:
    named = subject(document)
    kind, name = named["kind"], named["name"]
    found = BY_GVK.get((str(document.get("apiVersion")), kind))
    if found is not None and not found.NAMESPACED:
        return kind, name.rpartition("/")[2]
    return kind, name if "/" in name else f"{DEFAULT_NAMESPACE}/{name}"


def _stands_alone(document: dict[str, Any]) -> bool:
    """Of another group's kind nobody knows what it needs; a budget that selects nothing nobody means."""
    spec = document.get("spec") or {}
    if document.get("kind") == PodDisruptionBudget.KIND and isinstance(spec, dict) and "selector" not in spec:
        return False
    try:
        if schema_of(document) is None:
            return False
        admit(document)
    except (BadRequest, Invalid, TypeError, RecursionError):
        return False
    return True
