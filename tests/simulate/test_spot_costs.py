"""What a plan says that spot is likely to cost, beside what simulated markets make of it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from dovetail.cli.main import run

_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 30
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, resources: {requests: {cpu: 600m, memory: 1Gi}}}
"""
_SCENARIO = """\
apiVersion: simulation.dovetail.dev/v1alpha1
kind: Scenario
name: spot
region: eu-central-1
start: 2026-03-02T10:00
duration: 5m
settings: {efficiencyPeriod: 1h}
"""


@pytest.mark.long
def test_what_is_likely_is_what_markets_charge_in_the_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(_POOL)
    (tmp_path / "scenario.yaml").write_text(_SCENARIO)
    assert (
        run(["plan", "-f", str(manifests), "--region", "eu-central-1", "--work", "300000", "-o", "json"]) == 0
    )
    cost = json.loads(capsys.readouterr().out)["cost"]
    paid = []
    for seed in range(10):
        assert run(["simulate", str(tmp_path), "--seed", str(seed), "-o", "json"]) == 0
        paid.append(json.loads(capsys.readouterr().out)["cost"]["peakHourly"])
    assert cost["likely"] == pytest.approx(mean(paid), rel=0.1)
    assert cost["hourly"] < 0.95 * mean(paid)  # the cheapest alone promises too much
