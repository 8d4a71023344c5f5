"""Logs as they come to hand: packed, of another encoding, with fields that are not what they should be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pytest import CaptureFixture

from benchmarks.questions import write
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.views.history import read_log

ODD: tuple[Any, ...] = (None, "x", -1, 2**70, 1e308, True, [], [1], [{}], {}, {"a": "b"}, {"a": {"b": 1}})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a simulation in which nodes are bought and launches fail."""
    folder = tmp_path_factory.mktemp("odd")
    path = folder / "events.jsonl"
    scenario = write("waiting", folder / "shop", 0.05)
    assert run(["simulate", str(scenario), "--until", "5m", "--events", str(path)]) == 0
    with path.open("a") as more:
        for record in (
            {"kind": "disruption", "claims": ["a"], "nodes": ["n"], "pods": 1, "hourly": 5, "lowerBound": 4}
            | {
                "decision": "delete",
                "reason": "Underutilized",
                "replacements": [],
                "bought": [],
                "savings": 1,
            }
            | {"alternatives": [[1, 0, 7]], "snapshot": "s", "tried": 1, "t": 1772484300000000000},
            {"kind": "disruption.failed", "claims": ["a"], "message": "gone", "reason": "Underutilized"}
            | {"replacements": ["b"], "t": 1772484300000000000},
            {"kind": "disrupted", "claim": "a", "node": "n", "mode": "eventual", "reason": "drifted"}
            | {"pods": 2, "t": 1772484300000000000},
        ):
            more.write(json.dumps(record) + "\n")
    return path


@pytest.mark.parametrize("turn", range(4))
def test_a_field_that_is_something_else_is_no_fault(
    log: Path, tmp_path: Path, capsys: CaptureFixture[str], turn: int
) -> None:
    """Each field of the log in turn gets odd values: lines are left out, or read all the same."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    node = next(record["node"] for record in records if record["kind"] == "node.created" and record["claim"])
    pod = next(record["pod"] for record in records if record["kind"] == "pod.created")
    path = tmp_path / "odd.jsonl"
    for number, field in enumerate(sorted({key for record in records for key in record})):
        value = ODD[(number + 3 * turn) % len(ODD)]
        changed = [record | {field: value} if field in record else record for record in records]
        path.write_text("".join(f"{json.dumps(record)}\n" for record in changed))
        for question in (
            ("explain", "realised", "--history"),
            ("explain", "node", node, "--history"),
            ("explain", "wait", pod, "--history"),
            ("cost",),
        ):
            code = run([*question, str(path)])
            told = capsys.readouterr().err
            assert code in (0, 2) and "fault of Dovetail" not in told, (field, value, question, told)


@pytest.mark.parametrize("pack", [gzip.compress, lambda raw: raw.decode().encode("utf-16")])
def test_packed_logs_and_those_of_powershell_are_read(log: Path, tmp_path: Path, pack: Any) -> None:
    plain = read_log(log)
    packed = tmp_path / "log"
    packed.write_bytes(pack(log.read_bytes()))
    said: list[str] = []
    assert read_log(packed, said.append) == plain and not said


def test_what_is_read_of_a_whole_log_is_all_of_it(log: Path) -> None:
    """No record that Dovetail writes is taken for an odd one."""
    assert len(read_log(log)) == len(log.read_text().splitlines())


def test_lines_that_are_left_out_are_told(log: Path, tmp_path: Path) -> None:
    odd = {"kind": "node.created", "node": 5, "claim": "c", "t": 1}
    (tmp_path / "log").write_text(f"{json.dumps(odd)}\n{log.read_text()}")
    said: list[str] = []
    assert read_log(tmp_path / "log", said.append) == read_log(log)
    assert said == ["1 line is left out of the log, as not understood: line 1 is the first"]


def test_a_damaged_pack_is_told(log: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(log.read_bytes())[:-9])
    with pytest.raises(InputError, match="damaged"):
        read_log(tmp_path / "log")
