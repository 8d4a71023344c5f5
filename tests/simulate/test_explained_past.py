"""What `dovetail explain` says of the past: a pod's wait and what ends it sooner, what plans came to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.questions import write
from dovetail.cli.main import run
from dovetail.simulate.analysis.waiting import waits
from dovetail.simulate.experiment.variant import Variant
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.changed import Change

ON_DEMAND_TOO = "NodePool/general.spec.template.spec.requirements[0].values=[spot, on-demand]"


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Result]:
    """Question 3's example: its folder, its log, and how it went."""
    folder = write("waiting", tmp_path_factory.mktemp("past") / "shop", 0.2)
    log = folder.with_name("events.jsonl")
    return folder, log, simulate(Variant("", folder).load(1, None), events=log)


def longest(result: Result) -> Any:
    return max(waits(result.records, result.end), key=lambda one: one.total)


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["explain", *words, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_what_would_have_made_a_wait_shorter_does(
    evening: tuple[Path, Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, log, result = evening
    pod = longest(result).pod
    found = explained(capsys, "wait", pod, "--history", str(log), "--within", "60s")
    assert found["seconds"] > 200 and sum(found["parts"].values()) == pytest.approx(found["seconds"])
    first = found["ways"][0]
    assert first["without"] == ["retries"] and "more instance types, zones or capacity types" in first["text"]
    assert [one["without"] for one in found["ways"]][1][
        0
    ] == "batching"  # no more causes, but a place at once
    cured = simulate(Variant("", folder, settings=(Change.parse(ON_DEMAND_TOO),)).load(1, None))
    assert longest(cured).total / 1e9 == pytest.approx(first["seconds"], rel=0.25)


def test_what_plans_came_to(evening: tuple[Path, Path, Result], capsys: pytest.CaptureFixture[str]) -> None:
    _, log, result = evening
    found = explained(capsys, "realised", "--history", str(log))
    records = [one for one in result.records if one["kind"] == "plan.realised"]
    assert found["plans"] == len(records) == found["settled"]["plans"]
    assert found["settled"]["nodes"]["failed"] > 0 < found["settled"]["pods"]["here"]
    assert 0 <= found["claimedGap"] < 0.05 and 0 < found["cluster"]["gap"] < 1
    assert (
        found["settled"]["realisedHourly"] < found["settled"]["plannedHourly"]
    )  # of the failed ones nothing
    assert run(["explain", "realised", "--history", str(log)]) == 0
    assert "Placed: " in capsys.readouterr().out


def lines() -> Iterator[dict[str, Any]]:
    """Of the controller: a batch, its plan, a node."""
    node = {"NodeClaim": {"name": "general-1"}, "Node": {"name": "n1"}, "NodePool": {"name": "general"}}
    yield {"time": "2026-03-02T21:14:02.000Z", "message": "found provisionable pod(s)", "Pods": "shop/web-1"}
    yield {"time": "2026-03-02T21:14:03.000Z", "message": "computed new nodeclaim(s) to fit pod(s)"}
    yield {"time": "2026-03-02T21:14:05.000Z", "message": "launched nodeclaim", **node}
    bought = {
        "claim": "general-1",
        "pods": ["shop/web-1"],
        "instanceType": "m5.large",
        "zone": "a",
        "price": 1,
    }
    yield {
        "time": "2026-03-02T21:14:06.000Z",
        "message": "decision record",
        "kind": "decision",
        "t": 1772486046 * 10**9,
        "claims": [bought],
        "hourly": 1,
        "lowerBound": 1,
        "pods": 1,
    }
    yield {"time": "2026-03-02T21:14:40.000Z", "message": "registered nodeclaim", **node}
    yield {"time": "2026-03-02T21:14:44.000Z", "message": "initialized nodeclaim", **node}


POD = """
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, creationTimestamp: "2026-03-02T21:14:00Z"}
spec: {nodeName: n1, containers: [{name: c, image: web}]}
status:
  conditions:
  - {type: PodScheduled, status: "True", lastTransitionTime: "2026-03-02T21:14:45Z"}
  - {type: Ready, status: "True", lastTransitionTime: "2026-03-02T21:14:50Z"}
"""


@pytest.fixture
def controller(tmp_path: Path) -> tuple[str, ...]:
    log, snapshot = tmp_path / "controller.log", tmp_path / "pods.yaml"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines()))
    snapshot.write_text(POD)
    return ("--history", str(log), "-f", str(snapshot))


def test_the_log_of_the_controller_and_a_snapshot_do_as_well(
    controller: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(capsys, "wait", "shop/web-1", *controller)
    parts = {part: length for part, length in found["parts"].items() if length}
    assert parts == {"batching": 2, "solve": 1, "launch": 2, "join": 39, "scheduling": 1, "start": 5}
    assert found["node"] == "n1" and found["pendingSeconds"] == 45


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["wait", "shop/web-1"], "give a snapshot that has the pod with -f"),
        (["wait", "shop/web-2", "-f"], "did you mean shop/web-1?"),
        (["wait", "shop/web-1", "-f", "--within", "4x"], "'4x' is not a duration"),
        (["wait", "shop/web-1", "-f", "--within", "0s"], "must be longer than 0s"),
        (["wait", "shop/web-1", "-f", "--timezone", "Mars"], "'Mars' is no time zone"),
        (["realised", "--empty"], "the log has no plans"),
    ],
)
def test_what_cannot_be_said(
    words: list[str],
    complaint: str,
    controller: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = list(controller) if "-f" in words else list(controller[:2])
    if "--empty" in words:
        (tmp_path / "empty.log").write_text("")
        given[1] = str(tmp_path / "empty.log")
    assert run(["explain", *(word for word in words if word not in ("-f", "--empty")), *given]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


STRAY = ("Warning: something else", '{"message": "launched nodeclaim"}', '{"message": []}', '{"kind"')


def test_a_log_as_it_is_collected(
    evening: tuple[Path, Path, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With stamps and the pod's name, words of other programs, and an end that is cut off."""
    _, log, _ = evening
    expected = explained(capsys, "realised", "--history", str(log))
    collected = tmp_path / "controller.log"
    stamped = (
        f"[pod/dovetail-0/controller] 2026-03-02T10:00:00Z {line}"
        for line in log.read_text().splitlines(True)
    )
    collected.write_text(STRAY[0] + "\n\n" + "".join(stamped) + "\n".join(STRAY[1:]))
    assert run(["explain", "realised", "--history", str(collected), "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == expected
    assert "4 lines are left out of the log, as not understood: line 1 is the first" in shown.err


@pytest.mark.parametrize("command", [("explain", "realised", "--history"), ("cost",), ("top", "--log")])
def test_what_is_no_log(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text("\n" + "\n".join(STRAY[:1] * 2_000))
    assert run([*command, str(path)]) == 2
    assert f"{path}:2: is no JSON object" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "record", "lacking"),
    [
        (("wait", "shop/a"), {"kind": "pod.created"}, "'pod'"),
        (("wait", "shop/a"), {"kind": "pod.created", "pod": "shop/a"}, ""),
        (("wait", "shop/a"), {"kind": "node.created"}, "'node'"),
        (("node", "n"), {"kind": "node.created", "node": "n"}, ""),
        (("realised",), {"kind": "plan"}, ""),
    ],
)
def test_records_that_lack_something_are_the_logs_fault(
    command: tuple[str, ...],
    record: dict[str, str],
    lacking: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each alone in a log that was cut or edited: an answer, or a word about what is missing."""
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"t": 1, **record}) + "\n")
    code = run(["explain", *command, "--history", str(path)])
    told = capsys.readouterr()
    assert code in (0, 2) and "fault of Dovetail" not in told.err
    if lacking:
        assert code == 2 and f"{path}: a record has no {lacking}" in told.err
