"""The page that is served: what it shows of a record of costs, over HTTP. In a browser: test_pages.py."""

from __future__ import annotations

import io
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.api.codec import encode
from dovetail.api.core import Pod
from dovetail.base.clock import HOUR, SECOND
from dovetail.cli.serve_snapshot import is_manifests, read_snapshot
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, Workload
from dovetail.cost.store import Store, StoreFile, write_facts
from dovetail.cost.window import Window
from dovetail.model import labels
from dovetail.runtime.process.clock import WallClock
from dovetail.runtime.process.costapi import cost_routes
from dovetail.runtime.process.logs import JsonLines
from dovetail.testing import pages
from dovetail.testing.pages import served
from dovetail.views.history import LogLines
from dovetail.views.live.present import Present
from dovetail.views.live.routes import past_routes, snapshot_routes
from dovetail.views.report.facts import OF_A_LOG, facts_report

_START = 1_772_452_800 * SECOND
_END = _START + 4 * HOUR


def _facts() -> Facts:
    """Two nodes, one of them for an hour whose price then falls; a pod on each."""
    capacity = {"cpu": 4_000, "memory": 16 << 30}
    stays = Instance("i-1", _START, [Rate(_START, 2 * 10**8)], node="base", capacity=capacity, ready=_START)
    comes = Instance(
        "i-2",
        _START + HOUR,
        [Rate(_START + HOUR, 10**8), Rate(_START + HOUR + HOUR // 2, 5 * 10**7)],
        _START + 2 * HOUR,
        claim="pool-a",
        node="ip-2",
        pool="pool",
        instance_type="m5.xlarge",
        zone="z-a",
        capacity_type="spot",
        capacity=capacity,
        ready=_START + HOUR + 40 * SECOND,
    )
    work = Workload("shop", labels=(("team", "</script>"),), containers=(("app", (("cpu", 1_000),)),))
    pods = [
        PodRun("web-1", work, "i-1", _START),
        PodRun("web-2", work, "i-2", _START + HOUR + 60 * SECOND, _START + 2 * HOUR),
    ]
    return Facts("c1", _START, _END, {"i-1": stays, "i-2": comes}, pods)


@contextmanager
def _served(path: Path) -> Iterator[str]:
    """The routes of the controller's port."""
    past = StoreFile(path)
    with served([*cost_routes(past, lambda: _END), *past_routes("Shop", past, lambda: _END, "24h")]) as url:
        yield url


def _get(url: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def test_what_a_record_shows() -> None:
    report = facts_report("Shop", _facts(), Window(_START, _END))
    lines, instants = report["series"]["lines"], report["series"]["t"]
    at = {minutes: instants.index(_START // SECOND + minutes * 60) for minutes in (30, 76, 106, 200)}
    assert [lines["cost"][at[minutes]] for minutes in (30, 76, 106, 200)] == [0.2, 0.3, 0.25, 0.2]
    assert [lines["nodes.spot"][at[minutes]] for minutes in (30, 76, 200)] == [0, 1, 0]
    assert [lines["pods.running"][at[minutes]] for minutes in (30, 76, 200)] == [1, 2, 1]
    assert lines["use.cpu"][at[30]] == 25.0
    assert report["costs"]["bill"] == pytest.approx(0.2 * 4 + 0.05 + 0.025)
    assert [row["kind"] for row in report["nodes"]] == ["base", "spot"]


def test_what_pods_use_is_beside_what_they_cost() -> None:
    """Of what was asked for, by time, of the pods that were measured; nothing where none was."""
    facts = _facts()
    rows = facts_report("Shop", facts, Window(_START, _END))["costs"]["groups"]["namespace"]
    assert {row["cpuUsed"] for row in rows} == {None}
    facts.pods[0].measured(_START, 250, 1 << 30)
    rows = facts_report("Shop", facts, Window(_START, _END))["costs"]["groups"]["namespace"]
    assert [(row["name"], row["cpuUsed"], row["memoryUsed"]) for row in rows] == [
        ("shop", 0.25, None),
        ("idle", None, None),
    ]


def test_the_routes(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    write_facts(_facts(), path)
    with _served(path) as url:
        status, text, headers = _get(f"{url}/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert "<style" not in text
        assert text.count("</script>") == 4  # no data yet, and three files
        status, text, _ = _get(f"{url}/data.json?window=2h")
        shown: dict[str, Any] = json.loads(text)
        assert (status, shown["period"]["start"]) == (200, _START // SECOND + 3 * 3600)
        assert "label:team" in shown["costs"]["groups"]
        assert "</script>" not in text  # no label ends the element that takes it up
        assert _get(f"{url}/parts.js")[0] == 200
        assert _get(f"{url}/data.json?window=soon")[:2] == (400, "illegal window: soon\n")
        assert _get(f"{url}/", "POST")[0] == 405
        assert _get(f"{url}/../../etc/passwd")[0] == 404
        assert json.loads(_get(f"{url}/allocation?window=4h&aggregate=cluster")[1])["code"] == 200
        before = _get(f"{url}/revision")[1]
        with Store.open(path, write=True) as store:
            more = store.resume()
            more.end = _END + HOUR
            store.write(more)
        assert _get(f"{url}/revision")[1] != before


def test_a_record_with_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    Store.open(path, write=True).close()
    with _served(path) as url:
        assert _get(f"{url}/data.json")[:2] == (503, "the record has nothing in it yet\n")


def test_what_the_controllers_page_adds(tmp_path: Path) -> None:
    """Also while nothing is recorded yet: what is so now needs no record."""
    path, present = tmp_path / "cost.db", pages.present(8, 3, 2)
    Store.open(path, write=True).close()
    with served(past_routes("Shop", StoreFile(path), lambda: pages.END, "24h", present)) as url:
        assert _get(f"{url}/")[0] == 200
        now: dict[str, Any] = json.loads(_get(f"{url}/present.json")[1])
        assert [row["pod"] for row in now["pending"]] == ["shop/wait-0", "shop/wait-1"]
        assert "no room" in now["pending"][0]["why"]
        assert {row["what"] for row in now["decisions"]} == {
            *("launch", "disruption", "given up", "held back", "no place")
        }
        launch = next(row for row in now["decisions"] if row["what"] == "launch")
        assert launch["more"][0].endswith("next best m5a.2xlarge at $0.7780/h")
        assert "at least $0.7450/h is proven necessary, gap 3.0 %" in launch["text"]
        found = json.loads(_get(f"{url}/pods.json?find=team=shop+ip-10-0-0-3.")[1])
        assert [row["pod"] for row in found["rows"]] == ["shop/web-3-0"]
        some = pages.objects(8, 3, 2)
        for obj in some:
            present.changed(type(obj), "DELETED", obj, None)
        gone = json.loads(_get(f"{url}/present.json")[1])
        assert (gone["nodes"], gone["pending"]) == ([], [])


def test_lines_of_what_the_record_does_not_know() -> None:
    at = [pages.START]
    present = Present(lambda: at[0], lambda _: None)
    pods = list(pages.waiting_pods(0, 3))
    for pod in pods:
        present.changed(type(pod), "ADDED", None, pod)
    at[0] += 90 * SECOND
    present.logged("efficiency", {"cost": 200, "lowerBound": 150})
    for pod in pods[1:]:
        present.changed(type(pod), "DELETED", pod, None)
    begin = pages.START // SECOND
    lines = present.lines([begin, begin + 60, begin + 120, begin + 180, begin + 240])
    assert lines["pods.pending"] == [None, 3, 3, 1, 1]  # none while nothing was known, and the most of each
    assert lines["efficiency"] == [None, None, 75.0, 75.0, 75.0]


def test_what_came_and_went_unseen_is_not_kept() -> None:
    present = Present(lambda: pages.START, lambda _: None)
    (pod,) = pages.waiting_pods(0, 1)
    held = sys.getrefcount(pod)
    present.changed(Pod, "ADDED", None, pod)
    assert sys.getrefcount(pod) > held
    present.changed(Pod, "DELETED", pod, None)
    assert sys.getrefcount(pod) == held
    present.changed(Pod, "ADDED", None, pod)
    assert present.pods({})["total"] == 1
    present.changed(Pod, "DELETED", pod, None)
    assert present.pods({})["total"] == 0


def _snapshot(path: Path) -> Path:
    items = [encode(obj) for obj in pages.objects(6, 2, 3)]
    for pool in (item for item in items if item["kind"] == "NodePool"):
        pool["spec"]["template"]["spec"]["requirements"] = [
            {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "m5.xlarge", "m5.2xlarge"]}
        ]
    example = Path(__file__).parents[2] / "examples" / "plan" / "01-node-pool.yaml"
    items += [one for one in yaml.safe_load_all(example.read_text("utf-8")) if one["kind"] == "EC2NodeClass"]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def test_a_snapshot_shows_what_stands_and_what_would_be_done(tmp_path: Path) -> None:
    found = read_snapshot(_snapshot(tmp_path / "cluster.json"), "us-east-1", "200ms")
    with served(snapshot_routes("cluster.json", found.present, found.at, found.absent)) as url:
        shown: dict[str, Any] = json.loads(_get(f"{url}/data.json")[1])
    now = shown["present"]
    assert (shown["past"], len(now["nodes"]), now["pendingTotal"]) == (False, 6, 3)
    assert [row["what"] for row in shown["absent"]] == [
        "What was: cost over time, past decisions, who bore the cost"
    ]
    assert any("is the least, proven" in tile["label"] for tile in now["tiles"])
    moves = [row for row in now["decisions"] if row["what"] == "would disrupt"]
    assert moves
    assert all(row["saved"] > 0 and row["text"].endswith("nothing was done") for row in moves)
    assert all("not looked at" not in row["why"] for row in now["pending"])


def test_a_snapshot_of_which_nothing_can_be_planned_is_shown_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: lone}\nspec: {containers: [{name: a, image: b}]}\n"
        "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\n"
        "spec: {template: {spec: {requirements: [], nodeClassRef: "
        "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gone}}}}\n",
        encoding="utf-8",
    )
    found = read_snapshot(path, "us-east-1", None)
    assert "NodePool a names the EC2NodeClass gone, which is not among the manifests" in found.absent[0][1]
    assert found.present.data()["pendingTotal"] == 1


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("log.jsonl", '{"level":"INFO","time":"2026-03-02T12:00:00Z","message":"starting"}', False),
        ("events.jsonl", '\n{"t":1,"kind":"batch"}\n', False),
        ("cluster.json", '{"apiVersion":"v1","kind":"List","items":[]}', True),
        ("pretty.json", '{\n  "apiVersion": "v1"\n}', True),
        ("pods.yaml", "apiVersion: v1", True),
        ("torn.jsonl", '{"t":1,', False),
    ],
)
def test_files_of_objects_are_told_from_logs(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert is_manifests(path) is expected


class _Clock(WallClock):
    """Stands still."""

    def now(self) -> int:
        return _START + HOUR


def test_the_controllers_log_says_what_was_decided_and_observed() -> None:
    """What the controller writes of each record is read back as the same decision."""
    out = io.StringIO()
    log = JsonLines(_Clock(), "debug", out)
    nodes = [{"nodepool": "p", "instance-type": "m5.large", "zone": "a", "capacity-type": "spot", "pods": 2}]
    log.record("observed.launch", pods=2, nodes=nodes, hourly=96_000_000, lowerBound=90_000_000)
    log.record(
        *("observed.disruption",),
        reason="Empty",
        decision="delete",
        nodes=["n-1"],
        replacements=[],
        pods=0,
        savings=192_000_000,
    )
    log.record("observed.unplaced", pods=["shop/a", "shop/b"])
    log.record("pod.unplaced", pod="shop/c", message="no room")
    log.record("plan.failed", message="no answer")
    log.record("disruption.held", reason="Drifted", message="too many moves")
    log.record("efficiency", cost=200, lowerBound=150)
    lines = out.getvalue().encode().splitlines()
    reader = LogLines("log")
    read = [found for line in lines if (found := reader.read(line))]
    report = facts_report("Shop", _facts(), Window(_START, _END), read, OF_A_LOG)
    assert [(row["what"], row["pods"]) for row in report["decisions"]] == [
        ("would launch", 2),
        ("would disrupt", 0),
        ("no place", 2),
        ("no place", 1),
        ("no plan", 0),
        ("held back", 0),
    ]
    assert report["decisions"][0]["least"] == 0.09
    assert report["decisions"][1]["nodes"] == ["n-1"]
    assert report["series"]["lines"]["efficiency"][-1] == 75.0
    assert report["absent"][0]["what"].startswith("Pods")
