"""Log lines of a round, word for word, and that nothing is said twice."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from dovetail.controllers.provisioning.remarks import Remarks
from dovetail.model.plan import Plan, Unschedulable
from dovetail.model.problem import Problem
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.runtime.process.clock import WallClock
from dovetail.runtime.process.logs import JsonLines
from dovetail.testing.problems import instance_types, pod, pool, scenario
from dovetail.testing.scenarios import to_problem

Document = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
SELECTOR = {"labelSelector": {"matchLabels": {"app": "a"}}}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, **SELECTOR}}
            ]
        }
    }
}
SPREAD = {
    "topologySpreadConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **SELECTOR}
    ]
}


class Lines:
    """A log, and its lines since they were last asked for."""

    def __init__(self, level: str = "info") -> None:
        self._out = StringIO()
        self.log = JsonLines(WallClock(), level, self._out)

    def lines(self) -> list[Document]:
        found = [json.loads(line) for line in self._out.getvalue().splitlines()]
        self._out.seek(0)
        self._out.truncate()
        return found

    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines()]


def problem(*rules: Document, pools: tuple[Document, ...] = (pool("one"),)) -> Problem:
    """With a pod a rule."""
    pods = [pod(f"p{number}", "a", (1000, 1024), rule) for number, rule in enumerate(rules)]
    return to_problem(scenario(pods, list(pools), instance_types()))


@pytest.mark.parametrize(
    ("asked", "messages"),
    [
        (problem({}), []),
        (problem({}, pools=()), ["no dynamic nodepools found"]),
        (problem({}, pools=(pool("one", limits={"nodes": "0"}),)), ["nodepool node limit reached"]),
        (
            problem({}, pools=(pool("one", limits={"cpu": "3"}),)),
            ["instance types were excluded because they would breach limits"],
        ),
        (problem({}, pools=(pool("one", limits={"cpu": "3000"}),)), []),
        (problem(APART), ["pod(s) have a preferred Anti-Affinity which can prevent consolidation"]),
        (
            problem(SPREAD),
            ["pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation"],
        ),
    ],
)
def test_what_is_known_before_a_plan_is_said_once(asked: Problem, messages: list[str]) -> None:
    log = Lines()
    remarks = Remarks(log.log)
    remarks.on_problem(asked)
    assert log.messages() == messages
    remarks.on_problem(asked)
    assert log.messages() == []


def test_limits_are_reported_with_numbers_and_again_once_they_changed() -> None:
    log = Lines()
    remarks = Remarks(log.log)
    for cpu in ("3", "3000", "3"):
        remarks.on_problem(problem({}, pools=(pool("one", limits={"cpu": cpu}),)))
    first, second = log.lines()
    types = len(instance_types())
    assert first["NodePool"] == {"name": "one"} and first["instance-types"] == types
    assert 0 < first["excluded-instance-types"] < types
    assert second["excluded-instance-types"] == first["excluded-instance-types"]


def test_only_pods_that_are_new_are_named() -> None:
    log = Lines()
    remarks = Remarks(log.log)
    remarks.on_problem(problem(APART))
    remarks.on_problem(problem(APART, APART))
    assert [line["pods"] for line in log.lines()] == ["default/p0", "default/p1"]


def test_pods_without_a_place_are_errors() -> None:
    log = Lines()
    remarks = Remarks(log.log)
    asked = problem({})
    for reason in ("too large", "too large", "no zone"):
        remarks.on_plan(asked, Plan(unschedulable=(Unschedulable("default/p0", reason),)))
    first, second = log.lines()
    assert (first["level"], first["message"]) == ("ERROR", "could not schedule pod")
    assert first["Pod"] == {"namespace": "default", "name": "p0"}
    assert (first["error"], second["error"]) == ("too large", "no zone")


def test_a_pool_without_types_and_pods_that_are_left_out() -> None:
    log = Lines("debug")
    remarks = Remarks(log.log)
    (left_out,) = problem({}).pods
    for _ in range(2):
        remarks.on_pools({"one": "none left"})
        remarks.on_ignored([(left_out, "no claim")])
    remarks.on_pools({})
    skipping, ignoring = log.lines()
    assert skipping["message"] == "skipping, nodepool requirements filtered out all instance types"
    assert skipping["NodePool"] == {"name": "one"}
    assert (ignoring["level"], ignoring["message"], ignoring["error"]) == (
        "DEBUG",
        "ignoring pod",
        "no claim",
    )


def test_a_round_that_buys_nothing_computed_no_nodeclaims() -> None:
    log = Lines()
    figures = {"pods": 2, "work": 1, "seconds": 0.5, "hourly": 0, "lowerBound": 0, "unschedulable": 0}
    log.log.record("solve", claims=0, **figures)
    log.log.record("pods.awaited", nodes=["a"], pods=2)
    log.log.record("solve", claims=1, **figures)
    assert log.messages() == [
        "computed unready node(s) will fit pod(s)",
        "computed new nodeclaim(s) to fit pod(s)",
    ]


def test_few_types_on_demand_for_want_of_spot() -> None:
    log = Lines()
    log.log.record("launch.fewTypes", claim="general-x", types=3)
    (line,) = log.lines()
    assert (line["level"], line["message"]) == ("ERROR", "failed while checking on-demand fallback")
    assert line["NodeClaim"] == {"name": "general-x"}
    assert line["error"] == (
        "at least 5 instance types are recommended when flexible to spot but requesting on-demand, "
        "the current provisioning request only has 3 instance type options"
    )


def test_what_the_record_of_costs_lacks_is_said() -> None:
    log = Lines()
    log.log.record("costs.failed", error="disk full")
    log.log.record("costs.use_unknown", error="the server could not find the requested resource")
    failed, unknown = log.lines()
    assert (failed["level"], failed["error"]) == ("ERROR", "disk full")
    assert (unknown["level"], unknown["logger"]) == ("INFO", "costs")
    assert unknown["message"] == "what pods use is not known, their requests count"
    assert "could not find" in unknown["reason"]


def test_large_user_data() -> None:
    log = Lines()
    log.log.record("class.largeUserData", nodeClass="default", bytes=15_000, most=16_384)
    (line,) = log.lines()
    assert line["message"] == "user data is nearly as large as EC2 takes"
    assert (line["EC2NodeClass"], line["bytes"], line["most-bytes"]) == ({"name": "default"}, 15_000, 16_384)


def test_a_line_that_cannot_be_written_stops_nothing() -> None:
    metrics = PrometheusMetrics()
    with Path("/dev/full").open("w") as full:
        log = JsonLines(WallClock(), "info", full, metrics=metrics)
        log.write("info", "controller", "lost")
        assert b'dovetail_log_lines_dropped_total{level="info"} 1.0' in metrics.exposition()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    closed = StringIO()
    closed.close()
    JsonLines(WallClock(), "info", closed).write("info", "controller", "lost")
    out = Lines()
    out.log.write("info", "controller", "lost", what=object())
    out.log.write("info", "controller", "written")
    assert out.messages() == ["written", "log lines were lost"]


def test_a_pipe_without_a_reader_stops_nothing() -> None:
    metrics = PrometheusMetrics()
    source, target = os.pipe()
    os.close(source)
    with os.fdopen(target, "w", closefd=False) as out:
        log = JsonLines(WallClock(), "info", out, metrics=metrics)
        for _ in range(3):
            log.write("info", "controller", "lost")
        assert b'dovetail_log_lines_dropped_total{level="info"} 3.0' in metrics.exposition()
        os.dup2(os.open(os.devnull, os.O_WRONLY), target)
    os.close(target)


def test_a_full_pipe_that_does_not_block_costs_lines_and_spoils_none_after_it() -> None:
    metrics = PrometheusMetrics()
    source, target = os.pipe()
    os.set_blocking(source, False)
    os.set_blocking(target, False)
    with os.fdopen(target, "w") as out:
        log = JsonLines(WallClock(), "info", out, metrics=metrics)
        for number in range(500):
            log.write("info", "controller", "said", number=number, text="x" * 1_000)
        assert b"dovetail_log_lines_dropped_total" in metrics.exposition()
        read = os.read(source, 1 << 20)
        log.write("info", "controller", "room again")
        read += os.read(source, 1 << 20)
    os.close(source)
    again, lost = [json.loads(line)["message"] for line in read.splitlines()[-2:]]
    assert (again, lost) == ("room again", "log lines were lost")
