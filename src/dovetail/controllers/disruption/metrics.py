"""What voluntary disruption exports, by Karpenter's names."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metric, Metrics
from dovetail.disrupt.allowance import allowances, consuming
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED, EMPTY, UNDERUTILIZED, UNHEALTHY, Command

_VOLUNTARY = (EMPTY, DRIFTED, UNDERUTILIZED)
_REASONS = (*_VOLUNTARY, UNHEALTHY)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0)

EVALUATION = Metric(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    "histogram",
    "How long a method of disruption took to decide.",
    ("reason", "consolidation_type"),
    _SECONDS,
)
DECISIONS = Metric(
    "karpenter_voluntary_disruption_decisions_total",
    "counter",
    "Commands that were begun.",
    ("decision", "reason", "consolidation_type"),
)
BY_POOL = Metric(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    "counter",
    "Commands that were begun, once for each NodePool with a node in it.",
    ("decision", "reason", "consolidation_type", "nodepool"),
)
FAILED_VALIDATIONS = Metric(
    "karpenter_voluntary_disruption_failed_validations_total",
    "counter",
    "Commands that no longer held when they were looked at again.",
    ("consolidation_type",),
)
QUEUE_FAILURES = Metric(
    "karpenter_voluntary_disruption_queue_failures_total",
    "counter",
    "Commands that were undone because a replacement did not come up.",
    ("decision", "reason", "consolidation_type"),
)
ELIGIBLE = Metric(
    "karpenter_voluntary_disruption_eligible_nodes",
    "gauge",
    "Nodes that the last decision might have chosen as far as their kind goes.",
    ("reason",),
)
ALLOWED = Metric(
    "karpenter_nodepools_allowed_disruptions",
    "gauge",
    "Nodes of the NodePool that its budgets allow to be disrupted now.",
    ("nodepool", "reason"),
)
CONSUMING = Metric(
    "karpenter_nodes_consuming_budgets",
    "gauge",
    "Nodes of the NodePool that use up its budgets now: not ready, or on their way out.",
    ("nodepool", "reason"),
)
TIMEOUTS = Metric(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    "counter",
    "Looks for consolidation that ended before everything was looked at; the next one goes on there.",
    ("consolidation_type",),
)
TERMINATE_FIRST = Metric(
    "karpenter_voluntary_disruption_terminate_first_decisions_total",
    "counter",
    "Commands that were begun whose node goes before its replacement can exist.",
    ("nodepool", "reason", "terminate_first_reason"),
)
SCORE = Metric(
    "karpenter_consolidation_score",
    "histogram",
    "The share of a NodePool's cost that a command of consolidation saves, over the share that it disrupts.",
    ("decision", "nodepool", "policy"),
    (0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0),
)
MOVES = Metric(
    "karpenter_consolidation_moves_total",
    "counter",
    "Commands of consolidation that were begun, once for each NodePool with a node in it.",
    ("decision", "nodepool", "policy"),
)
ALL = (
    *(EVALUATION, DECISIONS, BY_POOL, FAILED_VALIDATIONS, QUEUE_FAILURES),
    *(ELIGIBLE, ALLOWED, CONSUMING, TIMEOUTS, TERMINATE_FIRST, SCORE, MOVES),
)


def consolidation_type(reason: str, nodes: int) -> str:
    """As Karpenter names its methods; "" for those that do not consolidate."""
    if reason == EMPTY:
        return "empty"
    if reason == UNDERUTILIZED:
        return "multi" if nodes > 1 else "single"
    return ""


class DisruptionMetrics:
    """Counts what the disruption loop does, reasons in lower case.

    The log says how far budgets are used up, whenever that changes.
    """

    def __init__(self, metrics: Metrics, log: EventLog) -> None:
        self._metrics = metrics
        self._log = log
        self._logged: dict[str, tuple[int, int]] = {}  # pool -> used and allowed, as the log has them

    def budgets(self, pools: Sequence[NodePool], views: Sequence[NodeView], now: int) -> None:
        """What the pools' budgets come to at the beginning of a turn; pools that are gone are forgotten."""
        for pool in sorted(self._logged.keys() - {pool.metadata.name for pool in pools}):
            del self._logged[pool]
            for reason in _REASONS:
                self._metrics.drop(ALLOWED, nodepool=pool, reason=reason.lower())
                self._metrics.drop(CONSUMING, nodepool=pool, reason=reason.lower())
        left: dict[str, int] = {}
        for reason in _REASONS:
            allowed, used_up = allowances(pools, views, reason, now), consuming(pools, views, reason)
            for pool, count in allowed.items():
                self._metrics.set(ALLOWED, count, nodepool=pool, reason=reason.lower())
                self._metrics.set(CONSUMING, used_up[pool], nodepool=pool, reason=reason.lower())
                if reason in _VOLUNTARY:
                    left[pool] = min(count, left.get(pool, count))
        for pool, used in consuming(pools, views, UNDERUTILIZED).items():
            if self._logged.get(pool) != (used, left[pool]):
                self._logged[pool] = (used, left[pool])
                self._log.record("budget", pool=pool, used=used, allowed=left[pool])

    def decided(self, reason: str, eligible: int, command: Command | None, nanoseconds: int) -> None:
        """A method has answered."""
        kind = consolidation_type(reason, len(command.candidates) if command is not None else 1)
        self._metrics.observe(
            EVALUATION, nanoseconds / SECOND, reason=reason.lower(), consolidation_type=kind
        )
        self._metrics.set(ELIGIBLE, eligible, reason=reason.lower())

    def invalid(self, command: Command) -> None:
        """A command did not hold any more."""
        kind = consolidation_type(command.reason, len(command.candidates))
        self._metrics.add(FAILED_VALIDATIONS, consolidation_type=kind)

    def begun(self, command: Command) -> None:
        """A command is carried out from now on."""
        labels = _labels(command)
        self._metrics.add(DECISIONS, **labels)
        for pool in dict.fromkeys(view.pool_name for view in command.candidates):
            self._metrics.add(BY_POOL, nodepool=pool, **labels)
            if command.terminate_first:
                why = {"reason": command.reason.lower(), "terminate_first_reason": command.terminate_first}
                self._metrics.add(TERMINATE_FIRST, nodepool=pool, **why)
        for score in command.scores:
            marks = {"decision": command.decision, "nodepool": score.pool, "policy": score.policy}
            self._metrics.observe(SCORE, score.value, **marks)
            self._metrics.add(MOVES, **marks)


def count_timeout(metrics: Metrics, kind: str) -> None:
    """A search for consolidation used up its turn; `kind` as in consolidation_type."""
    metrics.add(TIMEOUTS, consolidation_type=kind)


def count_failure(metrics: Metrics, command: Command) -> None:
    """A command was undone: one with replacements, also where it was resumed and their plan is forgotten."""
    metrics.add(QUEUE_FAILURES, **{**_labels(command), "decision": "replace"})


def _labels(command: Command) -> dict[str, str]:
    return {
        "decision": command.decision,
        "reason": command.reason.lower(),
        "consolidation_type": consolidation_type(command.reason, len(command.candidates)),
    }
