"""Commands take objects of older generations: one note for each, faults in the words of its generation."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.reading.manifests import Reading, read

PROVISIONER = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: team
spec:
  requirements:
    - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
  taints:
    - {key: team, effect: NoSchedule}
  ttlSecondsAfterEmpty: 30
  kubeletConfiguration: {maxPods: 20}
  providerRef: {name: nodes}
"""
TEMPLATE = """\
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: nodes
spec:
  instanceProfile: nodes
  subnetSelector: {team: a}
  securityGroupSelector: {team: a}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {karpenter.sh/do-not-evict: "true"}
spec:
  nodeSelector: {karpenter.sh/provisioner-name: team}
  tolerations: [{key: team}]
  containers: [{name: web, image: web, resources: {requests: {cpu: 1}}}]
"""
V1_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: new
spec:
  template:
    spec:
      requirements: []
      kubelet: {maxPods: 20}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: nodes}
"""


def _read(folder: Path, *texts: str) -> Reading:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return read([folder])


def test_a_pool_of_every_generation_is_read_as_v1(tmp_path: Path) -> None:
    reading = _read(tmp_path, PROVISIONER, TEMPLATE)
    pool, node_class = (item.object for item in reading.manifests)
    assert isinstance(pool, NodePool)
    assert isinstance(node_class, EC2NodeClass)
    keys = [item.key.partition("/")[2] for item in pool.spec.template.spec.requirements]
    assert keys == ["instance-family", "os", "arch", "capacity-type"]
    assert node_class.spec.kubelet == {"maxPods": 20}
    notes = [note.removeprefix(str(tmp_path)).partition(" of ")[0] for note in reading.notes]
    assert notes == ["/0.yaml:1: Provisioner team", "/1.yaml:1: AWSNodeTemplate nodes"]


def test_a_workload_is_read_by_todays_names(tmp_path: Path) -> None:
    (manifest,) = _read(tmp_path, POD).manifests
    assert manifest.document["spec"]["nodeSelector"] == {"karpenter.sh/nodepool": "team"}
    assert manifest.document["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}


def test_a_field_that_moved_has_its_old_line(tmp_path: Path) -> None:
    located = _read(tmp_path, PROVISIONER).manifests[0].located
    assert located.line_of("spec.disruption.consolidateAfter") == 10
    assert located.line_of("spec.template.spec.taints[0].key") == 9
    assert located.line_of("spec.template.spec.nodeClassRef.name") == 12


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            PROVISIONER.replace("ttlSecondsAfterEmpty", "ttlSecondsAfterempty"),
            10,
            "did you mean ttlSecondsAfterEmpty",
        ),
        (PROVISIONER.replace(": 30", ": -30"), 10, "cannot be negative"),
        (PROVISIONER.replace("[m5]", "[]"), 7, "must have a value defined"),
        (TEMPLATE.replace("instanceProfile: nodes", "launchTemplate: mine"), 6, "launchTemplate"),
        (V1_POOL, 9, "unknown field kubelet"),
    ],
)
def test_what_its_generation_refuses_is_refused(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(InputError) as refused:
        _read(tmp_path, text)
    assert message in str(refused.value)
    assert refused.value.line == line


def test_a_plan_of_old_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("pool.yaml", PROVISIONER), ("class.yaml", TEMPLATE), ("pod.yaml", POD)):
        (tmp_path / name).write_text(text)
    assert run(["plan", "-f", str(tmp_path), "--region", "us-east-1", "--deadline", "1s"]) == 0
    captured = capsys.readouterr()
    assert "m5.large" in captured.out
    assert captured.err.count("is taken") == 3
