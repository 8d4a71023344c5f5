"""What operators ask, on small worked examples; each answer holds in a simulation of that answer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest import CaptureFixture

from benchmarks.questions import budget, pool, workload, write
from dovetail.base.clock import DAY, HOUR, MINUTE, SECOND
from dovetail.cli.main import run
from dovetail.simulate.analysis.waiting import waits
from dovetail.simulate.experiment.measures import nearest_rank
from dovetail.simulate.questions.rollout import alternatives, course
from dovetail.simulate.questions.stage import cluster_after
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.testing.guests import node_class


def asked(capsys: CaptureFixture[str], *words: str | Path) -> Any:
    assert run([*map(str, words), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_headroom_keeps_what_its_answer_says(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    example, kept = write("headroom", tmp_path / "shop", 0.03), tmp_path / "kept"
    growth = ("--workload", "shop/web", "--to", "20", "--after", "4m", "--over", "30s", "--within", "9s")
    found = asked(capsys, "headroom", example, *growth, "--keep", kept)
    by_number = {one["placeholders"]: one for one in found["played"]}
    assert 0 < found["answer"] < 8
    assert by_number[found["answer"]]["p99"] <= 9
    fewer = [one for number, one in by_number.items() if number < found["answer"]]
    assert all(one["p99"] > 9 for one in fewer)
    # The kept scenario is the answer: its pods wait no longer.
    result = simulate(load(kept))
    waited = sorted(
        wait.pending / SECOND
        for wait in waits(result.records, result.end)
        if wait.created >= result.start + 4 * MINUTE and not wait.placeholder
    )
    assert len(waited) == 8
    assert nearest_rank(waited, 99) == by_number[found["answer"]]["p99"]
    assert [item["kind"] for item in found["manifests"]] == ["PriorityClass", "Deployment"]
    assert found["manifests"][1]["spec"]["replicas"] == found["answer"]


def test_what_an_autoscaler_scales_grows_by_its_least(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    example, kept = write("headroom", tmp_path / "shop", 0.03), tmp_path / "kept"
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 12,
            "maxReplicas": 30,
        },
    }
    (example / "scaler.yaml").write_text(yaml.safe_dump(scaler))
    growth = ("--workload", "shop/web", "--after", "4m", "--over", "30s", "--within", "9s")
    found = asked(capsys, "headroom", example, *growth, "--to", "20", "--keep", kept)
    assert 0 < found["answer"] < 8
    records = simulate(load(kept)).records
    grown = [
        one for one in records if one["kind"] == "pod.created" and one["owner"].startswith("ReplicaSet/web-")
    ]
    assert len(grown) == 20
    assert run(["headroom", str(example), *growth, "--to", "31"]) == 2
    assert (
        "31 is more than the maxReplicas of HorizontalPodAutoscaler/shop/web, 30" in capsys.readouterr().err
    )
    other = {
        **scaler,
        "metadata": {"name": "web", "namespace": "elsewhere"},
    }  # scales another one of that name
    (example / "scaler.yaml").write_text(yaml.safe_dump(other))
    assert run(["headroom", str(example), *growth, "--to", "12"]) == 2
    assert "12 is not more than its 12 replicas" in capsys.readouterr().err


def test_an_outage_shows_what_comes_back_and_what_its_volumes_hold(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    example, kept = write("outage", tmp_path / "shop", 0.03), tmp_path / "kept"
    records = simulate(load(example).until(4 * MINUTE)).records
    zone_of = {r["node"]: r["zone"] for r in records if r["kind"] == "node.created"}
    home = {r["pod"]: zone_of[r["node"]] for r in records if r["kind"] == "pod.bound"}
    zone = home["shop/database-0"]
    held = sorted(pod for pod, where in home.items() if "database" in pod and where == zone)
    asking = ("outage", example, "--zone", zone, "--after", "4m", "--watch", "10m", "--keep", kept)
    found = asked(capsys, *asking)
    assert found["before"] == 29
    assert found["lost"] == sum(where == zone for where in home.values())
    assert found["by_volume"] == held
    assert found["missing"] == len(held)
    # Played again, nothing runs in that zone in the end, and all others do.
    last = simulate(load(kept)).records
    gone = {r["node"] for r in last if r["kind"] == "node.deleted"}
    zones = {r["zone"] for r in last if r["kind"] == "node.created" and r["node"] not in gone and r["claim"]}
    assert zones
    assert zone not in zones


def test_the_budget_that_decides_a_rollout_is_named(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    example = write("rollout", tmp_path / "shop", 0.004)
    known = {one.what: one.setting for one in alternatives(load(example).manifests)}
    assert sorted(known) == [
        "NodePool general has no windows",
        "NodePool general lets 20% go",
        "PodDisruptionBudget shop/kafka lets 2 go",
        "PodDisruptionBudget shop/web lets 20% go",
    ]
    # What cannot decide it need not be played.
    cluster = example / "cluster.yaml"
    objects = [one for one in yaml.safe_load_all(cluster.read_text()) if one["metadata"]["name"] != "web"]
    objects[0]["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
    cluster.write_text(yaml.safe_dump_all(objects))
    asking = ("rollout", example, "-f", example / "new", "--after", "16m", "--watch", "50m", "--jobs", "1")
    back = tmp_path / "back.yaml"
    found = asked(capsys, *asking, "--within", "20m", "--undo", back)
    (old,) = yaml.safe_load_all(back.read_text())
    assert old["spec"]["amiSelectorTerms"] == [{"alias": "al2023@v20250403"}]
    assert found["course"]["drifted"] == found["course"]["nodes"] > 0
    assert found["course"]["done"] == found["course"]["drifted"]
    assert found["decidedBy"] == ["PodDisruptionBudget shop/kafka lets 2 go"]
    # What is told without playing the change is what happens.
    told = asked(capsys, "diff", example, "-f", example / "new", "--after", "16m", "--work", "20000")
    assert {one["drifts"] for one in told["nodes"]} == {"AMIDrift"}
    assert len(told["nodes"]) == found["course"]["drifted"]
    base = 2  # vCPUs of the machine that is of no pool
    assert told["vcpus"]["before"] == found["course"]["vcpus_before"] + base
    assert told["undo"]["objects"][0]["spec"]["amiSelectorTerms"] == old["spec"]["amiSelectorTerms"]
    assert any("shop/kafka" in text for text in found["course"]["blocked"])


def test_a_course_counts_old_nodes_that_drift() -> None:
    def record(kind: str, at: int, **more: Any) -> dict[str, Any]:
        return {"kind": kind, "t": at * SECOND, **more}

    drift = {"type": "Drifted", "status": "True", "reason": "AMIDrift"}
    records = [
        record("instance.started", 1, claim="a", instance="i-a", instanceType="m5.large"),
        record("claim.created", 1, claim="a", pool="x"),
        record("claim.created", 2, claim="b", pool="y"),
        record("claim.condition", 11, claim="a", **drift),
        record("instance.started", 12, claim="c", instance="i-c", instanceType="m5.large"),
        record("claim.created", 12, claim="c", pool="x"),
        record("claim.condition", 13, claim="c", **drift),
        record("claim.deleted", 20, claim="a"),
        record("instance.terminated", 21, instance="i-a"),
    ]
    found = course(records, 0, 10 * SECOND, {"m5.large": 2})
    assert (found.nodes, found.drifted, found.done, found.by_pool) == (2, 1, 1, {"x": 1})
    assert found.at == {50: 10.0, 90: 10.0, 100: 10.0}
    assert (found.vcpus_before, found.vcpus_peak) == (2, 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("outage", "--zone", "us-east-1z"), "us-east-1 has no zone 'us-east-1z'"),
        (
            ("outage", "--zone", "us-east-1a", "--types", "zz"),
            "no instance type of us-east-1 begins with 'zz'",
        ),
        (("outage", "--zone", "us-east-1a", "--free", "us-east-1b"), "is no number of addresses"),
        (
            ("outage", "--zone", "us-east-1a", "--free", "us-east-1z=3"),
            "--free: us-east-1 has no zone 'us-east-1z'",
        ),
        (("outage", "--zone", "us-east-1a", "--capacity", "cheap"), "is no capacity type"),
        (("headroom", "--workload", "shop/none", "--to", "9"), "there is no Deployment/shop/none"),
        (("headroom", "--workload", "web", "--to", "9"), "names no workload"),
        (("headroom", "--workload", "shop/web", "--to", "2"), "2 is not more than its"),
        *(
            (("outage", "--zone", "us-east-1a", *words), message)
            for words, message in (
                (("--types", "m,,c"), "begins with ''"),
                (("--types", "m5larg"), "did you mean m5.large?"),
                (("--free", "us-east-1b=9%"), "is no number of addresses"),
                (("--free", "us-east-1b=99999999999999999999"), "at most 16,777,216"),
                (("--free", "us-east-1b=3,us-east-1b=4"), "us-east-1b is there twice"),
                (("--after", "24h"), "--after: 24h0m0s is not less than 24h"),
                (("--after=-1m",), "not more than 0s"),
                (("--watch", "9999h"), "/shop: that is 9999h20m0s of the scenario; at most 744h"),
                (("--keep", "{shop}"), "the folder is not empty"),
                (("--keep", "/dev/full/x"), "cannot be written: Not a directory"),
            )
        ),
        (("headroom", "--workload", "shop/web", "--to", "10000000000"), "--to: 10,000,000,000 replicas"),
        (("headroom", "--workload", "shop/web", "--to", "90", "--over", "9999h"), "at most 744h are played"),
        (("rollout", "-f", "{shop}/cluster.yaml", "--after", "30h"), "is not less than 24h"),
        (("rollout", "-f", "{shop}/cluster.yaml", "--watch", "9999h"), "at most 744h are played"),
        (("rollout", "-f", "{shop}/cluster.yaml", "--within", "13h"), "more than the 12h that are watched"),
        (("rollout", "-f", "{shop}/cluster.yaml", "--quota", "0"), "--quota: 0 is not at least 1"),
        (("rollout", "-f", "{shop}/scenario.yaml"), "no object to apply is in it"),
        (("diff", "-f", "{shop}/scenario.yaml"), "no object to apply is in it"),
        (("rollout", "-f", "nowhere"), "nowhere: no such file or folder"),
        (("rollout", "-f", "-", "--jobs", "0"), "--jobs: 0 is not at least 1"),
        (("rollout", "-f", "-"), "standard input can be read only once"),
    ],
)
def test_wrong_questions_are_refused(
    tmp_path: Path, capsys: CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    example = write("headroom", tmp_path / "shop", 0.01)
    given = [word.format(shop=example) for word in words[1:]]
    assert run([words[0], str(example), *given]) == 2
    assert message in capsys.readouterr().err


def test_what_is_refused_while_it_plays_is_told_of_the_file_that_was_given(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    """The API server has the last word on a change, in a worker's process as well."""
    example = write("headroom", tmp_path / "shop", 0.01)
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "namespace": "shop"}}
    lone["spec"] = {"containers": [{"name": "a", "image": "a"}]}
    with (example / "cluster.yaml").open("a") as file:
        file.write("---\n" + yaml.safe_dump(lone))
    new = tmp_path / "new.yaml"
    lone["spec"]["containers"][0]["command"] = ["sleep"]  # no update of a pod may
    new.write_text(yaml.safe_dump(lone))
    words = ("--after", "1m", "--watch", "1m", "--alone")
    assert run(["rollout", str(example), "-f", str(new), *words]) == 2
    told = capsys.readouterr().err
    assert f"dovetail: {new}:1: Pod shop/lone: " in told and "pod updates may not change" in told


# What `kubectl get -o yaml` has beside what `kubectl apply` sends.
_SERVED = {
    "uid": "0d0e5dd3-9a4a-4f7a-8d3b-6a1a43f1c7a1",
    "resourceVersion": "8841023",
    "generation": 7,
    "creationTimestamp": "2025-11-03T08:12:44Z",
    "selfLink": "/apis/of/long/ago",
    "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
}


def as_served(document: Any) -> Any:
    meta = {**document["metadata"], **_SERVED}
    return {**document, "metadata": meta, "status": {"conditions": []}}


def test_objects_as_a_server_gives_them_are_new_objects_too(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    """An edited `kubectl get -o yaml` is what is at hand: the answer is that of the same without marks."""
    example = write("headroom", tmp_path / "shop", 0.01)
    objects = [*yaml.safe_load_all((example / "cluster.yaml").read_text())]
    (changed,) = (one for one in objects if one["kind"] == "NodePool")
    changed["spec"]["template"]["metadata"] = {"labels": {"tier": "two"}}
    written = {
        "plain": changed,
        "served": {"apiVersion": "v1", "kind": "List", "items": [as_served(changed)]},
    }
    words = ("--after", "1m", "--watch", "30m", "--alone")
    answers = []
    for name, document in written.items():
        new = tmp_path / f"{name}.yaml"
        new.write_text(yaml.safe_dump(document))
        drifts = asked(capsys, "diff", example, "-f", new, "--after", "1m")
        answers.append((asked(capsys, "rollout", example, "-f", new, *words), drifts))
    assert answers[0] == answers[1]
    assert answers[0][0]["course"]["drifted"] > 0


def test_a_scenario_of_objects_as_a_server_gives_them_is_that_of_the_same_without_marks(
    tmp_path: Path,
) -> None:
    example = write("headroom", tmp_path / "shop", 0.01)
    path = example / "cluster.yaml"
    plays = [simulate(load(example).until(5 * MINUTE)).sha256]
    objects = [as_served(one) for one in yaml.safe_load_all(path.read_text())]
    path.write_text(yaml.safe_dump_all(objects))
    plays.append(simulate(load(example).until(5 * MINUTE)).sha256)
    assert plays[0] == plays[1]


def test_the_bill_after_switching_is_that_of_a_simulation(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    """A cluster that shrank while nothing consolidated it, told from its dump, and played on."""
    idle = pool(consolidateAfter="Never")
    awake = pool(
        consolidationPolicy="WhenEmptyOrUnderutilized",
        consolidateAfter="1m",
        budgets=[{"nodes": "20%"}],
    )
    large = [workload(name, 24, cpu, memory) for name, cpu, memory in _APPS]
    small = [
        workload(name, count, cpu, memory)
        for (name, cpu, memory), count in zip(_APPS, (9, 11, 7), strict=True)
    ]
    budgets = [budget(name, maxUnavailable=3) for name, _, _ in _APPS]
    folder = write("headroom", tmp_path / "shop", 0.01)
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(plain(idle, node_class(), *large, *budgets)))
    (folder / "later").mkdir()
    (folder / "later" / "small.yaml").write_text(yaml.safe_dump_all(plain(*small)))
    (folder / "later" / "pool.yaml").write_text(yaml.safe_dump_all(plain(awake)))
    path = folder / "scenario.yaml"
    document = yaml.safe_load(path.read_text())
    document["changes"] = [
        {"at": "20:50", "file": "later/small.yaml"},
        {"at": "21:00", "file": "later/pool.yaml"},
    ]
    document["duration"] = "27h20m"
    path.write_text(yaml.safe_dump(document))

    items = cluster_after(load(folder), 20 * MINUTE - SECOND)
    for item in items:
        if item["kind"] == "NodePool":
            item["spec"] = awake["spec"]
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    found = asked(capsys, "compare", dump, "--region", "us-east-1", "--work", "3000000")
    assert not found["cutShort"]

    result = simulate(load(folder))
    switched, hourly, paid, hours = result.start + 20 * MINUTE, 0, 0, Counter[str]()
    prices: dict[str, int] = {}
    last = switched
    for record in result.records:
        if switched < record["t"] <= switched + DAY:
            paid += hourly * (record["t"] - last)
            last = record["t"]
        if record["kind"] == "instance.started":
            prices[record["instance"]] = record["price"]
            hourly += record["price"]
        elif record["kind"] == "instance.terminated":
            hourly -= prices[record["instance"]]
        elif record["kind"] == "pod.evicted" and record["t"] > switched:
            hours[str((record["t"] - switched) // HOUR)] += 1
    paid += hourly * (switched + DAY - last)
    assert found["hourlyNow"] > 1.3 * hourly / 1e9
    assert found["hourlyInTheEnd"] == pytest.approx(hourly / 1e9, rel=0.02)
    assert found["days"][0]["cost"] == pytest.approx(paid / HOUR / 1e9, rel=0.02)
    assert found["podsMovedByHour"] == hours
    parts = found["difference"]
    assert sum(value for name, value in parts.items() if name != "hourly") == pytest.approx(parts["hourly"])


_APPS = (("web", "900m", "1Gi"), ("api", "1500m", "3Gi"), ("jobs", "2500m", "4Gi"))


def plain(*objects: Any) -> list[Any]:
    """What is shared, written out."""
    return [json.loads(json.dumps(one)) for one in objects]
