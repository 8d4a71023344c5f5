"""Manifests: what is read, and errors that name file, line, path and the typo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import Deployment
from dovetail.base.errors import InputError
from dovetail.reading import Manifest
from dovetail.reading import read as read_all

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: app:1
    resources:
      limits: {cpu: 500m, memory: 1Gi}
"""

DEPLOYMENT = """\
# a comment first
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - name: app
        resources:
          requests:
            cpu: 100m
"""

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      requirements:
      - key: karpenter.sh/capacity-type
        operator: In
        values: [spot]
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
"""

CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: job
"""


def read(tmp_path: Path, text: str, name: str = "a.yaml") -> tuple[Manifest, ...]:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    return read_all([file]).manifests


def test_pod_has_its_defaults(tmp_path: Path) -> None:
    (manifest,) = read(tmp_path, POD)
    assert isinstance(manifest.object, Pod)
    assert manifest.object.metadata.namespace == "default"
    assert str(manifest.object.spec.containers[0].resources.requests["memory"]) == "1Gi"
    assert manifest.line == 1
    assert manifest.source.endswith("a.yaml")


def test_many_documents_lists_and_skipped_kinds(tmp_path: Path) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {key: word}\n"
    indented = "\n".join("  " + line for line in POD.splitlines())
    listed = f"apiVersion: v1\nkind: List\nitems:\n-{indented[1:]}\n"
    found = read(tmp_path, "\n---\n".join([DEPLOYMENT, "", secret, listed, POOL]))
    assert [type(item.object) for item in found] == [Deployment, Pod, NodePool]
    assert [item.line for item in found] == [2, 34, 46]


def test_folder_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(POD)
    (tmp_path / "a.json").write_text('{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    assert [item.document["kind"] for item in read_all([tmp_path]).manifests] == ["Namespace", "Pod"]


def test_scalars_as_kubernetes_reads_them(tmp_path: Path) -> None:
    text = POD.replace("  name: web", "  name: web\n  annotations: {a: 21:00, b: 2024-01-01, c: '1'}", 1)
    (manifest,) = read(tmp_path, text)
    assert manifest.object.metadata.annotations == {"a": "21:00", "b": "2024-01-01", "c": "1"}


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        (
            DEPLOYMENT.replace("      containers:", "      afinity: {}\n      containers:"),
            16,
            "spec.template.spec.afinity",
            "unknown field afinity; did you mean affinity?",
        ),
        (
            POOL.replace("nodeClassRef", "nodeclassRef"),
            12,
            "spec.template.spec.nodeclassRef",
            "did you mean nodeClassRef?",
        ),
        (
            POOL.replace("  name: default\nspec", "  nam: default\nspec"),
            4,
            "metadata.nam",
            "did you mean name?",
        ),
        (
            DEPLOYMENT.replace("cpu: 100m", "cpu: 100 m"),
            20,
            "spec.template.spec.containers[0].resources.requests.cpu",
            '"100 m": must be a quantity such as 2, 500m or 10Gi',
        ),
        (DEPLOYMENT.replace("replicas: 3", "replicas: three"), 7, "spec.replicas", "must be of type integer"),
        (
            DEPLOYMENT.replace("        app: web\n    spec", "        app: wob\n    spec"),
            13,
            "spec.template.metadata.labels",
            "`selector` does not match template `labels`",
        ),
        (
            DEPLOYMENT.replace("  selector:\n    matchLabels:\n      app: web\n", ""),
            6,
            "spec.selector",
            "Required",
        ),
        (
            POOL.replace("operator: In", "operator: in"),
            10,
            "spec.template.spec.requirements[0].operator",
            'Unsupported value: "in"',
        ),
        (
            POOL.replace("[spot]", "[]"),
            8,
            "spec.template.spec.requirements",
            "requirements with operator 'In' must have a value defined",
        ),
        (
            CRON_JOB.replace("0 3 * * *", "0 25 * * *"),
            6,
            "spec.schedule",
            "'25' in the hour field is not within 0-23",
        ),
        (
            CRON_JOB.replace("          restartPolicy: Never\n", ""),
            10,
            "spec.jobTemplate.spec.template.spec",
            "Never",
        ),
        (POD.replace("kind: Pod", "kind: Pdo"), 2, "kind", "unknown kind 'Pdo' of v1; did you mean Pod?"),
        (POOL.replace("sh/v1", "sh/v1beta1"), 1, "apiVersion", "did you mean karpenter.sh/v1?"),
        (POD.replace("kind: Pod\n", ""), 1, "kind", "kind is required"),
        (POD.replace("name: web", "name: Web_1"), 4, "metadata.name", "RFC 1123 subdomain"),
        (
            POD.replace("  name: web", "  labels: {a: b}"),
            3,
            "metadata.name",
            "name or generateName is required",
        ),
        (
            POD.replace("image: app:1", "image: app:1\n    image: app:2"),
            9,
            "spec.containers[0].image",
            "given twice",
        ),
        (POD.replace("  - name: app", " - name: app"), 7, "", "malformed YAML"),
        (POD.replace("limits: {cpu", "limits: {cpu: : "), 10, "", "malformed YAML"),
        ("- a\n- b\n", 1, "", "expected an object with apiVersion and kind, got list"),
        ("a: &x\n  b: *x\n", 1, "a.b", "the anchor refers to itself"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, text: str, line: int, path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    error = caught.value
    assert message in error.message
    assert error.path.startswith(path)
    assert error.line == line or path == "spec.jobTemplate.spec.template.spec" or "anchor" in message
    assert str(error).startswith(str(tmp_path / "a.yaml"))


def test_all_broken_rules_are_reported(tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("replicas: 3", "replicas: -1").replace("name: web\nspec", "name: WEB\nspec")
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert [(fault.line, fault.path, fault.kind, fault.name) for fault in caught.value.faults] == [
        (5, "metadata.name", "Deployment", "WEB"),
        (7, "spec.replicas", "Deployment", "WEB"),
    ]
    assert "a.yaml:7: Deployment WEB: spec.replicas: Invalid value: must be greater" in str(caught.value)


def test_two_objects_run_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'apiVersion' is given twice, first on line 1") as caught:
        read(tmp_path, POD + POOL)
    assert caught.value.remedy == "put --- between two objects"


def test_missing_and_empty(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text("# nothing\n")
    with pytest.raises(InputError, match="no such file or folder") as missing:
        read_all([tmp_path / "pod.yaml"])
    assert missing.value.remedy == f"did you mean {tmp_path / 'pods.yaml'}?"
    with pytest.raises(InputError, match="holds no objects"):
        read_all([tmp_path / "pods.yaml"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no manifests"):
        read_all([tmp_path / "empty"])
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_all([tmp_path / "bin.yaml"])


def test_json_lists_have_lines(tmp_path: Path) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": {}} for i in range(2)]
    for pod in pods:
        pod["spec"] = {"containers": [{"name": "c", "image": "\u00e9\\u00e9"}]}
    text = json.dumps({"kind": "List", "items": pods}, indent=1)
    found = read(tmp_path, text, "a.json")
    assert [text.splitlines()[item.line - 1].strip() for item in found] == ["{", "{"]
    assert found[0].line < found[1].line
    broken = text.replace('"name": "p1"', '"nam": "p1"')
    with pytest.raises(InputError, match="unknown field nam; did you mean name") as caught:
        read(tmp_path, broken, "a.json")
    assert caught.value.line is not None
    assert '"nam"' in broken.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize(
    ("text", "line"), [("{", 1), ('{\n"a": }', 2), ('{"kind": "List", "items": [{]}', 1)]
)
def test_malformed_json(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(InputError, match="malformed JSON") as caught:
        read(tmp_path, text, "a.json")
    assert caught.value.line == line
