"""`dovetail check` on what repositories hold: kustomizations, charts, templates beside manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.cli.main import BAD_INPUT, run
from dovetail.lint.survey import survey

POOL = (
    "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n"
    "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements:\n"
    "      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c]}\n"
)
WRONG = POOL.replace("  template:", "  taints: []\n  template:")
PATCH = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {limits: {cpu: 10}}\n"
OPERATIONS = "- {op: replace, path: /spec/limits/cpu, value: 10}\n"
TEMPLATE = POOL.replace("name: a", "name: ${pool}").replace("[c]", "${jsonencode(categories)}")


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    "kustomization",
    [
        "patches: [{path: p.yaml}]\n",
        "patchesStrategicMerge: [p.yaml]\n",
        "patchesJson6902: [{path: p.yaml, target: {kind: NodePool}}]\n",
        "configMapGenerator: [{name: x, files: [key=p.yaml]}]\n",
        "helmCharts: [{name: x, valuesFile: p.yaml}]\n",
    ],
)
@pytest.mark.parametrize("part", [PATCH, OPERATIONS, "replicas: 1\n"])
def test_what_a_kustomization_applies_is_no_manifest(tmp_path: Path, kustomization: str, part: str) -> None:
    _write(
        tmp_path,
        {
            "base/kustomization.yaml": "resources: [np.yaml]\n",
            "base/np.yaml": POOL,
            "prod/kustomization.yaml": kustomization,
            "prod/p.yaml": part,
        },
    )
    found = survey([str(tmp_path)], recursive=True)
    assert [Path(item.source).name for item in found.written] == ["np.yaml"]
    assert not found.faults
    assert len(found.notes) == 1 and found.notes[0].startswith("2 kustomizations")


@pytest.mark.parametrize(
    "text",
    [
        "a: [\n",
        "- a\n",
        "",
        "patches: 3\n",
        "patches: [3, {path: [x]}, {path: ../..}]\n",
        "patches: ['a\\0b']\n",
    ],
)
def test_a_kustomization_that_says_nothing_hides_nothing(tmp_path: Path, text: str) -> None:
    _write(tmp_path, {"kustomization.yaml": text, "np.yaml": WRONG})
    found = survey([str(tmp_path)])
    assert [fault.error.path for fault in found.faults] == ["spec.taints"]


def test_the_rest_of_a_repository_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One folder that other tools read does not hide what is in the others."""
    _write(
        tmp_path,
        {
            "a/kustomization.yaml": "resources: [x.yaml]\n",
            "a/x.yaml": WRONG,
            "b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n",
            "b/templates/x.yaml": "{{ if }}\n",
            "c/x.yaml": WRONG,
        },
    )
    assert run(["check", "-R", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert [line.split(":")[0][-8:] for line in said.out.splitlines()[:-1]] == ["a/x.yaml", "c/x.yaml"]
    assert "b: a chart of Helm, left out" in said.err
    assert run(["plan", "-R", "-f", str(tmp_path)]) == BAD_INPUT
    said = capsys.readouterr()
    assert all(f"{tmp_path}/{name}: the folder is a" in said.err for name in ("a", "b"))
    assert "c/x.yaml:5" in said.err


@pytest.mark.parametrize(
    "call",
    [
        'templatefile("${path.module}/np.yaml", { pool = var.pool })',
        'templatefile("np.yaml", {})',
        'templatefile("./np.yaml", {})',
        'yamldecode(templatefile(\n"${path.root}/np.yaml", {}))',
    ],
)
@pytest.mark.parametrize("recursive", [False, True])
def test_a_file_that_terraform_fills_in(
    tmp_path: Path, call: str, recursive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    module = f'resource "kubectl_manifest" "a" {{\n  yaml_body = {call}\n}}\n'
    _write(tmp_path, {"main.tf": module, "np.yaml": TEMPLATE})
    given = [str(tmp_path), str(tmp_path / "main.tf")] if recursive else [str(tmp_path / "main.tf")]
    found = survey(given)
    assert [item.value["metadata"]["name"] for item in found.written] == ["<pool>"]
    assert run(["check", str(tmp_path), "--select", "IN"]) == 0
    assert capsys.readouterr().out == "nothing found\n"


def test_a_mistake_in_a_template_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(
        tmp_path,
        {
            "main.tf": 'data "kubectl_path_documents" "a" {\n  pattern = "${path.module}/pools/*.tpl"\n}\n',
            "pools/a.tpl": TEMPLATE.replace("  template:", "  taints: []\n  template:"),
            "pools/b.tpl": WRONG,
        },
    )
    assert run(["check", str(tmp_path / "main.tf"), "--select", "IN003"]) == 1
    lines = capsys.readouterr().out.splitlines()[:-1]
    assert [Path(line.partition(" ")[0]).name for line in lines] == ["a.tpl:5:3", "b.tpl:5:3"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("main.tf", 'resource "x" "y" {}\n', "no object is in what was given"),
        (
            "a.yaml",
            "apiVersion: example.com/v1\nkind: NodePool\n",
            "no rule looks at NodePool of example.com",
        ),
    ],
)
def test_nothing_found_says_why_nothing_could_be(
    tmp_path: Path, name: str, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, {name: text})
    assert run(["check", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == f"nothing found: {why}\n"
