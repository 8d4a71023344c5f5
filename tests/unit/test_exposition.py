"""What dashboards and alerts of the chart ask is in what a controller that works really shows."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from test_promtool import charts_rules, declared, named, queries

from dovetail.runtime import operator
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.simulate import cluster
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"
# What a simulation that goes well does not have at its end, and what it takes.
ELSEWHERE = {
    "client_go_request_total": "a real API server: cluster/test_run_inflate.py",
    "leader_election_master_status": "its lease: cluster/test_run_inflate.py",
    "dovetail_log_lines_dropped_total": "standard output that is not read: unit/test_log_lines.py",
    "dovetail_on_demand_share_pods_lacking": "pods with a share: simulate/test_on_demand_shares.py",
    "dovetail_plan_failures_total": "a planner that fails",
    "dovetail_plan_inputs_left_out": "objects that no plan can be made with",
    "dovetail_unreadable_objects": "objects that cannot be read",
    "karpenter_cloudprovider_instance_launch_failures_total": "launches that AWS refuses",
    "karpenter_interruption_received_messages_total": "a queue with messages",
    "karpenter_nodepools_cost_tracker_errors_total": "a node without a price",
    "karpenter_nodepools_limit": "a pool with limits",
    "karpenter_pods_unbound_time_seconds": "a pod that waits: simulate/test_cluster_figures.py",
    "karpenter_scheduler_queue_depth": "a plan that is being made",
    "karpenter_voluntary_disruption_queue_failures_total": "replacements that do not come up",
}


class _Still:
    """The clock of a run that is over: it stands, and gives way."""

    def __init__(self, at: int) -> None:
        self._at = at

    def now(self) -> int:
        return self._at

    monotonic = now

    async def sleep(self, _: int) -> None:
        await asyncio.sleep(0)


def _names(text: str) -> set[str]:
    """Of the series; a histogram's parts have the name of the histogram."""
    found = set(re.findall(r"^([a-z_]+)(?:\{| )", text, re.MULTILINE))
    known = declared()
    return {name if name in known else re.sub("_(bucket|sum|count|created)$", "", name) for name in found}


@pytest.fixture(scope="module")
def shown() -> set[str]:
    """The names of all series at the end of a burst, a consolidation and a scale-down."""
    made: list[PrometheusMetrics] = []
    operators: list[operator.Operator] = []
    begin = operator.Operator.__init__

    def metrics() -> PrometheusMetrics:
        made.append(PrometheusMetrics())
        return made[-1]

    def noted(self: operator.Operator, *given: Any) -> None:
        begin(self, *given)
        operators.append(self)

    found: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "MemoryMetrics", metrics)
        patch.setattr(operator.Operator, "__init__", noted)
        for name in ("burst", "consolidation", "shrink"):
            result = simulate(load(EXAMPLES / name))
            figures = operators[-1].figures
            patch.setattr(figures, "_clock", _Still(result.end))
            pieces = [*asyncio.run(figures.text()), *(one.exposition() for one in made)]
            found |= _names(b"".join(pieces).decode())
    return found


def test_what_dashboards_and_alerts_ask(shown: set[str]) -> None:
    expressions = [*re.findall(r"expr: (.*)", charts_rules()), *(query for query, _ in queries())]
    asked = {name for expression in expressions for name in named(expression)}
    assert len(asked) > 50
    assert asked - shown == ELSEWHERE.keys()


def test_all_that_is_shown_is_declared_and_so_in_the_reference(shown: set[str]) -> None:
    assert shown - declared().keys() == set()
