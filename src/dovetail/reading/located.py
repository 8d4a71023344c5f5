"""A document that knows where each of its fields is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml

_TABS = str.maketrans({"\t": " "})  # JSON may be indented by tabs, which YAML does not take


@dataclass(frozen=True)
class Span:
    """A piece of a text: its characters from `start` to before `end`; its beginning counts from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Located:
    """One document of a file, a pipe or a server: its value, and where it is.

    `line` and `column` count from 1 and are those of its beginning; 0 for what is not written anywhere, such
    as an object of an API server. Places inside it are looked up in its text when they are asked for,
    since most are not.
    """

    value: Any
    source: str = ""
    line: int = 0
    column: int = 1
    text: Callable[[], str] = field(default=str, repr=False, compare=False)  # its own, without indentation
    spans: Sequence[Span] = field(default=(), repr=False, compare=False)  # of the items of a `List`
    outer: tuple[Located, str] | None = field(default=None, repr=False, compare=False)  # what it is a part of
    # (path of a field in `value`, its path in the text), where a field is not where it was written
    moved: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)

    def place_of(self, path: str) -> tuple[int, int]:
        """Line and column of the field at `path` (`spec.rules[0].key`), or of the nearest one above it."""
        place, rest, node = (self.line, self.column), self._written(path), self.tree()
        # Keys may hold dots, so the longest key that the rest of the path starts with is taken.
        while rest and node is not None:
            rest, node, mark = _step(rest, node)
            if mark is None:
                break
            place = int(mark.line) + self._above, int(mark.column) + 1
        return place

    def line_of(self, path: str) -> int:
        """The line of the field at `path`, or of the nearest field above it."""
        return self.place_of(path)[0]

    def items(self) -> Iterator[Located]:
        """The items of a `List`, each as a document of its own."""
        spans = self.spans or self._spans_of_items()
        for index, item in enumerate(self.value["items"]):
            if index >= len(spans):  # an item that is an alias, or an object of a server
                yield Located(item, self.source, self.line, self.column, outer=(self, f"items[{index}]"))
                continue
            span = spans[index]
            yield Located(
                item,
                self.source,
                span.line,
                span.column,
                lambda span=span: self.text()[span.start : span.end],  # type: ignore[misc]
                outer=(self, f"items[{index}]"),
            )

    def with_value(self, value: Any, moved: tuple[tuple[str, str], ...] = ()) -> Located:
        """This place with another value, such as one in which something was filled in.

        `moved` holds the fields that are elsewhere in the value: (path in it, path in the text).
        """
        return Located(value, self.source, self.line, self.column, self.text, self.spans, self.outer, moved)

    def _written(self, path: str) -> str:
        """The path of a field in the text; the longest that is known to have moved counts."""
        fits = [
            (new, old)
            for new, old in self.moved
            if path.startswith(new) and path[len(new) :][:1] in ("", ".", "[")
        ]
        if not fits:
            return path
        new, old = max(fits, key=lambda pair: len(pair[0]))
        return old + path[len(new) :]

    @cached_property
    def _above(self) -> int:
        """What is to be added to a line of the tree, which counts from 0."""
        return self._found[1]

    def tree(self) -> yaml.Node | None:
        """The document as the nodes of YAML, None where it is not written anywhere."""
        return self._found[0]

    @cached_property
    def _found(self) -> tuple[yaml.Node | None, int]:
        text = self.text()
        # The first line may begin in the middle of one, the others are as they were.
        tree = compose(" " * (self.column - 1) + text) if text else None
        if tree is not None or self.outer is None:
            return tree, self.line
        # It holds an alias of an anchor that is elsewhere in the document.
        whole, path = self.outer
        node, above = whole._found
        while path and node is not None:
            path, node, mark = _step(path, node)
            node = node if mark is not None else None
        return node, above

    def _spans_of_items(self) -> list[Span]:
        """Of a `List` inside a `List`, which was not looked at when the text was read."""
        lines = self.text().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        tree, spans = self.tree(), []
        children = tree.value if isinstance(tree, yaml.MappingNode) else ()
        listed = next((child for key, child in children if key.value == "items"), None)
        for node in listed.value if isinstance(listed, yaml.SequenceNode) else ():
            start, end = (
                starts[mark.line] + mark.column - (self.column - 1 if mark.line == 0 else 0)
                for mark in (node.start_mark, node.end_mark)
            )
            mark = node.start_mark
            spans.append(Span(start, end, int(mark.line) + self._above, int(mark.column) + 1))
        return spans


def compose(text: str) -> yaml.Node | None:
    """The tree of a text, None where it has none or is not YAML."""
    loader = yaml.CSafeLoader(text.translate(_TABS))
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    except yaml.YAMLError:
        return None
    finally:
        loader.dispose()


def _step(rest: str, node: yaml.Node) -> tuple[str, yaml.Node, Any]:
    """Follow one key or index: what is left of the path, the node there, and its mark (None: not found)."""
    rest = rest.removeprefix(".")
    index = re.match(r"\[(\d+)\]", rest)
    if index and isinstance(node, yaml.SequenceNode) and int(index[1]) < len(node.value):
        child = node.value[int(index[1])]
        return rest[index.end() :], child, child.start_mark
    if isinstance(node, yaml.MappingNode):
        found = [(key, child) for key, child in node.value if _leads(rest, key.value)]
        if found:
            key, child = max(found, key=lambda pair: len(pair[0].value))
            return rest[len(key.value) :], child, key.start_mark
    return "", node, None


def _leads(path: str, key: object) -> bool:
    return isinstance(key, str) and path.startswith(key) and path[len(key) : len(key) + 1] in ("", ".", "[")
