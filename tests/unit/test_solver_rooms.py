"""The solver's size and shape: lines, modules, chains of imports, docstrings that stand by themselves."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path("src/dovetail/solve")
LONGEST_CHAIN = 12  # modules, from the door down
MOST_MODULES = 60
MOST_LINES = 10_500  # of code: neither blank, nor a comment, nor of a docstring


def modules() -> dict[str, ast.Module]:
    """By dotted name below the solver's package; packages' own files only list what is in them."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text())
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != "__init__.py"
    }


def imported(tree: ast.Module) -> set[str]:
    """Modules of the solver that this one names in an import, below its package."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dovetail.solve"):
            inside = node.module.removeprefix("dovetail.solve").lstrip(".")
            found |= {inside, *(f"{inside}.{name.name}".lstrip(".") for name in node.names)}
    return found


def test_the_chain_of_imports_is_short_enough_to_follow() -> None:
    trees = modules()
    below = {name: sorted(imported(tree) & set(trees)) for name, tree in trees.items()}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        return (name, *max((chain(each) for each in below[name]), key=len, default=()))

    longest = max((chain(name) for name in trees), key=len)
    assert len(longest) >= 2
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


def test_modules_are_few() -> None:
    assert 10 < len(modules()) <= MOST_MODULES


def code_lines(path: Path) -> int:
    text = path.read_text()
    of_docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in of_docstrings
        for number, line in lines
    )


def test_lines_are_few_enough_to_be_read() -> None:
    assert 5_000 < sum(map(code_lines, ROOT.rglob("*.py"))) <= MOST_LINES


def test_docstrings_need_no_other_docstring() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [
        (name, ast.get_docstring(node) or "")
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, documented)
    ]
    assert sum(bool(text) for _, text in texts) > 100
    assert [pair for pair in texts if pair[1].startswith("The same")] == []
