"""The cloud's port, with what its calls take and how they end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import CloudError, InstanceNotFound, InsufficientCapacity, NodeClassNotReady
from dovetail.base.metrics import Metric, Metrics
from dovetail.cloud.over import Over
from dovetail.cloud.provider import Provider
from dovetail.model import labels

T = TypeVar("T")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
DURATION = Metric(
    "karpenter_cloudprovider_duration_seconds",
    "histogram",
    "How long calls of the cloud provider took.",
    ("controller", "method", "provider"),
    _SECONDS,
)
ERRORS = Metric(
    "karpenter_cloudprovider_errors_total",
    "counter",
    "Calls of the cloud provider that ended with an error.",
    ("controller", "method", "provider", "error", "nodepool"),
)
# Which part of the process works, in whatever task it does.
CONTROLLER: ContextVar[str] = ContextVar("controller", default="")


# What the original calls methods and errors.
_NAMES = {"drifted": "IsDrifted", "recover_orphans": "List"}
_ERRORS: tuple[tuple[type[CloudError], str], ...] = (
    (InsufficientCapacity, "InsufficientCapacityError"),
    (InstanceNotFound, "NodeClaimNotFoundError"),
    (NodeClassNotReady, "NodeClassNotReadyError"),
)


class Metered(Over):
    """Counts and times what is asked of another provider."""

    def __init__(self, provider: Provider, clock: Clock, metrics: Metrics) -> None:
        super().__init__(provider)
        self._clock = clock
        self._metrics = metrics
        self._name = provider.node_class_kinds[0][0] if provider.node_class_kinds else ""

    async def call(self, name: str, about: Any, made: Callable[[], Awaitable[T]]) -> T:
        """See Over."""
        method = _NAMES.get(name, name.capitalize())
        pool = about.metadata.labels.get(labels.NODEPOOL, "") if isinstance(about, NodeClaim) else ""
        began = self._clock.monotonic()
        try:
            return await made()
        except CloudError as error:
            kind = next((text for known, text in _ERRORS if isinstance(error, known)), "unknown")
            named = {"controller": CONTROLLER.get(), "method": method, "provider": self._name}
            self._metrics.add(ERRORS, **named, error=kind, nodepool=pool)
            raise
        finally:
            took = (self._clock.monotonic() - began) / SECOND
            controller = CONTROLLER.get()
            self._metrics.observe(DURATION, took, controller=controller, method=method, provider=self._name)
