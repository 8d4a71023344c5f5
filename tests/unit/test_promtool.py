"""promtool, where it is installed (Debian's package prometheus), finds no fault with metrics and alerts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from dovetail.base.metrics import Metric
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from scripts import make_dashboards

ROOT = Path(__file__).parents[2]
DASHBOARDS = ROOT / "charts" / "dovetail" / "dashboards"
# Karpenter calls them so, and dashboards are made for these names.
KARPENTERS = (
    "karpenter_cluster_state_node_count",
    "karpenter_nodepools_cost_total",
    *(
        f"operator_{kind}_status_condition_count"
        for kind in ("ec2nodeclass", "kwoknodeclass", "node", "nodeclaim", "nodeoverlay", "nodepool")
    ),
    "karpenter_scheduler_ignored_pods_count",
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "karpenter_scheduler_unschedulable_pods_count",
)
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def declared() -> dict[str, Metric]:
    """Every metric of the package, by name: those that stand at the top of some module."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        if "import Metric" not in path.read_text(encoding="utf-8"):
            continue
        module = import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
        found |= {value.name: value for value in vars(module).values() if isinstance(value, Metric)}
    return found


def promtool(*arguments: str, given: str) -> str:
    """What it has to say against it."""
    done = subprocess.run(
        ("promtool", *arguments), input=given, capture_output=True, text=True, timeout=60, check=False
    )
    return (done.stdout + done.stderr) if done.returncode else ""


@needs_promtool
def test_every_metric() -> None:
    metrics = PrometheusMetrics()
    families = declared()
    assert len(families) > 40
    for metric in families.values():
        labels = dict.fromkeys(metric.labels, "x")
        if metric.kind == "counter":
            metrics.add(metric, 1, **labels)
        elif metric.kind == "gauge":
            metrics.set(metric, 1, **labels)
        else:
            metrics.observe(metric, 1, **labels)
    found = promtool("check", "metrics", given=metrics.exposition().decode()).splitlines()
    assert sorted(line.partition(" ")[0] for line in found) == sorted(KARPENTERS), found


def test_every_metric_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    missing = [name for name in declared() if f"`{name}`" not in text]
    assert missing == []


def charts_rules() -> str:
    """The groups of the chart's PrometheusRule, as a rules file; what is Helm's is taken out."""
    path = ROOT / "charts" / "dovetail" / "templates" / "prometheusrule.yaml"
    text = path.read_text(encoding="utf-8").partition("\nspec:\n")[2]
    text = "\n".join(line for line in text.splitlines() if not line.startswith("{{-"))
    return text.replace("{{`", "").replace("`}}", "")


@needs_promtool
def test_the_alerts_of_the_chart(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(charts_rules(), encoding="utf-8")
    assert promtool("check", "rules", str(rules), given="") == ""


def named(expression: str) -> list[str]:
    """The metrics of an expression: what is left without labels and functions."""
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)|histogram_quantile", "", expression)
    return [re.sub("_bucket$", "", name) for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", bare)]


def test_alerts_and_dashboards_are_about_metrics_that_there_are() -> None:
    known = declared()
    expressions = [*re.findall(r"expr: (.*)", charts_rules()), *(query for query, _ in queries())]
    assert len(expressions) > 80
    assert [name for expression in expressions for name in named(expression) if name not in known] == []
    assert [expression for expression in expressions if not named(expression)] == []


def test_what_dashboards_split_by_are_labels_of_their_metrics() -> None:
    known = declared()
    for query, legend in queries():
        labels = {"le", *known[named(query)[0]].labels}
        kept = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
        chosen = set(re.findall(r"([a-z_]+)=", query))
        assert kept | chosen | set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels, query


def test_every_alert_of_the_chart_is_in_the_guide() -> None:
    text = (ROOT / "docs" / "guides" / "operate.md").read_text(encoding="utf-8")
    alerts = re.findall(r"alert: (\w+)", charts_rules())
    assert len(alerts) == len(set(alerts)) > 15
    assert [name for name in alerts if f"`{name}`" not in text] == []


def queries() -> list[tuple[str, str]]:
    """What the dashboards of the chart ask, and how they call what comes."""
    return [
        (target["expr"].replace("$nodepool", ".*"), target["legendFormat"])
        for path in sorted(DASHBOARDS.glob("*.json"))
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
        for target in panel.get("targets", ())
    ]


@needs_promtool
def test_prometheus_reads_the_queries_of_the_dashboards(tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:query:{number}", "expr": query} for number, (query, _) in enumerate(queries())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}), encoding="utf-8")
    assert promtool("check", "rules", str(path), given="") == ""


@pytest.mark.parametrize("made", make_dashboards.ALL, ids=lambda made: made.name)
def test_dashboards_are_as_their_script_makes_them(made: make_dashboards.Dashboard) -> None:
    path = DASHBOARDS / f"{made.name}.json"
    assert path.read_text(encoding="utf-8") == make_dashboards.text(made), "run scripts/make_dashboards.py"
    places = [panel["gridPos"] for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]]
    covered = [
        (x, y)
        for one in places
        for x in range(one["x"], one["x"] + one["w"])
        for y in range(one["y"], one["y"] + one["h"])
    ]
    assert len(covered) == len(set(covered)), "panels lie over each other"
    assert max(x for x, _ in covered) < 24


@needs_promtool
@pytest.mark.parametrize(
    ("series", "values", "alert"),
    [
        ('dovetail_watch_failing_seconds{kind="Pod"}', "0+60x20", "DovetailWatchFailing"),
        ('controller_runtime_reconcile_panics_total{controller="x"}', "0x15 1x5", "DovetailUnexpectedErrors"),
        ('controller_runtime_reconcile_panics_total{controller="x"}', "_x15 1x5", "DovetailUnexpectedErrors"),
        ('dovetail_plan_failures_total{controller="provisioner"}', "_x15 4x5", "DovetailPlansFail"),
        ('dovetail_log_lines_dropped_total{level="info"}', "_x15 1x5", "DovetailLogLinesDropped"),
        ('leader_election_master_status{name="x"}', "0x20", "DovetailNobodyLeads"),
        (
            'karpenter_scheduler_unschedulable_pods_count{controller="provisioner"}',
            "2x20",
            "DovetailPodsWithoutAPlace",
        ),
        ('karpenter_pods_unbound_time_seconds{name="p"}', "1000+60x20", "DovetailPodsPending"),
        (
            'karpenter_cloudprovider_instance_launch_failures_total{reason="x"}',
            "_x10 11x9",
            "DovetailLaunchesRefused",
        ),
        ('dovetail_planned_nodes_total{outcome="failed"}', "_x10 4x9", "DovetailNodesDoNotJoin"),
        ('dovetail_on_demand_share_pods_lacking{namespace="shop"}', "2x20", "DovetailOnDemandShareLacks"),
        ("dovetail_guarded_instances", "1x20", "DovetailInstancesGuarded"),
        ("dovetail_guarded_nodeclaims", "1x20", "DovetailNodeClaimsGuarded"),
        ("karpenter_voluntary_disruption_queue_failures_total", "0+1x20", "DovetailDisruptionUndone"),
        ('dovetail_unreadable_objects{kind="Pod"}', "2x20", "DovetailUnreadableObjects"),
    ],
)
def test_alerts_of_the_chart_fire(tmp_path: Path, series: str, values: str, alert: str) -> None:
    assert complaints(tmp_path, alert, {series: values}, "18m", 1) == ""


_OFFERING = 'karpenter_cloudprovider_instance_type_offering_price_estimate{{{}capacity_type="spot",zone="z"}}'
_PLANNED, _REALISED = (f"dovetail_{name}_cost_dollars_per_hour_total" for name in ("planned", "realised"))
_LACKING = 'dovetail_on_demand_share_pods_lacking{namespace="shop"}'
SLOW = [
    # alert, series, whether it fires after 2 h 30, or for prices after 27 h
    ("DovetailCostGap", {"dovetail_cluster_efficiency_ratio": "0.6x150"}, "150m", 1),
    ("DovetailCostGap", {"dovetail_cluster_efficiency_ratio": "0.8x150"}, "150m", 0),
    ("DovetailCostGap", {"dovetail_cluster_efficiency_ratio": "0.6x100 0.9x5 0.6x45"}, "150m", 0),
    ("DovetailOnDemandShareLacks", {_LACKING: "1x10 0 2x10 0 1x130"}, "22m", 0),
    ("DovetailOnDemandShareLacks", {_LACKING: "1x10 0 2x10 0 1x130"}, "150m", 1),
    ("DovetailPricesRose", {_OFFERING.format('instance_type="a",'): "1x144 1.5x20"}, "1600m", 1),
    ("DovetailPricesRose", {_OFFERING.format('instance_type="a",'): "1x144 1.1x20"}, "1600m", 0),
    ("DovetailPricesRose", {_OFFERING.format('instance_type="a",'): "0x144 1.5x20"}, "1600m", 0),
    ("DovetailDearerThanPlanned", {_PLANNED: "0+1x150", _REALISED: "0+1.5x150"}, "150m", 1),
    ("DovetailDearerThanPlanned", {_PLANNED: "0+1x150", _REALISED: "0+1.1x150"}, "150m", 0),
    (
        "DovetailPriceUnknown",
        {'karpenter_nodepools_cost_tracker_errors_total{nodepool="p",nodeclaim="c"}': "1x150"},
        "150m",
        1,
    ),
    (
        "DovetailAddressesRunOut",
        {'dovetail_launch_room_lasts_seconds{of="addresses of subnet-1"}': "3600x150"},
        "150m",
        1,
    ),
    (
        "DovetailAddressesRunOut",
        {'dovetail_launch_room_lasts_seconds{of="addresses of subnet-1"}': "90000x150"},
        "150m",
        0,
    ),
]


@needs_promtool
@pytest.mark.parametrize(("alert", "series", "at", "firing"), SLOW)
def test_alerts_that_wait_for_hours(
    tmp_path: Path, alert: str, series: dict[str, str], at: str, firing: int
) -> None:
    assert complaints(tmp_path, alert, series, at, firing) == ""


def test_each_alert_is_seen_firing() -> None:
    fast = next(mark for mark in test_alerts_of_the_chart_fire.pytestmark if mark.name == "parametrize")
    seen = {case[2] for case in fast.args[1]} | {alert for alert, _, _, firing in SLOW if firing}
    assert set(re.findall(r"alert: (\w+)", charts_rules())) == seen


def complaints(tmp_path: Path, alert: str, series: dict[str, str], at: str, firing: int) -> str:
    """What promtool has against so many alerts of that name firing then.

    Samples are a minute apart, over more than a day ten minutes.
    """
    step = "10m" if len(at) > len("150m") else "1m"
    (tmp_path / "rules.yaml").write_text(charts_rules(), encoding="utf-8")
    query = {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": at}
    expected = [{"labels": "{}", "value": firing}] if firing else []
    case = {
        "interval": step,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{**query, "exp_samples": expected}],
    }
    test = tmp_path / "test.yaml"
    test.write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": step, "tests": [case]}),
        encoding="utf-8",
    )
    return promtool("test", "rules", str(test), given="")
