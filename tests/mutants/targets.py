"""Modules that decide, in order of the damage that a mistake in them does; and the tests that hold them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/unit/test_*.py",
    "tests/conformance/test_api_server.py",
    "tests/conformance/test_budgets.py",
    "tests/conformance/test_aws_user_data.py",
    "tests/conformance/test_aws_launches.py",
    "tests/simulate/test_*.py",
)
# Files of tests that name none of these have nothing to do with the targets, or only by way of the solver.
_ABOUT = re.compile(
    r"dovetail\.(disrupt|controllers|simulate|kube\.memory|cloud|runtime\.process|model\.offering\b.*(parse_dollars|affordable))"
    r"|^(from|import) (operated|stories|test_violations)\b",
    re.MULTILINE,
)

# A name that ends in a dot stands for all modules of that package.
TARGETS = (
    "dovetail.disrupt.",
    "dovetail.controllers.node.drain",
    "dovetail.controllers.node.evict",
    "dovetail.controllers.node.terminate",
    "dovetail.kube.memory.disruption",
    "dovetail.model.offering",
    "dovetail.simulate.violations.",
    "dovetail.cloud.choice",
    "dovetail.cloud.aws.instance.fleet_errors",
    "dovetail.cloud.aws.instance.request",
    "dovetail.cloud.aws.instancetype.discovered",
    "dovetail.cloud.aws.amifamily.userdata.",
    "dovetail.runtime.process.election",
)
# They stand on the floor of decisions, say what moves would save, and make none.
REPORTS = frozenset(f"dovetail.disrupt.{name}" for name in ("bill", "standing", "switching"))


def modules() -> dict[str, Path]:
    """Name -> file of every target, in order."""
    found: dict[str, Path] = {}
    for target in TARGETS:
        path = ROOT / "src" / Path(*target.rstrip(".").split("."))
        files = sorted(path.rglob("*.py")) if target.endswith(".") else [path.with_suffix(".py")]
        for file in files:
            name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
            if name not in REPORTS:
                found[name.removesuffix(".__init__")] = file
    return found


def tests() -> list[Path]:
    """Files of tests that may notice mutants, quick ones in front."""
    files = [file for pattern in TESTS for file in sorted(ROOT.glob(pattern))]
    return [file for file in files if _ABOUT.search(file.read_text("utf-8"))]
