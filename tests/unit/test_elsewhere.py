"""Objects whose pods lie elsewhere: alone they are no plan of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.cli.main import run
from dovetail.reading import read

_RELEASE = (
    "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: shop}\n"
)
_KUSTOMIZATION = (
    "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\n"
    "spec: {path: ./apps}\n"
)
_FLINK = (
    "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: events}\n"
    "spec: {taskManager: {replicas: 3, resource: {memory: 2048m, cpu: 1}}}\n"
)
_TOPIC = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\nmetadata: {name: t}\nspec: {replicas: 3}\n"
_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: import}
spec:
  suspend: %s
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("text", "said", "remedy"),
    [
        (
            _RELEASE,
            "of HelmRelease shop/web what it installs is not among the manifests",
            "helm get manifest web -n shop | dovetail plan -f -",
        ),
        (
            _KUSTOMIZATION,
            "of Kustomization apps what it builds is not",
            "flux build kustomization apps --path ./apps | dovetail plan -f -",
        ),
        (
            _FLINK,
            "of FlinkDeployment events what its operator makes (spec.taskManager.replicas) is not",
            "kubectl get pods -A -o yaml | dovetail plan -f -",
        ),
        (
            f"{_RELEASE}---\n{_FLINK}",
            "of HelmRelease shop/web, as of 1 more object, what it installs",
            "helm",
        ),
    ],
)
@pytest.mark.parametrize("command", ["plan", "explain cost"])
def test_alone_they_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str, remedy: str, command: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert run([*command.split(), "-f", str(file), "--region", "us-east-1"]) == 2
    shown = capsys.readouterr().err
    assert f"{file}:1: there is nothing to plan for: {said}" in shown
    assert remedy in shown


@pytest.mark.parametrize(
    ("beside", "said"),
    [(_JOB % "false", "1 of 1 pods have a place"), (_JOB % "true", "0 pods (suspend: true of Job default/")],
)
def test_beside_workloads_they_are_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: str, said: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"{_RELEASE}---\n{beside}")
    assert run(["plan", "-f", str(file), "--region", "us-east-1"]) == 0
    shown = capsys.readouterr()
    assert said in shown.out
    assert "note: 1 HelmRelease of helm.toolkit.fluxcd.io ignored: what it installs is not here" in shown.err
    held = "suspended, so that no pod is asked for: Job default/import; with suspend: false it is planned for"
    assert (held in shown.err) == ("true" in beside)


def test_a_count_that_is_not_of_pods_is_no_maker(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(_TOPIC)
    assert read([file]).notes == ("1 KafkaTopic of kafka.strimzi.io ignored",)
