"""What is remembered by value or identity has a greatest number of entries, wherever it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dovetail

_SOURCE = Path(dovetail.__file__).parent
_MAKERS = ("lru_cache", "cache", "by_identity")
# Without a number of their own, and why they end all the same.
_ENDLESS = {
    "cloud/aws/instance/reading.py": "lives as long as the reader of one answer of EC2",
    "disrupt/consolidation/appraisal.py": "lives as long as one question of consolidation",
    "testing/exhaustive/search.py": "lives as long as one search of a small problem",
}


def _uses() -> Iterator[tuple[str, ast.Call | ast.expr]]:
    for path in sorted(_SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        taken = {
            each.asname or each.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in ("functools", "dovetail.base.memo")
            for each in node.names
            if each.name in _MAKERS
        }
        for node in ast.walk(tree):
            whole = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "functools"
            if (isinstance(node, ast.Name) and node.id in taken) or (
                whole and isinstance(node, ast.Attribute) and node.attr in _MAKERS
            ):
                yield path.relative_to(_SOURCE).as_posix(), calls.get(id(node), node)


def _bounded(use: ast.Call | ast.expr) -> bool:
    if not isinstance(use, ast.Call):
        return False
    sizes = [*use.args, *(word.value for word in use.keywords if word.arg in ("maxsize", "size"))]
    return any(
        isinstance(size, ast.Name) or (isinstance(size, ast.Constant) and isinstance(size.value, int))
        for size in sizes
    )


def test_every_cache_has_a_greatest_size() -> None:
    uses = list(_uses())
    assert len(uses) > 40
    assert {path for path, use in uses if not _bounded(use)} == set(_ENDLESS)
