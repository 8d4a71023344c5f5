"""What is read besides plain files: lists, other groups, objects of servers, and input that is hostile."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from dovetail.api.core import Pod
from dovetail.base.errors import InputError
from dovetail.reading import read, without_auto_mode
from dovetail.units.quantity import parse_quantity

ROLLOUT = """\
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {1: web}}
    spec: {containers: [{name: a, image: a}]}
"""
MONITOR = "---\napiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m}\n"
OF_A_SERVER = """\
apiVersion: v1
kind: Pod
metadata: {uid: u, name: x}
spec: {containers: [{name: a}], newField: 1}
"""


def test_other_groups_are_counted_or_taken_for_workloads(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(ROLLOUT + MONITOR + MONITOR)
    found = read([file])
    (manifest,) = found.manifests
    assert manifest.document["spec"]["replicas"] == 3
    assert manifest.document["spec"]["template"]["metadata"]["labels"] == {"1": "web"}
    assert found.notes == (
        "1 Rollout of argoproj.io counted as workload: 3 pods",
        "2 ServiceMonitor of monitoring.coreos.com ignored",
    )
    with pytest.raises(InputError) as caught:
        read([file], strict=True)
    assert [fault.line for fault in caught.value.faults] == [2, 11, 15]


def test_objects_of_servers_may_hold_what_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(OF_A_SERVER)
    (note,) = read([file]).notes
    assert note == f"{file}:4: Pod x: unknown field spec.newField left out"
    with pytest.raises(InputError, match="unknown field newField"):
        read([file], strict=True)


SERVED = """\
apiVersion: v1
kind: Pod
metadata: {uid: u, name: x, labels: {a: b}, annotations: {c: d}}
spec:
  initContainers: null
  containers:
  - name: a
    env: [{name: A, value: b}]
    livenessProbe: {httpGet: {path: /, port: 80}}
    volumeMounts: [{name: data, mountPath: /data}]
    ports: [{containerPort: 80, hostPort: 80}]
    resources: {limits: {cpu: 2}, requests: {memory: 1Gi}}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}
  tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: some, configMap: {name: some}}]
status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: a}]}
"""


def test_of_an_object_of_a_server_the_same_is_read(tmp_path: Path) -> None:
    """It was admitted, so only what is read is looked at; of one by hand all of it."""
    file, by_hand = tmp_path / "a.yaml", tmp_path / "b.yaml"
    file.write_text(SERVED)
    by_hand.write_text(SERVED.replace("uid: u, ", "").replace("[{name: a}]", "[{name: a, image: a}]"))
    (served,), (written,) = read([file]).manifests, read([by_hand]).manifests
    assert isinstance(served.object, Pod) and isinstance(written.object, Pod)
    assert (served.object.spec, served.object.status) == (written.object.spec, written.object.status)
    assert served.object.spec.containers[0].resources.requests["cpu"] == parse_quantity("2")
    assert served.object.metadata.annotations == {"c": "d"}
    (container,) = served.document["spec"]["containers"]
    assert "env" not in container and "env" in served.located.value["spec"]["containers"][0]
    assert "initContainers" not in served.document["spec"]
    assert served.document["spec"]["volumes"] == written.document["spec"]["volumes"]


def test_lists_pipes_and_gzip(tmp_path: Path) -> None:
    file = tmp_path / "list"
    item = "{metadata: {name: a}, spec: {containers: [{name: a}]}}"
    file.write_bytes(gzip.compress(f"kind: PodList\napiVersion: v1\nitems: [{item}]\n".encode()))
    (manifest,) = read([file]).manifests
    assert (manifest.object.KIND, manifest.line) == ("Pod", 3)
    file.write_text("kind: NodeList\napiVersion: v1\nitems: null\n")
    assert read([file]).manifests == ()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="nothing writes to"):
        read([tmp_path / "pipe"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 100_000, "nested deeper than 200 levels"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper than|nested too deeply"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 10}]\n" for i in range(1, 9)),
            "aliases stand for more",
        ),
        ("a: " + "9" * 5000, "too long"),
        ("a: 1e999", "too large"),
        ("a: !!python/object:os.system x", "does not know the tag"),
        ("a\0b", "not text"),
    ],
)
def test_hostile_texts(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read([file])


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("spec: {containers: []}", "a pod has at least one container"),
        ("status: {}", "a pod needs a spec with at least one container"),
    ],
)
def test_a_pod_without_a_container_is_refused(tmp_path: Path, rest: str, message: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{rest}\n")
    with pytest.raises(InputError, match=message):
        read([file])


@pytest.mark.parametrize(
    ("content", "line", "remedy"),
    [
        (b"WARNING: file is readable: /root\n---\napiVersion: v1\n", 1, "keep standard error out of it"),
        (b"coalesce.go:237: warning: x: y\n---\napiVersion: v1\n", 1, "keep standard error out of it"),
        (b"apiVersion: v1\nmetadata:\n\tname: x\n", 3, "indent with spaces"),
        (b"```yaml\napiVersion: v1\n```\n", 1, "between the fences"),
        (b"\x1b[32mapiVersion\x1b[0m: v1\n", 1, "without colours"),
        (b"apiVersion: v1\nkind: [a: b: c]\n", 2, "look at the indentation"),
        ("kind: é\n".encode("latin-1"), 1, "save it as UTF-8"),
        ("kind: Pod\n".encode("utf-16-le"), None, "UTF-16 without a byte order mark"),
        (b"PK\3\4" + bytes(range(256)), None, "unpack it"),
        (b"a" * 257 + b"ustar\0" + bytes(250), None, "unpack it"),
        (b"NAMESPACE   NAME   READY\ndefault     web    1/1\n", 1, "kubectl get ... -o yaml"),
    ],
)
def test_what_strangers_pipe_in_by_mistake(
    content: bytes, line: int | None, remedy: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read([file])
    fault = caught.value.faults[0]
    assert fault.line == line
    assert remedy in fault.remedy


def test_values_of_a_chart_are_no_manifests(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("replicaCount: 3\n")
    with pytest.raises(InputError, match=f"helm template CHART -f {file}"):
        read([file])


def test_files_with_commas_between_them_are_several(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a.yaml", "b.yaml")]
    for file in names:
        file.write_text(MONITOR)
    both = f"{names[0]},{names[1]}"
    assert read([both]).notes == ("2 ServiceMonitor of monitoring.coreos.com ignored",)
    (tmp_path / "c,d.yaml").write_text(MONITOR)
    assert read([tmp_path / "c,d.yaml"]).notes == ("1 ServiceMonitor of monitoring.coreos.com ignored",)
    with pytest.raises(InputError, match="no such file"):
        read([f"{names[0]},{tmp_path / 'none.yaml'}"])


def test_what_stands_for_manifests_elsewhere_says_how_to_get_them(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {a: 3}\n"
    )
    (note,) = read([file]).notes
    assert note.endswith(
        "helm.toolkit.fluxcd.io ignored: what it installs is not here (helm get manifest NAME -n NAMESPACE)"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [("nodes.tf", "the file is Terraform, not manifests"), ("a.sh", "the file is a script of the shell")],
)
def test_what_makes_manifests_is_named(tmp_path: Path, name: str, said: str) -> None:
    file = tmp_path / name
    file.write_text('resource "a" "b" {\n}\nkubectl apply -f - <<EOF\n')
    with pytest.raises(InputError, match=said):
        read([file])


_POOL = """\
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {{group: {group}, kind: {kind}, name: default}}
"""
_CLAIM = """\
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: a}
spec:
  requirements: []
  nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
"""


def test_what_auto_mode_runs_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    ours = _POOL.format(name="ours", group="karpenter.k8s.aws", kind="EC2NodeClass")
    theirs = _POOL.format(name="theirs", group="eks.amazonaws.com", kind="NodeClass")
    file.write_text(ours + theirs + _CLAIM)
    found = without_auto_mode(read([file]))
    assert [one.object.metadata.name for one in found.manifests] == ["ours"]
    assert [note.partition(":")[0] for note in found.notes] == [
        "1 NodeClaim of EKS Auto Mode ignored",
        "1 NodePool of EKS Auto Mode ignored",
    ]


def test_records_beside_manifests_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(OF_A_SERVER)
    (tmp_path / "history.jsonl").write_text('{"at": 60, "scale": "Deployment/shop/web", "replicas": 5}\n' * 3)
    (tmp_path / "more.jsonl").write_text(
        '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}\n'
    )
    found = read([tmp_path])
    assert [one.object.KIND for one in found.manifests] == ["Namespace", "Pod"]
    assert found.notes[0] == f"{tmp_path}/history.jsonl: left out, its lines have neither apiVersion nor kind"
    with pytest.raises(InputError, match="apiVersion is required"):  # who names the file means it
        read([tmp_path / "history.jsonl"])


BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"""
SCALER = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop, labels: {team: a}}
spec:
  minReplicas: 2
  maxReplicas: 9
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""


def test_parts_are_laid_over_the_objects_they_name(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(BUDGET + SCALER + "---\n" + ROLLOUT)
    known = read([old]).manifests
    new.write_text(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop}, "
        "spec: {maxReplicas: 20, minReplicas: null}}\n---\n"
        "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web}, spec: {replicas: 5}}\n---\n"
        + BUDGET.replace("maxUnavailable: 1", "maxUnavailable: 3")
    )
    scaler, rollout, budget = read([new], onto=known).manifests
    target = known[1].document["spec"]["scaleTargetRef"]
    assert scaler.document["spec"] == {"maxReplicas": 20, "scaleTargetRef": target}
    assert scaler.document["metadata"]["labels"] == {"team": "a"}
    assert scaler.given["spec"] == {"maxReplicas": 20, "minReplicas": None}
    assert rollout.document["spec"]["replicas"] == 5
    assert rollout.document["spec"]["template"] == known[2].document["spec"]["template"]
    assert rollout.given == rollout.document
    assert budget.given == budget.document  # a whole object is what it says
    new.write_text(BUDGET.partition("spec: ")[0] + "spec: {maxUnavailable: 4}")
    (budget,) = read([new], onto=known).manifests
    assert budget.document["spec"] == {"maxUnavailable": 4, "selector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("web", "maxReplicas: 0", "must be greater than 0"),
        ("web", "maxReplicsa: 3", "unknown field"),
        ("wbe", "maxReplicas: 3", "did you mean web?"),
        ("other", "maxReplicas: 3", "scaleTargetRef"),
    ],
)
def test_what_a_part_makes_is_admitted_as_a_whole(
    tmp_path: Path, name: str, fields: str, message: str
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(SCALER)
    head = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
    new.write_text(f"{head}metadata: {{name: {name}, namespace: shop}}\nspec:\n  {fields}\n")
    with pytest.raises(InputError) as caught:
        read([new], onto=read([old]).manifests)
    assert message in str(caught.value)
    assert caught.value.source == str(new)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            "{kind: PodDisruptionBudget, metadata: {name: web, namespace: shop}, spec: {maxUnavailable: 2}}",
            "apiVersion is required",
        ),
        (
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: 5}",
            "of type object",
        ),
    ],
)
def test_what_is_no_part_of_anything_is_refused_as_it_is(tmp_path: Path, part: str, message: str) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(BUDGET)
    new.write_text(part)
    with pytest.raises(InputError, match=message):
        read([new], onto=read([old]).manifests)


def test_a_template_of_an_operator_that_counts_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    containers = "containers: [{name: elasticsearch, resources: {requests: {cpu: 2}}}]"
    file.write_text(
        "apiVersion: elasticsearch.k8s.elastic.co/v1\nkind: Elasticsearch\nmetadata: {name: logs}\n"
        f"spec: {{nodeSets: [{{name: hot, count: 3, podTemplate: {{spec: {{{containers}}}}}}}]}}\n"
    )
    reading = read([file])
    assert reading.notes == ("1 Elasticsearch of elasticsearch.k8s.elastic.co counted as workload: 3 pods",)
    assert [item.object.metadata.name for item in reading.manifests] == ["logs-hot"]
