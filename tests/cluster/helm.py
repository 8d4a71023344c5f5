"""helm, and what it makes of the charts."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.controlplane.build import build

CHARTS = Path(__file__).resolve().parents[2] / "charts"
VALUES = Path(__file__).resolve().parent / "values"

Document = dict[str, Any]


class HelmError(Exception):
    """helm refused; holds what it said."""


@lru_cache(maxsize=1)
def _program() -> Path:
    return build() / "helm"


def helm(*arguments: str, values: str = "", environment: dict[str, str] | None = None) -> str:
    """What helm prints; `values` is YAML. Raises HelmError."""
    given = ("--values", "-") if values else ()
    done = subprocess.run(
        [_program(), *arguments, *given], input=values, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


@lru_cache(maxsize=32)
def _template(chart: str, values: str, arguments: tuple[str, ...]) -> str:
    where = ("dovetail", str(CHARTS / chart), "--namespace", "karpenter")
    return helm("template", *where, *arguments, values=values)


def render(chart: str, values: str = "", *arguments: str) -> dict[tuple[str, str], Document]:
    """The objects that a release called `dovetail` would have, by kind and name."""
    found = [document for document in yaml.safe_load_all(_template(chart, values, arguments)) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in found}
