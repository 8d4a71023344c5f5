"""Recorded answers of the original on older generations, and what has to be the same in ours."""

from __future__ import annotations

import copy
import gzip
import json
import re
from pathlib import Path
from typing import Any

from dovetail.api.schema import Schema, unknown_fields, validate, with_defaults
from dovetail.units.duration import format_duration, parse_duration
from dovetail.units.quantity import parse_quantity

_FOLDER = Path(__file__).parent / "vectors" / "generations"

Case = dict[str, Any]
Document = dict[str, Any]


def read_cases(name: str) -> list[Case]:
    """The cases of a file, in order."""
    with gzip.open(_FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def verdict(schema: Schema, document: Document, old: Document | None = None) -> tuple[Any, ...]:
    """(unknown fields, causes, the document with defaults and without unknown fields)."""
    unknown = list(unknown_fields(schema, document))
    pruned = _without(schema, copy.deepcopy(document))
    stored = with_defaults(schema, pruned)
    before = None if old is None else with_defaults(schema, _without(schema, copy.deepcopy(old)))
    return unknown, validate(schema, stored, before), stored


def _without(schema: Schema, value: Any) -> Any:
    """What a server keeps of a value: the fields that the schema has."""
    if schema.type == "any":
        return value
    if isinstance(value, dict):
        kept = ((key, item, schema.child(key)) for key, item in value.items())
        return {key: _without(child, item) for key, item, child in kept if child is not None}
    if isinstance(value, list) and schema.items is not None:
        return [_without(schema.items, item) for item in value]
    return value


def places(causes: list[dict[str, str]]) -> set[tuple[str, str]]:
    """(field, reason) of every cause but the remark that rules were not asked."""
    return {(cause["field"], cause["reason"]) for cause in causes if cause["field"] != "<nil>"}


def rule_texts(causes: list[dict[str, str]]) -> set[tuple[str, str]]:
    """(field, text of the rule) of every cause but types, patterns and bounds, whose words may differ."""
    texts = set()
    for cause in causes:
        message = cause["message"]
        if cause["field"] == "<nil>" or " in body " in message or message.startswith(("Too", "Unsupported")):
            continue
        message = message.partition(" evaluating rule: ")[2] or message
        texts.add((cause["field"], re.sub(r'^Invalid value: ("[^"]*": )?', "", message)))
    return texts


def as_go_writes(value: Any, path: tuple[str, ...] = ()) -> Any:
    """A document with durations and quantities as Go prints them, and without what is empty.

    The original's structs write `10m` as `10m0s`, `1000` as `1k` and empty parts; we keep what was written.
    """
    key = path[-1] if path else ""
    if isinstance(value, dict):
        items = {name: as_go_writes(item, (*path, name)) for name, item in value.items()}
        empty: tuple[Any, ...] = ({}, [], None, *([""] if "effect" in items else []))  # a taint's
        return {name: item for name, item in items.items() if item not in empty or name == "kubelet"}
    if isinstance(value, list):
        return [as_go_writes(item, path) for item in value]
    if key.endswith(("-kubelet-conversion", "-nodeclass-reference")):
        return as_go_writes(json.loads(value), (*path, "annotation"))
    if (path[-2:-1] == ("evictionSoftGracePeriod",) or key == "duration") and isinstance(value, str):
        return format_duration(parse_duration(value))
    if path[-2:-1] and path[-2] in ("limits", "requests", "kubeReserved", "systemReserved", "resources"):
        return str(parse_quantity(value))
    return value
