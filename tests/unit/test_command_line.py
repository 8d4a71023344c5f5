"""The `dovetail` command as a whole: help, exit codes, and no traceback for anybody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dovetail.cli import main


def dovetail(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dovetail", *arguments], capture_output=True, text=True, check=False
    )


def test_help_lists_every_command() -> None:
    done = dovetail("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("simulate", "plan", "explain", "catalog", "crds"))


@pytest.mark.parametrize(
    "command", ["simulate", "plan", "explain pod", "explain node", "explain cost", "catalog", "crds"]
)
def test_every_command_teaches(command: str) -> None:
    done = dovetail(*command.split(), "--help")
    assert done.returncode == 0
    assert f"Usage: dovetail {command}" in done.stdout
    assert len(done.stdout.splitlines()) > 15


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("simualte",), "simulate"),
        (("simulate", "no-such-folder"), "no-such-folder"),
        (("simulate", "x", "--sed", "1"), "--sed"),
        (("plan",), "--filename"),
        (("catalog", "--region", "us-est-1"), "us-east-1"),
        (("crds", "-o", "xml"), "yaml"),
    ],
)
def test_wrong_words_are_exit_code_2_and_say_what_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    done = dovetail(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (RuntimeError("planted"), main.FAULT, "RuntimeError: planted"),
        (KeyboardInterrupt(), main.INTERRUPTED, "interrupted"),
    ],
)
def test_what_stops_a_command_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: int,
    said: str,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("dovetail.cloud.catalog.instance_types", broken)
    monkeypatch.delenv("DOVETAIL_DEBUG", raising=False)
    assert main.run(["catalog"]) == code
    printed = capsys.readouterr().err
    assert said in printed
    assert "Traceback" not in printed
