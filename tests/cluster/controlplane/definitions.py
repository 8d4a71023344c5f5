"""Dovetail's kinds on a control plane, as a user puts them there."""

from __future__ import annotations

import subprocess
import sys

from tests.cluster.controlplane.start import ControlPlane


def define(plane: ControlPlane) -> None:
    """Give it Dovetail's kinds, whoever brought them before, and wait until it serves them."""
    command = (sys.executable, "-m", "dovetail", "crds")
    crds = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    plane.run("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=crds)
    plane.run("kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
