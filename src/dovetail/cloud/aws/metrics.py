"""What the provider counts of its calls and launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric, Metrics
from dovetail.cloud.aws.instance.fleet_errors import FleetError

REFUSED = Metric(
    "karpenter_cloudprovider_instance_launch_failures_total",
    "counter",
    "Offerings that refused a launch.",
    ("zone", "zone_id", "capacity_type", "reason"),
)
NOT_ENDED = Metric(
    "karpenter_cloudprovider_instance_termination_failures_total",
    "counter",
    "Instances whose end could not be asked for.",
    ("zone", "zone_id"),
)
BATCH_TIME = Metric(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    "histogram",
    "How long a batch of requests was open.",
    ("batcher",),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0),
)
BATCH_SIZE = Metric(
    "karpenter_cloudprovider_batcher_batch_size",
    "histogram",
    "Requests in a batch.",
    ("batcher",),
    (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0),
)
USER_DATA = Metric(
    "karpenter_ec2nodeclasses_userdata_bytes",
    "gauge",
    "The largest user data of the class's latest launch; EC2 takes 16384 at most.",
    ("nodeclass",),
)


class Figures:
    """Without a receiver nothing is counted. `zone_ids` answers the ids of zones by name."""

    def __init__(self, metrics: Metrics | None, zone_ids: Callable[[], Mapping[str, str]]) -> None:
        self._metrics = metrics
        self._zone_ids = zone_ids

    def refused(self, errors: Iterable[FleetError]) -> None:
        """A fleet answered with these."""
        if self._metrics is None:
            return
        for error in errors:
            named = {"zone": error.zone, "zone_id": self._zone_ids().get(error.zone, "")}
            kind = error.capacity_type
            self._metrics.add(REFUSED, capacity_type=kind, reason=error.code, **named)

    def not_ended(self, zone: str) -> None:
        """The call that ends an instance failed."""
        if self._metrics is not None:
            self._metrics.add(NOT_ENDED, zone=zone, zone_id=self._zone_ids().get(zone, ""))

    def batch(self, batcher: str, size: int, took: int) -> None:
        """A batch was closed after so many nanoseconds."""
        if self._metrics is not None:
            self._metrics.observe(BATCH_TIME, took / SECOND, batcher=batcher)
            self._metrics.observe(BATCH_SIZE, size, batcher=batcher)

    def user_data(self, node_class: str, size: int) -> None:
        """The class's machines are about to get at most so many bytes."""
        if self._metrics is not None:
            self._metrics.set(USER_DATA, size, nodeclass=node_class)

    def no_user_data(self, node_class: str) -> None:
        """The class is gone."""
        if self._metrics is not None:
            self._metrics.drop(USER_DATA, nodeclass=node_class)
