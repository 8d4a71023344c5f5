"""Each test module has a name of its own, so that `pytest tests` can collect all folders at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def test_each_name_stands_once() -> None:
    found = Counter(path.name for path in Path("tests").rglob("test_*.py"))
    assert len(found) > 300
    assert [name for name, times in found.items() if times > 1] == []
