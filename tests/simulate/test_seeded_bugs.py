"""Bugs that are planted on purpose fit the source, and are caught; `make seeded-bugs` hunts all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BUGS = Path(__file__).parents[1] / "seeded_bugs"
sys.path.insert(0, str(BUGS))

from bugs import BUGS as ALL  # noqa: E402 - the folder is no package
from bugs import Bug  # noqa: E402 - likewise
from run import planted, source  # noqa: E402 - likewise

QUICK = ("watch-never-resumed", "double-launch")  # both show within minutes after the first fault


def test_there_are_twenty_with_names_of_their_own() -> None:
    assert len({bug.name for bug in ALL}) == len(ALL) >= 20


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_the_change_fits_the_source_and_is_python(bug: Bug) -> None:
    compile(planted(bug, source(bug)), bug.module, "exec")


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_caught(name: str) -> None:
    command = [sys.executable, str(BUGS / "run.py"), "--bug", name, "--seeds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: seed" in done.stdout
