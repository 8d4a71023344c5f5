"""Costs of whole runs: the record that the controller keeps, the one of the simulation, and the bill."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.core import PersistentVolume
from dovetail.api.meta import Meta
from dovetail.base.clock import HOUR
from dovetail.base.errors import InputError
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cost.aggregate import Options, add_idle, aggregate, shares_of
from dovetail.cost.allocation import IDLE
from dovetail.cost.api import answer
from dovetail.cost.facts import Facts, VolumeRun, read_facts
from dovetail.cost.idle import causes
from dovetail.cost.ledger import allocations, stepped
from dovetail.cost.store import Store, StoreFile, write_facts
from dovetail.cost.window import Window
from dovetail.runtime.operator import CostBook, Ports
from dovetail.runtime.volume_costs import VolumeRecord
from dovetail.simulate import cluster
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.units.money import NANO_DOLLARS

_Text = pytest.CaptureFixture[str]
_BURST = Path("examples/burst")
_DAY = 24 * HOUR


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A short run; its controllers kept a record as they do on a real cluster."""
    path = tmp_path_factory.mktemp("costs") / "kept.db"
    with pytest.MonkeyPatch.context() as patch, Store.open(path, write=True) as store:
        book = CostBook(store, 90 * _DAY, lambda _: 0)
        patch.setattr(cluster, "Ports", partial(Ports, costs=book))
        return simulate(load(_BURST)), path


def _bill(result: Result) -> int:
    """As the provider counts it: for every instance its price for as long as it was there."""
    started = {one["instance"]: one for one in result.records if one["kind"] == "instance.started"}
    ended = {one["instance"]: one["t"] for one in result.records if one["kind"] == "instance.terminated"}
    return sum(
        one["price"] * (ended.get(name, result.end) - one["t"]) // HOUR for name, one in started.items()
    )


def test_parts_of_a_run_sum_to_its_bill(played: tuple[Result, Path]) -> None:
    result, _ = played
    facts = read_facts(result.records, result.end)
    window = Window(result.start, result.end)
    (groups,) = shares_of([allocations(facts, window)], Options(("namespace",), include_idle=True))
    assert groups.total == _bill(result) > 0
    assert round(groups.total / 1e9, 4) == result.summary.cost.total


def test_the_controllers_record_has_what_is_paid_whatever_an_overlay_says(tmp_path: Path) -> None:
    folder = tmp_path / "burst"
    shutil.copytree(_BURST, folder)
    with (folder / "scenario.yaml").open("a") as file:
        file.write("\nsettings: {featureGates: {NodeOverlay: true}}\n")
    (folder / "overlay.yaml").write_text(
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: cheap}\n"
        "spec: {price: '0.001', requirements: ["
        "{key: node.kubernetes.io/instance-type, operator: In, values: [r5.large]}]}\n"
    )
    with pytest.MonkeyPatch.context() as patch, Store.open(tmp_path / "kept.db", write=True) as store:
        patch.setattr(cluster, "Ports", partial(Ports, costs=CostBook(store, 90 * _DAY, lambda _: 0)))
        result = simulate(load(folder))
    assert "prices of NodeOverlays" in {one.subject for one in load(folder).assumptions}
    recorded = read_facts(result.records, result.end)
    kept = StoreFile(tmp_path / "kept.db").read(result.start, result.end)
    managed = [one for one in recorded.instances.values() if one.claim]
    assert {one.instance_type for one in managed} == {"r5.large"}
    for one in managed:
        assert kept.instances[one.id].rates[0].price == one.rates[0].price > NANO_DOLLARS // 10


def test_the_controllers_record_agrees_with_what_happened(played: tuple[Result, Path]) -> None:
    """To the second, as objects state instants, and with the pods that ran."""
    result, path = played
    recorded = read_facts(result.records, result.end)
    kept = StoreFile(path).read(result.start, result.end)
    managed = {one.id: one for one in recorded.instances.values() if one.claim}
    assert managed.keys() == {one.id for one in kept.instances.values() if one.claim}
    for name, one in managed.items():
        own = kept.instances[name]
        assert abs(own.start - one.start) < 20 * 10**9
        assert (own.node, own.instance_type, own.zone) == (one.node, one.instance_type, one.zone)
        assert own.rates[0].price == one.rates[0].price
        assert own.capacity == one.capacity
    assert {(run.workload, run.name) for run in kept.pods} == {
        (run.workload, run.name) for run in recorded.pods
    }


def test_a_restart_goes_on_with_what_was_open(played: tuple[Result, Path], tmp_path: Path) -> None:
    result, _ = played
    facts = read_facts(result.records, result.end)
    path = tmp_path / "resumed.db"
    write_facts(facts, path)
    with Store.open(path, write=True) as store:
        again = store.resume()
        open_runs = [one for one in facts.pods if one.end is None]
        assert [one.name for one in again.pods] == [one.name for one in open_runs] != []
        for one in again.pods:
            one.end = result.end
        store.write(again)
    with Store.open(path) as store:
        found = store.read(result.start, result.end)
        assert len(found.pods) == len(facts.pods)
        assert not [one for one in found.pods if one.end is None]


def _thirty_days() -> Facts:
    """A small cluster's month, as a log has it: a node that stays, one each working day, pods on both."""
    records: list[dict[str, Any]] = []

    def note(at: int, kind: str, **fields: Any) -> None:
        records.append({"t": at, "kind": kind, **fields})

    def machine(at: int, name: str, price: int) -> None:
        note(at, "instance.started", instance=f"i-{name}", claim=name, price=price, volumes=2_191_780)
        capacity = {"cpu": 3_920, "memory": 15 << 30}
        note(at + 40 * 10**9, "node.created", node=name, claim=name, pool="web", capacity=capacity)
        note(at + 50 * 10**9, "node.ready", node=name)

    machine(0, "base", 192_333_333)
    for day in range(30):
        at = day * _DAY + 8 * HOUR + 123_456_789
        machine(at, f"day-{day}", 61_234_567 + day)
        for number, node in enumerate(("base", f"day-{day}", f"day-{day}")):
            pod = f"shop/web-{day}-{number}"
            requests = {"cpu": 700 + number, "memory": (1 << 30) + number}
            note(at + 60 * 10**9, "pod.created", pod=pod, requests=requests, labels={"team": f"t{number}"})
            note(at + 61 * 10**9, "pod.bound", pod=pod, node=node)
            note(at + 9 * HOUR, "pod.deleted", pod=pod, node=node)
        note(at + 10 * HOUR + 987_654_321, "instance.terminated", instance=f"i-day-{day}")
    return read_facts(sorted(records, key=lambda one: one["t"]), 30 * _DAY)


@pytest.mark.parametrize("step", [30 * _DAY, _DAY, HOUR * 7])
def test_thirty_days_sum_to_the_bill(step: int) -> None:
    facts = _thirty_days()
    window = Window(0, 30 * _DAY)
    question = Options(("label:team",), include_idle=True, share_idle=True, accumulate="all", whole=True)
    (month,) = shares_of(stepped(facts, window.steps(step)), question)
    bill = 192_333_333 * 30 * 24
    for day in range(30):
        bill += (61_234_567 + day) * (10 * HOUR + 987_654_321) // HOUR
    assert month.total == bill
    made, nodes = allocations(facts, window)
    idle = causes(facts, made, nodes, lambda work, _: work.namespace)
    assert sum(idle.values()) + made.total == bill
    assert {one.kind for one in idle} == {"starting", "empty", "unbalanced", "free"}


def test_the_command(played: tuple[Result, Path], tmp_path: Path, capsys: _Text) -> None:
    result, kept = played
    path = tmp_path / "cost.db"
    write_facts(read_facts(result.records, result.end), path)
    assert run(["cost", str(path), "--idle", "--why", "-o", "json"]) == OK
    answer = json.loads(capsys.readouterr().out)
    nanos = [round(float(one["total"]) * 1e9) for one in answer["groups"]]
    assert sum(nanos) == round(float(answer["bill"]) * 1e9) == _bill(result)
    idle = next(one for one in answer["groups"] if one["name"] == IDLE)
    parts = sum(round(float(one["dollars"]) * 1e9) for one in answer["causesOfIdle"])
    assert parts == round(float(idle["total"]) * 1e9)
    assert run(["cost", str(kept), "--aggregate", "controller", "--share", "-o", "csv"]) == OK
    assert capsys.readouterr().out.startswith("start,end,name,cpu,")
    assert run(["cost", str(path), "--aggregate", "label:app"]) == OK
    assert "of it idle $" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--aggregate", "team:a"], "'team:a' is nothing to aggregate by"),
        (["--window", "7x"], "illegal window: 7x"),
        (["--window", "1h offset 9d"], "is not within what is known"),
        (["--filter", "namespace=a"], "unexpected character '=' at position 9"),
        (["--step", "1s"], "'1s' is less than 1m"),
        (["--step", "1m", "--accumulate", "month"], "window duration must equal 24 hours; got:1m0s"),
        (["--overhead-hourly", "support"], "'support' is not NAME=DOLLARS"),
    ],
)
def test_what_the_command_refuses(
    played: tuple[Result, Path], capsys: _Text, arguments: list[str], complaint: str
) -> None:
    assert run(["cost", str(played[1]), *arguments]) == BAD_INPUT
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_files_that_are_no_records(tmp_path: Path, capsys: _Text) -> None:
    for name, text in (("none.db", None), ("text.txt", b"hello\n"), ("other.db", b"SQLite format 3\0rest")):
        path = tmp_path / name
        if text is not None:
            path.write_bytes(text)
        assert run(["cost", str(path)]) == BAD_INPUT
        assert name in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot be used as"):
        Store.open(tmp_path / "no-folder" / "cost.db", write=True)


def _ask(path: str, past: StoreFile, **query: str) -> tuple[int, Any]:
    reply = answer(path, query, past, past.span[1] - 1)
    assert reply is not None
    body = reply.body.decode()
    return reply.status, json.loads(body) if reply.kind == "application/json" else body


def test_opencosts_api(played: tuple[Result, Path]) -> None:
    """The same figures as the ledger's, nodes and their disks apart."""
    result, path = played
    past = StoreFile(path)
    status, answer = _ask("/allocation", past, window="1h", aggregate="namespace", includeIdle="true")
    assert status == answer["code"] == 200
    (groups,) = answer["data"]
    status, assets = _ask("/model/assets", past, window="1h")
    disks = sum(one["totalCost"] for one in assets["data"].values() if one["type"] == "Disk")
    nodes = sum(one["totalCost"] for one in assets["data"].values() if one["type"] == "Node")
    paid = sum(one["totalCost"] for one in groups.values())
    assert paid == pytest.approx(nodes, abs=1e-4)
    facts = past.read(result.start, result.end)
    assert nodes + disks == pytest.approx(facts.bill(0, past.span[1]) / 1e9, abs=1e-3)
    made, costs = allocations(facts, Window(result.end - HOUR, result.end), disks=True)
    add_idle(made, costs)
    assert paid == pytest.approx(aggregate(made, Options(("namespace",))).total / 1e9, abs=1e-3)
    _, short = _ask("/allocation/compute/summary", past, window="1h", step="30m", aggregate="cluster")
    assert len(short["data"]["sets"]) == 2


def test_what_each_bears_of_an_asset(played: tuple[Result, Path]) -> None:
    past = StoreFile(played[1])
    query = {"window": "1h", "aggregate": "namespace", "includeIdle": "true", "step": "30m"}
    query |= {"includeProportionalAssetResourceCosts": "true", "accumulate": "true"}
    _, answer = _ask("/allocation", past, **query)
    (groups,) = answer["data"]
    parts = {name: one.get("proportionalAssetResourceCosts") for name, one in groups.items()}
    (cluster,) = {place for part in parts.values() for place in part or ()}
    cost = sum(one["cpuCost"] for one in groups.values())
    for name in ("shop", "kube-system"):
        if name in groups:
            own = parts[name][cluster]
            assert own["cpuPercentage"] == pytest.approx(groups[name]["cpuCost"] / cost, abs=1e-3)
            assert set(own) == {
                *("cluster", "cpuPercentage", "gpuPercentage", "ramPercentage", "nodeResourceCostPercentage")
            }
    _, answer = _ask("/allocation", past, **query, idleByNode="true")
    some = next(one for name, one in answer["data"][0].items() if name != IDLE)
    place, own = next(iter(some["proportionalAssetResourceCosts"].items()))
    assert place == f"{own['cluster']},{own['node']}"


@pytest.mark.parametrize("aggregate", ["cluster", "node", "namespace", "controllerKind", "controller", "pod"])
def test_what_opencosts_web_ui_asks(played: tuple[Result, Path], aggregate: str) -> None:
    """Its table and its picture: a set a day, each with the names that it draws and adds up."""
    query = {"window": "2d", "aggregate": aggregate, "includeIdle": "true", "step": "1d"}
    status, answer = _ask("/model/allocation/compute", StoreFile(played[1]), **query, accumulate="false")
    assert (status, len(answer["data"])) == (200, 2)
    shown = [one for day in answer["data"] for one in day.values()]
    assert shown
    for one in shown:
        costs = [one[f"{name}Cost"] for name in ("cpu", "ram", "gpu", "pv", "network", "shared", "external")]
        assert one["totalCost"] == pytest.approx(sum(costs), abs=5e-5)
        assert {
            "name",
            "properties",
            "window",
            "start",
            "end",
            "cpuEfficiency",
            "ramEfficiency",
        } <= one.keys()
        assert one["totalEfficiency"] >= 0
    query["accumulate"] = "true"
    _, answer = _ask("/model/allocation/compute", StoreFile(played[1]), **query)
    (whole,) = answer["data"]
    paid = sum(one["totalCost"] for one in shown)
    assert sum(one["totalCost"] for one in whole.values()) == pytest.approx(paid, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ('assetType:"Node"', {"Node"}),
        ('assetType!:"Node"', {"Disk"}),
        ('category:"Storage"+cluster:"cluster"', {"Disk"}),
        ('name:"nothing"', set()),
        ('account:"1"', set()),
        ('label[team]:"a"', set()),
        ('provider:"AWS"|service:"x"', {"Node", "Disk"}),
    ],
)
def test_filters_of_assets(played: tuple[Result, Path], text: str, types: set[str]) -> None:
    status, answer = _ask("/assets", StoreFile(played[1]), window="1h", filter=text)
    assert (status, {one["type"] for one in answer["data"].values()}) == (200, types)


def test_a_filter_of_assets_that_is_none(played: tuple[Result, Path]) -> None:
    status, answer = _ask("/assets", StoreFile(played[1]), window="1h", filter='pod:"a"')
    assert status == 400
    assert "at 'pod': expect filter field" in answer


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({}, 400, "Invalid 'window' parameter: illegal window: \n"),
        ({"window": "soon"}, 400, "Invalid 'window' parameter: illegal window: soon\n"),
        ({"window": "1d", "accumulateBy": "hour"}, 500, "window duration must equal 1 hour; got:24h0m0s"),
        ({"window": "1d", "filter": "pod"}, 500, "parsing filter: 1 error occurred"),
        (
            {"window": "1d", "includeProportionalAssetResourceCosts": "true"},
            400,
            "bad request - includeIdle must be set true if includeProportionalAssetResourceCosts is true",
        ),
        ({"window": "10w", "step": "1m"}, 400, "more than 5000 steps"),
    ],
)
def test_what_the_api_refuses(
    played: tuple[Result, Path], query: dict[str, str], status: int, text: str
) -> None:
    found, answer = _ask("/allocation/compute", StoreFile(played[1]), **query)
    assert found == status
    assert text in (answer if isinstance(answer, str) else answer["message"])


def _groups(past: StoreFile, **query: str) -> list[dict[str, Any]]:
    status, found = _ask("/allocation", past, **{"window": "2h", "aggregate": "namespace"} | query)
    assert status == 200
    data: list[dict[str, Any]] = found["data"]
    return data


def _paid(sets: list[dict[str, Any]]) -> float:
    return float(sum(one["totalCost"] for groups in sets for one in groups.values()))


_TIMES = "2026-03-02T00:00:00Z,2026-03-03T00:00:00Z", "1772409600,1772496000", "1772409600-1772496000"


@pytest.mark.parametrize("window", ["today", "week", "month", "30m", "12h", "7d", "1d offset 0h", *_TIMES])
def test_documented_windows(played: tuple[Result, Path], window: str) -> None:
    (groups,) = _groups(StoreFile(played[1]), window=window)
    assert "default" in groups


_KEYS = (
    *("cluster", "node", "namespace", "controllerKind", "controller", "service", "pod", "container"),
    *("label:app", "annotation:a", "namespace,label:app", "all", ""),
)


@pytest.mark.parametrize("aggregate", _KEYS)
def test_documented_keys(played: tuple[Result, Path], aggregate: str) -> None:
    """Whatever they are grouped by, groups and idle cost what the nodes do."""
    past = StoreFile(played[1])
    sets = _groups(past, aggregate=aggregate, includeIdle="true")
    _, assets = _ask("/assets", past, window="2h")
    nodes = sum(one["totalCost"] for one in assets["data"].values() if one["type"] == "Node")
    assert _paid(sets) == pytest.approx(nodes, abs=1e-3)


def test_documented_steps_and_sums(played: tuple[Result, Path]) -> None:
    past = StoreFile(played[1])
    whole = _groups(past)
    assert _groups(past, resolution="30m") == whole  # every instant is known
    pieces = _groups(past, step="30m")
    assert len(pieces) == 4
    assert _paid(pieces) == pytest.approx(_paid(whole), abs=1e-3)
    for together in ({"accumulate": "true"}, {"accumulateBy": "all"}):
        (one,) = _groups(past, step="30m", **together)
        assert _paid([one]) == pytest.approx(_paid(whole), abs=1e-3)
    assert len(_groups(past, step="1h", accumulateBy="hour")) == 2


def test_documented_idle(played: tuple[Result, Path]) -> None:
    past = StoreFile(played[1])
    (bare,), (idle,) = _groups(past), _groups(past, includeIdle="true")
    assert idle.keys() - bare.keys() == {IDLE}
    assert _groups(past, idle="true") == [idle]  # Kubecost's word for it
    for by_node in ("false", "true"):
        (shared,) = _groups(past, includeIdle="true", shareIdle="true", idleByNode=by_node)
        left = shared.pop(IDLE, {"totalCost": 0})["totalCost"]  # of nodes without pods
        assert _paid([shared]) + left == pytest.approx(_paid([idle]), abs=1e-3)
        assert shared["default"]["totalCost"] > bare["default"]["totalCost"]


_IDLE_WORDS = (
    *(("offset", "1"), ("limit", "1"), ("sortBy", "cpuCost"), ("format", "csv"), ("resolution", "10m")),
    *(("sharelb", "true"), ("shareTenancyCosts", "true"), ("external", "true"), ("reconcile", "false")),
)


@pytest.mark.parametrize(("name", "value"), _IDLE_WORDS)
def test_documented_words_without_effect(played: tuple[Result, Path], name: str, value: str) -> None:
    past = StoreFile(played[1])
    assert _groups(past, aggregate="pod", **{name: value}) == _groups(past, aggregate="pod")


def test_assets_are_one_answer_and_other_bills_none(played: tuple[Result, Path]) -> None:
    past = StoreFile(played[1])
    whole = _ask("/assets", past, window="2h")
    assert _ask("/assets", past, window="2h", aggregate="type", accumulate="false", step="1h") == whole
    for path in ("/cloudCost", "/customCost", "/model/cloudCost"):
        assert answer(path, {"window": "2h"}, past, past.span[1]) is None  # 404


@pytest.mark.parametrize(
    ("older", "text"),
    [
        ({"filterNamespaces": "default"}, 'namespace:"default"'),
        ({"filterNamespaces": "de*,none"}, 'namespace<~:"de","none"'),
        (
            {"filterControllerKinds": "deployment", "filterPods": "w*"},
            'controllerKind:"deployment"+pod<~:"w"',
        ),
        ({"filterControllers": "deployment:web"}, 'controllerKind:"deployment"+controllerName:"web"'),
        ({"filterControllers": "web"}, 'controllerName:"web"'),
        ({"filterLabels": "app:web,app:no*"}, 'label[app]:"web"'),
        ({"filterNodes": "none", "filterClusters": "cluster"}, 'node:"none"'),
        ({"filterServices": "none", "filter": 'namespace:"default"'}, 'services:"none"'),
        ({"filterContainers": "web", "filterAnnotations": "a:b"}, 'annotation[a]:"b"'),
    ],
)
def test_both_languages_of_filters(played: tuple[Result, Path], older: dict[str, str], text: str) -> None:
    past = StoreFile(played[1])
    assert _groups(past, aggregate="pod", **older) == _groups(past, aggregate="pod", filter=text)


def test_what_others_bear(played: tuple[Result, Path]) -> None:
    """Kubecost's words: nothing is lost, a month's cost is a month's, and even is even."""
    past = StoreFile(played[1])
    query = {"aggregate": "label:app", "includeIdle": "true"}
    (plain,) = _groups(past, **query)
    (shared,) = _groups(past, **query, shareLabels="app:batch,app:ca*")
    assert shared.keys() == {"web", "worker", IDLE}
    assert _paid([shared]) == pytest.approx(_paid([plain]), abs=1e-3)
    borne = plain["batch"]["totalCost"] + plain["cache"]["totalCost"]
    assert shared["web"]["sharedCost"] + shared["worker"]["sharedCost"] == pytest.approx(borne, abs=1e-3)
    assert _groups(past, **query, shareNamespaces="none") == [plain]
    (dear,) = _groups(past, aggregate="label:app", shareCost="730", shareSplit="even")
    assert [one["sharedCost"] for one in dear.values()] == [pytest.approx(0.5, abs=1e-3)] * 4  # of two hours


@pytest.mark.parametrize(
    "query",
    [
        {"shareSplit": "fair"},
        {"shareCost": "much"},
        {"shareCost": "-1"},
        {"shareLabels": "app"},
        {"filterNamespaces": 'a"b'},
        {"filterLabels": ":x"},
    ],
)
def test_what_kubecosts_parameters_cannot_be(played: tuple[Result, Path], query: dict[str, str]) -> None:
    status, answer = _ask("/allocation", StoreFile(played[1]), window="1h", **query)
    assert status == 400
    assert answer.startswith(f"Invalid '{next(iter(query))}' parameter: ")


def test_other_paths_are_not_answered(played: tuple[Result, Path]) -> None:
    assert answer("/metrics", {}, StoreFile(played[1]), 0) is None


_DISKS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
parameters: {type: gp3, iops: "4000"}
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: queue}
spec:
  replicas: 2
  serviceName: queue
  selector: {matchLabels: {app: queue}}
  template:
    metadata: {labels: {app: queue}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: queue, image: queue, resources: {requests: {cpu: 500m, memory: 1Gi}}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 100Gi}}}
"""


def test_persistent_volumes_are_in_the_controllers_record(tmp_path: Path) -> None:
    """Pods bear what they mount; what none mounts is borne by its namespace; parts are the bill."""
    folder, path = tmp_path / "disks", tmp_path / "kept.db"
    fewer = _DISKS.partition("---\n")[2].replace("replicas: 2", "replicas: 1")
    shutil.copytree(_BURST, folder)
    (folder / "02-workloads.yaml").write_text(_DISKS, "utf-8")
    (folder / "changes" / "batch.yaml").write_text(fewer, "utf-8")
    scenario = (folder / "scenario.yaml").read_text("utf-8")
    (folder / "scenario.yaml").write_text(scenario.replace("10:00:45", "10:01:30"), "utf-8")
    with pytest.MonkeyPatch.context() as patch, Store.open(path, write=True) as store:
        book = CostBook(store, 90 * _DAY, lambda _: 0)
        patch.setattr(cluster, "Ports", partial(Ports, costs=book))
        result = simulate(load(folder))
    kept = StoreFile(path).read(result.start, result.end)
    # 100 GiB of gp3 at $0.08, and 1,000 IOPS above those that are free at $0.005, a month of 730 h
    assert [(one.claim, one.size, one.price) for one in kept.volumes] == [
        (f"default/data-queue-{number}", 100 << 30, round((8 + 5) * 1e9 / 730)) for number in (0, 1)
    ]
    window = Window(result.start, result.end)
    (groups,) = shares_of([allocations(kept, window)], Options(("namespace", "pod"), include_idle=True))
    assert groups.total == kept.bill(window.start, window.end)
    found, _ = allocations(kept, window)
    borne = {one.properties.pod: sum(part.cost for part in one.volumes.values()) for one in found}
    assert 0 < borne["queue-1"] < borne["queue-0"]
    assert borne["__unmounted__"] > 0
    assets = answer("/assets", {"window": "1h"}, StoreFile(path), result.end)
    assert assets is not None
    disks = [one for one in json.loads(assets.body)["data"].values() if one["type"] == "Disk"]
    assert sum(one.get("bytes") == 100 << 30 for one in disks) == 2


def test_volumes_that_went_while_the_controller_was_away_have_ended(tmp_path: Path) -> None:
    """And so have mounts of pods that are no more; others go on."""
    mounts = [("shop/stays", 5, None), ("shop/gone", 5, None)]
    known = Facts("c", 0, 100)
    known.volumes = [
        VolumeRun("here", 0, 10**9, 1, claim="shop/data", mounts=mounts),
        VolumeRun("gone", 0, 10**9, 1, claim="shop/old"),
    ]
    path = tmp_path / "kept.db"
    write_facts(known, path)
    with Store.open(path, write=True) as store:
        facts = store.resume()
        record = VolumeRecord(lambda _: None, facts.volumes, facts.end)
        volume = PersistentVolume(metadata=Meta(name="here"))
        record.changed(volume, 200)
        record.begin({"shop/stays"})
        record.ended("other", 300)
        facts.end = 300
        store.write(facts)
        record.forget_ended(0)
    here, gone = sorted(StoreFile(path).read(0, 300).volumes, key=lambda one: one.name, reverse=True)
    assert (here.end, gone.end) == (None, 100)
    assert here.mounts == [("shop/stays", 5, None), ("shop/gone", 5, 100)]
    assert [one.name for one in facts.volumes] == ["here"]
