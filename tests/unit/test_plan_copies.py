"""Workloads of very many pods: counted as copies of a plan, with the same rules and the same sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli import plan_copies
from dovetail.cli.main import run
from dovetail.cli.plan_output import FAILED
from tests.unit.test_plan_command import POOL, instance_type

ZONES = ("zone-a", "zone-b", "zone-c")
BILLION = 1_000_000_000
WORK = "20000"


@pytest.fixture(autouse=True)
def _small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is copied holds the same rules whatever its size."""
    monkeypatch.setattr(plan_copies, "SAMPLE", 720)


def workload(replicas: int, spec: str = "", *, cpu: str = "1500m") -> str:
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
        f"  replicas: {replicas}\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n"
        "    metadata: {labels: {app: web}}\n"
        f"    spec: {{{spec}containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
    )


def in_zones(kind: dict[str, Any]) -> dict[str, Any]:
    """The type, sold in three zones at one price."""
    one = kind["offerings"][0]
    requirements = [
        {**item, "values": list(ZONES)} if item["key"] == "topology.kubernetes.io/zone" else item
        for item in kind["requirements"]
    ]
    offerings = [
        {**one, "requirements": {**one["requirements"], "topology.kubernetes.io/zone": zone}}
        for zone in ZONES
    ]
    return {**kind, "requirements": requirements, "offerings": offerings}


def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str], *texts: str, code: int = 0) -> dict[str, Any]:
    types = tmp_path / "types.json"
    kinds = (instance_type("small", 2, 0.1), instance_type("large", 4, 0.18), instance_type("huge", 16, 1.2))
    types.write_text(json.dumps([in_zones(kind) for kind in kinds]))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text("\n---\n".join(texts))
    condition = ["--fail-on", "unschedulable"] if code else []
    asked = ["plan", "-f", str(manifests), "--instance-types", str(types), "--work", WORK, *condition]
    assert run([*asked, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def nodes(found: dict[str, Any]) -> dict[str, int]:
    """Nodes by zone, of the plan and of all its copies."""
    counts = dict.fromkeys(ZONES, 0)
    for claim in found["nodeClaims"]:
        counts[claim["zone"]] += 1
    for copies in found["copies"]:
        for claim in copies["nodeClaims"]:
            counts[claim["zone"]] += claim["nodes"]
    return counts


def pods(found: dict[str, Any]) -> int:
    counts = [len(claim["pods"]) for claim in found["nodeClaims"]]
    copied = (claim for copies in found["copies"] for claim in copies["nodeClaims"])
    return sum(counts) + sum(int(claim["nodes"]) * int(claim["pods"]) for claim in copied)


def test_a_billion_pods_have_their_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, capsys, POOL, workload(BILLION))
    assert pods(found) == BILLION == found["pods"]["onNewNodes"] == found["pods"]["pending"]
    # Two of the pods fit on a large node, which is dearer by less than a small one costs.
    assert sum(nodes(found).values()) == BILLION // 2
    assert found["cost"]["hourly"] == pytest.approx(0.18 * BILLION / 2)
    assert found["cost"]["instance"] == pytest.approx(found["cost"]["hourly"])
    assert 0.99 * found["cost"]["hourly"] <= found["cost"]["lowerBound"] <= found["cost"]["hourly"]
    assert found["copies"][0]["workload"] == "Deployment default/web"


def test_counted_or_one_by_one_costs_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = POOL, workload(2_000), workload(5, cpu="700m").replace("web", "api")
    single = plan(tmp_path, capsys, *texts)
    monkeypatch.setattr(plan_copies, "COUNTED", 1_500)
    counted = plan(tmp_path, capsys, *texts)
    assert not single["copies"] and counted["copies"][0]["times"] == 1
    assert counted["cost"]["hourly"] == pytest.approx(single["cost"]["hourly"], abs=0.4)
    assert pods(counted) == pods(single) == 2_005


def test_limits_end_the_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = POOL.replace("spec:\n", "spec:\n  limits: {cpu: 50000}\n", 1)
    found = plan(tmp_path, capsys, pool, workload(BILLION), code=FAILED)
    bought = sum(nodes(found).values())
    assert bought * 4 <= 50_000 and (bought + plan_copies.SAMPLE // 2) * 4 > 50_000
    assert found["copies"][0]["reason"] == "NodePool default would exceed its limit of cpu"
    assert found["pods"]["unschedulable"] == BILLION - pods(found) > 0
    (copy,) = found["copies"]
    assert {name for claim in copy["nodeClaims"] for name in claim["instanceTypes"]} == {"large"}
    free = plan(tmp_path, capsys, POOL, workload(BILLION))["copies"][0]["nodeClaims"]
    assert "huge" in free[0]["instanceTypes"]


SPREAD = (
    "topologySpreadConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, "
    "whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}], "
)
APART = (
    "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "[{topologyKey: KEY, labelSelector: {matchLabels: {app: web}}}]}}, "
)


def test_copies_are_spread_over_the_zones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, capsys, POOL, workload(BILLION, SPREAD))
    per_zone = dict.fromkeys(ZONES, 0)
    for claim in found["nodeClaims"]:
        per_zone[claim["zone"]] += len(claim["pods"])
    for claim in found["copies"][0]["nodeClaims"]:
        per_zone[claim["zone"]] += claim["nodes"] * claim["pods"]
    assert sum(per_zone.values()) == BILLION
    assert max(per_zone.values()) - min(per_zone.values()) <= 2


def test_pods_that_keep_off_each_others_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, capsys, POOL, workload(BILLION, APART.replace("KEY", "kubernetes.io/hostname")))
    assert sum(nodes(found).values()) == BILLION == pods(found)


def test_pods_that_fit_nowhere_are_all_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(tmp_path, capsys, POOL, workload(BILLION, cpu="50"), code=FAILED)
    assert found["pods"]["unschedulable"] == BILLION
    assert "no instance type has enough resources" in found["copies"][0]["reason"]
    assert found["cost"]["hourly"] == 0


WATCHER = """\
apiVersion: v1
kind: Pod
metadata: {name: watcher}
spec:
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}
  containers: [{name: c}]
"""


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param((workload(BILLION, APART.replace("KEY", "topology.kubernetes.io/zone")),), id="zones"),
        pytest.param((workload(BILLION), WATCHER), id="another pod's rule"),
    ],
)
def test_rules_about_zones_are_not_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: tuple[str, ...]
) -> None:
    types = tmp_path / "types.json"
    types.write_text(json.dumps([instance_type("large", 4, 0.18)]))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text("\n---\n".join((POOL, *texts)))
    assert run(["plan", "-f", str(manifests), "--instance-types", str(types)]) == 2
    assert "the workloads ask for 1,000,000,000 pods" in capsys.readouterr().err


def test_one_of_a_billion_pods_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan(tmp_path, capsys, POOL, workload(BILLION, cpu="50"), code=FAILED)
    files = "-f", str(tmp_path / "manifests.yaml"), "--instance-types", str(tmp_path / "types.json")
    assert run(["explain", "pod", "web-0", *files, "--work", WORK]) == 0
    shown = capsys.readouterr()
    assert "more CPU than" in shown.out
    assert "more pods of Deployment default/web are like those that are looked at" in shown.err
