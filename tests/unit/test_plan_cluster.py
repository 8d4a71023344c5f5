"""`dovetail plan` about a cluster as it is: what it costs, what it must cost, where the difference goes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.cli.bill_output import bill_document, bill_lines, node_prices
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cli.plan_output import FAILED, conditions
from dovetail.cli.question import Question
from dovetail.cli.region import Region, resolve
from dovetail.cli.searching import Patience, Search
from dovetail.disrupt.bill import Repacking, anew, applied, bill, candidate, repack
from dovetail.disrupt.consolidation.question import Move
from dovetail.model.problem import Budget
from dovetail.solve.budget import Deadline
from dovetail.solve.solver import solve

_Text = pytest.CaptureFixture[str]
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "plan.schema.json"
REGION = "eu-west-1"
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["m5.large"]},
                ],
            }
        }
    },
}
CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    },
}


def pod(name: str, node: str = "", cpu: str = "500m", owner: str = "ReplicaSet") -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": name}
    owners = [
        {"apiVersion": "apps/v1", "kind": owner, "name": owner.lower(), "uid": owner, "controller": True}
    ]
    container = {"name": "a", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "ownerReferences": owners},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending"},
    }


def node(name: str, *, pool: str = "general", kind: str = "m5.2xlarge", zone: str = "a") -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": f"{REGION}{zone}",
        "node.kubernetes.io/instance-type": kind,
    }
    if pool:
        labels |= {"karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "on-demand"}
    else:
        labels |= {"eks.amazonaws.com/nodegroup": "system", "eks.amazonaws.com/capacityType": "SPOT"}
    room = {"cpu": "7910m", "memory": "30Gi", "pods": "58", "ephemeral-storage": "17Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"providerID": f"aws:///{REGION}{zone}/i-{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def cluster() -> list[dict[str, Any]]:
    """Four nodes of a pool at a fifth of their room, one of a managed group, and a pod that waits."""
    names = [f"n{index}" for index in range(4)]
    pods = [pod(f"{name}-{index}", name) for name in names for index in range(3)]
    daemons = [pod(f"{name}-d", name, "100m", "DaemonSet") for name in names]
    system = [node("s0", pool=""), pod("dns", "s0")]
    return [POOL, CLASS, *map(node, names), *pods, *daemons, *system, pod("late", cpu="3")]


def planned(folder: Path, capsys: _Text, items: list[dict[str, Any]], *options: str) -> dict[str, Any]:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["plan", "-f", str(path), "-o", "json", "--deadline", "1s", *options]) == OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_money_question(tmp_path: Path, capsys: _Text) -> None:
    found = planned(tmp_path, capsys, cluster())
    assert (found["region"], found["regionFrom"]) == (REGION, "labels of the nodes")
    bill = found["cluster"]
    general, system = bill["groups"]
    volumes = 20 * 0.088 / 730
    assert general["hourly"] == pytest.approx(4 * (0.428 + volumes), abs=1e-4)
    assert (general["name"], general["nodes"], system["name"], system["nodes"]) == (
        "general",
        4,
        "system",
        1,
    )
    assert 0 < system["hourly"] < general["hourly"] / 4  # spot
    assert bill["hourly"] == pytest.approx(general["hourly"] + system["hourly"])
    assert bill["monthly"] == pytest.approx(730 * bill["hourly"], abs=0.01)
    assert general["requestedCpu"] == pytest.approx(4 * 1.6 / (4 * 7.91), abs=1e-4)
    assert general["unusedShare"] == pytest.approx(1 - 1.6 / 7.91, abs=1e-3)
    assert bill["nodesKept"] == 1
    movable, difference = bill["movable"], bill["difference"]
    assert movable["hourly"] == pytest.approx(general["hourly"])
    assert movable["lowerBound"] <= movable["fresh"] < movable["hourly"]
    parts = sum(difference[name] for name in ("packing", "types", "spot", "daemonsets"))
    assert parts == pytest.approx(difference["hourly"]) == pytest.approx(movable["hourly"] - movable["fresh"])
    assert difference["packing"] > 0
    repacking = bill["repacking"]
    assert 0 < repacking["saving"] <= movable["hourly"] - movable["lowerBound"] + 1e-9
    assert 3 <= repacking["podsMoved"] <= 12
    assert found["existing"] == {"n0": ["shop/late"]} or len(found["existing"]) == 1


def test_a_savings_plan_is_used_by_what_runs_on_demand(tmp_path: Path, capsys: _Text) -> None:
    found = planned(tmp_path, capsys, [*cluster(), pod("large", cpu="9")], "--savings-plan", "1000")
    (bought,) = found["nodeClaims"]
    more = bought["instancePrice"] if bought["capacityType"] == "on-demand" else 0.0
    used = found["savingsPlan"]
    assert (used["hourly"], used["discount"]) == (1000.0, 0.28)
    assert used["usedBefore"] == pytest.approx(0.72 * 4 * 0.428)  # the system's node is a spot one
    assert used["usedAfter"] == pytest.approx(0.72 * (4 * 0.428 + more))
    assert used["savedAfter"] == pytest.approx(used["usedAfter"] / 0.72 - 1000)


def test_the_question_in_words(tmp_path: Path, capsys: _Text) -> None:
    planned(tmp_path, capsys, cluster())
    assert run(["plan", "-f", str(tmp_path / "cluster.json"), "--deadline", "1s"]) == OK
    text = " ".join(capsys.readouterr().out.split())
    assert "5 nodes cost $" in text
    assert "1 node is of no NodePool here: what is there stays as it is" in text
    assert "no nodes do for less than $" in text
    assert "Repacking in place would save $" in text
    assert "(region from labels of the nodes)." in text


def large(folder: Path) -> Path:
    """Sixty nodes whose pods are all of different sizes, and a pod that no type has room for."""
    names = [f"n{index}" for index in range(60)]
    pods = [
        pod(f"{name}-{index}", name, cpu=f"{100 + 7 * row + index}m")
        for row, name in enumerate(names)
        for index in range(4)
    ]
    path = folder / "large.json"
    items = [POOL, CLASS, *map(node, names), *pods, pod("huge", "n0", cpu="900")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_what_the_search_did_not_come_to_is_not_homeless(tmp_path: Path) -> None:
    """A clock that moves on whenever it is looked at leaves time for a part of the pods."""
    problem = Question(filename=[str(large(tmp_path))]).problem()
    prices, asked = node_prices(problem, REGION), anew(problem)
    late = solve(asked, Budget(100_000), stop=Deadline(1_000, partial(next, count(0, 100))))
    found = bill(problem, prices, late)
    assert 0 < found.untried < found.pods == 241
    assert found.homeless == ("shop/huge",)
    shown = bill_document(found, None, prices, cut_short=True)
    assert shown["difference"] is shown["movable"]["fresh"] is shown["movable"]["lowerBound"] is None
    assert shown["movable"]["podsLookedAt"] == 241 - found.untried
    text = " ".join(map(str, bill_lines(found, None, Search(), cut_short=True)))
    assert f"is not known: {241 - found.untried} of 241 pods were looked at in 10 s; --deadline 30s" in text
    whole = bill(problem, prices, solve(asked, Budget(1_000)))
    assert whole.fresh is not None and (whole.untried, whole.homeless) == (0, ("shop/huge",))


@pytest.mark.parametrize(("work", "looked"), [(20, "none"), (1_000, "some")])
def test_repacking_that_was_cut_short_says_how_much_was_looked_at(
    work: int, looked: str, tmp_path: Path, capsys: _Text
) -> None:
    ask = ["plan", "-f", str(large(tmp_path)), "--work", str(work)]
    assert run([*ask, "-o", "json", "--reproducible"]) == OK
    first = capsys.readouterr().out
    repacking = json.loads(first)["cluster"]["repacking"]
    assert repacking["cutShort"] and repacking["nodes"] == 60
    assert list(faults(json.loads(first), *[json.loads(SCHEMA.read_text())] * 2, "$")) == []
    assert run([*ask, "-o", "json", "--reproducible"]) == OK
    assert capsys.readouterr().out == first  # repacking has a share of the work, and no clock
    assert run(ask) == OK
    text = " ".join(capsys.readouterr().out.split())
    end = f"of 60 nodes were looked at in {10 * work:,} units of work; --work {3 * work} looks further."
    if looked == "none":
        assert repacking["saving"] is None and repacking["nodesLookedAt"] == 0
        assert f"What repacking in place would save is not known. 0 {end}" in text
    else:
        assert repacking["nodesRemoved"] == repacking["nodesLookedAt"] < 60
        assert "at least by moving" in text and f"{repacking['nodesLookedAt']} {end}" in text
    assert "Repacking in place saves nothing" not in text


def test_without_time_all_nodes_for_new_ones_are_a_move(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()}))
    problem = Question(filename=[str(path)]).problem()
    prices, asked = node_prices(problem, REGION), anew(problem)
    fresh = solve(asked, Budget(1_000))
    assert repack(problem, prices, _no_time, Patience(0).budget()) == Repacking(0, 0, 0, 0, 0, 4, False)
    found = repack(problem, prices, _no_time, Patience(0).budget(), fresh)
    whole = bill(problem, prices, fresh)
    assert found is not None and whole.fresh is not None
    assert found.saving == whole.movable.cost - whole.fresh.cost > 0
    assert (found.pods, found.nodes_gone, found.nodes_bought) == (12, 4, len(fresh.claims))
    assert not found.complete
    shown = " ".join(map(str, bill_lines(whole, found, Search().shared(), cut_short=True)))
    assert "at least by moving 12 pods" in shown
    assert "but not every set of them, in 10 s; --deadline 30s looks further." in shown


def daemon_set(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "a", "image": "x", "resources": resources}], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


@pytest.mark.parametrize(
    ("taints", "running"),
    [
        ([], {"agent", "logs", "arm-or-amd"}),
        (
            [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            {"logs"},
        ),
        ([{"key": "team", "value": "a", "effect": "PreferNoSchedule"}], {"agent", "logs", "arm-or-amd"}),
    ],
)
def test_nodes_that_are_bought_run_their_daemons(
    taints: list[dict[str, str]], running: set[str], tmp_path: Path
) -> None:
    """So that the scheduler gives their room to no pod that moves later."""
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}]}
        for arch in ("arm64", "amd64")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    daemons = [
        daemon_set("agent", "500m"),
        daemon_set("logs", "250m", tolerations=[{"operator": "Exists"}]),
        daemon_set("arm-or-amd", "100m", affinity={"nodeAffinity": required}),
        daemon_set("gpu", "1", nodeSelector={"karpenter.k8s.aws/instance-gpu-name": "t4"}),
    ]
    pool = json.loads(json.dumps(POOL))
    pool["spec"]["template"]["spec"]["taints"] = taints
    waits = pod("late", "n0", "3")
    waits["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    path = tmp_path / "cluster.json"
    items = [pool, CLASS, *daemons, node("n0"), waits]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    problem = Question(filename=[str(path)]).problem()
    plan = solve(anew(problem), Budget(1_000))
    (old,) = problem.nodes
    move = Move((candidate(old, 1),), plan.claims)
    (new,) = applied(problem, move, {"n0": 1}, count()).nodes
    assert {pod.key.rpartition("/")[2].removesuffix(f"-{new.name}") for pod in new.pods} == running | {"late"}
    (claim,) = plan.claims
    asked = {name: new.occupancy.requests[name] for name in ("cpu", "memory")}
    assert asked == {name: claim.requests[name] for name in ("cpu", "memory")}
    # They go with their node and are no pods that move.
    assert [pod.key for pod in candidate(new, 1).pods] == ["shop/late"]


def test_a_daemonset_of_a_newer_server_is_left_out(tmp_path: Path, capsys: _Text) -> None:
    expression = {"key": "kubernetes.io/arch", "operator": "OfANewerServer", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    odd = daemon_set("odd", "1", affinity={"nodeAffinity": required})
    odd["metadata"]["resourceVersion"] = "7"
    found = planned(tmp_path, capsys, [*cluster(), odd])
    assert found["pods"]["unschedulable"] == 0
    assert run(["plan", "-f", str(tmp_path / "cluster.json"), "--work", "1000"]) == OK
    said = " ".join(capsys.readouterr().err.split())
    assert "note: DaemonSet kube-system/odd is left out: ValueError: operator 'OfANewerServer'" in said


def _no_time(_: object) -> NoReturn:
    raise AssertionError("there is no time for a what-if")


def test_the_questions_about_a_cluster_share_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "process_time_ns", lambda: 0)  # other tests ran in this process before
    whole = Search().shared()
    assert whole.until is not None
    half = whole.part(0.5)
    assert half.until is not None and half.until < whole.until
    assert half.what_ifs.nanoseconds < whole.what_ifs.nanoseconds <= 10 * SECOND
    over = replace(whole, until=0)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()}))
    problem = Question(filename=[str(path)]).problem()
    answer = over.answer(anew(problem))  # a whole plan all the same
    assert not answer.plan.untried and answer.cut_short == (answer.plan.cost.gap > 0.01)
    assert not over.what_ifs.budget().left and over.explaining()()
    for given in (Search(deadline=SECOND), Search(work=5)):  # what a user gives is for each question
        assert given.shared() == given == given.part(0.5)


@pytest.mark.parametrize(
    ("memory", "asks", "noted"),
    [
        (
            "10Mi",
            "",
            "no memory is asked for by shop/late, so that none is kept: node n0 has 10 MiB for 1 of them.",
        ),
        ("2Gi", "", ""),
        ("300Mi", "256Mi", ""),
    ],
)
def test_pods_that_ask_for_no_memory_are_told_of_where_there_is_none(
    memory: str, asks: str, noted: str, tmp_path: Path, capsys: _Text
) -> None:
    late = pod("late")
    late["spec"]["containers"][0]["resources"]["requests"] = {
        "cpu": "1",
        **({"memory": asks} if asks else {}),
    }
    there = node("n0")
    there["status"]["allocatable"] = {**there["status"]["allocatable"], "memory": memory}
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [POOL, CLASS, there, late]}))
    assert run(["plan", "-f", str(path), "--work", "1000"]) == OK
    said = " ".join(capsys.readouterr().err.split())
    assert (noted in said) if noted else ("no memory" not in said)


def test_before_any_node_is_of_a_pool_all_can_go(tmp_path: Path, capsys: _Text) -> None:
    unowned = [POOL, CLASS, node("s0", pool=""), node("s1", pool="", kind="unheard.of"), pod("dns", "s0")]
    bill = planned(tmp_path, capsys, unowned)["cluster"]
    assert bill["nodesKept"] == 0
    assert bill["groups"][0]["withoutPrice"] == 1
    assert bill["movable"]["fresh"] > 0


def test_manifests_without_nodes_ask_no_such_question(tmp_path: Path, capsys: _Text) -> None:
    found = planned(tmp_path, capsys, [POOL, CLASS, pod("late")], "--region", REGION)
    assert "cluster" not in found
    assert found["regionFrom"] == "--region"
    assert found["pods"] == {
        "pending": 1,
        "onNewNodes": 1,
        "onExistingNodes": 0,
        "unschedulable": 0,
        "notLookedAt": 0,
    }
    assert found["prices"]["date"] == "2025-05-28"


def test_the_same_work_gives_the_same_answer(tmp_path: Path, capsys: _Text) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [POOL, CLASS, pod("late")]}))
    ask = ["plan", "-f", str(path), "--region", REGION, "-o", "json", "--work", "50000", "--reproducible"]
    texts = set()
    for _ in range(2):
        assert run(ask) == OK
        texts.add(capsys.readouterr().out)
    assert len(texts) == 1 and "elapsedSeconds" not in texts.pop()
    assert run([*ask, "--deadline", "1s"]) == BAD_INPUT
    assert run([*ask[:-2], "0"]) == BAD_INPUT


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("unschedulable", OK),
        ("cost>100", OK),
        ("gap>5", OK),
        ("cost>0.001", FAILED),
        ("gap > 5%, cost > $0.001", FAILED),
        ("cost<1", BAD_INPUT),
        ("cost", BAD_INPUT),
        ("", BAD_INPUT),
    ],
)
def test_conditions_for_pipelines(condition: str, code: int, tmp_path: Path, capsys: _Text) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [POOL, CLASS, pod("late")]}))
    ask = ["plan", "-f", str(path), "--region", REGION, "--fail-on", condition]
    assert run(ask) == code
    printed = capsys.readouterr().err
    assert ("is more than $0.001/h" in printed) == (code == FAILED)
    assert ("is no condition" in printed) == (code == BAD_INPUT)


def test_pods_that_are_left_over_fail_a_pipeline(tmp_path: Path, capsys: _Text) -> None:
    path = tmp_path / "cluster.json"
    items = [POOL, CLASS, pod("huge", cpu="900")]
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    assert run(["plan", "-f", str(path), "--region", REGION, "--fail-on", "unschedulable"]) == FAILED
    assert "--fail-on unschedulable: 1 pod left over" in capsys.readouterr().err
    assert [one.what for one in conditions(["unschedulable,cost>1", "gap>2"])] == [
        "unschedulable",
        "cost",
        "gap",
    ]


EKS = "https://ABC.gr7.ap-northeast-2.eks.amazonaws.com"


@pytest.mark.parametrize(
    ("given", "nodes", "environment", "server", "found"),
    [
        ("us-west-2", [REGION], {"AWS_REGION": "us-east-1"}, EKS, ("us-west-2", "--region")),
        (None, [REGION, REGION, ""], {"AWS_REGION": "us-east-1"}, EKS, (REGION, "labels of the nodes")),
        (None, ["mars-north-1"], {"AWS_REGION": "us-east-1"}, EKS, ("us-east-1", "AWS_REGION")),
        (None, [], {"AWS_DEFAULT_REGION": "us-east-1"}, EKS, ("us-east-1", "AWS_DEFAULT_REGION")),
        (None, [], {}, EKS, ("ap-northeast-2", "the address of the API server")),
        (None, [], {}, "https://127.0.0.1:6443", None),
    ],
)
def test_which_region_is_meant(
    given: str | None,
    nodes: list[str],
    environment: Mapping[str, str],
    server: str,
    found: tuple[str, str] | None,
) -> None:
    labelled = [
        decode({"metadata": {"labels": {"topology.kubernetes.io/region": one}}}, Node) for one in nodes
    ]
    assert resolve(given, labelled, environment, server) == (Region(*found) if found else None)


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ([("Node", "topology.kubernetes.io/zone", ["eu-west-1c"])], (REGION, "labels of the nodes")),
        ([("Node", "failure-domain.beta.kubernetes.io/region", [REGION])], (REGION, "labels of the nodes")),
        ([("Node", "topology.kubernetes.io/zone", ["us-central1-a"])], None),
        (
            [("NodePool", "topology.kubernetes.io/zone", ["us-west-2a", "us-west-2-lax-1a"])],
            ("us-west-2", "the zones of the NodePools"),
        ),
        ([("NodePool", "topology.kubernetes.io/zone", ["us-west-2a", "us-east-1a"])], None),
    ],
)
def test_zones_say_the_region(
    objects: list[tuple[str, str, list[str]]], found: tuple[str, str] | None
) -> None:
    made: list[Node | NodePool] = []
    for kind, key, values in objects:
        if kind == "Node":
            made.append(decode({"metadata": {"labels": {key: values[0]}}}, Node))
        else:
            wanted = [{"key": key, "operator": "In", "values": values}]
            spec = {"requirements": wanted, "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}
            made.append(decode({"spec": {"template": {"spec": spec}}}, NodePool))
    assert resolve(None, made, {}) == (Region(*found) if found else None)


def test_nodes_of_two_regions_ask_for_the_flag() -> None:
    labelled = [
        decode({"metadata": {"labels": {"topology.kubernetes.io/region": one}}}, Node)
        for one in (REGION, "us-east-1", REGION)
    ]
    with pytest.raises(InputError, match=r"eu-west-1 \(2 nodes\), us-east-1 \(1 nodes\)"):
        resolve(None, labelled, {})


def test_neither_manifests_nor_a_cluster(capsys: _Text) -> None:
    assert run(["plan", "--region", REGION]) == BAD_INPUT
    assert "neither manifests nor a cluster is given" in capsys.readouterr().err


def test_the_published_schema_says_what_is_printed(tmp_path: Path, capsys: _Text) -> None:
    schema = json.loads(SCHEMA.read_text())
    for items in (cluster(), [POOL, CLASS, pod("late"), pod("huge", cpu="900")]):
        found = planned(tmp_path, capsys, items, "--region", REGION)
        assert list(faults(found, schema, schema, "$")) == []
    found["nodeClaims"][0]["price"] = "1"
    found["unheard"] = 1
    assert list(faults(found, schema, schema, "$")) == [
        "$: unheard is not in it",
        "$.nodeClaims[0].price: str",
    ]


def faults(value: Any, schema: Any, whole: Any, path: str) -> list[str]:
    """What of a document a JSON schema does not allow, in the part of the language that is used here."""
    if "$ref" in schema:
        return faults(value, whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, path)
    names = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not any(number if kind in ("number", "integer") else isinstance(value, names[kind]) for kind in kinds):
        return [f"{path}: {type(value).__name__}"]
    found = []
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", False)
        found += [f"{path}: {key} is missing" for key in schema.get("required", ()) if key not in value]
        found += [f"{path}: {key} is not in it" for key in value if key not in known and more is False]
        for key, one in value.items():
            if key in known or more is not False:
                found += faults(one, known.get(key, more), whole, f"{path}.{key}")
    if isinstance(value, list):
        for index, one in enumerate(value):
            found += faults(one, schema["items"], whole, f"{path}[{index}]")
    return found
