"""Dovetail's kinds on a control plane, as a user puts them there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually


def define(plane: ControlPlane) -> None:
    """Give it Dovetail's kinds, whoever brought them before, and wait until it serves them."""
    command = (sys.executable, "-m", "dovetail", "crds")
    crds = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    plane.run("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=crds)
    wait_until_served(plane)


def wait_until_served(plane: ControlPlane) -> None:
    """Wait for all kinds. `kubectl wait` gives up on a definition that has no conditions yet."""
    eventually(lambda: _not_established(plane), lambda names: not names, seconds=60)


def _not_established(plane: ControlPlane) -> list[str]:
    every = json.loads(plane.run("kubectl", "get", "crd", "--output=json"))["items"]
    return [each["metadata"]["name"] for each in every if not _established(each)]


def _established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()  # null at first
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
