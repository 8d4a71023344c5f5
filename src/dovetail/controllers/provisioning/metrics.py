"""What provisioning exports: Karpenter's metrics by their names, and what plans cost and must cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.api.core import Pod
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric, Metrics
from dovetail.controllers.reconciler import TURN
from dovetail.controllers.waits import Waits
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.units.money import NANO_DOLLARS

CONTROLLER = "provisioner"
DURATION = Metric(
    "karpenter_scheduler_scheduling_duration_seconds",
    "histogram",
    "How long it took to make a plan.",
    ("controller",),
    TURN,
)
QUEUE_DEPTH = Metric(
    "karpenter_scheduler_queue_depth",
    "gauge",
    "Pods that the plan which is being made is for.",
    ("controller", "scheduling_id"),
)
UNSCHEDULABLE = Metric(
    "karpenter_scheduler_unschedulable_pods_count",
    "gauge",
    "Pods that the last plan left over.",
    ("controller",),
)
IGNORED = Metric(
    "karpenter_scheduler_ignored_pods_count",
    "gauge",
    "Pending pods that no node is ever bought for, because of what they ask for.",
)
DECISION = Metric(
    "karpenter_pods_scheduling_decision_duration_seconds",
    "histogram",
    "How long pods waited for the first plan that was about them, from when they were seen to fit nowhere.",
    (),
    TURN,
)
CREATED = Metric(
    "karpenter_nodeclaims_created_total",
    "counter",
    "NodeClaims that were created.",
    ("reason", "nodepool", "min_values_relaxed"),
)
COST = Metric(
    "dovetail_plan_cost_dollars_per_hour",
    "gauge",
    "What the nodes of the last plan that bought any cost.",
    ("controller",),
)
BOUND = Metric(
    "dovetail_plan_lower_bound_dollars_per_hour",
    "gauge",
    "What its pods cost at least: no plan that places them can be cheaper.",
    ("controller",),
)
GAP = Metric(
    "dovetail_plan_gap_ratio",
    "gauge",
    "The share of its cost that is not proven necessary, 0 to 1.",
    ("controller",),
)
PLANNED_COST = Metric(
    "dovetail_planned_cost_dollars_per_hour_total",
    "counter",
    "The cost of all plans together.",
    ("controller",),
)
PLANNED_BOUND = Metric(
    "dovetail_planned_lower_bound_dollars_per_hour_total",
    "counter",
    "The lower bounds of all plans together.",
    ("controller",),
)
WORK = Metric(
    "dovetail_plan_work_total",
    "counter",
    "Units of work that plans took.",
    ("controller",),
)
FAILED = Metric(
    "dovetail_plan_failures_total",
    "counter",
    "Questions that the solver gave no answer to.",
    ("controller",),
)
ASIDE = Metric(
    "dovetail_pods_set_aside",
    "gauge",
    "Pods that wait for another round: it is not their turn, their plan failed, or nodes came in vain.",
    ("reason",),
)
LEFT_OUT = Metric(
    "dovetail_plan_inputs_left_out",
    "gauge",
    "Objects that cannot be understood and that the last round left out.",
    ("kind",),
)
ALL = (
    *(DURATION, QUEUE_DEPTH, UNSCHEDULABLE, IGNORED, DECISION, CREATED),
    *(COST, BOUND, GAP, PLANNED_COST, PLANNED_BOUND, WORK, FAILED, ASIDE),
    LEFT_OUT,
)


class ProvisioningMetrics:
    """Counts in a Metrics what provisioning does."""

    def __init__(self, metrics: Metrics, waits: Waits) -> None:
        self._metrics = metrics
        self._waits = waits
        self._questions = 0
        self._left_out: set[str] = set()  # kinds
        self._decided: set[str] = set()  # UIDs of the last round's pods

    def asked(self, pods: int, now: int) -> str:
        """A plan is about to be made; answers the id to give to `answered`."""
        self._questions += 1
        number = str(self._questions)
        self._waits.plans[number] = now
        self._metrics.set(QUEUE_DEPTH, pods, controller=CONTROLLER, scheduling_id=number)
        return number

    def answered(self, number: str, plan: Plan | None, nanoseconds: int) -> None:
        """The plan has been made, or could not be."""
        metrics = self._metrics
        del self._waits.plans[number]
        metrics.drop(QUEUE_DEPTH, controller=CONTROLLER, scheduling_id=number)
        if plan is None:
            metrics.add(FAILED, controller=CONTROLLER)
            return
        metrics.observe(DURATION, nanoseconds / SECOND, controller=CONTROLLER)
        metrics.add(WORK, plan.work, controller=CONTROLLER)
        if plan.claims:
            cost, bound = plan.cost.hourly / NANO_DOLLARS, plan.cost.lower_bound / NANO_DOLLARS
            metrics.set(COST, cost, controller=CONTROLLER)
            metrics.set(BOUND, bound, controller=CONTROLLER)
            metrics.set(GAP, plan.cost.gap, controller=CONTROLLER)
            metrics.add(PLANNED_COST, cost, controller=CONTROLLER)
            metrics.add(PLANNED_BOUND, bound, controller=CONTROLLER)

    def decided(self, pods: Iterable[Pod], plan: Plan, seen: Mapping[str, int], now: int) -> None:
        """There is a plan about these pods; `seen` says when which UID triggered it."""
        keys = {pod.key: pod.metadata.uid for pod in pods}
        uids = dict.fromkeys(keys.values())
        left_over = frozenset(keys[left.pod] for left in plan.unschedulable if left.pod in keys)
        self._waits.decided(uids, left_over, now)
        for uid in uids:
            if uid in seen and uid not in self._decided:
                self._metrics.observe(DECISION, (now - seen[uid]) / SECOND)
        self._decided = set(uids)

    def round(self, ignored: int, unschedulable: int) -> None:
        """What a round left over."""
        self._metrics.set(IGNORED, ignored)
        self._metrics.set(UNSCHEDULABLE, unschedulable, controller=CONTROLLER)

    def set_aside(self, **counts: int) -> None:
        """How many pods a round leaves for later ones, by reason."""
        for reason, count in counts.items():
            self._metrics.set(ASIDE, count, reason=reason)

    def inputs_left_out(self, counts: Mapping[str, int]) -> None:
        """How many objects of each kind a round could not understand."""
        for kind in sorted(self._left_out - counts.keys()):
            self._metrics.drop(LEFT_OUT, kind=kind)
        for kind, count in sorted(counts.items()):
            self._metrics.set(LEFT_OUT, count, kind=kind)
        self._left_out = set(counts)

    def created(self, claim: PlannedClaim) -> None:
        """A claim was created."""
        relaxed = "true" if claim.min_values_relaxed else "false"
        self._metrics.add(CREATED, reason="provisioned", nodepool=claim.pool, min_values_relaxed=relaxed)
