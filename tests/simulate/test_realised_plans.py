"""What plans promised and what became of it, and the history of a node in a log."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from operated import Operated, play, pod, pool, replicas
from stories import apart, inflate, scale
from test_consolidation import only, sizes
from test_consolidation import scale as resize

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.cli.main import run
from dovetail.controllers.provisioning.realised import COST, ELSEWHERE, NODES, PODS
from dovetail.runtime.process.lines import Lines
from dovetail.runtime.process.logs import JsonLines
from dovetail.simulate.analysis.summary import plan_figures
from dovetail.testing.guests import node_class
from dovetail.views.history import history


def test_pods_that_go_where_they_were_planned() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), replicas("web", 2))
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    (realised,) = world.records("plan.realised")
    assert realised["planned"] == realised["realised"] > 0
    assert realised["nodes"] == {"joined": 1, "failed": 0}
    assert realised["pods"] == {"here": 2, "elsewhere": 0, "replanned": 0, "gone": 0}
    assert world.metrics.value(PODS, outcome="here") == 2
    assert world.metrics.value(NODES, outcome="joined") == 1
    assert (world.metrics.value(COST) or 0) > 0
    (decision,) = world.records("decision")
    assert decision["lowerBound"] <= decision["hourly"] == decision["claims"][0]["price"]
    assert [one["instanceType"] for one in decision["claims"][0]["alternatives"]] == ["m5.xlarge"]


def test_pods_of_one_owner_may_change_places() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(6, affinity=apart()))
        await world.clock.sleep(5 * MINUTE)

    world = play(script, nominate_pods=False)  # else the scheduler changes none
    (realised,) = world.records("plan.realised")
    assert realised["pods"] == {"here": 6, "elsewhere": 0, "replanned": 0, "gone": 0}
    promised = {
        pod: claim["claim"] for claim in world.records("decision")[0]["claims"] for pod in claim["pods"]
    }
    nodes = {node.metadata.name: world.state.claim_of(node) for node in world.state.all(Node)}
    on = {
        pod.key: claim.metadata.name for pod in world.state.all(Pod) if (claim := nodes[pod.spec.node_name])
    }
    assert on.keys() == promised.keys()
    assert on != promised  # the scheduler did change some


def test_pods_that_are_deleted_or_go_elsewhere() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(2, affinity=apart()))
        await world.clock.sleep(10 * SECOND)
        await scale(world, 1)
        await world.clock.sleep(5 * MINUTE)
        assert sum(bool(item.spec.node_name) for item in world.state.all(Pod)) == 1

    world = play(script)
    figures = plan_figures(world.log.records)
    assert (figures.settled, figures.nodes_joined) == (1, 2)
    assert figures.pods_here + figures.pods_elsewhere == 1
    assert figures.pods_gone == 1
    (realised,) = world.records("plan.realised")
    assert sum(realised["causes"].values()) == figures.pods_elsewhere


def test_a_claim_that_comes_to_nothing_is_planned_again() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("web"))
        await world.clock.sleep(5 * SECOND)
        (claim,) = world.state.all(NodeClaim)
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    figures = plan_figures(world.log.records)
    assert (figures.settled, figures.nodes_joined, figures.nodes_failed) == (2, 1, 1)
    assert (figures.pods_replanned, figures.pods_here) == (1, 1)
    assert world.metrics.value(ELSEWHERE, cause="failed") == 1
    settled = world.records("plan.realised")
    assert sorted((one["pods"]["replanned"], one["causes"]) for one in settled) == [
        (0, {}),
        (1, {"failed": 1}),
    ]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(2, affinity=apart()))
        await world.clock.sleep(3 * MINUTE)
        await scale(world, 0)
        await world.clock.sleep(10 * MINUTE)

    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in play(script).log.records))
    return path


def node_names(log: Path) -> list[str]:
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [record["node"] for record in records if record["kind"] == "disrupted"]


def test_the_log_says_why_a_node_came_and_went(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node", node_names(log)[0], "--history", str(log)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    said = [
        "bought for 1 pod (default/inflate-",
        "is proven necessary; cluster as of",
        "the cloud gave m5.large",
        "the plan came to $",
        "chosen to go together with 1 more, empty: deleted without replacement, 0 pods to move; saves $",
        "ended (graceful): empty; 0 pods to move",
        "gone",
    ]
    assert [out.find(text) for text in said] == sorted(out.find(text) for text in said)
    assert all(text in out for text in said)


def test_the_controllers_own_log_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `dovetail run` writes it: with lines in between that are no decisions."""
    out = StringIO()

    async def script(world: Operated) -> None:
        lines = JsonLines(world.clock, "info", out)
        kept = world.log.record

        def both(kind: str, /, **fields: object) -> None:
            kept(kind, **fields)
            lines.record(kind, **fields)

        world.log.record = both  # type: ignore[method-assign]
        Lines(world.state, lines)
        world.create(node_class(), pool(), inflate(2, affinity=apart()))
        await world.clock.sleep(3 * MINUTE)
        await scale(world, 0)
        await world.clock.sleep(10 * MINUTE)

    gone = play(script).records("disrupted")
    path = tmp_path / "controller.log"
    path.write_text(out.getvalue())
    assert run(["explain", "node", str(gone[0]["node"]), "--history", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    said = [
        "bought for ",
        "the cloud gave m5.large in ",
        "ready",
        "chosen to go together with 1 more, empty",
        "ended (graceful): ",
        "gone",
    ]
    assert [shown.find(text) for text in said] == sorted(shown.find(text) for text in said)
    assert all(text in shown for text in said)


def test_a_consolidation_says_what_else_there_was() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "m5.large")
        await resize(world, "a", 1)
        await world.clock.sleep(10 * MINUTE)

    (record,) = play(script).records("disruption", reason="Underutilized")
    assert record["tried"] >= 1
    assert record["alternatives"] == []
    assert 0 < record["lowerBound"] <= record["hourly"] - record["savings"]
    shown = " ".join(moment.text for moment in history([record], str(record["claims"][0])))
    assert f"{record['tried']} sets of nodes were planned, all nodes that may go cost $" in shown


def test_the_same_for_programs(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node", node_names(log)[0], "--history", str(log), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["history"]
    assert shown[0]["record"]["kind"] == "decision"
    assert [moment["t"] for moment in shown] == sorted(moment["t"] for moment in shown)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nosuch", "--history", "LOG"], "there is no node nosuch in the log the log has"),
        (["x"], "neither manifests nor a log is given"),
        (["x", "--history", "LOG", "--timezone", "Mars"], "'Mars' is no time zone"),
        (["x", "--history", "missing.jsonl"], "cannot read the log: No such file or directory"),
        (["x", "--history", __file__], "test_realised_plans.py:1: is no JSON object"),
    ],
)
def test_what_is_wrong_with_the_question(
    arguments: list[str], complaint: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(log) if item == "LOG" else item for item in arguments]
    assert run(["explain", "node", *given]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
