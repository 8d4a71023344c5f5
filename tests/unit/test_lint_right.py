"""Right manifests, as teams have them: nothing is said of any; and a slip in any word of them is found."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.lint.check import check
from dovetail.lint.finding import Finding
from dovetail.lint.survey import survey
from dovetail.lint.table import chosen
from tests.conformance.admission_cases import read_cases as admissions
from tests.conformance.generation_cases import read_cases as generations

FOLDER = Path(__file__).parent / "right"
FILES = sorted(path for path in FOLDER.iterdir())
TEAMS = 45  # each with a class, a pool and a workload of its own
Document = dict[str, Any]


def _said(*paths: Path) -> list[Finding]:
    return list(check(survey([str(path) for path in paths], recursive=True), chosen()))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_said_of_right_manifests(file: Path) -> None:
    assert [item.text for item in _said(file)] == []


CLASSES: list[Document] = [
    {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
    {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "kubelet": {"maxPods": 110}},
    {"amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}], "amiFamily": "AL2023"},
    {
        "amiSelectorTerms": [{"tags": {"image": "golden"}}],
        "amiFamily": "Custom",
        "userData": "#!/bin/sh\njoin\n",
    },
    {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "40Gi", "volumeType": "gp3"}}
        ],
    },
    {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "instanceStorePolicy": "RAID0",
        "kubelet": {"maxPods": 58},
    },
]
REQUIREMENTS: list[tuple[str, str, list[str]]] = [
    ("karpenter.k8s.aws/instance-category", "In", ["c", "m", "r"]),
    ("karpenter.k8s.aws/instance-family", "In", ["m7g", "c7g", "r7g", "m6g"]),
    ("karpenter.k8s.aws/instance-family", "NotIn", ["t2", "t3", "m1", "g4ad"]),
    ("karpenter.k8s.aws/instance-generation", "Gt", ["4"]),
    ("karpenter.k8s.aws/instance-generation", "In", ["6", "7"]),
    ("karpenter.k8s.aws/instance-size", "In", ["large", "xlarge", "2xlarge", "4xlarge"]),
    ("karpenter.k8s.aws/instance-size", "NotIn", ["nano", "micro", "metal", "metal-48xl"]),
    ("karpenter.k8s.aws/instance-cpu", "In", ["4", "8", "16"]),
    ("karpenter.k8s.aws/instance-memory", "Gt", ["8191"]),
    ("karpenter.k8s.aws/instance-cpu-manufacturer", "In", ["aws", "amd", "intel"]),
    ("karpenter.k8s.aws/instance-hypervisor", "In", ["nitro"]),
    ("karpenter.k8s.aws/instance-local-nvme", "DoesNotExist", []),
    ("node.kubernetes.io/instance-type", "NotIn", ["t1.micro", "m1.small", "p2.xlarge"]),
    ("topology.kubernetes.io/zone", "In", ["ap-northeast-2a", "ap-northeast-2b", "ap-northeast-2c"]),
    ("karpenter.sh/capacity-type", "In", ["spot", "on-demand"]),
    ("karpenter.sh/capacity-type", "In", ["reserved", "on-demand"]),
    ("karpenter.sh/capacity-type", "NotIn", ["spot"]),
]
DISRUPTIONS: list[Document] = [
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
    {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "10%"}],
    },
    {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "5m",
        "budgets": [
            {
                "nodes": "0",
                "schedule": "0 1 * * mon-fri",
                "duration": "8h",
                "reasons": ["Underutilized", "Drifted"],
            },
            {"nodes": "3"},
        ],
    },
    {
        "consolidateAfter": "1h",
        "budgets": [{"nodes": "100%", "reasons": ["Empty"]}, {"nodes": "1", "reasons": ["Drifted"]}],
    },
]
PODS: list[Document] = [
    {},
    {"terminationGracePeriodSeconds": 120, "priorityClassName": "system-cluster-critical"},
    {"nodeSelector": {"kubernetes.io/os": "linux"}},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}]},
    {"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "minDomains": 2}]},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
    {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "topology.k8s.aws/zone-id"}
                ]
            }
        }
    },
]


def _team(number: int) -> list[Document]:
    """A class, a pool of it, and what runs there alone: each combination can be had."""
    dice = random.Random(number)
    name, label = f"team-{number}", {"app": f"app-{number}"}
    tags = [{"tags": {"karpenter.sh/discovery": "shop"}}]
    chosen_ones = {
        key: (operator, values) for key, operator, values in dice.sample(REQUIREMENTS, k=dice.randrange(1, 6))
    }
    if "karpenter.k8s.aws/instance-family" in chosen_ones:  # these are of AWS, and of some generations
        chosen_ones.pop("karpenter.k8s.aws/instance-generation", None)
    own = {"team": name}
    template: Document = {
        "metadata": {"labels": own},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
            "expireAfter": dice.choice(["720h", "Never", "2160h"]),
            "taints": [{"key": "team", "value": name, "effect": dice.choice(["NoSchedule", "NoExecute"])}],
            "requirements": [
                {"key": key, "operator": operator, **({"values": values} if values else {})}
                for key, (operator, values) in chosen_ones.items()
            ],
        },
    }
    if dice.random() < 0.3:
        template["spec"]["terminationGracePeriod"] = "30m"
    pods = copy.deepcopy(dice.choice(PODS))
    for spread in pods.get("topologySpreadConstraints", ()):
        spread["labelSelector"] = {"matchLabels": label}
        spread["whenUnsatisfiable"] = "DoNotSchedule"
    for part in pods.get("affinity", {}).values():
        (term,) = part["requiredDuringSchedulingIgnoredDuringExecution"]
        term.setdefault("topologyKey", "kubernetes.io/hostname")
        term["labelSelector"] = {"matchLabels": label}
    pods["nodeSelector"] = {**pods.get("nodeSelector", {}), **own}
    pods["tolerations"] = [
        dice.choice([{"key": "team", "operator": "Exists"}, {"key": "team", "value": name}])
    ]
    pods["containers"] = [
        {"name": "app", "image": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    ]
    kind = dice.choice(["Deployment", "StatefulSet", "Job"])
    spec: Document = {"template": {"metadata": {"labels": label}, "spec": pods}}
    if kind == "Job":
        pods["restartPolicy"] = "Never"
    else:
        spec |= {"replicas": dice.randrange(2, 30), "selector": {"matchLabels": label}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    budget = {"maxUnavailable": dice.choice([1, "25%"]), "selector": {"matchLabels": label}}
    return [
        _object(
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            name,
            {
                "role": "KarpenterNodeRole-shop",
                "subnetSelectorTerms": tags,
                "securityGroupSelectorTerms": tags,
                **dice.choice(CLASSES),
            },
        ),
        _object(
            "karpenter.sh/v1",
            "NodePool",
            name,
            {
                "weight": dice.choice([1, 10, 100]),
                "limits": {"cpu": dice.choice([500, "2k"]), "memory": "4Ti"},
                "disruption": dice.choice(DISRUPTIONS),
                "template": template,
            },
        ),
        _object("batch/v1" if kind == "Job" else "apps/v1", kind, name, spec),
        _object("policy/v1", "PodDisruptionBudget", name, budget),
    ]


def _object(version: str, kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_nothing_is_said_of_teams_that_share_a_cluster(tmp_path: Path) -> None:
    made = [document for number in range(TEAMS) for document in _team(number)]
    written = sum(path.read_text("utf-8").count("\nkind: ") for path in FILES)
    assert len(made) + written > 200
    file = tmp_path / "teams.yaml"
    file.write_text("---\n".join(yaml.safe_dump(document, sort_keys=False) for document in made))
    assert [item.text for item in _said(file)] == []


# Objects that real servers took and that are mistakes all the same: what is found, by the case's name.
MISTAKES = {
    "CapacityBuffer: spec={}": {"WL016"},
    'EC2NodeClass: spec.kubelet={"evictionSoft": {"memory.available": "5%"}}': {"NC006"},
    'NodePool: spec.disruption.consolidateAfter="Never"': {"NP013"},
    'NodePool: spec.template.spec.expireAfter="1h30m"': {"NP007"},
    'NodePool: spec.template.spec.expireAfter="60m"': {"NP007"},
    # Instance types "a" and "b".
    **{
        'NodePool: spec.template.spec.requirements=[{"key": "node.kubernetes.io/instance-type", '
        f'"operator": "In", "values": ["a", "b"], "minValues": {count}}}]': {"NP001", "NP003"}
        for count in (1, 2)
    },
    # What only v1beta1 takes.
    "nodepool-ref-empty-name": {"IN002"},
    "class-family-Ubuntu": {"IN002"},
    "class-securitygroup-id-tags-plus": {"IN002"},
    "nodepool-budget-nodes-0%": {"NP009"},
    "nodepool-budget-schedule-0 9 * * 1 2024": {"NP011"},
    "nodepool-budget-schedule-@hourly": {"NP011"},
    "nodepool-budget-schedule-a b c d e": {"NP011"},
    "nodepool-expire-1h30m": {"NP007"},
    "nodepool-expire-90s": {"NP007"},
    "nodepool-limits-neg": {"NP015"},
    # Values and names that are none of labels: a server takes them, and the controller does not.
    **{
        f'NodeOverlay: spec.requirements=[{{"key": "example.com/k", "operator": "{operator}", '
        f'"values": ["{value}"]}}]': {"NP025"}
        for operator, value in (
            ("In", "-1"),
            ("NotIn", "-1"),
            ("DoesNotExist", "-1"),
            ("In", "a b"),
            ("In", 64 * "a"),
        )
    },
    f'NodeOverlay: spec.requirements=[{{"key": "example.com/{64 * "a"}", "operator": "Exists"}}]': {"NP025"},
}


def test_nothing_is_said_of_what_real_servers_took(tmp_path: Path) -> None:
    """Recorded objects, which were not made for these rules; those of v1beta1 are of an older generation."""
    taken = [case for case in admissions() if case["expected"]["accepted"] and "old" not in case]
    beta = [(case, case["expected"]["v1.0.14"]) for case in generations("admission_v1beta1")]
    older = [
        case
        for case, expected in beta
        if expected["accepted"] and "old" not in case and not expected.get("unknownFields")
    ]
    said = {}
    for number, case in enumerate((*taken, *older)):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(case["object"]))
        if found := {item.code for item in _said(file)} - {"IN008"}:
            said[case["name"]] = found
    assert said == MISTAKES
    assert len(taken) + len(older) - len(said) > 290


def test_folders_of_different_clusters_are_not_one(tmp_path: Path) -> None:
    pool = (FOLDER / "orders.yaml").read_text("utf-8").split("---\n")[1]
    for cluster in ("dev", "prod"):
        folder = tmp_path / cluster
        folder.mkdir()
        (folder / "pools.yaml").write_text(pool)
        extra = pool.replace("metadata: {name: default}", f"metadata: {{name: {cluster}}}")
        (folder / "extra.yaml").write_text(extra.replace("orders", "extra"))
    assert [item.text for item in _said(tmp_path)] == []


# Words of which any is right: names of one's own, amounts, and what only an account knows.
FREE = {
    "KarpenterNodeRole-shop", "shop", "/dev/xvdb", "400", "1600Gi", "336h", "250m", "256Mi", "512Mi",
    "shop/orders",
}  # fmt: skip
FREE_AT = {
    ("NodePool", "metadata", "name"),
    ("PodDisruptionBudget", "metadata", "name"),
    ("ScaledObject", "metadata", "name"),
    ("Deployment", "spec", "template", "spec", "containers", 0, "name"),
}
EVERY = 4  # of some 270 words; together all of them take half a minute


def _words(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool, str]]:
    """(path, whether it is the key there rather than the value, word)"""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), True, key
            yield from _words(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _words(item, (*path, index))
    elif isinstance(value, str):
        yield path, False, value


def _misspelt(word: str, number: int) -> str:
    """A letter left out, or two exchanged."""
    middle = len(word) // 2
    if number % 2 and word[middle - 1] != word[middle]:
        return word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]
    return word[:middle] + word[middle + 1 :]


def test_a_slip_in_any_word_is_found(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((FOLDER / "orders.yaml").read_text("utf-8")))
    words = [
        (place, path, is_key, word)
        for place, document in enumerate(documents)
        for path, is_key, word in _words(document)
        if len(word) > 2 and word not in FREE and (document["kind"], *path) not in FREE_AT
    ]
    assert len(words) > 200
    file, silent = tmp_path / "slip.yaml", []
    for number, (place, path, is_key, word) in enumerate(words[::EVERY]):
        spoilt = copy.deepcopy(documents)
        at = spoilt[place]
        for step in path[:-1]:
            at = at[step]
        slip = _misspelt(word, number)
        if is_key:
            items = [(slip if key == word else key, value) for key, value in at.items()]
            at.clear()
            at.update(items)
        else:
            at[path[-1]] = slip
        file.write_text("---\n".join(yaml.safe_dump(document, sort_keys=False) for document in spoilt))
        if not _said(file):
            silent.append((documents[place]["kind"], path, slip))
    assert silent == []


_PRIORITIES = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: business}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: waits}
value: 1000
preemptionPolicy: Never
---
"""


def _makes(kind: str, name: str, spec: str, requests: str = "{cpu: 100m, memory: 64Mi}") -> str:
    return (
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n"
        f"  selector: {{matchLabels: {{app: {name}}}}}\n"
        f"  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n{spec}"
        f"      containers: [{{name: a, image: x, resources: {{requests: {requests}}}}}]\n---\n"
    )


def _gpu_pool() -> str:
    spec = {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "taints": [{"key": "gpu", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]}
                ],
            }
        }
    }
    return yaml.safe_dump(_object("karpenter.sh/v1", "NodePool", "gpu", spec)) + "---\n"


@pytest.mark.parametrize(
    ("others", "daemons", "found"),
    [
        ("      priorityClassName: business\n", "", True),
        ("", "", False),
        ("      priorityClassName: waits\n", "", False),  # removes nobody
        ("      priorityClassName: business\n", "      priorityClassName: business\n", False),
        ("      priorityClassName: business\n", "      priorityClassName: system-node-critical\n", False),
        ("      priorityClassName: business\n", "      priorityClassName: of-the-cluster\n", False),
        (
            "      priorityClassName: business\n",
            "      nodeSelector: {role: gpu}\n",
            False,
        ),  # nodes of its own
    ],
)
def test_only_daemons_that_give_way_are_named(tmp_path: Path, others: str, daemons: str, found: bool) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(_PRIORITIES + _makes("Deployment", "web", others) + _makes("DaemonSet", "agent", daemons))
    assert [item.code for item in _said(file)] == ["WL015"] * found
    small = _makes("DaemonSet", "agent", daemons, "{cpu: 0, memory: 0}")
    file.write_text(_PRIORITIES + _makes("Deployment", "web", others) + small)
    assert "WL015" not in {item.code for item in _said(file)}


def test_daemons_of_nodes_that_others_do_not_tolerate_give_way_to_nobody(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    tolerates = "      tolerations: [{key: gpu, operator: Exists}]\n"
    agent = _makes("DaemonSet", "agent", f"{tolerates}      nodeSelector: {{karpenter.sh/nodepool: gpu}}\n")
    for spec, found in (("", False), (tolerates, True)):
        web = _makes("Deployment", "web", f"      priorityClassName: business\n{spec}")
        file.write_text(_PRIORITIES + _gpu_pool() + web + agent)
        assert ("WL015" in {item.code for item in _said(file)}) == found


def test_changes_of_a_scenario_need_not_be_whole_objects(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "web.yaml").write_text(_makes("Deployment", "web", ""))
    change = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: %s}\n"
    (tmp_path / "changes" / "more.yaml").write_text(change % 9)
    assert {item.code for item in _said(tmp_path)} == {"IN002"}  # nobody says that it is a change
    head = "apiVersion: simulation.dovetail.dev/v1alpha1\nkind: Scenario\nname: a\n"
    (tmp_path / "scenario.yaml").write_text(head + "changes: [{at: '09:00', file: changes/more.yaml}]\n")
    assert _said(tmp_path) == []
    (tmp_path / "changes" / "more.yaml").write_text(change % "nine")
    (finding,) = _said(tmp_path)
    assert (finding.code, finding.source) == ("IN002", str(tmp_path / "changes" / "more.yaml"))
    # What it would change is itself no object: that alone is reported of it.
    (tmp_path / "web.yaml").write_text("kind: Deployment\nmetadata: {name: web}\n")
    assert {item.source for item in _said(tmp_path)} == {
        str(tmp_path / "web.yaml"),
        str(tmp_path / "changes" / "more.yaml"),
    }


_BUFFER = """
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: room, namespace: shop}
spec: {%s}
"""


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("podTemplateRef: {name: unit}, replicas: 1", False),
        ("podTemplateRef: {name: units}, replicas: 1", True),
        ("podTemplateRef: {name: unit}, replicas: 0", False),
        ("podTemplateRef: {name: unit}, limits: {nvidia.com/gpu: 1}", True),
        ("scalableRef: {kind: Deployment, name: elsewhere}, replicas: 1", False),
        ("scalableRef: {kind: DaemonSet, name: agent}, replicas: 1", True),
        ("replicas: 1", True),
    ],
)
def test_buffers_that_keep_nothing_are_reported(spec: str, found: bool, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    unit = """
apiVersion: v1
kind: PodTemplate
metadata: {name: unit, namespace: shop}
template:
  spec:
    containers: [{name: a, image: b, resources: {requests: {cpu: "1", memory: 2Gi}}}]
"""
    file.write_text("---".join((_BUFFER % spec, unit)))
    assert ("WL016" in {item.code for item in _said(file)}) == found
