"""A real control plane, started once for all tests that ask for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.start import ControlPlane


@pytest.fixture(scope="session")
def api_server() -> Iterator[ControlPlane]:
    """An API server and the controllers that its own promises need; nobody touches nodes or pods."""
    needed = "garbagecollector,disruption,namespace,serviceaccount"
    with ControlPlane(build(), nodes=False, controllers=needed) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    """A whole cluster: controllers, scheduler, and kwok for its nodes."""
    with ControlPlane(build()) as plane:
        yield plane
