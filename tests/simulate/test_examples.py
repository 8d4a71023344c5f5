"""The examples show what they promise."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.simulate.analysis.disruptions import ended_nodes
from dovetail.simulate.analysis.waiting import waits
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"


# These share the whole evening: twenty seconds of a core.
whole_evening = pytest.mark.long


@pytest.fixture(scope="module")
def evening() -> Result:
    return simulate(load(EXAMPLES / "evening-rush"))


@whole_evening
def test_the_evening_is_served_without_a_broken_rule(evening: Result) -> None:
    summary = evening.summary
    assert summary.violations == []
    assert summary.pods.unbound == 0
    assert summary.pods.pending_seconds.max < 180


@whole_evening
def test_nodes_come_and_go(evening: Result) -> None:
    nodes, cost = evening.summary.nodes, evening.summary.cost
    assert 10 <= nodes.launched <= 24
    assert nodes.terminated >= nodes.launched // 2
    assert nodes.base == 2
    assert cost.spot > cost.on_demand > 0


@whole_evening
def test_the_spot_shortage_costs_retries(evening: Result) -> None:
    assert evening.summary.nodes.launch_failures > 0
    assert any(pod.parts["retries"] > 0 for pod in evening.summary.waiting.all)


@whole_evening
def test_every_wait_adds_up(evening: Result) -> None:
    assert evening.summary.waiting.pods > 20
    for pod in evening.summary.waiting.all:
        assert sum(pod.parts.values()) == pytest.approx(pod.total_seconds, abs=0.01)


@whole_evening
def test_partners_meet_the_maximum_of_their_autoscaler(evening: Result) -> None:
    figures = evening.summary.hpa_at_maximum["shop/partner-api"]
    assert figures.nothing_pending_seconds > 10 * figures.waiting_for_nodes_seconds
    assert evening.summary.traffic["partner-api"].over_capacity > 0


def test_a_share_of_each_service_stays_off_spot_for_an_evening() -> None:
    result = simulate(load(EXAMPLES / "on-demand-share"))
    assert result.summary.violations == []
    assert [record for record in result.records if record["kind"] == "share.mended"] == []
    reclaimed = result.summary.disruptions.by_reason["spot_interrupted"]
    assert reclaimed.nodes >= 3


def test_two_teams_stay_within_a_limit_in_money_that_they_share() -> None:
    result = simulate(load(EXAMPLES / "shared-limits"))
    summary = result.summary
    assert summary.violations == []
    assert summary.pods.unbound == 0
    told = [one for one in result.records if "not enough is left of the shared limit two-teams" in str(one)]
    assert told
    # The last of the shop's pods wait from seven until reports make room at eight.
    assert 50 * 60 < summary.pods.pending_seconds.max < 65 * 60


def test_services_of_one_pod_are_never_away() -> None:
    result = simulate(load(EXAMPLES / "singles"))
    assert result.summary.violations == []
    assert {why: part.nodes for why, part in result.summary.disruptions.by_reason.items()} == {"drifted": 4}
    assert result.summary.nodes.launched == 8
    running: dict[str, set[str]] = {}
    for record in result.records:
        name = str(record.get("pod", ""))
        service = name.rsplit("-", 2)[0]
        if record["kind"] == "pod.running":
            running.setdefault(service, set()).add(name)
        elif record["kind"] in ("pod.evicted", "pod.deleted"):
            running[service].discard(name)
            assert running[service], f"{service} is away"
    assert (
        len(running) == 10 and len([one for one in result.records if one["kind"] == "surge.restarted"]) == 10
    )


def test_a_rotation_renews_every_node_unnoticed() -> None:
    scenario = load(EXAMPLES / "rotation")
    result = simulate(scenario)
    assert result.summary.violations == []
    ended = ended_nodes(result.records)
    by_reason = {reason: part.nodes for reason, part in result.summary.disruptions.by_reason.items()}
    assert by_reason == {"drifted": 4, "expired": 2}
    # The budget holds drifted nodes until 11:00, and the job holds its node until it is done at 12:30.
    hours = [(item.at - scenario.start) / HOUR for item in ended]
    assert hours == sorted(hours)
    assert 3 <= hours[0] < hours[3] < 3.2
    assert 4 <= hours[4] < 4.1
    assert 4.5 <= hours[5] < 4.6
    # One pod of the twelve is missing at a time, for seconds.
    assert result.summary.pods.unbound == 0
    assert result.summary.nodes.launched == 12


@pytest.mark.parametrize(
    ("settings", "reasons", "saved"),
    [("", ["empty"], 0.3), ("settings: {preferencePolicy: Ignore}\n", ["empty", "underutilized"], 0.45)],
)
def test_half_of_the_pods_go_and_so_do_nodes(
    tmp_path: Path, settings: str, reasons: list[str], saved: float
) -> None:
    folder = shutil.copytree(EXAMPLES / "consolidation", tmp_path / "consolidation")
    with (folder / "scenario.yaml").open("a") as file:
        file.write(settings)
    summary = simulate(load(folder)).summary
    assert summary.violations == []
    assert sorted(summary.disruptions.by_reason) == reasons
    assert summary.disruptions.saved_hourly > saved
    # A large node and two small ones cost as much as four small ones.
    assert summary.nodes.launched - summary.nodes.terminated <= 4


def test_a_cluster_is_packed_anew_at_once_and_no_pod_moves_twice(tmp_path: Path) -> None:
    folder = tmp_path / "repack"
    shutil.copytree(EXAMPLES / "repack", folder)
    for file in folder.rglob("*.yaml"):  # a tenth of everything
        file.write_text(file.read_text().replace("replicas: 200", "replicas: 20").replace("600", "60"))
    summary = simulate(load(folder)).summary
    assert summary.violations == []
    assert summary.nodes.launched == 20
    # Sixty pods, eight to a node: eight nodes are needed, and each of the others is emptied once.
    assert summary.nodes.terminated == 12
    assert summary.disruptions.pods_moved == 36
    assert (summary.efficiency.end or 0) > 0.9


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('{at: "10:00", file: nosuch.yaml}', "there is no file 'nosuch.yaml'"),
        ('{at: "10:00", file: 01-node-pools.yaml}', "manifests beside the scenario are applied at the start"),
        ('{at: "25:00", file: changes/new-image.yaml}', "'25:00' is not a time of day"),
        ('{at: "10:00", files: x}', "unknown field 'files'; did you mean 'file'?"),
    ],
)
def test_a_change_that_cannot_be_made_is_named(change: str, complaint: str, tmp_path: Path) -> None:
    folder = tmp_path / "rotation"
    shutil.copytree(EXAMPLES / "rotation", folder)
    file = folder / "scenario.yaml"
    file.write_text(re.sub(r"  - \{ at: .*", f"  - {change}", file.read_text()))
    with pytest.raises(InputError, match=re.escape(complaint)):
        load(folder)


TRACE = """name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time
before,4000,8192,0,0,100
small,2000,4096,0,12780000,12785000
gpu,8000,16384,1,12783600,12800000
later,16000,32768,0,12801600,12803600
after,1000,1024,0,12999999,13000000
"""


def test_a_trace_is_played(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(TRACE)
    scenario = load(EXAMPLES / "pod-trace", trace=path).until(90 * MINUTE)
    records = simulate(scenario).records
    trace_pods = ("default/small", "default/gpu", "default/later")
    created = [record["pod"] for record in records if record["kind"] == "pod.created"]
    bound = [record["pod"] for record in records if record["kind"] == "pod.bound"]
    assert [pod for pod in created if pod.startswith("default/")] == list(trace_pods)
    assert [pod for pod in bound if pod.startswith("default/")] == list(trace_pods)
    (gpu,) = [
        item for item in records if item["kind"] == "claim.created" and "nvidia.com/gpu" in item["requests"]
    ]
    assert gpu["requests"]["nvidia.com/gpu"] == 1


def test_a_trace_has_to_be_named() -> None:
    with pytest.raises(InputError, match="does not say which trace"):
        load(EXAMPLES / "pod-trace")


def test_a_cron_trigger_of_keda_buys_five_nodes_each_hour_and_gives_them_back() -> None:
    summary = simulate(load(EXAMPLES / "keda-cron")).summary
    assert summary.violations == []
    assert (summary.pods.created, summary.pods.unbound) == (10, 0)
    assert (summary.nodes.launched, summary.nodes.terminated) == (10, 10)


def test_placeholders_wait_for_nodes_in_the_stead_of_others() -> None:
    scenario = load(EXAMPLES / "placeholders")
    result = simulate(scenario)
    assert result.summary.violations == []
    pushed = [r for r in result.records if r["kind"] == "event" and r["reason"] == "Preempted"]
    grown = result.start + 600 * SECOND
    waited = [
        wait.pending
        for wait in waits(result.records, result.end)
        if wait.created >= grown and not wait.placeholder
    ]
    # The first six find a placeholder each; nodes for those that follow are on their way by then.
    assert len(waited) == 12
    assert sorted(waited)[5] < SECOND
    assert len(pushed) >= 6
    assert all("placeholder" in r["object"] for r in pushed)


def test_the_room_of_a_buffer_is_taken_at_once_and_comes_again() -> None:
    result = simulate(load(EXAMPLES / "buffers"))
    assert result.summary.violations == []
    grown = result.start + 600 * SECOND
    waited = [wait.pending for wait in waits(result.records, result.end) if wait.created >= grown]
    assert len(waited) == 12
    assert max(waited) < SECOND
    bought = [record for record in result.records if record["kind"] == "buffer.launched"]
    assert all(record["buffers"] == ["default/web"] for record in bought)
    assert sum(record["t"] >= grown for record in bought) == 4  # for twelve pods, three on each
