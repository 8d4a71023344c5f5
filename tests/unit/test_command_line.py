"""The `dovetail` command as a whole: help, exit codes, and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    ("asked", "meant"), [(("help",), ("--help",)), (("help", "explain", "pod"), ("explain", "pod", "--help"))]
)
def test_help_is_a_word_too(asked: tuple[str, ...], meant: tuple[str, ...]) -> None:
    done = dovetail(*asked)
    assert (done.returncode, done.stdout) == (0, dovetail(*meant).stdout)


def test_help_of_a_command_that_does_not_exist() -> None:
    done = dovetail("help", "pln")
    assert done.returncode == 2
    assert "pln: there is no such command" in done.stderr


def test_a_shell_completes_commands_flags_and_values() -> None:
    script = dovetail("completion", "bash").stdout
    words = 'COMP_WORDS=({}); COMP_CWORD={}; COMPREPLY=(); _dovetail; echo "${{COMPREPLY[@]}}"'
    asked = [
        ("dovetail sna", "snapshot"),
        ("dovetail plan --reg", "--region"),
        ("dovetail plan -o j", "json"),
    ]
    lines = [words.format(typed, typed.count(" ")) for typed, _ in asked]
    shell = subprocess.run(
        ["bash", "-c", "\n".join([script, *lines])], capture_output=True, text=True, check=False
    )
    assert shell.stdout.splitlines() == [meant for _, meant in asked]
    assert dovetail("completion", "tcsh").returncode == 2


# What only the work of a command needs: neither its help, nor a wrong word, nor completion waits for it.
_HEAVY = {
    *("aiohttp", "aiobotocore", "botocore", "dask", "highspy", "msgspec", "numpy", "prometheus_client"),
    *("pyarrow", "scipy", "structlog", "textual", "yaml"),
    *("dovetail.api", "dovetail.cloud", "dovetail.cluster", "dovetail.disrupt", "dovetail.explain"),
    *("dovetail.kube", "dovetail.model", "dovetail.reading", "dovetail.solve", "dovetail.verify"),
}
_WHAT_IS_THERE = """
import sys
from dovetail.cli.main import run
for arguments in sys.argv[1].split(";"):
    run(arguments.split())
print("\\n" + " ".join(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments",
    ["--help;-V;--wrong", "plan --help;plan --wrong", "explain --help;explain pod --help", "completion bash"],
)
def test_help_loads_nothing_that_only_the_work_needs(arguments: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _WHAT_IS_THERE, arguments], capture_output=True, text=True, check=True
    )
    modules = set(found.stdout.splitlines()[-1].split())
    assert "dovetail.cli.main" in modules
    assert not modules & _HEAVY


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
        (
            ("simualte",),
            "simualte: there is no such command\n  did you mean simulate? choose one of",
        ),
        (
            ("explain", "nod"),
            "nod: there is no such command\n  did you mean node? choose one of pod,",
        ),
        (("simulate", "no-such-folder"), "no-such-folder: there is no such folder\n"),
        (("simulate",), "--scenario: is missing\n  dovetail simulate --help says what is valid"),
        (("simulate", "x", "--sed", "1"), "--sed: there is no such flag\n  did you mean --seed?"),
        (("crds", "--bogus=3"), "--bogus: there is no such flag\n  dovetail crds --help says what is valid"),
        (("plan",), "neither manifests nor a cluster is given\n"),
        (("plan", "--filenam", "x"), "--filenam: there is no such flag\n  did you mean --filename?"),
        (("catalog", "--region", "us-est-1"), "us-east-1"),
        (("catalog", "--region"), "--region: needs a value\n  give --region=VALUE;"),
        (("sweep", "examples/burst", "--vary", "a=1", "--dataset", ""), "--dataset: its value is empty\n"),
        (("plan", "-f", ""), "-f: its value is empty\n  leave it out, or give a value; a variable of"),
        (("simulate", ""), "an argument is empty\n"),
        (("crds", "-o", "xml"), "'xml' is not valid\n  choose one of yaml, json"),
        (("plan", "-k", "x"), "-k: there is no such flag\n  kubectl kustomize FOLDER | dovetail plan -f -"),
        (("plan", "a.yaml"), "'a.yaml': not expected here\n  did you mean -f a.yaml? dovetail plan --help"),
        (("convert", "a.yaml"), "--file: is missing\n  did you mean -f a.yaml? dovetail convert"),
        (("convert", "--nosuch=a"), "--nosuch: there is no such flag\n  dovetail convert --help says"),
        (("snapshot", "--outptu", "a"), "--outptu: there is no such flag\n  did you mean --output?"),
        (("headroom", "x", "--nope", "3"), "--nope: there is no such flag\n  dovetail headroom --help"),
        (("headroom", "x", "--to", "3"), "--workload: is missing\n"),
        (("plan", "-f", "a.yaml", "-f"), "-f: needs a value\n  give -f=VALUE; dovetail plan --help"),
        (("convert",), "--file: is missing\n  dovetail convert --help says what is valid"),
        (("top", "events.jsonl"), "'events.jsonl': not expected here\n  did you mean --log events.jsonl?"),
        (("plan", "web"), "'web': not expected here\n  dovetail plan --help says what is valid"),
        (("run", "more"), "'more': not expected here\n  dovetail run --help says what is valid"),
        (("run", "--metrics-port", "x"), "--metrics-port: 'x' is not a whole number\n"),
        (("run", "--metrics-port", "1.5"), "--metrics-port: '1.5' is not a whole number\n"),
        (("headroom", "x", "--workload", "a/b", "--to=1.5"), "--to: '1.5' is not a whole number\n"),
        (("run", "--kube-client-qps", "x"), "--kube-client-qps: 'x' is not a number\n"),
        (("run", "--isolated-vpc", "yes"), "--isolated-vpc: 'yes' is not valid\n  choose one of true, false"),
        (("run", "--observe=maybe"), "--observe: 'maybe' is not valid\n  give true or false"),
        (
            ("run", "--log-level=info", "--log-level=error"),
            "--log-level: given more than once",
        ),
        (
            ("run", "--memory-limit", "-7"),
            "--memory-limit: -7 is not valid\n  give bytes,",
        ),
    ],
)
def test_wrong_words_are_exit_code_2_and_say_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main.run(arguments) == main.BAD_INPUT
    printed = capsys.readouterr()
    assert printed.err.startswith("dovetail: ")
    assert said in printed.err
    assert len(printed.err.splitlines()) <= 2
    assert not printed.out


def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METRICS_PORT", "x")
    assert main.run(["run"]) == main.BAD_INPUT
    assert capsys.readouterr().err.startswith("dovetail: METRICS_PORT: 'x' is not a whole number\n")


@pytest.mark.parametrize(
    "command", ["-m dovetail crds", "-m dovetail catalog --region us-east-1", "-m benchmarks.solve --list"]
)
def test_a_reader_may_leave(command: str) -> None:
    """As head does: neither a complaint nor an exit code."""
    process = subprocess.Popen(
        [sys.executable, *command.split()],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 0


@pytest.mark.parametrize(
    "command", ["crds", "catalog --region us-east-1", "--help", "plan -f nowhere", "run"]
)
def test_closed_standard_output_is_told_before_any_work(command: str) -> None:
    """As in `dovetail ... >&-`; with standard error closed as well the exit code says it."""
    words = f'"{sys.executable}" -m dovetail {command} >&-'
    ended = subprocess.run(words, shell=True, capture_output=True, text=True)
    assert ended.returncode == main.BAD_INPUT
    told = "dovetail: standard output is closed\n  send it to /dev/null if the answer is not wanted\n"
    assert ended.stderr == told
    assert subprocess.run(f"{words} 2>&-", shell=True).returncode == main.BAD_INPUT


def test_what_is_opened_does_not_take_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """A file that is opened while standard error is closed would get what processes complain of."""
    events = tmp_path / "events.jsonl"
    words = (
        f'"{sys.executable}" -m dovetail simulate examples/keda-cron --until 1m --events "{events}" <&- 2>&-'
    )
    ended = subprocess.run(words, shell=True, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
    assert ended.returncode == 0
    assert all(line.startswith("{") for line in events.read_text().splitlines())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("where", ["> /dev/full", "> /dev/full 2> /dev/full"])
def test_a_full_disk_is_exit_code_2_also_where_nothing_can_be_said(where: str) -> None:
    words = f'"{sys.executable}" -m dovetail catalog --region us-east-1 {where}'
    ended = subprocess.run(words, shell=True, capture_output=True, text=True)
    assert ended.returncode == main.BAD_INPUT
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (RuntimeError("planted"), main.FAULT, "RuntimeError: planted"),
        (KeyboardInterrupt(), main.INTERRUPTED, "interrupted"),
    ],
)
def test_what_stops_a_command_is_reported_without_a_traceback(
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
