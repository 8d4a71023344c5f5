"""Errors of the cloud in the metrics, by the names that Karpenter has for them."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.base.errors import (
    CloudError,
    CreateFailed,
    InstanceNotFound,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.cloud.kwok import KwokCloud
from dovetail.kube.memory.server import MemoryServer
from dovetail.runtime.metered import ERRORS, Metered
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.simulate.time.clock import VirtualClock, run_virtual


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (InsufficientCapacity("none"), "InsufficientCapacityError"),
        (InstanceNotFound("gone"), "NodeClaimNotFoundError"),
        (NodeClassNotReady("not yet"), "NodeClassNotReadyError"),
        (CreateFailed("no"), "unknown"),
    ],
)
def test_errors_have_karpenters_names(error: CloudError, name: str) -> None:
    metrics = MemoryMetrics()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise error

    async def script(clock: VirtualClock) -> None:
        provider = Metered(KwokCloud(clock, MemoryServer(clock).client(), ()), clock, metrics)
        with pytest.raises(type(error)):
            await provider.call("create", None, fails)

    run_virtual(script)
    series = {"controller": "", "method": "Create", "provider": "karpenter.kwok.sh", "nodepool": ""}
    assert metrics.value(ERRORS, **series, error=name) == 1
