"""The style of hand-written YAML (quotes, flow style, comments), carried over to a converted document.

Values keep their style through classes of their own; comments are looked up in the old text by path, and put
into the new text where what they stood at has gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from dovetail.api.generations.editing import Document, Path, walk
from dovetail.base.yaml_writing import KubernetesDumper

_WIDE = 10_000  # columns: lines are not broken


class Text(str):
    """Text in quotes or as a block."""

    style: str = '"'


class FlowMap(dict[str, Any]):
    """A mapping in braces."""


class FlowList(list[Any]):
    """A list in brackets."""


def styled(value: Any, node: yaml.Node | None) -> Any:
    """The value with the style of the node that it was read from."""
    if isinstance(node, yaml.MappingNode) and isinstance(value, dict):
        children = {key.value: child for key, child in node.value if isinstance(key, yaml.ScalarNode)}
        mapping: dict[str, Any] = FlowMap() if node.flow_style else {}
        for key, item in value.items():
            mapping[key] = styled(item, children.get(key))
        return mapping
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list) and len(node.value) == len(value):
        items = [styled(item, child) for item, child in zip(value, node.value, strict=True)]
        return FlowList(items) if node.flow_style else items
    if isinstance(node, yaml.ScalarNode) and isinstance(value, str) and node.style:
        text = Text(value)
        # A folded text is written as a block of the same lines.
        text.style = "|" if node.style == ">" else node.style
        return text
    return value


class _Dumper(KubernetesDumper):
    """Lists below keys are indented or not, as in the file that is converted."""

    indented = True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless and not self.indented)

    def ignore_aliases(self, _: Any) -> bool:
        return True


class _FlatDumper(_Dumper):
    indented = False


_Dumper.add_representer(
    Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=text.style)
)
_Dumper.add_representer(
    FlowMap, lambda dumper, value: dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)
)
_Dumper.add_representer(
    FlowList, lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)
)


@dataclass(slots=True)
class _Comment:
    """What stands above a field, line by line, and behind it."""

    above: list[str] = field(default_factory=list)
    behind: str = ""


@dataclass(slots=True)
class Layout:
    """How a document is written: its comments by path, those before and after it, its lists."""

    comments: dict[Path, _Comment] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    indented: bool = True


def layout(text: str, root: yaml.Node | None) -> Layout:
    """The layout of a text that holds one document, of which `root` is the tree."""
    lines = text.splitlines()
    if root is None:
        return Layout()
    found = Layout(indented=_indented(root))
    first, last = root.start_mark.line, _last_line(root)
    found.head = [line.strip() for line in lines[:first] if line.lstrip().startswith("#")]
    found.tail = [line.strip() for line in lines[last + 1 :] if line.lstrip().startswith("#")]
    for path, place, end in _places(root, ()):
        comment = _Comment()
        line = place.line
        if line > first and re.fullmatch(r"\s*(- )*\s*", lines[line][: place.column]):
            above = line - 1
            while above > first and (not lines[above].strip() or lines[above].lstrip().startswith("#")):
                if lines[above].strip():
                    comment.above.insert(0, lines[above].strip())
                above -= 1
        behind = (
            re.match(r"(?:\s*:)?(?:\s*[|>][-+0-9]*)?\s+(#.*)$", lines[end.line][end.column :])
            if (end.line < len(lines))
            else None
        )
        comment.behind = behind[1].rstrip() if behind else ""
        if comment.above or comment.behind:
            found.comments[path] = comment
    return found


def _places(node: yaml.Node, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """(path, where the field begins, where what a comment may follow ends) of all fields, in order.

    The end is that of the value where it lies on the line of its beginning, else that of the key.
    """
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            at = (*path, key.value)
            one_line = child.end_mark.line == key.end_mark.line or _is_flow(child)
            yield at, key.start_mark, child.end_mark if one_line and not _is_block(child) else key.end_mark
            if not _is_flow(child):
                yield from _places(child, at)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            at = (*path, index)
            if isinstance(child, yaml.ScalarNode) or _is_flow(child):
                yield at, child.start_mark, child.end_mark
            else:
                yield from _places(child, at)


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")


def _last_line(node: yaml.Node) -> int:
    """The line of the last character of a node; a block's mark lies behind it."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _last_line(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _last_line(node.value[-1])
    behind = _is_block(node) and node.end_mark.column == 0
    return int(node.end_mark.line) - (1 if behind else 0)


def _indented(node: yaml.Node) -> bool:
    """True iff lists are indented below their keys; those of the first block list count."""
    if not isinstance(node, yaml.CollectionNode):
        return True
    for item in node.value:
        key, child = item if isinstance(item, tuple) else (None, item)
        if isinstance(child, yaml.SequenceNode) and not child.flow_style and key is not None and child.value:
            return bool(child.start_mark.column > key.start_mark.column)
        if isinstance(child, yaml.MappingNode) and not child.flow_style and not _indented(child):
            return False
    return True


def write(document: Document, old: Layout, origin: Callable[[Path], Path | None]) -> str:
    """The text of a document with the comments of an old text; `origin` says where a path was in that."""
    dumper = _Dumper if old.indented else _FlatDumper
    text = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=_WIDE)
    lines = text.splitlines()
    root = yaml.compose(text, yaml.CSafeLoader)
    assert root is not None
    placed: set[Path] = set()
    above: dict[int, list[str]] = {}
    for path, place, end in _places(root, ()):
        was = origin(path)
        comment = old.comments.get(was) if was is not None and was not in placed else None
        if comment is None or was is None:
            continue
        placed.add(was)
        indent = " " * _column(lines[place.line], place.column)
        above.setdefault(place.line, []).extend(indent + line for line in comment.above)
        if comment.behind and end.line < len(lines) and not _followed(lines[end.line], end.column):
            lines[end.line] = f"{lines[end.line]}  {comment.behind}"
    for path, line, indent in _stranded(document, old, origin, placed, root):
        above.setdefault(line, []).extend(
            indent + words for words in (*old.comments[path].above, old.comments[path].behind) if words
        )
    body = [part for number, line in enumerate(lines) for part in (*above.get(number, ()), line)]
    return "\n".join([*old.head, *body, *old.tail]) + "\n"


def _column(line: str, column: int) -> int:
    """Where a comment above a field stands: a field right behind a dash takes the dash's place."""
    before = line[:column]
    return len(before) - len(before.lstrip(" ")) if before.strip() else column


def _followed(line: str, column: int) -> bool:
    return "#" in line[column:]


def _stranded(
    document: Document,
    old: Layout,
    origin: Callable[[Path], Path | None],
    placed: set[Path],
    root: yaml.Node,
) -> Iterator[tuple[Path, int, str]]:
    """Comments of fields that are written otherwise now, with the line and indentation of what they became.

    Those of fields that are gone go with them.
    """
    became = {was: path for path, _ in walk(document) if (was := origin(path)) is not None}
    marks = {path: place for path, place, _ in _places(root, ())}
    for path in old.comments:
        if path in placed:
            continue
        near = path
        while near and near not in became:
            near = near[:-1]
        target: Path | None = None
        if near != path and len(near) > 1 and became[near] != near:
            target = became[near]
        elif path not in became:
            # The field is gone, a part of it is elsewhere.
            target = next((new for was, new in became.items() if was[: len(path)] == path), None)
        place = None if target is None else marks.get(target)
        if place is not None:
            yield path, int(place.line), " " * int(place.column)
