"""Makes the Grafana dashboards of the chart: python scripts/make_dashboards.py

A panel is a title, a unit and its queries; where it lies on the page follows from its size and its turn.
"""

# ruff: noqa: E501 - a query is read as one line
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "charts" / "dovetail" / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
_DOLLARS, _SECONDS, _SHARE, _BYTES, _COUNT = "currencyUSD", "s", "percentunit", "bytes", "short"
_POOL = 'nodepool=~"$nodepool"'


@dataclass(frozen=True, slots=True)
class Panel:
    """`queries` are (expression, legend). `kind` is one of Grafana's: timeseries, stat, table."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = _COUNT
    about: str = ""
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`rows` are (heading, panels). With `pools`, one may choose NodePools."""

    name: str
    title: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    pools: bool = False


def _stat(title: str, query: str, unit: str = _COUNT, about: str = "") -> Panel:
    return Panel(title, ((query, ""),), unit, about, kind="stat", width=4, height=4)


def _quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    """The median and the slowest of ten and of a hundred of a histogram."""
    kept = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        (f"histogram_quantile({share}, sum by ({kept}) (rate({metric}_bucket[10m])))", f"{name}{legend}")
        for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    )


CAPACITY = Dashboard(
    "dovetail-capacity",
    "Dovetail / Capacity and cost",
    (
        (
            "Now",
            (
                _stat("Cost per hour", "sum(karpenter_nodepools_cost_total)", _DOLLARS),
                _stat(
                    "Least per hour, proven",
                    "dovetail_cluster_lower_bound_dollars_per_hour",
                    _DOLLARS,
                    "What the pods on nodes of NodePools need cost at least, on whichever nodes.",
                ),
                _stat(
                    "Gap",
                    "1 - dovetail_cluster_efficiency_ratio",
                    _SHARE,
                    "The share of the cost that is not proven necessary.",
                ),
                _stat("Nodes", "karpenter_cluster_state_node_count"),
                _stat("Pods without a place", "sum(karpenter_scheduler_unschedulable_pods_count)"),
                _stat(
                    "CPU requested",
                    'karpenter_cluster_utilization_percent{resource_type="cpu"} / 100',
                    _SHARE,
                ),
            ),
        ),
        (
            "Cost",
            (
                Panel(
                    "Cost and proven least",
                    (
                        ("dovetail_cluster_cost_dollars_per_hour", "cost"),
                        ("dovetail_cluster_lower_bound_dollars_per_hour", "proven least"),
                    ),
                    _DOLLARS,
                    "Per hour, of all managed nodes. The room between the lines is what a better packing could save at most.",
                    width=12,
                ),
                Panel(
                    "Cost by NodePool",
                    ((f"karpenter_nodepools_cost_total{{{_POOL}}}", "{{nodepool}}"),),
                    _DOLLARS,
                    width=12,
                    stacked=True,
                ),
            ),
        ),
        (
            "NodePools",
            (
                Panel(
                    "CPU used of the limit",
                    (
                        (
                            f'karpenter_nodepools_usage{{resource_type="cpu", {_POOL}}} / karpenter_nodepools_limit{{resource_type="cpu", {_POOL}}}',
                            "{{nodepool}}",
                        ),
                    ),
                    _SHARE,
                ),
                Panel(
                    "Memory used of the limit",
                    (
                        (
                            f'karpenter_nodepools_usage{{resource_type="memory", {_POOL}}} / karpenter_nodepools_limit{{resource_type="memory", {_POOL}}}',
                            "{{nodepool}}",
                        ),
                    ),
                    _SHARE,
                ),
                Panel(
                    "Nodes by capacity type",
                    (
                        (
                            f"count by (capacity_type) (karpenter_nodes_current_lifetime_seconds{{{_POOL}}})",
                            "{{capacity_type}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Nodes by zone",
                    ((f"count by (zone) (karpenter_nodes_current_lifetime_seconds{{{_POOL}}})", "{{zone}}"),),
                    stacked=True,
                ),
                Panel(
                    "Nodes by instance type",
                    (
                        (
                            f"count by (instance_type) (karpenter_nodes_current_lifetime_seconds{{{_POOL}}})",
                            "{{instance_type}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Requested of what nodes have",
                    (("karpenter_cluster_utilization_percent / 100", "{{resource_type}}"),),
                    _SHARE,
                ),
            ),
        ),
        (
            "Pods",
            (
                Panel(
                    "Pods by phase", (("count by (phase) (karpenter_pods_state)", "{{phase}}"),), stacked=True
                ),
                Panel(
                    "Until a pod has a node", _quantiles("karpenter_pods_bound_duration_seconds"), _SECONDS
                ),
                Panel("Until a pod runs", _quantiles("karpenter_pods_startup_duration_seconds"), _SECONDS),
                Panel(
                    "Longest wait for a node",
                    (("max(karpenter_pods_unbound_time_seconds)", "longest"),),
                    _SECONDS,
                ),
                Panel("Pods set aside", (("dovetail_pods_set_aside", "{{reason}}"),), stacked=True),
                Panel(
                    "Prices of what may be launched",
                    (
                        (
                            "avg by (capacity_type) (karpenter_cloudprovider_instance_type_offering_price_estimate / karpenter_cloudprovider_instance_type_offering_price_estimate offset 1d)",
                            "{{capacity_type}}",
                        ),
                    ),
                    _SHARE,
                    "Beside a day before: 100 % is unchanged.",
                ),
            ),
        ),
    ),
    pools=True,
)

ACTIVITY = Dashboard(
    "dovetail-activity",
    "Dovetail / Launches and disruption",
    (
        (
            "Launches",
            (
                Panel(
                    "NodeClaims created",
                    (
                        (
                            f"sum by (reason) (increase(karpenter_nodeclaims_created_total{{{_POOL}}}[10m]))",
                            "{{reason}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Nodes of plans, by what became of them",
                    (("sum by (outcome) (increase(dovetail_planned_nodes_total[10m]))", "{{outcome}}"),),
                    stacked=True,
                ),
                Panel(
                    "Launches that were refused",
                    (
                        (
                            "sum by (reason) (increase(karpenter_cloudprovider_instance_launch_failures_total[10m]))",
                            "{{reason}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Pods of plans, by where they went",
                    (("sum by (outcome) (increase(dovetail_planned_pods_total[10m]))", "{{outcome}}"),),
                    stacked=True,
                ),
                Panel(
                    "What was paid of what was planned",
                    (
                        (
                            "sum(increase(dovetail_realised_cost_dollars_per_hour_total[6h])) / sum(increase(dovetail_planned_cost_dollars_per_hour_total[6h]))",
                            "paid",
                        ),
                    ),
                    _SHARE,
                    "Over six hours: prices that are not as expected show here.",
                ),
                Panel(
                    "Gap of plans",
                    (
                        (
                            "1 - sum(increase(dovetail_planned_lower_bound_dollars_per_hour_total[6h])) / sum(increase(dovetail_planned_cost_dollars_per_hour_total[6h]))",
                            "gap",
                        ),
                    ),
                    _SHARE,
                    "What was bought within six hours beside what is proven necessary.",
                ),
                Panel(
                    "Room for launches",
                    (("dovetail_launch_room", "{{of}}"),),
                    about="vCPUs of quotas and addresses of subnets that are left.",
                ),
                Panel(
                    "Messages of interruptions",
                    (
                        (
                            "sum by (message_type) (increase(karpenter_interruption_received_messages_total[10m]))",
                            "{{message_type}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Guarded",
                    (("dovetail_guarded_instances", "instances"), ("dovetail_guarded_nodeclaims", "claims")),
                    about="Kept until their end is confirmed.",
                ),
            ),
        ),
        (
            "Disruption",
            (
                Panel(
                    "Nodes disrupted",
                    (
                        (
                            f"sum by (reason) (increase(karpenter_nodeclaims_disrupted_total{{{_POOL}}}[10m]))",
                            "{{reason}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Decisions",
                    (
                        (
                            "sum by (decision, reason) (increase(karpenter_voluntary_disruption_decisions_total[10m]))",
                            "{{decision}} {{reason}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Nodes that may go", (("karpenter_voluntary_disruption_eligible_nodes", "{{reason}}"),)
                ),
                Panel(
                    "Disruptions that budgets allow",
                    ((f"karpenter_nodepools_allowed_disruptions{{{_POOL}}}", "{{nodepool}} {{reason}}"),),
                ),
                Panel(
                    "Commands undone",
                    (
                        (
                            "sum by (reason) (increase(karpenter_voluntary_disruption_queue_failures_total[10m]))",
                            "{{reason}}",
                        ),
                    ),
                ),
                Panel(
                    "Evictions, by answer",
                    (("sum by (code) (increase(karpenter_pods_eviction_requests_total[10m]))", "{{code}}"),),
                    stacked=True,
                ),
                Panel(
                    "Until a node is gone",
                    _quantiles("karpenter_nodes_termination_duration_seconds"),
                    _SECONDS,
                ),
                Panel(
                    "How old nodes become", _quantiles("karpenter_nodes_lifetime_duration_seconds"), _SECONDS
                ),
                Panel(
                    "Pods drained",
                    (("sum by (reason) (increase(karpenter_pods_drained_total[10m]))", "{{reason}}"),),
                    stacked=True,
                ),
            ),
        ),
    ),
    pools=True,
)

CONTROLLERS = Dashboard(
    "dovetail-controllers",
    "Dovetail / Controllers",
    (
        (
            "Health",
            (
                _stat("Leaders", "sum(leader_election_master_status)"),
                _stat("Cluster known", "karpenter_cluster_state_synced"),
                _stat("Watches that fail", "count(dovetail_watch_failing_seconds > 60) or vector(0)"),
                _stat("Objects that cannot be read", "sum(dovetail_unreadable_objects) or vector(0)"),
                _stat(
                    "Unexpected errors, 1 h",
                    "sum(increase(controller_runtime_reconcile_panics_total[1h])) or vector(0)",
                ),
                _stat(
                    "Log lines dropped, 1 h",
                    "sum(increase(dovetail_log_lines_dropped_total[1h])) or vector(0)",
                ),
            ),
        ),
        (
            "Planning",
            (
                Panel(
                    "How long plans take",
                    _quantiles("karpenter_scheduler_scheduling_duration_seconds"),
                    _SECONDS,
                ),
                Panel(
                    "Until a pod has a plan",
                    _quantiles("karpenter_pods_scheduling_decision_duration_seconds"),
                    _SECONDS,
                ),
                Panel(
                    "How long disruption looks",
                    _quantiles("karpenter_voluntary_disruption_decision_evaluation_duration_seconds"),
                    _SECONDS,
                ),
                Panel("Pods in the queue", (("karpenter_scheduler_queue_depth", "{{controller}}"),)),
                Panel(
                    "Questions without an answer",
                    (
                        (
                            "sum by (controller) (increase(dovetail_plan_failures_total[10m]))",
                            "{{controller}}",
                        ),
                    ),
                ),
                Panel("Left out of plans", (("dovetail_plan_inputs_left_out", "{{kind}}"),)),
            ),
        ),
        (
            "Reconciling",
            (
                Panel(
                    "Turns",
                    (
                        (
                            "sum by (controller) (rate(controller_runtime_reconcile_total[5m]))",
                            "{{controller}}",
                        ),
                    ),
                ),
                Panel(
                    "Turns that failed",
                    (
                        (
                            "sum by (controller) (rate(controller_runtime_reconcile_errors_total[5m]))",
                            "{{controller}}",
                        ),
                    ),
                ),
                Panel(
                    "How long turns take (p99)",
                    (_quantiles("controller_runtime_reconcile_time_seconds", "controller")[2],),
                    _SECONDS,
                ),
                Panel("Keys that wait", (("workqueue_depth", "{{name}}"),)),
                Panel(
                    "How long keys wait (p99)",
                    (_quantiles("workqueue_queue_duration_seconds", "name")[2],),
                    _SECONDS,
                ),
                Panel(
                    "Longest turn of now",
                    (("workqueue_longest_running_processor_seconds", "{{name}}"),),
                    _SECONDS,
                ),
            ),
        ),
        (
            "Calls",
            (
                Panel(
                    "Requests to the API server",
                    (("sum by (code) (rate(client_go_request_total[5m]))", "{{code}}"),),
                    stacked=True,
                ),
                Panel(
                    "Calls of the cloud (p99)",
                    (_quantiles("karpenter_cloudprovider_duration_seconds", "method")[2],),
                    _SECONDS,
                ),
                Panel(
                    "Calls of the cloud that failed",
                    (
                        (
                            "sum by (method, error) (increase(karpenter_cloudprovider_errors_total[10m]))",
                            "{{method}} {{error}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)

ALL = (CAPACITY, ACTIVITY, CONTROLLERS)


def document(dashboard: Dashboard) -> dict[str, Any]:
    """As Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for heading, given in dashboard.rows:
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": heading,
                "gridPos": place,
                "collapsed": False,
                "panels": [],
            }
        )
        x, y, tallest = 0, y + 1, 0
        for panel in given:
            if x + panel.width > _COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            place = {"h": panel.height, "w": panel.width, "x": x, "y": y}
            panels.append(_panel(panel, len(panels) + 1, place))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "tags": ["dovetail", "karpenter"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables(pools=dashboard.pools)},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 20} if panel.stacked else {}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }


def _variables(*, pools: bool) -> list[dict[str, Any]]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    if not pools:
        return [source]
    query = "label_values(karpenter_nodepools_allowed_disruptions, nodepool)"
    chosen = {"name": "nodepool", "type": "query", "label": "NodePool", "datasource": _SOURCE, "query": query}
    return [source, {**chosen, "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*", "sort": 1}]


def text(dashboard: Dashboard) -> str:
    """The file's content."""
    return json.dumps(document(dashboard), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Writes all of them."""
    FOLDER.mkdir(exist_ok=True)
    for dashboard in ALL:
        (FOLDER / f"{dashboard.name}.json").write_text(text(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
