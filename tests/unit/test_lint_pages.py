"""Every rule has a page whose examples are true: one is reported, the other is not; the index lists all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dovetail.lint.check import check
from dovetail.lint.finding import Finding, Rule
from dovetail.lint.survey import survey
from dovetail.lint.table import RULES

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "rules"
_BLOCK = re.compile(r"^```(yaml|hcl)\n(.*?)^```$", re.M | re.S)


def _found(page: str, heading: str, folder: Path) -> tuple[Finding, ...]:
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    names = []
    for index, match in enumerate(_BLOCK.finditer(section)):
        file = folder / f"{heading}-{index}.{'tf' if match[1] == 'hcl' else 'yaml'}"
        file.write_text(match[2])
        names.append(str(file))
    assert names
    return check(survey(names), RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_page_of_a_rule_is_true(rule: Rule, tmp_path: Path) -> None:
    page = (PAGES / f"{rule.code}.md").read_text("utf-8")
    assert page.startswith(f"# {rule.code} {rule.name}\n")
    assert f"{rule.severity.capitalize()}. {rule.summary}." in page
    wrong = _found(page, "Wrong", tmp_path)
    assert rule.code in {item.code for item in wrong}
    others = {item.code for item in wrong if item.severity == "error"} - {rule.code}
    assert not others - {"IN002"}, "the example is wrong in one way only"
    right = _found(page, "Right", tmp_path)
    by_default = {item.code for item in right} & {known.code for known in RULES if known.default}
    assert rule.code not in {item.code for item in right}
    assert by_default == set()


def test_the_index_lists_every_rule_and_nothing_else() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(\1\.md\) \| ([\w-]+) \| (\w+) \| (.*?)(?: \(only when asked\))? \|$",
        (PAGES / "README.md").read_text("utf-8"),
        re.M,
    )
    assert sorted(rows) == sorted((item.code, item.name, item.severity, item.summary) for item in RULES)
    assert {path.stem for path in PAGES.glob("*.md")} == {"README", *(item.code for item in RULES)}
