"""Texts of manifests -> texts of today's generation: what to write where, and a line for each change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from dovetail.api.admission import SCHEMAS, schema_of
from dovetail.api.generations import helm_values
from dovetail.api.generations.admission import old_schema, old_schemas
from dovetail.api.generations.editing import ABSENT, Change, Document, Editor, shown
from dovetail.api.generations.upgrade import Trouble, Upgraded, downgrade, upgrade
from dovetail.api.generations.written import Layout, layout, styled, write
from dovetail.base.errors import InputError, InputErrors
from dovetail.cli.group_shares import shares_of
from dovetail.reading.generations import admit_old
from dovetail.reading.jsontext import read_json
from dovetail.reading.kinds import group_of, unknown_kind
from dovetail.reading.located import Located, compose
from dovetail.reading.nodegroups import node_groups
from dovetail.reading.paths import at
from dovetail.reading.terraform import read_terraform, separator
from dovetail.reading.yamltext import read_yaml

_LONGEST = 60  # characters of a value in a line
_HEREDOC = re.compile(r"<<(-?)(\w+)[ \t]*\n(.*?\n)([ \t]*)\2[ \t]*(?=\n|$)", re.DOTALL)
_INSERTED = re.compile(r"(?<!\$)\$\{")
_DECIDES = ("amiFamily", "consolidationPolicy", "enabled")
_STRUCTURE = re.compile(r"must be of type (array|object)")
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Converted:
    """What becomes of one file."""

    text: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of all files: the files in their order, a line for each change, what needs a person."""

    files: tuple[Converted, ...]
    lines: tuple[str, ...]
    troubles: tuple[str, ...]
    changed: int  # objects


@dataclass(slots=True)
class _Part:
    """A document, and the piece of a file's text that it is written in."""

    located: Located
    value: Document
    text: str
    results: list[Upgraded] = field(default_factory=list)
    listed: bool = False  # one of several in its piece of text


def convert_texts(
    files: Sequence[tuple[str, str]],
    *,
    to: Literal["v1", "v1beta1"] = "v1",
    role: str = "",
    comments: bool = True,
) -> Outcome:
    """Convert the objects of (name, text) pairs together; names that end in .tf are Terraform, .json JSON.

    Raises InputError for what cannot be read, and for objects that their own generation would have refused.
    """
    pieces = [list(_pieces(name, text)) for name, text in files]
    parts = [part for listed in pieces for _, _, found in listed for part in found]
    in_hcl = [line for name, text in files for line in _in_hcl(name, text, parts)]
    if not parts and not in_hcl:
        raise InputError(
            "there is no object to convert",
            source=", ".join(name for name, _ in files),
            remedy="name files with manifests, Terraform files with yaml_body, or values of a chart",
        )
    faults = [fault for part in parts for fault in _faults(part, both=to == "v1beta1")]
    if faults:
        raise InputErrors.of(tuple(faults))
    documents = [part.value for part in parts]
    made = upgrade(documents, role=role) if to == "v1" else downgrade(documents)
    for result in made:
        parts[result.index].results.append(result)
    for part in parts:
        if part.located.source.endswith(".tf"):
            for result in part.results:
                # Nor does today's server get the text of what Terraform fills in.
                result.troubles = [item for item in result.troubles if '"${' not in item.text]
        if helm_values.is_values(part.value) and to == "v1":
            part.results = [helm_values.convert(part.value)]
    lines, troubles = [], []
    for part in parts:
        lines += [line for result in part.results for line in _lines(part, result)]
        place = f"{part.located.source}:{part.located.line}"
        lines += [f"{place} note: {text}" for text in shares_of(node_groups(part.value)[1])]
        reported = [line for result in part.results for line in _reported(part, result.troubles)]
        lines += reported
        troubles += reported
    lines += in_hcl
    troubles += in_hcl
    return Outcome(
        tuple(
            _file(name, text, listed, comments) for (name, text), listed in zip(files, pieces, strict=True)
        ),
        tuple(lines),
        tuple(troubles),
        sum(1 for part in parts for result in part.results if result.made or result.changes()),
    )


def _in_hcl(name: str, text: str, parts: Sequence[_Part]) -> Iterator[str]:
    """What is said of old objects that are written in Terraform's own language, which is not rewritten."""
    if not name.endswith(".tf"):
        return
    read = {part.located.line for part in parts if part.located.source == name}
    for _, located in read_terraform(text, name, lambda _: None):
        value = located.value
        if located.line not in read and isinstance(value, dict) and old_schema(value) is not None:
            named = Editor(value).get("metadata", "name", default="")
            yield (
                f"{name}:{located.line} {value['kind']} {named} of {value['apiVersion']} is written in HCL; "
                "it is left as it is\n  convert it as YAML, and carry the changes over"
            )


def mended(
    name: str, text: str, mends: Mapping[tuple[int, int], Sequence[Callable[[Editor], None]]]
) -> tuple[str, int]:
    """The text with its documents changed, by the line and column that each begins at; how many took hold.

    Comments and order are kept as in a conversion. Documents that the changes leave as they are stay as they
    are, to the letter.
    """
    pieces = list(_pieces(name, text))
    count = 0
    for _, _, parts in pieces:
        for part in parts:
            result = Upgraded(0, Editor(part.value))
            for mend in mends.get((part.located.line, part.located.column), ()):
                before = len(result.changes())
                mend(result.editor)
                count += len(result.changes()) > before
            part.results = [result]
    return _file(name, text, pieces, comments=True).text, count


def plain(value: Any) -> Any:
    """The value without what is known of its style."""
    return json.loads(json.dumps(value))


def _pieces(name: str, text: str) -> Iterator[tuple[int, int, list[_Part]]]:
    """(start, end) of the pieces of a text that hold objects, with the objects."""
    if name.endswith(".tf"):
        for match in _HEREDOC.finditer(text):
            if re.search(r"^\s*apiVersion:", match[3], re.MULTILINE):
                yield from _yaml_pieces(name, text, match.start(3), match.end(3), separator(match[3]))
    elif name.endswith(".json") or text.lstrip()[:1] in ("{", "["):
        found = [part for located in read_json(text.encode(), name) for part in _parts(text, located)]
        for part in found:
            part.listed = len(found) > 1
        yield 0, len(text), found
    else:
        yield from _yaml_pieces(name, text, 0, len(text))


def _yaml_pieces(
    name: str, text: str, start: int, end: int, between: re.Pattern[str] = _SEPARATOR
) -> Iterator[tuple[int, int, list[_Part]]]:
    """The documents of a stream of YAML, each with the comments around it."""
    starts = [start, *(match.end() for match in between.finditer(text, start, end))]
    ends = [*(match.start() for match in between.finditer(text, start, end)), end]
    for first, last in zip(starts, ends, strict=True):
        piece = text[first:last]
        # Blank lines keep the numbers of lines; a heredoc's indentation is part of its text.
        padded = "\n" * text.count("\n", 0, first) + piece
        found = [part for located in read_yaml(padded, name) for part in _parts(piece, located)]
        if found:
            yield first, last, found


def _parts(text: str, located: Located) -> Iterator[_Part]:
    """The document, or the items of a `List`."""
    value = located.value
    if not isinstance(value, dict):
        given = "a list" if isinstance(value, list) else "no mapping"
        message = f"expected an object with apiVersion and kind, got {given}"
        raise InputError(message, source=located.source, line=located.line)
    if str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for item in located.items():
            for part in _parts(text, item):
                part.listed = True
                yield part
        return
    yield _Part(located, styled(value, located.tree()), text)


def _faults(part: _Part, *, both: bool) -> tuple[InputError, ...]:
    """What the object's own generation would have refused, in its words; `both`: of today's too."""
    key = (str(part.value.get("apiVersion")), str(part.value.get("kind")))
    if _is_misnamed(key):
        fault = unknown_kind(part.located)
        return (fault,) if fault is not None else ()
    schema = old_schema(part.value) or (schema_of(part.value) if both and key in SCHEMAS else None)
    try:
        if schema is not None:
            admit_old(part.located, schema)
    except InputError as error:
        return tuple(fault for fault in error.faults if not _is_filled_later(part, fault))
    return ()


def _is_filled_later(part: _Part, fault: InputError) -> bool:
    """True iff Terraform fills the field in, so that its text is not what the server gets.

    A whole list or map, or what decides which fields there are, cannot be converted without it.
    """
    decides = fault.path.rpartition(".")[2] in _DECIDES or _STRUCTURE.search(fault.message)
    if decides or not part.located.source.endswith(".tf"):
        return False
    return _INSERTED.search(fault.message + json.dumps(at(part.value, fault.path))) is not None


def _is_misnamed(key: tuple[str, str]) -> bool:
    """True iff a kind of Karpenter's, or in its groups, is of no version that ever was."""
    kinds = old_schemas()
    if key in SCHEMAS or key in kinds:
        return False
    return key[1] in {name for _, name in kinds} or group_of(key[0]) in {group_of(have) for have, _ in kinds}


def _file(name: str, text: str, pieces: list[tuple[int, int, list[_Part]]], comments: bool) -> Converted:
    """The text of a file with its converted objects in their places; what did not change stays as it is."""
    out, at, documents = "", 0, []
    for start, end, parts in pieces:
        results = [result for part in parts for result in part.results]
        documents += [result.document for result in results]
        if all(not result.made and not result.changes() for result in results):
            continue
        whole = "---\n".join(_written(part, result, comments) for part in parts for result in part.results)
        old = text[start:end]
        if name.endswith(".tf"):
            indent = min(
                (len(line) - len(line.lstrip()) for line in old.splitlines() if line.strip()), default=0
            )
            whole = "".join(
                f"{' ' * indent}{line}" if line.strip() else line for line in whole.splitlines(True)
            )
        lead = "\n" if old.startswith("\n") else ""
        out += text[at:start] + lead + whole
        at = end
    return Converted(out + text[at:], tuple(documents))


def _written(part: _Part, result: Upgraded, comments: bool) -> str:
    old = Layout() if part.listed else layout(part.text, compose(part.text))
    if not comments:
        old = Layout(indented=old.indented)
    elif result.made:
        old = Layout(dict(old.comments) if result.inside else {}, indented=old.indented)
    text = write(result.document, old, result.origin)
    if yaml.load(text, yaml.CSafeLoader) != plain(result.document):
        raise AssertionError("a converted document is not what was written")
    return text


def _lines(part: _Part, result: Upgraded) -> Iterator[str]:
    document = result.document
    name = f"{document.get('kind', 'values')}/{Editor(document).get('metadata', 'name', default='')}".rstrip(
        "/"
    )
    if result.made:
        yield f"{part.located.source}:{part.located.line} {name}: new, {result.made}"
    found = []
    for change in result.changes():
        if not (result.made and change.new == ("apiVersion",)):
            # What is new has the line of what is nearest to it in the file.
            line = part.located.line_of(shown(change.old or change.new or ()))
            found.append((line, f"{part.located.source}:{line} {_change(change)} ({change.why})"))
    yield from (text for _, text in sorted(found, key=lambda pair: pair[0]))
    for note in result.notes:
        yield f"{part.located.source}:{part.located.line} {name}: note: {note}"


def _change(change: Change) -> str:
    if change.old is None:
        return f"{shown(change.new or ())}: (not set) -> {_value(change.now)}"
    if change.new is None:
        return f"{shown(change.old)}: {_value(change.was)} -> (gone)"
    if change.old == change.new:
        return f"{shown(change.old)}: {_value(change.was)} -> {_value(change.now)}"
    now = "" if change.now == change.was else f": {_value(change.now)}"
    return f"{shown(change.old)}: {_value(change.was)} -> {shown(change.new)}{now}"


def _value(value: Any) -> str:
    if value is ABSENT:
        return "(gone)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = str(text).replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _reported(part: _Part, troubles: Sequence[Trouble]) -> Iterator[str]:
    for trouble in troubles:
        line = part.located.line_of(shown(trouble.path))
        left = "; the object is left as it is" if trouble.whole else ""
        yield f"{part.located.source}:{line} {shown(trouble.path)}: {trouble.text}{left}\n  {trouble.remedy}"
