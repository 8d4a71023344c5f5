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

ROOT = Path(__file__).parents[2]
# Karpenter calls them so, and dashboards are made for these names.
KARPENTERS = (
    "karpenter_cluster_state_node_count",
    "karpenter_nodepools_cost_total",
    *(
        f"operator_{kind}_status_condition_count"
        for kind in ("ec2nodeclass", "kwoknodeclass", "node", "nodeclaim", "nodepool")
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
    told = declared()
    assert len(told) > 40
    for metric in told.values():
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


def alerts() -> str:
    text = (ROOT / "docs" / "guides" / "operate.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(groups:.*?)```", text, re.DOTALL)
    assert found is not None
    return found.group(1)


@needs_promtool
def test_the_alerts_of_the_operating_guide(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(alerts(), encoding="utf-8")
    assert promtool("check", "rules", str(rules), given="") == ""


def test_alerts_are_about_metrics_that_there_are() -> None:
    known = declared()
    for expression in re.findall(r"expr: (.*)", alerts()):
        names = re.findall(r"[a-z_]+_[a-z_]+", expression)
        assert any(name in known for name in names), expression


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


@needs_promtool
@pytest.mark.parametrize(
    ("series", "values", "alert"),
    [
        ('dovetail_watch_failing_seconds{kind="Pod"}', "0+60x20", "DovetailWatchFailing"),
        ('controller_runtime_reconcile_panics_total{controller="x"}', "0x15 1x5", "DovetailUnexpectedErrors"),
        ('controller_runtime_reconcile_panics_total{controller="x"}', "_x15 1x5", "DovetailUnexpectedErrors"),
        ('dovetail_plan_failures_total{controller="provisioner"}', "_x15 4x5", "DovetailPlansFail"),
        ('dovetail_log_lines_dropped_total{level="info"}', "_x15 1x5", "DovetailLogLinesDropped"),
    ],
)
def test_alerts_of_the_chart_fire(tmp_path: Path, series: str, values: str, alert: str) -> None:
    (tmp_path / "rules.yaml").write_text(charts_rules(), encoding="utf-8")
    query = {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": "18m"}
    case = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "promql_expr_test": [{**query, "exp_samples": [{"labels": "{}", "value": 1}]}],
    }
    test = tmp_path / "test.yaml"
    test.write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}),
        encoding="utf-8",
    )
    assert promtool("test", "rules", str(test), given="") == ""
