"""Documentation as its reader meets it: each link leads to a page, and to a heading that is there."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGES = sorted(
    path.relative_to(_ROOT)
    for start in (".", "docs", "examples", "benchmarks", "tests", "charts", "deploy", "src")
    for path in (_ROOT.glob("*.md") if start == "." else (_ROOT / start).rglob("*.md"))
)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)|<img[^>]* src=\"([^\"]+)\"")
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The names that a link may end with, as GitHub makes them: numbered where one comes again."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    names = set(_ANCHOR.findall(text))
    for heading in _HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]+>", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        again = 0
        while (numbered := f"{name}-{again}" if again else name) in names:
            again += 1
        names.add(numbered)
    return frozenset(names)


@pytest.mark.parametrize("page", _PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for found in _LINK.finditer(_CODE.sub("", (_ROOT / page).read_text())):
        target = found[1] or found[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (_ROOT / page).parent / path if path else _ROOT / page
        named = (
            not anchor or place.suffix != ".md" or (place.exists() and anchor in _anchors(place.resolve()))
        )
        if not (place.exists() and named):
            broken.append(target)
    assert not broken


_MENTION = re.compile(r"\b((?:docs|benchmarks)/[\w/.-]+\.md)(?:#([\w-]+))?")


def test_pages_that_code_names_are_there() -> None:
    gone = set()
    for folder in ("src", "tests", "scripts", "benchmarks", "charts", "deploy", "examples"):
        for path in (_ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".yaml", ".tf", ".tpl", ".txt"}:
                for page, anchor in _MENTION.findall(path.read_text()):
                    there = (_ROOT / page).exists() and (not anchor or anchor in _anchors(_ROOT / page))
                    if not there:
                        gone.add(f"{path.relative_to(_ROOT)}: {page}#{anchor}")
    assert not gone


def test_each_dependency_has_its_reason() -> None:
    """Those at run time and of extras in a table, those of development in a sentence."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    page = (_ROOT / "docs/reference/dependencies.md").read_text()
    tabled = set(re.findall(r"^\| (\w[\w-]*) \|", page, re.MULTILINE)) - {"package"}
    extras = project["optional-dependencies"]
    for_development = _packages(extras.pop("dev"))
    assert tabled == _packages(project["dependencies"]).union(*map(_packages, extras.values()))
    words = " ".join(page.lower().split()).replace("stubs of pyyaml", "types-pyyaml")
    assert not {one for one in for_development if one.lower() not in words}


def _packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", one)[0] for one in requirements}
