"""A snapshot and a history of a real cluster become a scenario, which plays."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.reading import read
from dovetail.simulate.replay.folder import Wanted, write_replay
from dovetail.simulate.replay.history import read_past
from dovetail.simulate.replay.nodeclass import Surroundings, rewrite_new
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.history import read_history
from dovetail.simulate.scenario.scenario import load
from dovetail.simulate.scenario.settings import operator_settings
from dovetail.units.duration import parse_duration

BURST = Path(__file__).parents[2] / "examples" / "burst"
POOL = BURST / "01-node-pool.yaml"
T = 1_772_445_600  # 2026-03-02T10:00:00Z


def workload(kind: str, name: str, replicas: int = 2, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "500m"}}}], **more}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {
            **({"replicas": replicas} if kind != "DaemonSet" else {}),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
        "status": {"replicas": replicas},
    }


def node(name: str, zone: str, kind: str = "m5.large", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "topology.kubernetes.io/region": "us-east-1",
                "topology.kubernetes.io/zone": zone,
                "node.kubernetes.io/instance-type": kind,
                "kubernetes.io/hostname": name,
                **{key.replace("__", "/").replace("_", "."): value for key, value in labels.items()},
            },
        },
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    }


def pod(name: str, owner: str = "", kind: str = "ReplicaSet", **spec: Any) -> dict[str, Any]:
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": owner, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners if owner else []},
        "spec": {
            "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "100m"}}}],
            "nodeName": "n1",
            **spec,
        },
        "status": {"phase": "Running"},
    }


def cluster() -> list[dict[str, Any]]:
    pool, node_class = yaml.safe_load_all(POOL.read_text())
    node_class["status"] = {"subnets": [{"id": "subnet-1", "zone": "us-east-1b"}]}
    claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "status": {"phase": "Bound"}}
    volume = {"kind": "PersistentVolume", "apiVersion": "v1", "status": {"phase": "Bound"}}
    there = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"]}
    return [
        pool,
        node_class,
        node("n1", "us-east-1a", eks_amazonaws_com__nodegroup="base", team="a"),
        node("n2", "us-east-1b", eks_amazonaws_com__nodegroup="base", team="a"),
        node("n3", "us-east-1b", karpenter_sh__nodepool="general"),
        node("n4", "us-east-1b", kind="bare-metal"),
        workload("Deployment", "web"),
        workload(
            "StatefulSet", "db", 1, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
        ),
        {
            **claim,
            "metadata": {"name": "d", "namespace": "shop", "uid": "c"},
            "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"], "resources": {}},
        },
        {
            **volume,
            "metadata": {"name": "v"},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
                "claimRef": {"name": "d", "namespace": "shop", "uid": "old"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
            },
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "maxReplicas": 9,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            },
        },
        pod("web-1", owner="uid-web"),
        pod("of-a-rollout", owner="uid-elsewhere", kind="Rollout"),
        pod("mirror", owner="uid-node", kind="Node"),
    ]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "prod.json.gz"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()})
    path.write_bytes(gzip.compress(text.encode()))
    return path


def series(name: str, values: list[tuple[int, float]], **labels: str) -> dict[str, Any]:
    metric = {"__name__": name, "namespace": "shop", **labels}
    return {"metric": metric, "values": [[T + at, str(value)] for at, value in values]}


def answer(*found: dict[str, Any]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(found)}})


def event(at: int, verb: str, resource: str, name: str, body: Any = None, part: str = "") -> str:
    return json.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "stage": "ResponseComplete",
            "verb": verb,
            "objectRef": {"resource": resource, "namespace": "shop", "name": name, "subresource": part},
            "responseStatus": {"code": 200},
            "responseObject": body,
            "requestReceivedTimestamp": f"2026-03-02T10:{at // 60:02}:{at % 60:02}.000000Z",
        }
    )


def test_a_snapshot_becomes_a_scenario_that_plays(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    assert run(["replay", str(snapshot), "--keep", str(kept), "--until", "4m", "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert "1 are not played" in printed.err and "1 of bare-metal" in printed.err
    assert "the 1 of the snapshot are there at the start" in printed.err
    summary = json.loads(printed.out)
    assert (summary["nodes"]["initial"], summary["nodes"]["launched"]) == (1, 0)
    assert summary["pods"]["created"] == summary["pods"]["bound"] == 4  # web twice, db, the rollout's
    assert any(text.startswith("cloud: the simulated one") for text in summary["assumptions"])

    scenario = load(kept)
    (group,) = scenario.file.node_groups
    assert (group.name, group.instance_type, group.count) == ("base", "m5.large", 2)
    assert group.zones == ("us-east-1a", "us-east-1b") and group.labels == {"team": "a"} and not group.taints
    kinds = sorted(item.object.KIND for item in scenario.manifests)
    assert kinds == [
        *("Deployment", "EC2NodeClass", "NodePool", "PersistentVolume", "PersistentVolumeClaim", "Pod"),
        "StatefulSet",
    ]
    pool = next(item.document for item in scenario.manifests if item.object.KIND == "NodePool")
    zones = pool["spec"]["template"]["spec"]["requirements"][-1]
    assert zones == {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"]}
    bound = [item for item in simulate(scenario).records if item["kind"] == "pod.bound"]
    place = next(item["node"] for item in bound if item["pod"] == "shop/db-0")
    made = next(
        item
        for item in simulate(scenario).records
        if item["kind"] == "node.created" and item["node"] == place
    )
    assert made["zone"] == "us-east-1b"  # where its volume is


def served(kind: str, name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def test_a_dump_need_not_have_classes_of_priorities_and_volumes(tmp_path: Path) -> None:
    """`kubectl get nodes,pods,deployments,statefulsets,poddisruptionbudgets -A -o json` has none."""
    web = workload("Deployment", "web", priorityClassName="high")
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3"},
    }
    claim["spec"] |= {"resources": {"requests": {"storage": "1Gi"}}}
    database = workload("StatefulSet", "db", replicas=1, priorityClassName="unseen")
    database["spec"] |= {"serviceName": "db", "volumeClaimTemplates": [claim]}
    spec = database["spec"]["template"]["spec"]
    lone = served("Pod", "lone", status={"phase": "Running"})
    # What admission wrote into it; there is no RuntimeClass either.
    lone["spec"] = {**spec, "priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}
    lone["spec"] |= {"nodeName": "n1", "runtimeClassName": "kata", "overhead": {"cpu": "250m"}}
    plain = served("Pod", "plain", spec={**spec, "priorityClassName": "", "priority": 0})
    newer = served("PodDisruptionBudget", "new", "policy/v1")
    newer["spec"] = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "OfANewerServer"}
    path = tmp_path / "dump.json"
    busy = served("ScaledObject", "web", "keda.sh/v1alpha1")
    busy["spec"] = {
        "scaleTargetRef": {"name": "web"},
        "triggers": [{"type": "cpu", "metadata": {"value": "65"}}],
    }
    limits = [{"type": "Container", "defaultRequest": {"memory": "96Mi"}}]
    ranges = served("LimitRange", "usual", spec={"limits": limits})
    quota = served("ResourceQuota", "few", spec={"hard": {"pods": "5"}}, status={"used": {"pods": "5"}})
    items = [web, database, lone, plain, newer, busy, ranges, quota, node("n1", "us-east-1a")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    folder = tmp_path / "kept"
    assumed = write_replay(read([path, POOL]).manifests, Wanted("x", "us-east-1", length=5 * MINUTE), folder)
    assert assumed["PriorityClasses that the snapshot lacks"].endswith("high: 1000, unseen: 0")
    assert assumed["RuntimeClasses that the snapshot lacks"].endswith("kata: overhead")
    assert assumed["StorageClasses that the snapshot lacks"].endswith(": gp3")
    assert assumed["ScaledObjects without a cron trigger"].startswith("1 are not played")
    refused = assumed["objects that the simulated API server does not take"]
    assert refused.startswith("1 are left out, the first is PodDisruptionBudget/shop/new: ")
    scenario = load(folder)
    classes = {item.object.KIND: item.document for item in scenario.manifests}
    assert classes["PriorityClass"]["metadata"]["name"] == "unseen"
    assert classes["RuntimeClass"]["overhead"] == {"podFixed": {"cpu": "250m"}}
    assert classes["LimitRange"]["spec"] == {"limits": limits}
    assert (
        classes["ResourceQuota"]["spec"] == {"hard": {"pods": "5"}}
        and "status" not in (classes["ResourceQuota"])
    )
    high = next(item.document for item in scenario.manifests if item.object.metadata.name == "high")
    assert (high["value"], high["preemptionPolicy"]) == (1000, "Never")
    bound = {item["pod"] for item in simulate(scenario).records if item["kind"] == "pod.bound"}
    assert {name[:8] for name in bound} == {"shop/web", "shop/db-", "shop/lon", "shop/pla"}


def test_a_manifest_that_leaves_its_name_to_the_server_is_played(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {generateName: once-}\n"
        "spec: {containers: [{name: a, image: a}]}\n"
    )
    folder = tmp_path / "kept"
    write_replay(read([path, POOL]).manifests, Wanted("x", "us-east-1", length=5 * MINUTE), folder)
    (bound,) = [item["pod"] for item in simulate(load(folder)).records if item["kind"] == "pod.bound"]
    assert bound.startswith("default/once-")


def test_a_snapshot_without_a_pool_that_can_be_played(tmp_path: Path) -> None:
    pool = yaml.safe_load(POOL.read_text().split("---")[0])
    assert pool["kind"] == "NodePool"
    pool["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    pool["spec"]["disruption"] = {"consolidationPolicy": "OfANewerServer"}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(pool))
    with pytest.raises(InputError, match=r"no NodePool that can be played: .*OfANewerServer"):
        write_replay(read([path]).manifests, Wanted("x", "us-east-1"), tmp_path / "kept")


def test_a_history_is_the_load(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replicas = [(0, 3), (15, 3), (30, 8), (45, float("nan")), (60, 1), (300, 1)]
    (tmp_path / "q.json").write_text(
        answer(
            series("kube_deployment_spec_replicas", replicas, deployment="web"),
            series("kube_deployment_status_replicas", [(0, 99)], deployment="web"),
            series("kube_deployment_spec_replicas", [(0, 1), (30, 2)], deployment="unheard-of"),
            series("up", [(0, 1)]),
        )
    )
    job = {
        "metadata": {"name": "import"},
        "spec": {"template": {"spec": workload("Deployment", "j")["spec"]}},
    }
    job["spec"] = {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}}],
            }
        }
    }
    (tmp_path / "audit.log").write_text(
        "\n".join(
            [
                event(40, "create", "jobs", "import", job),
                event(50, "get", "jobs", "import", job),
                event(200, "delete", "jobs", "import"),
                event(210, "patch", "statefulsets", "db"),
            ]
        )
    )
    kept = tmp_path / "kept"
    given = ["--history", str(tmp_path / "q.json"), "--history", str(tmp_path / "audit.log")]
    assert run(["replay", str(snapshot), *given, "--keep", str(kept), "-o", "json"]) == 0
    printed = capsys.readouterr().err
    assert "series that are not played: up (1)" in printed
    assert "left out: Deployment/shop/unheard-of" in printed
    assert "1 are left out: their level is Metadata, or Request with a JSON patch" in printed
    steps = read_history(kept / "history.jsonl")
    assert [(step.at // SECOND, step.scale and step.replicas) for step in steps] == [
        *((30, 8), (40, None), (60, 1), (200, None))
    ]
    scenario = load(kept)
    assert (scenario.start, scenario.duration) == (T * SECOND, 5 * MINUTE)
    web = next(item.document for item in scenario.manifests if item.object.key == "shop/web")
    assert web["spec"]["replicas"] == 3  # as the history begins, not as the snapshot ends
    records = simulate(scenario).records
    made = {(item["t"] // SECOND - T, item["pod"][:8]) for item in records if item["kind"] == "pod.created"}
    assert sum(name == "shop/web" for at, name in made if at < 20) == 1
    assert (40, "shop/imp") in made
    assert not [item for item in records if item["kind"] in ("history.leftOut", "violation")]


def test_pods_of_jobs_are_there_as_long_as_they_were_seen(tmp_path: Path) -> None:
    ask = "kube_pod_container_resource_requests"
    (tmp_path / "q.json").write_text(
        answer(
            series(ask, [(0, 0.25), (60, 0.25)], pod="job-x", container="a", resource="cpu"),
            series(ask, [(0, 0.5), (90, 0.5)], pod="job-x", container="b", resource="cpu"),
            series(ask, [(0, 1024), (60, 1024)], pod="job-x", container="a", resource="memory"),
            series(ask, [(0, 1), (60, 1)], pod="web-x", container="a", resource="cpu"),
            series(ask, [(0, 1), (60, 1)], pod="orphan", container="a", resource="cpu"),
            series("kube_pod_owner", [(0, 1)], pod="job-x", owner_kind="Job"),
            series("kube_pod_owner", [(0, 1)], pod="web-x", owner_kind="ReplicaSet"),
        )
    )
    past = read_past([tmp_path / "q.json"])
    made, gone = past.steps
    assert made.create is not None and made.create["metadata"]["name"] == "job-x"
    requests = made.create["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "750m", "memory": "1024"}
    assert (gone.delete, gone.at - made.at) == (("Pod", "shop", "job-x"), 91 * SECOND)
    assert set(past.assumed) == {"pods of Jobs", "pods without kube_pod_owner"}


def test_what_people_and_autoscalers_scaled_is_in_the_audit_log(tmp_path: Path) -> None:
    owned = {"metadata": {"ownerReferences": [{"kind": "Deployment", "controller": True}]}, "spec": {}}
    lines = [
        event(0, "patch", "deployments", "web", {"spec": {"replicas": 4}}, "scale"),
        event(10, "update", "deployments", "web", {"metadata": {"name": "web"}, "spec": {"replicas": 4}}),
        event(20, "update", "deployments", "web", {"metadata": {"name": "web"}, "spec": {"replicas": 6}}),
        event(30, "update", "replicasets", "web-1", {**owned, "spec": {"replicas": 6}}),
        event(40, "create", "pods", "web-1-x", {**owned, "metadata": {**owned["metadata"], "name": "w"}}),
        event(50, "delete", "pods", "lone"),
        event(60, "update", "pods", "web-1-x", {"spec": {}}, "status"),
    ]
    path = tmp_path / "audit.log.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    steps = read_past([path]).steps
    assert [(step.scale, step.replicas, step.delete) for step in steps] == [
        (("Deployment", "shop", "web"), 4, None),
        (("Deployment", "shop", "web"), 6, None),
        (None, 0, ("Pod", "shop", "lone")),
    ]


def test_an_audit_webhook_gets_lists_of_events(tmp_path: Path) -> None:
    """Items of an EventList have neither kind nor apiVersion; a line may be one event as well."""
    scaled = [
        event(at, "patch", "deployments", "web", {"spec": {"replicas": at}}, "scale") for at in (4, 6, 8)
    ]
    plain = [json.loads(one) for one in scaled[:2]]
    version = plain[0]["apiVersion"]
    items = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in plain]
    (tmp_path / "x").write_text(
        json.dumps({"kind": "EventList", "apiVersion": version, "metadata": {}, "items": items})
        + f"\n{scaled[2]}\n"
    )
    assert [step.replicas for step in read_past([tmp_path / "x"]).steps] == [4, 6, 8]


SCALED = [event(at, "patch", "deployments", "web", {"spec": {"replicas": at}}, "scale") for at in (4, 6, 8)]
LIST = json.dumps([json.loads(one) for one in SCALED])


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        pytest.param("\n".join(SCALED), 0, id="one a line"),
        pytest.param("\n\n".join(json.dumps(json.loads(one), indent=4) for one in SCALED), 0, id="jq"),
        pytest.param(LIST, 0, id="jq -c -s"),
        pytest.param(json.dumps(json.loads(LIST), indent=2), 0, id="jq -s"),
        pytest.param(
            "\n".join(f"2026-03-02T10:00:04.123Z {one}" for one in SCALED), 0, id="CloudWatch to S3"
        ),
        pytest.param(
            "\n".join(f"2026-03-02T10:00:04.123456789Z stdout F {one}" for one in SCALED), 0, id="containerd"
        ),
        pytest.param(
            "\n".join(json.dumps({"log": f"{one}\n", "stream": "stdout"}) for one in SCALED), 0, id="docker"
        ),
        pytest.param(
            json.dumps(
                {
                    "events": [
                        {"logStreamName": "kube-apiserver-audit-1", "timestamp": 1, "message": one}
                        for one in (*SCALED, "I0302 10:00:04 1 trace.go:236] Trace")
                    ],
                    "searchedLogStreams": [],
                },
                indent=4,
            ),
            1,
            id="aws logs filter-log-events",
        ),
        pytest.param(
            json.dumps([{"@timestamp": "2026-03-02 10:00:04.123", "@message": one} for one in SCALED]),
            0,
            id="CloudWatch Logs Insights",
        ),
        pytest.param(
            "\n".join(
                json.dumps({"category": "kube-audit", "properties": {"log": one, "pod": "a"}})
                for one in SCALED
            ),
            0,
            id="Azure",
        ),
    ],
)
def test_audit_logs_are_read_as_their_collectors_keep_them(text: str, strange: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    past = read_past([tmp_path / "x"])
    assert [step.replicas for step in past.steps] == [4, 6, 8]
    said = {"lines of x that are no audit events": "1 are left out"} if strange else {}
    assert past.assumed == said


def test_bodies_of_what_is_not_played_may_be_anything(tmp_path: Path) -> None:
    """Patches take labels away with null, and resources of others have whatever they have."""
    patch = {"metadata": {"labels": {"old": None, "new": "1"}}, "spec": {"replicas": 5}}
    lines = [
        event(1, "patch", "deployments", "web", patch),
        event(2, "create", "widgets", "w", {"metadata": {"labels": [1]}, "spec": "text"}),
        event(3, "create", "configmaps", "c", {"metadata": None, "spec": 7}),
        event(
            4, "create", "jobs", "j", {"metadata": {"name": "j", "labels": {"a": None, "b": "1"}}, "spec": {}}
        ),
    ]
    (tmp_path / "x").write_text("\n".join(lines))
    scaled, made = read_past([tmp_path / "x"]).steps
    assert (scaled.scale, scaled.replicas) == (("Deployment", "shop", "web"), 5)
    assert made.create is not None and made.create["metadata"]["labels"] == {"b": "1"}


def test_kube_state_metrics_that_started_anew_is_one_series_more(tmp_path: Path) -> None:
    """What scrapes it without honorLabels calls the labels of what is measured exported_."""
    name = "kube_deployment_spec_replicas"
    exporter = {"namespace": "monitoring", "exported_namespace": "shop", "pod": "kube-state-metrics-1"}
    later = {**exporter, "pod": "kube-state-metrics-2"}
    ask, exported = "kube_pod_container_resource_requests", {"exported_pod": "job-x", "resource": "cpu"}
    answers = [
        answer(
            series(name, [(0, 3), (60, 3), (120, 4)], deployment="web", **exporter),
            series(name, [(120, 4), (180, 9)], deployment="web", **later),
        ),
        answer(
            series(
                ask, [(0, 0.5), (60, 0.5)], exported_container="a", container="ksm", **exporter, **exported
            ),
            series(ask, [(90, 0.5)], exported_container="a", container="ksm", **later, **exported),
            series("kube_pod_owner", [(0, 1)], owner_kind="Job", exported_pod="job-x", **exporter),
        ),
    ]
    (tmp_path / "x").write_text("\n".join(answers))  # of one query after the other, into one file
    past = read_past([tmp_path / "x"])
    scaled = [(step.at // SECOND - T, step.replicas) for step in past.steps if step.scale]
    assert scaled == [(0, 3), (120, 4), (180, 9)]
    assert {step.scale for step in past.steps if step.scale} == {("Deployment", "shop", "web")}
    (made,) = (step.create for step in past.steps if step.create)
    assert made["metadata"]["namespace"] == "shop"
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            answer(
                series("kube_deployment_spec_replicas", [(0, 3), (60, 3)], deployment="web", cluster="a"),
                series("kube_deployment_spec_replicas", [(0, 7), (60, 8)], deployment="web", cluster="b"),
            ),
            'cluster="a".* and .*cluster="b".* say otherwise at the same time',
        ),
        ("nothing", "neither a range query nor an event of an audit log"),
        (answer(series("up", [(0, 1)])), "holds no workload that changed"),
        ('{"status": "error", "error": "parse error"}', "Prometheus answered an error: parse error"),
        ('{"data": {"result": [{"metric": {}, "value": [0, "1"]}]}}', "no values over time"),
        ('{"data": {"result": [{"metric": {}, "values": [[0, "one"]]}]}}', "no pairs of a time"),
        (event(0, "patch", "deployments", "web").replace("2026-", "soon-"), "is no time"),
        (event(0, "patch", "deployments", "web", {"spec": {"replicas": -3}}), "-3 is no number of replicas"),
        (event(0, "patch", "deployments", "web", {"spec": 1}), r"got `int` - at `\$.responseObject.spec`"),
        (event(0, "patch", "deployments", "web")[:40] + "\n{}", "neither a range query"),
        (answer({"metric": ["a"], "values": []}), "neither a range query"),
        (answer(series("up", [(T * 999, 1)])), "pairs of a time"),  # milliseconds
        (answer({"metric": {"__name__": "up"}, "values": [["Inf", "1"]]}), "pairs of a time"),
        (
            answer(series("kube_deployment_spec_replicas", [(0, -2)], deployment="w")),
            "-2 is no number of rep",
        ),
        (
            answer(series("kube_deployment_spec_replicas", [(0, 1e300)], deployment="w")),
            "is no number of rep",
        ),
        (answer(series("kube_pod_container_resource_requests", [(0, 1)], pod="p")), "no label resource"),
        (answer({"metric": {"deployment": "web"}, "values": [[T, "1"]]}), "series without __name__ \\(1\\)"),
        (
            answer({"metric": {"__name__": "up", "pod": 3}, "values": [[T, "1"]]}),
            r'a label is no text: up\{pod="3"\}',
        ),
        ("[" * 3000 + "]" * 3000, "neither a range query nor .*: Expected `object`, got `array`"),
        ('{"a":' * 200_000 + "1" + "}" * 200_000, "neither a range query nor"),
        (answer(), "holds no workload that changed"),
        ("", "holds no workload that changed"),
    ],
)
def test_what_is_no_history(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError, match=message):
        read_past([tmp_path / "x"])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_audit_log_may_be_cut_off_and_have_marks_and_other_zones(encoding: str, tmp_path: Path) -> None:
    first = event(0, "update", "deployments", "web", {"spec": {"replicas": 4, "note": "a~b"}}).replace(
        "~", "\u2028"
    )
    patch = event(
        60, "patch", "deployments", "web", [{"op": "replace", "path": "/spec/replicas", "value": 9}]
    )
    later = event(0, "patch", "deployments", "web", {"spec": {"replicas": 6}}, "scale")
    later = later.replace("T10:00:00.000000Z", "T19:30:00+09:00")
    assert "+09:00" in later
    path = tmp_path / "audit.log"
    path.write_bytes("\n".join([first, patch, later, first[:70]]).encode(encoding))
    past = read_past([path])
    assert [(step.at - past.start, step.replicas) for step in past.steps] == [(0, 4), (30 * MINUTE, 6)]
    assert past.assumed["line 4 of audit.log"] == "is cut off, and left out"
    assert "1 are left out" in past.assumed["events of audit.log without objects"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is no step of a history"),
        ('{"at": 1, "scale": "Deployment/web", "replicas": 1}', "is no step of a history"),
        ('{"at": -1, "delete": "Pod/a/b"}', "before the start"),
        ('{"at": 1, "create": {"kind": "Thing", "metadata": {"name": "a"}}}', "no kind that is played"),
    ],
)
def test_what_is_no_step(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text(f'{{"at": 0, "delete": "Pod/a/b"}}\n{line}\n')
    with pytest.raises(InputError, match=message) as refused:
        read_history(tmp_path / "h.jsonl")
    assert refused.value.line == 2


def of_pool(name: str, claim: str, hours: int, capacity_type: str = "on-demand") -> list[dict[str, Any]]:
    """A node of the pool `general` and its claim, which is so many hours older than the snapshot."""
    made = node(name, "us-east-1b", karpenter_sh__nodepool="general", team="a")
    made["metadata"]["labels"]["karpenter.sh/capacity-type"] = capacity_type
    made["spec"] = {}
    made["metadata"]["creationTimestamp"] = "2026-03-02T10:00:00Z"
    made["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    made["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-03-02T10:00:00Z"
    owned = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": claim, "creationTimestamp": f"2026-03-02T{10 - hours:02}:00:00Z"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {"nodeName": name, "providerID": f"aws:///us-east-1b/i-{name}"},
    }
    return [made, owned]


def running(expire_after: str = "Never") -> list[dict[str, Any]]:
    """Two nodes of a NodePool with pods of all kinds; three that cannot be played."""
    pool, node_class = yaml.safe_load_all(POOL.read_text())
    pool["spec"]["template"]["spec"]["expireAfter"] = expire_after
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["spot", "on-demand"]
    pool["spec"]["disruption"]["consolidateAfter"] = "Never"
    replicas = workload("ReplicaSet", "web-1", 4)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": "uid-web",
        "controller": True,
    }
    replicas["metadata"]["ownerReferences"] = [owner]
    broken = of_pool("n9", "general-bbbbb", 1)
    broken[0]["status"]["conditions"][0]["status"] = "False"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    return [
        *(
            pool,
            node_class,
            budget,
            replicas,
            workload("Deployment", "web", 4),
            workload("StatefulSet", "db", 1),
        ),
        workload("DaemonSet", "logs"),
        *of_pool("n3", "general-aaaaa", 2, "spot"),
        *of_pool("n4", "general-zzzzz", 3),
        *broken,
        node("n5", "us-east-1b", kind="m5.unheard", karpenter_sh__nodepool="general"),
        node("n6", "us-east-1b", karpenter_sh__nodepool="gone"),
        *(pod(f"web-1-{i}", owner="uid-web-1", nodeName="n3") for i in range(1)),
        *(pod(f"web-1-{i}", owner="uid-web-1", nodeName="n4") for i in range(1, 3)),
        pod("web-1-3", owner="uid-web-1", nodeName="n9"),
        pod("db-0", owner="uid-db", kind="StatefulSet", nodeName="n3"),
        pod("lone", nodeName="n4"),
        *(pod(f"logs-{n}", owner="uid-logs", kind="DaemonSet", nodeName=n) for n in ("n3", "n4")),
    ]


def test_nodes_of_node_pools_are_there_at_the_start_with_the_pods_that_ran_on_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, kept = tmp_path / "prod.json", tmp_path / "kept"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": running("3h20m")}))
    assert run(["replay", str(snapshot), "--keep", str(kept), "--until", "30m", "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert (
        "the 2 of the snapshot are there at the start, as old as in the snapshot, with 5 pods" in printed.err
    )
    for why in ("1 not ready", "1 of m5.unheard, which us-east-1 does not sell", "1 of NodePool gone, which"):
        assert why in printed.err
    lines = [json.loads(line) for line in (kept / "nodes.jsonl").read_text().splitlines()]
    assert [(line["name"], line["nodeClaim"], line["age"]) for line in lines] == [
        *(("n3", "general-aaaaa", "2h0m0s"), ("n4", "general-zzzzz", "3h0m0s"))
    ]
    assert lines[0]["pods"] == {"Deployment/shop/web": 1, "Pod/shop/db-0": 1} and lines[0]["labels"] == {
        "team": "a"
    }

    result = simulate(load(kept))
    starts = [one for one in result.records if one["kind"] == "instance.started"]
    assert [(one["claim"], one["capacityType"]) for one in starts[:2]] == [
        *(("general-aaaaa", "spot"), ("general-zzzzz", "on-demand"))
    ]
    first = [one for one in result.records if one["kind"] == "pod.bound" and one["t"] - result.start < SECOND]
    where = sorted((str(one["pod"])[:8], one["node"]) for one in first if "logs" not in one["pod"])
    web = [("shop/web", "n3"), ("shop/web", "n4"), ("shop/web", "n4")]
    assert where == [("shop/db-", "n3"), ("shop/lon", "n4"), *web]
    # The older one expires after its 3 hours and 20 minutes, as the cluster would have it.
    (ended,) = [one for one in result.records if one["kind"] == "disrupted"]
    assert (ended["claim"], ended["reason"]) == ("general-zzzzz", "expired")
    assert 20 * MINUTE <= ended["t"] - result.start < 21 * MINUTE
    figures = result.summary
    # One for the pod of the node that is left out, one after the expiry.
    assert (figures.nodes.initial, figures.nodes.launched, figures.nodes.base) == (2, 2, 0)
    assert figures.pods.unbound == 0 and figures.cost.base == 0 and figures.cost.spot > 0
    assert not [one for one in result.records if one["kind"] == "violation"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"name": "n"}', "is no node: Object missing required field `nodePool`"),
        (
            '{"name": "n1", "nodePool": "general", "instanceType": "m5.large", "zone": "us-east-1b"}',
            "of line 1",
        ),
        (
            '{"name": "n", "nodePool": "general", "instanceType": "m5.large", "zone": "z", "age": "x"}',
            "age: ",
        ),
        (
            '{"name": "n", "nodePool": "gone", "instanceType": "m5.large", "zone": "us-east-1b"}',
            "no NodePool 'gone'",
        ),
        ('{"name": "n", "nodePool": "general", "instanceType": "m9.nano", "zone": "us-east-1b"}', "node n: "),
        (
            '{"name": "n", "nodePool": "general", "instanceType": "m5.large", "zone": "z", "pods": {"a": 1}}',
            "no Kind/namespace/name",
        ),
    ],
)
def test_what_is_no_node_is_named_with_its_line(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_replay(read([POOL]).manifests, Wanted("few", "us-east-1", length=MINUTE), tmp_path / "kept")
    good = '{"name": "n1", "nodePool": "general", "instanceType": "m5.large", "zone": "us-east-1b"}'
    (tmp_path / "kept" / "nodes.jsonl").write_text(f"{good}\n{line}\n")
    scenario = tmp_path / "kept" / "scenario.yaml"
    scenario.write_text(scenario.read_text() + "nodes: {file: nodes.jsonl}\n")
    assert run(["simulate", str(tmp_path / "kept")]) == 2
    told = capsys.readouterr().err
    assert message in told and "nodes.jsonl:2" in told
    scenario.write_text(scenario.read_text().replace("provider: simulated", "provider: aws"))
    assert run(["simulate", str(tmp_path / "kept")]) == 2
    assert "are played on the simulated cloud alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "which cluster?"),
        (["{pool}"], "which region?"),
        (["{burst}"], "this is a scenario already\n  play it: dovetail simulate "),
        (
            ["{pool}", "--region", "us-east-9"],
            "--region: there is no region 'us-east-9' in the catalogue\n  did you mean us-east-",
        ),
        (["{snapshot}", "--history", "{tmp}/none"], "cannot be read"),
        (["{snapshot}", "{snapshot}"], "is given twice, first at "),
        (["{snapshot}", "--keep", "{tmp}"], "the folder is not empty"),
        (["{snapshot}", "--until", "0s"], "not more than 0s"),
        (["{snapshot}", "--report", "{tmp}/none/x.html"], "there is no folder"),
        (["{snapshot}", "--trace", "{tmp}/none.csv", "--keep", "{tmp}/kept"], "cannot read the trace"),
        (
            ["{snapshot}", "--trace", "{trace}", "--until", "1m", "--keep", "{tmp}/kept"],
            "/t.csv: trace.window: no pod of the trace is alive between 0 s and 60 s",
        ),
    ],
)
def test_what_cannot_be_replayed(
    given: list[str],
    message: str,
    snapshot: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    trace = tmp_path / "t.csv"
    trace.write_text("name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\nlate,1,1,0,90,99\n")
    places = {"pool": POOL, "burst": BURST}
    arguments = [each.format(**places, snapshot=snapshot, tmp=tmp_path, trace=trace) for each in given]
    assert run(["replay", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("length", "period"), [(2 * HOUR, "5m"), (7 * 24 * HOUR, "1h")])
def test_of_a_long_replay_the_bound_is_proven_less_often(length: int, period: str, tmp_path: Path) -> None:
    manifests = read([POOL]).manifests
    write_replay(manifests, Wanted("week", "us-east-1", length=length), tmp_path / "kept")
    kept = load(tmp_path / "kept")
    settings = operator_settings(kept.file.settings, kept.duration, lambda _, __: None)
    assert settings.efficiency_period == parse_duration(period)


@pytest.mark.parametrize("judged", [False, True])
def test_overlays_count_where_the_clusters_controller_judged_them(judged: bool, tmp_path: Path) -> None:
    stamp = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": stamp}
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "a", "uid": "a", "resourceVersion": "7"},
        "spec": {"requirements": [], "priceAdjustment": "-10%"},
        "status": {"conditions": [ready] if judged else []},
    }
    path = tmp_path / "overlay.json"
    path.write_text(json.dumps(overlay))
    wanted = Wanted("replay", "us-east-1", length=HOUR)
    assumed = write_replay(read([POOL, path]).manifests, wanted, tmp_path / "kept")
    kept = load(tmp_path / "kept")
    assert kept.file.settings.feature_gates.node_overlay == judged
    assert assumed["NodeOverlays"].startswith(f"the gate NodeOverlay is {'open' if judged else 'shut'}")
    assert "NodeOverlay" in {item.object.KIND for item in kept.manifests}


def test_a_trace_is_load_too(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time"
    (tmp_path / "t.csv").write_text(f"{columns}\nfrom-trace,500,256,0,10,200\n")
    given = ["--trace", str(tmp_path / "t.csv"), "--until", "1m", "-o", "json"]
    assert run(["replay", str(snapshot), *given]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["pods"]["created"] == 5  # four of the snapshot
    assert "load:" not in printed.err
    (tmp_path / "t.csv").write_text(
        f"\ufeff{columns}\nfrom-trace,500,256,0,{T},{T + 190}\n".replace(",", ", ")
    )
    kept = tmp_path / "kept"
    assert run(["replay", str(snapshot), *given, "--keep", str(kept)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["pods"]["created"] == 5
    assert "times of the trace: seconds since 1970" in printed.err
    assert yaml.safe_load((kept / "scenario.yaml").read_text())["start"] == "2026-03-02T10:00:00"


def node_class(tag: str, **more: Any) -> dict[str, Any]:
    """As an account has it: nothing that it selects is in the simulated one."""
    spec = {
        "role": "nodes",
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{"tags": {"Name": tag}}],
        "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}],
        "securityGroupSelectorTerms": [{"tags": {"Name": "nodes"}}],
        "userData": "#!/bin/bash",
    }
    meta = {"name": "default"}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": meta,
        "spec": spec,
        **more,
    }


@pytest.mark.parametrize(
    ("old", "new", "selects"),
    [
        ([{"tags": {"Name": "may"}}], [{"tags": {"Name": "may"}}], "alias"),  # the same images as before
        ([{"tags": {"Name": "may"}}], [{"tags": {"Name": "june"}}], "id"),
        ([{"alias": "al2023@latest"}], [{"tags": {"Name": "june"}}], "id"),
        ([{"tags": {"Name": "may"}}], [{"id": "ami-0123456789abcdef0"}], "id"),
        ([{"tags": {"Name": "may"}}], [{"alias": "al2023@v20250505"}], "alias"),
        (None, [{"tags": {"Name": "june"}}], "alias"),  # no node is of a class that is new
    ],
)
def test_new_classes_select_another_image_where_they_would(old: Any, new: Any, selects: str) -> None:
    before, after = node_class(""), node_class("")
    before["spec"]["amiSelectorTerms"], after["spec"]["amiSelectorTerms"] = old, new
    before["status"] = {"subnets": [{"id": "subnet-1", "zone": "us-east-1b"}]}
    pool, _ = yaml.safe_load_all(POOL.read_text())
    around = Surroundings("demo", "1.33", "us-east-1")
    assumed = rewrite_new([after, pool], [] if old is None else [before], around, ["default"])
    (term,) = after["spec"]["amiSelectorTerms"]
    assert list(term) == [selects]
    assert after["spec"]["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "demo"}}]
    assert "userData" not in after["spec"] and "EC2NodeClass default: userData" in assumed
    asked = pool["spec"]["template"]["spec"]["requirements"][-1]
    assert (asked.get("values") == ["us-east-1b"]) is (old is not None)
    if new[0].get("id") or new[0].get("alias"):
        assert term == new[0]


def test_a_pool_of_a_class_that_the_replay_has_needs_none_in_its_stead() -> None:
    pool, _ = yaml.safe_load_all(POOL.read_text())
    objects = [pool]
    assert rewrite_new(objects, [], Surroundings("demo", "1.33", "us-east-1"), ["default"]) == {}
    assert objects == [pool]


def test_a_kept_replay_rolls_out_what_the_account_would_and_the_way_back_is_the_accounts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [one for one in cluster() if one["kind"] not in ("EC2NodeClass", "Node", "Pod")]
    found = {"subnets": [{"id": "subnet-1", "zone": "us-east-1b"}]}
    snapshot, kept, new = tmp_path / "prod.json", tmp_path / "kept", tmp_path / "new.json"
    snapshot.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, node_class("may", status=found)]})
    )
    given = ["--region", "us-east-1", "--until", "1m", "-o", "json"]
    assert run(["replay", str(snapshot), "--keep", str(kept), *given]) == 0
    new.write_text(json.dumps(node_class("june")))
    capsys.readouterr()
    back = tmp_path / "back.yaml"
    asked = ["rollout", str(kept), "-f", str(new), "--after", "5m", "--watch", "8m", "--alone", "-o", "json"]
    assert run([*asked, "--undo", str(back)]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["course"]["nodes"] == answer["course"]["drifted"] == answer["course"]["done"] == 1
    assert "Name=june -> an image that no node has yet" in printed.err
    assert answer["assumed"]["EC2NodeClass default: amiSelectorTerms"].startswith("Name=june")
    (old,) = yaml.safe_load_all(back.read_text())
    assert old["spec"]["amiSelectorTerms"] == [{"tags": {"Name": "may"}}]
    assert old["spec"]["subnetSelectorTerms"] == [{"id": "subnet-0123456789abcdef0"}]
    assert "status" not in old and "userData" in back.read_text().splitlines()[0]


def test_what_is_wrong_with_the_scenario_is_told_of_the_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder that is played is gone afterwards, unless it is kept."""
    pod = served("Pod", "lone", status={"phase": "Running"})
    pod["spec"] = {
        **workload("Deployment", "x")["spec"]["template"]["spec"],
        "priorityClassName": "Not-A-Name",
    }
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(pod))
    given = ["replay", str(path), str(POOL), "--region", "us-east-1", "--until", "1m"]
    assert run(given) == 2
    assert f"\ndovetail: {path}: " in capsys.readouterr().err
    assert run([*given, "--keep", str(tmp_path / "kept")]) == 2
    assert f"\ndovetail: {tmp_path / 'kept'}/cluster.yaml:" in capsys.readouterr().err
