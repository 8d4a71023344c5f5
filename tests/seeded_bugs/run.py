"""Plant each bug in a process of its own and count the seeds until a rule catches it.

python tests/seeded_bugs/run.py [--bug NAME] [--seeds 50] [--first 1] [--jobs 1]
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from bugs import BUGS, Bug  # noqa: E402 - the folder of this file is no package

EXAMPLES = ROOT / "examples"


class Planter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the bug's module with its text changed; must be there before anything imports it."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug
        self._origin = ""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Only for the one module."""
        if name != self._bug.module:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None or found.origin is None:
            return None
        self._origin = found.origin
        return importlib.util.spec_from_loader(name, self, origin=found.origin)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed text."""
        exec(compile(planted(self._bug, Path(self._origin)), self._origin, "exec"), module.__dict__)


def planted(bug: Bug, path: Path) -> str:
    """The module's text with the bug in it; raises ValueError when it does not fit any more."""
    text = path.read_text("utf-8")
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.name}: its text stands {text.count(bug.old)} times in {path}")
    return text.replace(bug.old, bug.new)


def source(bug: Bug) -> Path:
    """The file of the bug's module."""
    return ROOT / "src" / Path(*bug.module.split(".")).with_suffix(".py")


def hunt(bug: Bug, seeds: Sequence[int]) -> tuple[int, str] | None:
    """In this process: the first seed that shows the bug and what shows it. The bug stays planted."""
    sys.meta_path.insert(0, Planter(bug))
    from dovetail.simulate.cluster import Cluster
    from dovetail.testing.soak import play

    def report(_: Cluster, violations: Any) -> None:
        """The first broken rule is enough: end the run at once."""
        for found in violations:
            raise AssertionError(f"{found.rule}: {found.subject} {found.message}")

    Cluster._report = report  # type: ignore[method-assign]
    for seed in seeds:
        example = EXAMPLES / bug.example
        verdict = play(example, example / "faults.yaml", seed)
        if verdict.complaints:
            return seed, verdict.complaints[0]
    return None


def main() -> int:
    """The exit code: 0 iff every bug is caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bug", choices=[bug.name for bug in BUGS])
    parser.add_argument("--seeds", type=int, default=50, help="at most so many are played")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.bug is None:
        return _all(given.jobs, seeds)
    bug = next(bug for bug in BUGS if bug.name == given.bug)
    caught = hunt(bug, seeds)
    print(f"{bug.name}: " + (f"seed {caught[0]}: {caught[1]}" if caught else "NOT CAUGHT"), flush=True)
    return 0 if caught else 1


def _all(jobs: int, seeds: range) -> int:
    def one(bug: Bug) -> int:
        options = ["--bug", bug.name, "--seeds", str(len(seeds)), "--first", str(seeds.start)]
        return subprocess.run([sys.executable, __file__, *options], check=False).returncode

    with ThreadPoolExecutor(jobs) as pool:
        codes = list(pool.map(one, BUGS))
    print(f"{codes.count(0)} of {len(BUGS)} bugs are caught")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
