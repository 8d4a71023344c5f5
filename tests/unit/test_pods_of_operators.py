"""Objects that tell an operator which pods to make: as many are counted, with what they ask for."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.workloads import DaemonSet, Deployment
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.cli.plan_input import read_cluster
from dovetail.reading import Located, Reading, read_objects
from dovetail.units.quantity import parse_quantity

# What an object is, and (name, pods, cpu, memory) of what is counted; -1 pods: one per node.
Pods = list[tuple[str, int, str, str]]
_RESOURCES = "resources: {requests: {cpu: 1, memory: 2Gi}}"
_POD = "{spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}"
CASES: dict[str, tuple[str, Pods]] = {
    "SparkApplication": (
        """
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi}
spec:
  type: Scala
  driver: {cores: 1, memory: 512m}
  executor: {instances: 10, cores: 2, memory: 8g}
""",
        [("pi-driver", 1, "1", "896Mi"), ("pi-executor", 10, "2", str(int(8 * 1.1 * 2**30)))],
    ),
    "Spark in Python, dynamic": (
        """
apiVersion: sparkoperator.k8s.io/v1beta2
kind: ScheduledSparkApplication
metadata: {name: nightly}
spec:
  schedule: "@every 3m"
  template:
    type: Python
    driver: {coreRequest: 500m, memory: 1g, template: {spec: {containers: [{name: spark-kubernetes-driver}]}}}
    executor: {memory: 2g, memoryOverhead: 1g}
    dynamicAllocation: {enabled: true, minExecutors: 3}
""",
        [("nightly-driver", 1, "500m", str(int(2**30 * 1.4))), ("nightly-executor", 3, "1", "3Gi")],
    ),
    "Kafka with node pools": (
        f"""
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {{name: brokers, labels: {{strimzi.io/cluster: events}}}}
spec: {{replicas: 3, roles: [broker]}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {{name: controllers, labels: {{strimzi.io/cluster: events}}}}
spec: {{replicas: 3, roles: [controller], resources: {{requests: {{cpu: 500m, memory: 1Gi}}}}}}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {{name: events}}
spec:
  kafka: {{replicas: 9, {_RESOURCES}}}
  entityOperator: {{topicOperator: {{{_RESOURCES}}}, userOperator: {{{_RESOURCES}}}}}
""",
        [
            ("brokers", 3, "1", "2Gi"),
            ("controllers", 3, "500m", "1Gi"),
            ("events-entity-operator", 1, "2", "4Gi"),
        ],
    ),
    "Kafka with ZooKeeper": (
        f"""
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {{name: events}}
spec:
  kafka: {{replicas: 3, {_RESOURCES}}}
  zookeeper: {{replicas: 3}}
  kafkaExporter: {{}}
""",
        [
            ("events-kafka", 3, "1", "2Gi"),
            ("events-zookeeper", 3, "0", "0"),
            ("events-kafka-exporter", 1, "0", "0"),
        ],
    ),
    "a virtual machine": (
        """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm}
spec:
  runStrategy: Always
  template: {spec: {domain: {cpu: {cores: 4, sockets: 2}, memory: {guest: 16Gi}, devices: {}}}}
""",
        # 228 MiB of its launcher, 32 of its page table, 64 of its CPUs, 32 of its screen.
        [("vm", 1, "800m", "16740Mi")],
    ),
    "a virtual machine of a type": (
        """
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1.small}
spec: {cpu: {guest: 1}, memory: {guest: 2Gi}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm}
spec:
  running: true
  instancetype: {name: u1.small}
  template: {spec: {domain: {devices: {autoattachGraphicsDevice: false}}}}
""",
        [("vm", 1, "100m", "2288Mi")],
    ),
    "a virtual machine that is off": (
        """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm}
spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}}}}}
""",
        [("vm", 0, "100m", "1294Mi")],
    ),
    "Elasticsearch": (
        """
apiVersion: elasticsearch.k8s.elastic.co/v1
kind: Elasticsearch
metadata: {name: logs}
spec:
  nodeSets:
  - {name: masters, count: 3}
  - name: data
    count: 4
    podTemplate:
      spec: {containers: [{name: elasticsearch, resources: {requests: {cpu: 2, memory: 8Gi}}}]}
""",
        [("logs-masters", 3, "0", "2Gi"), ("logs-data", 4, "2", "8Gi")],
    ),
    "Beat": (
        """
apiVersion: beat.k8s.elastic.co/v1beta1
kind: Beat
metadata: {name: logs}
spec: {type: filebeat, daemonSet: {podTemplate: {spec: {hostNetwork: true}}}}
""",
        [("logs", -1, "100m", "300Mi")],
    ),
    "a per-node part of any kind": (
        f"""
apiVersion: example.com/v1
kind: Agent
metadata: {{name: a}}
spec: {{daemonSet: {{podTemplate: {_POD}}}}}
""",
        [("a-daemonset", -1, "1", "0")],
    ),
    "Prometheus": (
        f"""
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {{name: k8s}}
spec: {{replicas: 2, shards: 3, {_RESOURCES}}}
---
apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata: {{name: main}}
spec: {{{_RESOURCES}}}
""",
        [("k8s", 6, "1", "2Gi"), ("main", 1, "1", "2Gi")],
    ),
    "counts and resources of any kind": (
        f"""
apiVersion: example.com/v1
kind: Database
metadata: {{name: d}}
spec: {{shard: {{members: 3, {_RESOURCES}}}, router: [{{name: r, replicas: 2, {_RESOURCES}}}]}}
""",
        [("d-shard", 3, "1", "2Gi"), ("d-r", 2, "1", "2Gi")],
    ),
    "CloudNativePG": (
        f"""
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {{name: pg}}
spec: {{instances: 3, {_RESOURCES}}}
""",
        [("pg", 3, "1", "2Gi")],
    ),
    "runners of GitHub": (
        f"""
apiVersion: actions.summerwind.dev/v1alpha1
kind: RunnerDeployment
metadata: {{name: rd}}
spec: {{replicas: 3, template: {{spec: {{repository: a/b, {_RESOURCES}}}}}}}
""",
        [("rd", 3, "1", "2Gi")],
    ),
    "a model of KServe": (
        f"""
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {{name: m}}
spec: {{predictor: {{minReplicas: 2, model: {{modelFormat: {{name: sklearn}}, {_RESOURCES}}}}}}}
""",
        [("m-predictor", 2, "1", "2Gi")],
    ),
    "workers of Ray": (
        f"""
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: r}}
spec:
  headGroupSpec: {{template: {_POD}}}
  workerGroupSpecs:
  - {{groupName: slices, replicas: 2, minReplicas: 3, numOfHosts: 4, template: {_POD}}}
  - {{groupName: off, replicas: 2, suspend: true, template: {_POD}}}
""",
        [("r-headgroupspec", 1, "1", "0"), ("r-0", 12, "1", "0"), ("r-1", 0, "1", "0")],
    ),
    "leaders and workers": (
        f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: l}}
spec: {{replicas: 2, leaderWorkerTemplate: {{size: 4, leaderTemplate: {_POD}, workerTemplate: {_POD}}}}}
""",
        [("l-leader", 2, "1", "0"), ("l-worker", 6, "1", "0")],
    ),
    "a JobSet": (
        f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: j}}
spec:
  replicatedJobs:
  - {{name: w, replicas: 2, template: {{spec: {{parallelism: 4, completions: 3, template: {_POD}}}}}}}
""",
        [("j-w-0", 3, "1", "0"), ("j-w-1", 3, "1", "0")],
    ),
    "a JobSet that has ended": (
        f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: j}}
spec: {{replicatedJobs: [{{name: w, template: {{spec: {{parallelism: 4, template: {_POD}}}}}}}]}}
status: {{terminalState: Completed}}
""",
        [("j-w-0", 0, "1", "0")],
    ),
    "a job of Kubeflow that is held": (
        f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: t}}
spec: {{runPolicy: {{suspend: true}}, pytorchReplicaSpecs: {{Worker: {{replicas: 2, template: {_POD}}}}}}}
""",
        [("t-worker", 0, "1", "0")],
    ),
}


def _read(documents: list[Any]) -> Reading:
    return read_objects(Located(document) for document in copy.deepcopy(documents))


def _counted(reading: Reading) -> Pods:
    found: Pods = []
    for item in reading.manifests:
        made = item.object
        assert isinstance(made, Deployment | DaemonSet)
        total = dict.fromkeys(("cpu", "memory"), parse_quantity(0))
        for container in made.spec.template.spec.containers:
            for key, amount in container.resources.requests.items():
                if key in total:
                    total[key] += amount
        pods = made.spec.replicas if isinstance(made, Deployment) else -1
        found.append((made.metadata.name, pods, str(total["cpu"]), str(total["memory"])))
    return found


@pytest.mark.parametrize("case", CASES)
def test_as_many_pods_as_the_operator_makes(case: str) -> None:
    text, wanted = CASES[case]
    found = _counted(_read(list(yaml.safe_load_all(text))))
    assert [(name, pods) for name, pods, *_ in found] == [(name, pods) for name, pods, *_ in wanted]
    for had, want in zip(found, wanted, strict=True):
        assert [*map(parse_quantity, had[2:])] == [*map(parse_quantity, want[2:])], had


def test_why_there_are_none_is_said() -> None:
    notes = {
        case: _read(list(yaml.safe_load_all(CASES[case][0]))).notes
        for case in (
            "a virtual machine that is off",
            "a JobSet that has ended",
            "a job of Kubeflow that is held",
        )
    }
    assert [note[0].rpartition("workload: ")[2] for note in notes.values()] == [
        "no pods (runStrategy: Halted)",
        "no pods (it has ended)",
        "no pods (suspend: true)",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm}\n"
            "spec: {running: true, instancetype: {name: u1.small}, template: {spec: {domain: {}}}}",
            "1 VirtualMachine of kubevirt.io ignored: the pod that it runs in is not here",
        ),
        (
            "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: s}\n"
            "spec: {driver: {}, executor: {instances: 2, memory: '${MEMORY}'}}",
            "1 SparkApplication of sparkoperator.k8s.io ignored: what its operator makes",
        ),
        (
            "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\n"
            "spec: {templates: [{name: a, container: {image: x}}]}",
            "what its operator makes (spec.templates[0].container) is not here",
        ),
        (
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: h}\n"
            "spec: {values: {replicas: 3, resources: {requests: {cpu: 1}}}}",
            "1 HelmRelease of helm.toolkit.fluxcd.io ignored: what it installs is not here",
        ),
        (
            "apiVersion: example.com/v1\nkind: Store\nmetadata: {name: s}\n"
            "spec: {a: {replicas: 3, resources: {requests: {cpu: 1}}}, b: {replicas: 2}}",
            "3 pods, by the requests in it; what its operator adds is not known; what its operator makes "
            "(spec.b.replicas) is not here",
        ),
    ],
)
def test_what_is_not_known_is_said(text: str, said: str) -> None:
    assert said in _read([yaml.safe_load(text)]).notes[0]


def test_each_job_of_a_set_has_a_domain_of_its_own() -> None:
    (document,) = yaml.safe_load_all(CASES["a JobSet"][0])
    document["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    for number, item in enumerate(_read([document]).manifests):
        made = item.object
        assert isinstance(made, Deployment)
        assert made.spec.template.metadata.labels["jobset.sigs.k8s.io/job-index"] == str(number)
        affinity = made.spec.template.spec.affinity
        assert affinity is not None and affinity.pod_affinity is not None
        (together,) = affinity.pod_affinity.required
        assert together.topology_key == "rack"


def _owned(by: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = {"apiVersion": by["apiVersion"], "kind": by["kind"], "name": by["metadata"]["name"], "uid": "u"}
    return {"ownerReferences": [{**meta, **more}]}


@pytest.mark.parametrize("controller", [True, False])
def test_pods_that_are_there_are_counted_once(controller: bool) -> None:
    *_, kafka = yaml.safe_load_all(CASES["Kafka with ZooKeeper"][0])
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "p", **_owned(kafka, controller=controller)},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }
    assert len(read_cluster(_read([kafka])).pods) == 7
    assert len(read_cluster(_read([kafka, pod])).pods) == 1


def test_what_an_object_of_another_operator_makes_is_counted_once() -> None:
    (cluster,) = yaml.safe_load_all(CASES["workers of Ray"][0])
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "job"},
        "spec": {"rayClusterSpec": cluster["spec"]},
    }
    cluster["metadata"].update(_owned(job, controller=True))
    assert len(read_cluster(_read([job])).pods) == 13
    assert len(read_cluster(_read([job, cluster])).pods) == 13


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += [(value, key), *_places(item)]
    return found


@given(st.sampled_from(sorted(CASES)), st.data())
def test_whatever_stands_in_them_is_counted_refused_or_named(case: str, data: st.DataObject) -> None:
    documents = list(yaml.safe_load_all(CASES[case][0]))
    for _ in range(data.draw(st.integers(1, 3))):
        places = [place for one in documents for place in _places(one.get("spec"))]
        if places:
            holder, key = data.draw(st.sampled_from(places))
            holder[key] = data.draw(_ANYTHING)
    try:
        reading = _read(documents)
    except InputError as error:
        assert error.message
    else:
        assert reading.notes


def test_the_parts_of_an_object_are_found_faulty_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "set.yaml"
    file.write_text(CASES["a JobSet"][0].replace("{cpu: 1}", "{}"))
    run(["check", str(file), "-o", "json"])
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["line"]) == ("WL001", 7)


def test_a_pod_by_itself_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i}]}\n"
    )
    run(["check", str(file)])
    assert "Pod x asks for no cpu and no memory" in capsys.readouterr().out


def test_diff_says_a_note_of_both_sides_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ray.yaml"
    file.write_text(CASES["workers of Ray"][0])
    run(["diff", str(file), "-f", str(file), "--region", "us-east-1", "--work", "1000"])
    assert capsys.readouterr().err.count("counted as workload") == 1


@pytest.mark.parametrize("command", ["simulate", "compare --policy dovetail --policy karpenter --seeds 1"])
def test_a_scenario_without_a_pool_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "scenario.yaml").write_text(
        "apiVersion: simulation.dovetail.dev/v1alpha1\nkind: Scenario\nname: a\ndescription: a\n"
        "region: us-east-1\nstart: 2026-03-02T10:00\nduration: 5m\n"
    )
    (folder / "kafka.yaml").write_text(CASES["Kafka with ZooKeeper"][0])
    assert run([*command.split(), str(folder)]) == 0
    shown = capsys.readouterr().err
    assert "no NodePool is among the manifests: no node is bought" in shown
    assert shown.count("1 Kafka of kafka.strimzi.io counted as workload: 7 pods") == 1


_TEMPLATED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web%s}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""
_SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio-injection: enabled}}\n"


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        (
            "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: web, namespace: shop}\n"
            "spec: {scaleTargetRef: {name: web}, minReplicaCount: 4, triggers: [{type: cpu, "
            "metadata: {value: '60'}}]}",
            4,
        ),
        (
            "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web, namespace: shop}\n"
            "spec: {replicas: 5, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}",
            6,
        ),
        (
            "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nmetadata: {name: w, namespace: shop}\n"
            f"spec: {{podSets: [{{count: 4, name: main, template: {_POD}}}]}}",
            1,
        ),
        (
            "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineDeployment\nmetadata: {name: m}\n"
            "spec: {replicas: 3, template: {spec: {version: v1.30.0}}}",
            1,
        ),
    ],
)
def test_pods_beside_a_deployment(text: str, pods: int) -> None:
    documents = [yaml.safe_load(_TEMPLATED % ""), yaml.safe_load(text)]
    reading = _read(documents)
    assert len(read_cluster(reading).pods) == pods
    assert not any("what its operator makes" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("label", "space", "said"),
    [
        (', sidecar.istio.io/inject: "true"', "", True),
        ("", _SPACE, True),
        (', sidecar.istio.io/inject: "false"', _SPACE, False),
        ("", "", False),
    ],
)
def test_the_proxies_of_a_mesh_are_named(
    label: str, space: str, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    read_cluster(_read([one for one in yaml.safe_load_all(f"{_TEMPLATED % label}---\n{space}") if one]))
    text = "the pods of 1 workload get a proxy of Istio, which is not counted: 100m of CPU and 128Mi"
    assert (text in capsys.readouterr().err) == said
