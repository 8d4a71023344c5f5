"""The shape of a simulation's summary, as it is written to JSON.

docs/reference/simulation-output.md defines every figure; keep the two together.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dovetail.units.money import NANO_DOLLARS


def dollars(nanos: int) -> float:
    """Nano-dollars as dollars, to a hundredth of a cent."""
    return round(nanos / NANO_DOLLARS, 4)


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Written as JSON with camelCase keys. Seconds are virtual ones unless the name says wall."""


class Quantiles(Figures, frozen=True, kw_only=True):
    """Nearest-rank quantiles in seconds; 0 for nothing."""

    p50: float
    p90: float
    p99: float
    max: float


class PodFigures(Figures, frozen=True, kw_only=True):
    created: int
    bound: int
    unbound: int  # not bound and not deleted at the end
    unbound_placeholders: int  # those of them with a priority below 0
    preempted: dict[str, int]  # by owner: gave way to a higher priority; without those below 0, which are to
    pending_seconds: Quantiles


class NodeFigures(Figures, frozen=True, kw_only=True):
    """`expired` ended by their age; at that rate as many are launched each day, `expired_daily`.

    `initial` are those of NodePools that were there at the start: they may end like others.
    """

    launched: int
    terminated: int
    peak: int
    base: int
    initial: int
    launch_failures: int
    expired: int
    expired_daily: float


class CostFigures(Figures, frozen=True, kw_only=True):
    """Dollars. `volumes` is a part of `total`, `estimated` the part that rests on estimated prices.

    `paid` is what is paid under the scenario's commitments, `unused` the part of it that nothing uses;
    without any `paid` is `total`.
    """

    total: float
    paid: float
    unused: float
    peak_hourly: float
    base: float
    on_demand: float
    spot: float
    volumes: float
    estimated: float


class ReasonFigures(Figures, frozen=True, kw_only=True):
    """Nodes that were ended before their time; dollars per hour that commands saved, launches taken off."""

    commands: int
    nodes: int
    pods_moved: int
    saved_hourly: float


class BudgetFigures(Figures, frozen=True, kw_only=True):
    """Of one NodePool: nodes that used its budgets at once, and how long no other one had room in them."""

    most_used: int
    full_seconds: float


class DisruptionFigures(ReasonFigures, frozen=True, kw_only=True):
    failed: int  # commands that were given up, as a replacement did not come
    by_reason: dict[str, ReasonFigures]
    budgets: dict[str, BudgetFigures]  # by NodePool


class EndedNode(Figures, frozen=True, kw_only=True):
    """`at` in nanoseconds since the epoch; `saved_hourly` is that of its whole command."""

    at: int
    node: str
    pool: str
    reason: str
    mode: str
    pods: int
    saved_hourly: float
    replacements: list[str]
    command: int = -1  # the same for all nodes of one; -1 without one


class EfficiencyFigures(Figures, frozen=True, kw_only=True):
    """The proven least cost of the pods over the cost of the managed nodes, 0 to 1; None if never looked."""

    start: float | None
    end: float | None
    mean: float | None


class PlanFigures(Figures, frozen=True, kw_only=True):
    """Plans that bought nodes, once all their nodes joined or failed and all their pods are somewhere."""

    settled: int
    planned_hourly: float
    realised_hourly: float
    nodes_joined: int
    nodes_failed: int
    pods_here: int
    pods_elsewhere: int
    pods_replanned: int
    pods_gone: int


class PodWait(Figures, frozen=True, kw_only=True):
    pod: str
    owner: str
    total_seconds: float
    pending_seconds: float
    parts: dict[str, float]
    node: str
    attempts: int
    explanation: str


class OwnerWait(Figures, frozen=True, kw_only=True):
    owner: str
    pods: int
    mean_seconds: float
    max_seconds: float
    explanation: str  # of the pod that waited longest


class WaitingFigures(Figures, frozen=True, kw_only=True):
    pods: int
    mean: dict[str, float]  # seconds by part
    worst: list[PodWait]
    by_owner: list[OwnerWait]
    all: list[PodWait]


class MaximumFigures(Figures, frozen=True, kw_only=True):
    """Seconds in which an HPA wanted more than its maximum, by what stood in the way."""

    maximum: int
    nothing_pending_seconds: float
    waiting_for_nodes_seconds: float
    spells: list[dict[str, Any]]


class TrafficFigures(Figures, frozen=True, kw_only=True):
    """Of the traffic model: all requests, those beyond what ready pods could do, seconds with any such."""

    requests: int
    over_capacity: int
    overloaded_seconds: int


class Violation(Figures, frozen=True, kw_only=True):
    rule: str
    subject: str
    message: str


class Summary(Figures, frozen=True, kw_only=True):
    scenario: str
    seed: int
    pods: PodFigures
    nodes: NodeFigures
    cost: CostFigures
    efficiency: EfficiencyFigures
    plans: PlanFigures
    disruptions: DisruptionFigures
    waiting: WaitingFigures
    hpa_at_maximum: dict[str, MaximumFigures]
    traffic: dict[str, TrafficFigures]
    violations: list[Violation]
    refused: dict[str, str]  # by workload, why its pods were refused last
    invariants_checked: int
    faults: dict[str, int]  # how often each kind of fault happened
    event_log_sha256: str = msgspec.field(name="eventLogSha256")
    wall_seconds: float
    simulated_seconds: float
    assumptions: list[str]
