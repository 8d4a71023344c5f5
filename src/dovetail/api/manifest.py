"""Manifests from files: typed objects with the place they came from, and errors that name it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api import core_schema
from dovetail.api.admission import SCHEMAS, admit, schema_of
from dovetail.api.codec import decode
from dovetail.api.jsontext import read_json
from dovetail.api.meta import Object
from dovetail.api.schema import Schema, join, unknown_fields
from dovetail.api.scheme import BY_GVK
from dovetail.api.yamltext import Located, read_documents
from dovetail.base.errors import Cause, InputError, Invalid
from dovetail.base.guess import nearest

_SUFFIXES = (".yaml", ".yml", ".json")
_SCENARIOS = "simulation.dovetail.dev/"
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file. `document` has the server's defaults; `line` counts from 1."""

    document: dict[str, Any]
    object: Object
    source: str
    line: int


def load(paths: Sequence[Path]) -> tuple[Manifest, ...]:
    """All objects of the files and folders, in order; folders are read by name (*.yaml, *.yml, *.json).

    Lists and files of many documents are taken apart. Kinds of Kubernetes that Dovetail does not read, such
    as Secret, are checked for typos and left out. Raises InputError with file, line, path and remedy.
    """
    return tuple(
        manifest
        for path in paths
        for file in _files(path)
        for document in _documents(file)
        for manifest in _manifests(document, str(file))
    )


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise InputError("no such file or folder", source=str(path), remedy=_similar_path(path))
    if path.is_file():
        yield path
        return
    found = sorted(child for child in path.iterdir() if child.suffix in _SUFFIXES and child.is_file())
    if not found:
        raise InputError(
            f"the folder holds no manifests ({', '.join('*' + suffix for suffix in _SUFFIXES)})",
            source=str(path),
            remedy="name a folder or a file with Kubernetes manifests",
        )
    yield from found


def _similar_path(path: Path) -> str:
    if not path.parent.is_dir():
        return f"{path.parent} is no folder either"
    near = nearest(path.name, sorted(child.name for child in path.parent.iterdir()))
    return f"did you mean {path.parent / near[0]}?" if near else f"look into {path.parent.resolve()}"


def _documents(file: Path) -> list[Located]:
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: byte {error.start} is invalid", source=str(file)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(file)) from None
    found = read_json(text, str(file)) if file.suffix == ".json" else read_documents(text, str(file))
    if not found:
        raise InputError(
            "the file holds no objects", source=str(file), remedy="add a manifest or leave it out"
        )
    return found


def _manifests(located: Located, source: str) -> Iterator[Manifest]:
    document = located.value
    if not isinstance(document, dict):
        raise InputError(
            f"expected an object with apiVersion and kind, got {type(document).__name__}",
            source=source,
            line=located.line,
        )
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        for item in located.items():
            yield from _manifests(item, source)
        return
    manifest = _manifest(located, source)
    if manifest is not None:
        yield manifest


def _manifest(located: Located, source: str) -> Manifest | None:
    if str(located.value.get("apiVersion", "")).startswith(_SCENARIOS):
        return None  # a scenario lies beside its cluster's manifests; it is no object of a cluster
    schema = schema_of(located.value)
    if schema is None:
        raise _unknown_kind(located, source)
    unknown = next(unknown_fields(schema, located.value), None)
    if unknown is not None:
        raise unknown_field(schema, unknown, located, source)
    try:
        document = _with_namespace(admit(located.value))
    except Invalid as invalid:
        raise broken_rules(invalid.causes, located, source) from None
    kind = BY_GVK.get((document["apiVersion"], document["kind"]))
    if kind is None:
        return None
    if not document.get("metadata", {}).get("name") and not document.get("metadata", {}).get("generateName"):
        raise InputError("a name is required", source=source, line=located.line, path="metadata.name")
    try:
        return Manifest(document, decode(document, kind), source, located.line)
    except (msgspec.ValidationError, ValueError) as error:
        text, _, path = str(error).partition(" - at `$.")
        path = path.rstrip("`")
        raise InputError(text, source=source, line=located.line_of(path), path=path) from None


def _with_namespace(document: dict[str, Any]) -> dict[str, Any]:
    kind = BY_GVK.get((document["apiVersion"], document["kind"]))
    if kind is not None and kind.NAMESPACED:
        document.setdefault("metadata", {}).setdefault("namespace", _DEFAULT_NAMESPACE)
    return document


def broken_rules(causes: tuple[Cause, ...], located: Located, source: str) -> InputError:
    """The first fault with its place, the others below it."""
    shown = [
        cause for cause in causes if not cause.message.startswith("Invalid value: null: some validation")
    ]
    first, *others = sorted(shown, key=lambda cause: located.line_of(cause.field))
    also = [f"line {located.line_of(cause.field)}: {cause.field}: {cause.message}" for cause in others]
    return InputError(
        first.message,
        source=source,
        line=located.line_of(first.field),
        path=first.field,
        remedy="also " + "\n  also ".join(also) if also else "",
    )


def unknown_field(schema: Schema, path: str, located: Located, source: str) -> InputError:
    """That the schema has no field at `path`, with the nearest one, or all."""
    parent, key, known = _known_names(schema, path, located.value)
    near = nearest(key, known) or [name for name in known if name.lower() == key.lower()]
    hint = f"; did you mean {near[0]}?" if near else ""
    return InputError(
        f"unknown field {key}{hint}",
        source=source,
        line=located.line_of(path),
        path=path,
        remedy="" if near or not known else f"valid in {parent or 'the object'}: {', '.join(sorted(known))}",
    )


def _known_names(schema: Schema, path: str, value: Any, parent: str = "") -> tuple[str, str, list[str]]:
    """The object that lacks the field, the field's name, and what the object may hold."""
    for where, key, item in _children(value, parent):
        child = schema.items if isinstance(value, list) else schema.child(key)
        if child is None and where == path:
            return parent, key, list(schema.properties)
        if child is not None and path.startswith(where) and path[len(where) : len(where) + 1] in (".", "["):
            return _known_names(child, path, item, where)
    return parent, path, []


def _children(value: Any, parent: str) -> Iterator[tuple[str, str, Any]]:
    """(path, key, item) of everything right below a value."""
    if isinstance(value, list):
        yield from ((f"{parent}[{index}]", "", item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((join(parent, str(key)), str(key), item) for key, item in value.items())


def _unknown_kind(located: Located, source: str) -> InputError:
    document = located.value
    version, kind = document.get("apiVersion"), document.get("kind")
    for name, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            return InputError(
                f"{name} is required",
                source=source,
                line=located.line,
                path=name,
                remedy="a manifest starts with lines such as 'apiVersion: apps/v1' and 'kind: Deployment'",
            )
    known = [*BY_GVK, *SCHEMAS, *core_schema.kinds()]
    versions = [have for have, name in known if name == kind]
    if versions:
        message = f"{kind} has no version {version!r}; did you mean {versions[0]}?"
        return InputError(message, source=source, line=located.line_of("apiVersion"), path="apiVersion")
    near = nearest(str(kind), [name for _, name in known])
    hint = f"; did you mean {near[0]}?" if near else ""
    return InputError(
        f"unknown kind {kind!r} of {version}{hint}",
        source=source,
        line=located.line_of("kind"),
        path="kind",
        remedy=""
        if near
        else f"Dovetail knows the kinds of Kubernetes itself and {', '.join(name for _, name in SCHEMAS)}",
    )
