"""`dovetail check aws` as it is called, against a server that answers for AWS."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dovetail.cli.main import BAD_INPUT, run
from tests.conformance.aws_accounts import CLUSTER, REGION, ROLE, served, settle

CLASS = f"""
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: {ROLE}
  amiFamily: Bottlerocket
  amiSelectorTerms: [{{alias: bottlerocket@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovry: demo}}}}]
"""


def test_an_account_with_one_tag_misspelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    file = tmp_path / "class.yaml"
    file.write_text(CLASS)
    with served() as endpoint:
        # A message that is there already keeps no caller waiting for one.
        asyncio.run(settle().send("{}"))
        place = ["--cluster-name", CLUSTER, "--region", REGION, "--interruption-queue", CLUSTER]
        code = run(["check", "aws", *place, "--endpoint-url", endpoint, "-f", str(file), "-o", "json"])
    assert code == BAD_INPUT
    printed = capsys.readouterr().out  # the server prints as well
    findings = {item["subject"]: item for item in json.loads(printed[printed.index("{\n") :])["findings"]}
    for subject in ("eks:DescribeCluster", CLUSTER, "ec2:DescribeSubnets", "sqs:ReceiveMessage"):
        assert findings[subject]["verdict"] == "ok"
    assert findings["EC2NodeClass default: SubnetsReady"]["verdict"] == "ok"
    groups = findings["EC2NodeClass default: SecurityGroupsReady"]
    assert groups["verdict"] == "missing"
    assert "found key 'karpenter.sh/discovery'" in groups["detail"]
    # What the server does not know is no permission that is missing.
    assert findings["ec2:DescribeCapacityReservations"]["verdict"] == "unsure"
