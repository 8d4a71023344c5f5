"""What the interruption controllers export, by Karpenter's names."""

from __future__ import annotations

from dovetail.base.metrics import Metric

RECEIVED = Metric(
    "karpenter_interruption_received_messages_total",
    "counter",
    "Messages that came through the interruption queue.",
    ("message_type",),
)
DELETED = Metric(
    "karpenter_interruption_deleted_messages_total",
    "counter",
    "Messages that were dealt with, or could not be read, and were taken out of the queue.",
)
WAITED = Metric(
    "karpenter_interruption_message_queue_duration_seconds",
    "histogram",
    "How long messages lay in the queue before they were taken out of it.",
    (),
    (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
UNHEALTHY = Metric(
    "karpenter_interruption_instance_status_unhealthy_total",
    "counter",
    "Instances that were ended because a status check of the cloud failed.",
    ("category",),
)
ALL = (RECEIVED, DELETED, WAITED, UNHEALTHY)
