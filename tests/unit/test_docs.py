"""Documentation as its reader meets it: each link leads to a page, and to a heading that is there."""

from __future__ import annotations

import re
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
