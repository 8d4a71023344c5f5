"""The bill of a dumped cluster after switching, day by day."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest import CaptureFixture

from benchmarks.clusters import cluster
from dovetail.cli.main import run

Document = dict[str, Any]
WORK = ("--work", "300000")


def bill(
    tmp_path: Path, capsys: CaptureFixture[str], change: Callable[[Document], object], *words: str
) -> Any:
    objects = cluster(0.01)
    for one in objects:
        change(one)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert run(["compare", str(path), *WORK, *words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def of_pools(**disruption: Any) -> Callable[[Document], object]:
    return lambda one: one["kind"] == "NodePool" and one["spec"]["disruption"].update(disruption)


def test_days_and_parts_add_up(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    found = bill(tmp_path, capsys, lambda one: one, "--days", "1,2,30")
    assert not found["cutShort"]
    assert found["lowerBound"] <= found["hourlyInTheEnd"] < found["hourlyNow"]
    first, second, last = found["days"]
    assert 24 * found["hourlyNow"] > first["cost"] > second["cost"] >= last["cost"]
    assert last["cost"] == pytest.approx(24 * found["hourlyInTheEnd"])
    parts = found["difference"]
    assert sum(value for name, value in parts.items() if name != "hourly") == pytest.approx(parts["hourly"])
    assert parts["hourly"] == pytest.approx(found["hourlyNow"] - found["hourlyInTheEnd"])
    assert found["nodes"]["inTheEnd"] < found["nodes"]["now"]


def test_a_savings_plan_that_fewer_nodes_do_not_use_up_is_paid_in_vain(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    plain = bill(tmp_path, capsys, lambda one: one, "--days", "1")
    given = ("--days", "1", "--savings-plan", "10", "--savings-plan-discount", "50%")
    found = bill(tmp_path, capsys, lambda one: one, *given)
    plan = found.pop("savingsPlan")
    assert found == plain  # the bill itself is at list prices, as before
    assert plan["hourly"] == 10 and plan["discount"] == 0.5
    assert 0 < plan["usedInTheEnd"] < plan["usedNow"] <= 10
    for moment in ("Now", "InTheEnd"):
        # What is used stands for twice as much of the bill; all of the plan is paid.
        spared = plan[f"used{moment}"] / 0.5 - 10
        assert plan[f"hourly{moment}"] == pytest.approx(plain[f"hourly{moment}"] - spared)
    assert run(["compare", str(tmp_path / "cluster.json"), *WORK, *given]) == 0
    assert "paid in vain" in capsys.readouterr().out


def test_nodes_reach_their_age_whatever_moves(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    def change(one: Document) -> None:
        if one["kind"] == "NodeClaim":
            one["metadata"]["creationTimestamp"] = "2026-01-20T09:00:00Z"  # 13 days before the dump
            one["spec"]["expireAfter"] = "480h"
        if one["kind"] == "NodePool":
            one["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]  # no budget holds expiry

    found = bill(tmp_path, capsys, change, "--days", "7,8,28,30")
    pods = [one for one in cluster(0.01) if one["kind"] == "Pod"]
    daemons = [one for one in pods if one["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"]
    nodes, movable = found["nodes"]["now"], len(pods) - len(daemons)
    # After 20 days: on the eighth, and their successors on the twenty-eighth.
    days = {one["day"]: (one["nodesExpired"], one["podsOfExpiredNodes"]) for one in found["days"]}
    assert days == {7: (0, 0), 8: (nodes, movable), 28: (nodes, movable), 30: (0, 0)}
    assert found["expired"] == {"nodes": 2 * nodes, "pods": 2 * movable}
    assert run(["compare", str(tmp_path / "cluster.json"), *WORK]) == 0
    assert "nodes reach their age (expireAfter) in 30 days" in capsys.readouterr().out


@pytest.mark.parametrize("sold", [("on-demand", "spot"), ("on-demand",)])
def test_types_and_prices_may_be_the_users_own(
    sold: tuple[str, ...], tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    """Nodes that the file has no price for take no part, and nothing is claimed to be proven then."""
    nodes = [one for one in cluster(0.01) if one["kind"] == "Node"]
    zones = sorted({one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in nodes})
    there = {one["metadata"]["labels"]["node.kubernetes.io/instance-type"]: one for one in nodes}
    offered = [
        {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": how}
        for zone in zones
        for how in sold
    ]
    types = []
    for name, node in there.items():
        labels = {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            **{key: value for key, value in node["metadata"]["labels"].items() if "instance-" in key},
        }
        types.append(
            {
                "name": name,
                "requirements": [
                    {"key": key, "operator": "In", "values": [value]} for key, value in labels.items()
                ]
                + [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(sold)},
                ],
                "offerings": [{"price": 3.0, "available": True, "requirements": one} for one in offered],
                "capacity": node["status"]["capacity"],
                "overhead": {},
            }
        )
    path = tmp_path / "types.json"
    path.write_text(json.dumps(types))
    found = bill(tmp_path, capsys, dict, "--instance-types", str(path))
    known = [one for one in nodes if one["metadata"]["labels"]["karpenter.sh/capacity-type"] in sold]
    assert found["hourlyNow"] == 3 * len(known)
    if len(known) == len(nodes):
        assert 0 < found["lowerBound"] <= found["hourlyInTheEnd"] < found["hourlyNow"]
    else:
        assert found["lowerBound"] is None and 0 < found["hourlyInTheEnd"] < found["hourlyNow"]


def test_budgets_decide_when_it_begins(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    never = bill(tmp_path, capsys, of_pools(budgets=[{"nodes": "0"}]))
    assert never["hourlyInTheEnd"] == never["hourlyNow"]
    assert never["podsMovedByHour"] == {}
    # Closed for all but one hour of each day: nothing moves before that.
    shut = [{"nodes": "0", "schedule": "@daily", "duration": "23h"}, {"nodes": "100%"}]
    late = bill(tmp_path, capsys, of_pools(budgets=shut), "--days", "1,2")
    at_once = bill(tmp_path, capsys, of_pools(budgets=[{"nodes": "100%"}]), "--days", "1,2")
    assert late["hourlyInTheEnd"] == pytest.approx(at_once["hourlyInTheEnd"], rel=0.05)
    assert min(map(int, at_once["podsMovedByHour"])) == 0
    hours = set(map(int, late["podsMovedByHour"]))
    assert len({hour % 24 for hour in hours}) <= 2


def test_what_takes_no_part_is_named(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    def change(one: Document) -> None:
        if one["kind"] == "Pod" and one["metadata"]["labels"]["app"] in ("api", "orders", "cart", "mail"):
            one["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}

    found = bill(tmp_path, capsys, change)
    assert sum(found["nodesWithoutPart"].values()) == 4  # all of the pool of these
    assert all("karpenter.sh/do-not-disrupt" in why for why in found["nodesWithoutPart"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["DUMP", "--days", "0"], "--days"),
        (["DUMP", "--days", "soon"], "--days"),
        (["DUMP", "--policy", "karpenter"], "--policy: means nothing for a dump"),
        (["DUMP", "examples/burst"], "the dump of a cluster is compared with itself"),
        (["examples/burst", "--region", "us-east-1"], "--region: means nothing for a scenario"),
        (["DUMP", "--savings-plan", "much"], "--savings-plan"),
        (["DUMP", "--seeds", "1-9"], "--seeds: means nothing for a dump"),
        (["DUMP", "--jobs", "4"], "--jobs: means nothing for a dump"),
        (["DUMP", "--work", "5", "--deadline", "5s"], "only one of --work and --deadline"),
        (["DUMP", "--instance-types", "DUMP"], "Each entry needs name"),
        (["examples/burst", "--days", "1,7"], "--days: means nothing for a scenario"),
        (["examples/burst", "--instance-types", "DUMP"], "--instance-types: means nothing for a scenario"),
        (["EMPTY"], "no NodePool"),
    ],
)
def test_bad_questions_are_refused(
    words: list[str], complaint: str, tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    files = {"DUMP": tmp_path / "cluster.json", "EMPTY": tmp_path / "empty.json"}
    objects = cluster(0.01)
    files["DUMP"].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    lacking = [one for one in objects if one["kind"] != "NodePool"]
    files["EMPTY"].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": lacking}))
    assert run(["compare", *(str(files.get(word, word)) for word in words)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert complaint in error
    assert "Traceback" not in error


def test_a_dump_need_not_have_node_claims(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    """`kubectl get nodes,pods,nodepools,ec2nodeclasses -A -o json` is what is at hand."""
    whole = cluster(0.01)
    answers = []
    for items in (whole, [one for one in whole if one["kind"] != "NodeClaim"]):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert run(["compare", str(path), *WORK, "-o", "json"]) == 0
        shown = capsys.readouterr()
        answers.append(json.loads(shown.out))
    assert "there are no NodeClaims in it: those of 15 nodes are taken to be as their pools" in shown.err
    assert answers[0] == answers[1]
    assert answers[0]["nodes"]["inTheEnd"] < answers[0]["nodes"]["now"]
