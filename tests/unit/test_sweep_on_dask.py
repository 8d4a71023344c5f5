"""The same sweep on ten workers of a Dask cluster, processes of their own, two of which are killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_sweep import small

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.simulate.experiment.engine import SCHEME, address, played_on
from dovetail.simulate.experiment.runs import Job, played
from dovetail.simulate.experiment.variant import Variant

__all__ = ["small"]
MANIFESTS = Path(__file__).parents[2] / "deploy" / "sweep" / "sweep.yaml"
_PATIENCE = 120  # seconds, on a machine that is very busy
_WORKERS = 10
_KILLED = {3: 0, 20: 1}  # after so many runs: which worker
_RUNS = 40


@pytest.mark.parametrize("text", ["dask://", "ray://here:1", "10.0.0.5:8786", "dask://here", "dask://here:x"])
def test_what_is_no_engine(text: str) -> None:
    with pytest.raises(InputError, match="is no engine"):
        address(text)


def test_a_scheduler_has_its_address() -> None:
    assert address("dask://10.0.0.5:8786") == "tcp://10.0.0.5:8786"


def test_where_no_scheduler_answers_no_folder_is_left(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dovetail.simulate.experiment.engine._SECONDS", 0.1)
    kept = tmp_path / "new" / "runs"
    given = ("--vary", "policy=dovetail,karpenter", "--dataset", str(kept), "--on", "dask://127.0.0.1:1")
    assert run(["sweep", str(small), *given]) == 2
    assert "no scheduler answers" in capsys.readouterr().err
    assert not kept.parent.exists()


def _address(file: Path) -> str:
    """What the scheduler wrote, once it has written all of it."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return str(json.loads(file.read_text())["address"])
        except (FileNotFoundError, json.JSONDecodeError):
            assert time.monotonic() < until
            time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and ten workers: its address, and the workers."""
    file = tmp_path / "scheduler.json"
    documents = [one for one in yaml.safe_load_all(MANIFESTS.read_text()) if one["kind"] == "Deployment"]
    commands = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["command"]
        for one in documents
    }

    def start(what: str, **other: str) -> subprocess.Popen[bytes]:
        """The command that the manifests for Kubernetes have, but for the addresses."""
        dask, name, *words = commands[what]
        assert (dask, name) == ("dask", what)
        flags = [other.pop(word, word) for word in words]
        assert not other
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1", *flags]
        given = ["--scheduler-file", str(file)] if what == "scheduler" else []
        return subprocess.Popen([*command, *given], cwd=tmp_path, stderr=subprocess.DEVNULL)

    scheduler = start("scheduler", **{"8786": "0"})
    found = _address(file)
    workers = [start("worker", **{"tcp://scheduler:8786": found}) for _ in range(_WORKERS)]
    try:
        yield found.replace("tcp://", SCHEME), workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.long
def test_workers_find_what_one_process_finds_though_some_are_killed(
    small: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    engine, workers = cluster
    jobs = [Job(Variant("x", small), seed, MINUTE) for seed in range(1, _RUNS + 1)]
    together = []
    for item in played_on(engine, jobs):
        together.append(item)
        if len(together) in _KILLED:
            workers[_KILLED[len(together)]].kill()
    assert [worker.poll() is not None for worker in workers] == [n in (0, 1) for n in range(_WORKERS)]
    assert sorted(number for number, _ in together) == list(range(_RUNS))  # none lost, none twice
    alone = dict(played(jobs, 1))
    assert {n: (r.sha256, r.figures, r.job) for n, r in together} == {
        n: (r.sha256, r.figures, r.job) for n, r in alone.items()
    }
