"""`dovetail explain teams`: what groups of pods need alone, and together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.cli.main import BAD_INPUT, OK, run

_Text = pytest.CaptureFixture[str]
_ASKED = ["explain", "teams", "-f", "examples/plan", "--region", "ap-northeast-2", "--work", "2000"]


def _answer(capsys: _Text, *more: str) -> dict[str, Any]:
    assert run([*_ASKED, *more, "-o", "json"]) == OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_together_is_no_dearer_than_alone_and_no_cheaper_than_proven(capsys: _Text) -> None:
    answer = _answer(capsys, "--by", "controller")
    names = {team["name"]: team for team in answer["teams"]}
    assert set(names) == {"statefulset:database", "deployment:web", "cronjob:nightly-report"}
    assert sum(team["pods"] for team in answer["teams"]) == 19
    assert all(0 < team["atLeast"] <= team["alone"] for team in answer["teams"])
    together = answer["together"]
    assert together["atLeast"] <= together["monthly"] <= sum(team["alone"] for team in answer["teams"])
    assert together["nodes"] < sum(team["nodes"] for team in answer["teams"])


def test_one_group_costs_alone_what_all_do(capsys: _Text) -> None:
    answer = _answer(capsys, "--by", "annotation:none")
    (team,) = answer["teams"]
    assert (team["name"], team["alone"]) == ("__unallocated__", answer["together"]["monthly"])


def test_its_text_for_people(capsys: _Text) -> None:
    assert run([*_ASKED, "--by", "namespace"]) == OK
    text = " ".join(capsys.readouterr().out.split())
    assert "What pods need by namespace, dollars a month" in text
    assert "Sharing nodes saves" in text or "Alone they cost" in text


@pytest.mark.parametrize("given", ["pod", "node", "colour", "label:", ""])
def test_what_pods_are_not_grouped_by(capsys: _Text, given: str) -> None:
    assert run([*_ASKED, "--by", given]) == BAD_INPUT
    assert "is nothing that pods are grouped by" in capsys.readouterr().err
