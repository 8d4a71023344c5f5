"""Documents of files, folders and pipes: every object apart, each with the place where it is written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

from dovetail.base.errors import InputError
from dovetail.reading.jsontext import read_json
from dovetail.reading.kinds import forget_managers
from dovetail.reading.located import Located
from dovetail.reading.lookalikes import lookalike, without_warnings
from dovetail.reading.refusals import refusal
from dovetail.reading.served import ServedPod
from dovetail.reading.sources import Text, texts
from dovetail.reading.yamltext import read_yaml

# How YAML begins, and JSON never: files are called by the wrong name.
_YAML = re.compile(rb"\s*(?:---|%YAML|#|[A-Za-z][\w-]*:(?:\s|$))")
_LONG = 8 << 20  # bytes of YAML after which a user may ask whether anything happens
_A_SECOND = 4 << 20  # bytes of a dump in YAML: 10.7 MB were read in 2.6 s, the same objects in JSON in 0.2 s
_DEEPEST_LIST = 8  # lists in lists
_LIST = 'several objects are a List: {"apiVersion": "v1", "kind": "List", "items": [...]}'


def documents(
    paths: Sequence[Path | str],
    *,
    recursive: bool = False,
    note: Callable[[str], None],
    fault: Callable[[InputError], None],
    left_out: Container[Path] | None = None,
) -> Iterator[Located]:
    """Every object of files, folders (*.yaml, *.yml, *.json, by name) and standard input ("-"), in order.

    Lists are taken apart, whatever their kind; their items get the kind and apiVersion that a PodList leaves
    out. Text is YAML or JSON, one document or many, compressed with gzip or not. Nothing is admitted: a
    document may be of any kind and generation. managedFields of what a server gave are left out. What a user
    should know goes to `note`, what is wrong to `fault`, and what comes after it is read all the same.
    `left_out` is that of `texts`.
    """
    empty: list[Text] = []
    count = 0
    for given in texts(paths, recursive=recursive, note=note, fault=fault, left_out=left_out):
        found = False
        text = without_warnings(given, note)
        try:
            for whole in _parsed(text):
                if not found and _is_record(text, whole):
                    found = True
                    note(f"{text.source}: left out, its lines have neither apiVersion nor kind")
                    break
                found = True
                if isinstance(whole, ServedPod):
                    count += 1
                    yield whole
                    continue
                if _is_empty_list(whole):
                    note(f"{text.source}: the {whole.value['kind']} holds no objects")
                    count += 1
                for document in _taken_apart(whole):
                    if isinstance(document.value, dict):
                        count += 1
                        forget_managers(document.value)
                        yield document
                    else:
                        fault(_no_object(document))
        except InputError as error:
            found = True
            fault(error)
        if not found:
            empty.append(text)
    for text in empty:
        # A file in a folder may be empty, as charts make them; one that was asked for may not.
        if text.named or not count:
            fault(
                InputError(
                    "the file holds no objects", source=text.source, remedy="add a manifest or leave it out"
                )
            )


def _is_record(text: Text, first: Located) -> bool:
    """Of a file of lines that lies in a folder: are these logs or histories, as lie beside scenarios?"""
    lines = text.source.removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    if not lines or text.named:
        return False
    return isinstance(first.value, dict) and not {"apiVersion", "kind"} & first.value.keys()


def _parsed(text: Text) -> Iterator[Located]:
    """JSON is recognised by how it begins, since a pipe has no name that ends in .json."""
    mistaken = lookalike(text)
    if mistaken is not None:
        raise mistaken
    begin = text.written.lstrip()[:1]
    called_json = text.source.removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson"))
    if called_json and not _YAML.match(text.written):
        return read_json(text.written, text.source) if begin else iter(())
    if begin not in (b"{", b"["):
        if len(text.written) > _LONG and sys.stderr.isatty():
            size, seconds = len(text.written) >> 20, len(text.written) // _A_SECOND
            said = f"Reading {size} MiB of YAML for about {seconds} s; JSON (-o json) takes a tenth."
            print(said, file=sys.stderr)
        return read_yaml(text.text, text.source)
    try:
        return iter(tuple(read_json(text.written, text.source)))
    except InputError:
        return read_yaml(text.text, text.source)  # braces are YAML too


def _is_empty_list(located: Located) -> bool:
    """Of kubectl that found nothing, or of a server, which writes null for it."""
    match located.value:
        case {"apiVersion": _, "kind": str(kind), "items": [] | None}:
            return kind.endswith("List")
        case _:
            return False


def _taken_apart(located: Located, depth: int = 0) -> Iterator[Located]:
    """The objects of a document: itself, or the items of a list."""
    value = located.value
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "List" and "items" not in value:
        raise refusal(located, "", "a List needs items, its objects", _LIST)
    # A kind of its own may end in List too, but has no items beside its apiVersion, kind and metadata.
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in value:
        yield located
        return
    items = value["items"]
    if items is None:
        return
    if not isinstance(items, list):
        line, column = located.place_of("items")
        raise InputError(
            f"items of a {kind} is a list of objects, not {_type_name(items)}",
            source=located.source,
            line=line,
            column=column,
            path="items",
        )
    if depth == _DEEPEST_LIST:
        raise InputError(
            f"lists in lists, deeper than {_DEEPEST_LIST}", source=located.source, line=located.line
        )
    inherited = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for item in located.items():
        if inherited["kind"] and inherited["apiVersion"] and isinstance(item.value, dict):
            missing = {key: given for key, given in inherited.items() if key not in item.value}
            item = item.with_value({**missing, **item.value}) if missing else item
        yield from _taken_apart(item, depth + 1)


def _no_object(document: Located) -> InputError:
    return InputError(
        f"expected an object with apiVersion and kind, got {_type_name(document.value)}",
        source=document.source,
        line=document.line,
        column=document.column,
        remedy=_LIST if isinstance(document.value, list) else "",
    )


def _type_name(value: object) -> str:
    """In the words of YAML."""
    names = {dict: "map", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "nothing")
