"""YAML as Kubernetes reads it, with the line of every field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from dovetail.base.errors import InputError


class _Loader(yaml.CSafeLoader):
    """Plain scalars as Kubernetes takes them: dates and clock times ("21:00") stay text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (
        "bool",
        r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)",
        list("yYnNtTfFoO"),
    ),
    ("int", r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]+|0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)",
        list("-+0123456789."),
    ),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


@dataclass(frozen=True, slots=True)
class Located:
    """One document, and the tree that tells where its fields are."""

    value: Any
    line: int  # of its beginning, from 1
    tree: Callable[[], yaml.Node | None]  # None where there is none; its marks count from line `above` + 1
    above: int = 0

    def line_of(self, path: str) -> int:
        """The line of the field at `path` (`spec.rules[0].key`), or of the nearest field above it."""
        line, rest, node = self.line, path, self.tree()
        # Keys may hold dots, so the longest key that the rest of the path starts with is taken.
        while rest and node is not None:
            rest, node, mark = _step(rest, node)
            if mark is None:
                break
            line = int(mark.line) + 1 + self.above
        return line

    def items(self) -> Iterator[Located]:
        """The parts of a `List`, each as a document of its own."""
        tree = self.tree()
        for key, child in tree.value if isinstance(tree, yaml.MappingNode) else ():
            if key.value == "items" and isinstance(child, yaml.SequenceNode):
                for item, node in zip(self.value["items"], child.value, strict=True):
                    yield located(item, node)


def located(value: Any, node: yaml.Node) -> Located:
    """A document of a YAML tree."""
    return Located(value, int(node.start_mark.line) + 1, lambda: node)


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


def read_documents(text: str, source: str) -> list[Located]:
    """All documents of a text; empty ones are left out.

    Raises InputError with the line for malformed YAML and for keys that are given twice.
    """
    loader = _Loader(text)
    try:
        found = []
        while loader.check_node():
            node = loader.get_node()
            if node is None or (isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~")):
                continue
            _check(node, source, "", ())
            found.append(located(loader.construct_document(node), node))
        return found
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(
            f"malformed YAML: {problem}",
            source=source,
            line=None if mark is None else mark.line + 1,
            remedy="look at the indentation and at quotes and colons on this line and on the one before",
        ) from None
    except ValueError as error:
        raise InputError(f"malformed YAML: {error}", source=source) from None
    finally:
        loader.dispose()


def compose(text: str) -> yaml.Node | None:
    """The tree of a text, None where it has none or is not YAML."""
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    except yaml.YAMLError:
        return None
    finally:
        loader.dispose()


def _check(node: yaml.Node, source: str, path: str, above: tuple[yaml.Node, ...]) -> None:
    """Refuse keys that are given twice, and anchors that hold themselves."""
    line = node.start_mark.line + 1
    if any(node is ancestor for ancestor in above):
        raise InputError("the anchor refers to itself", source=source, line=line, path=path)
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _check(child, source, f"{path}[{index}]", (*above, node))
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, child in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise InputError("a key must be text", source=source, line=line, path=path)
        where = f"{path}.{key.value}" if path else key.value
        if key.value in seen and key.value != "<<":
            raise InputError(
                f"the key {key.value!r} is given twice, first on line {seen[key.value]}",
                source=source,
                line=line,
                path=where,
                remedy="put --- between two objects"
                if where in ("apiVersion", "kind")
                else "keep one of them",
            )
        seen[key.value] = line
        _check(child, source, where, (*above, node))
