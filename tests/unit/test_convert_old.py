"""A hundred old manifests become manifests of today in one run, and the check has nothing to say of those."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dovetail.cli.main import run
from dovetail.lint.check import check
from dovetail.lint.survey import survey
from dovetail.lint.table import chosen
from tests.unit.old_manifests import files


def test_old_manifests_become_new_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    for name, text in files().items():
        (old / name).write_text(text)
    assert run(["convert", "-f", str(old), "--out", str(new)]) == 0, capsys.readouterr().err
    assert sorted(path.name for path in new.iterdir()) == sorted(files())
    count = sum(1 for path in new.glob("*.yaml") for _ in yaml.safe_load_all(path.read_text()))
    assert count > 100
    found = check(survey([str(new), *map(str, new.glob("*.tf"))]), chosen())
    assert [f"{item.source}:{item.line} {item.text}" for item in found] == []
