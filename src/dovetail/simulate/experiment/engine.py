"""Runs of an experiment on the workers of a Dask cluster, where one machine is not enough.

What a run needs goes to the workers with it: they have Dovetail, and none of the caller's files. Dask plays a
run again when its worker dies; a run counts when its result is here, so none is lost or counted twice.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dovetail import __version__
from dovetail.base.collector import collect_seldom
from dovetail.base.errors import InputError
from dovetail.base.extras import extra
from dovetail.simulate.experiment.runs import Job, Run, WorkersLost, play

SCHEME = "dask://"
_TRIES = 3  # of a run that Dask gave up: whose worker died several times
_SECONDS = 10  # until a scheduler that does not answer is reported


def played_on(engine: str, jobs: Sequence[Job]) -> Iterator[tuple[int, Run]]:
    """Each job's number and run, as they come to their end.

    Raises InputError where the address is none, nothing answers, or `play` raises it; WorkersLost where
    workers go on dying under a run, or the scheduler is gone.
    """
    dask = _library()
    try:
        client = dask.Client(address(engine), timeout=_SECONDS)
    except (OSError, ValueError) as error:
        remedy = "start one: dask scheduler, and on each machine: dask worker HOST:8786 --nthreads 1"
        raise InputError(f"no scheduler answers: {error}", source=f"--on {engine}", remedy=remedy) from None
    with client:
        files = {folder: _packed(folder) for folder in {job.variant.scenario for job in jobs}}
        there = {folder: client.scatter(files[folder], broadcast=True, hash=True) for folder in files}

        def send(number: int) -> Any:
            job = jobs[number]
            # Not pure: two jobs of one seed are two runs. The folder is the worker's own.
            return client.submit(_play, job, there[job.variant.scenario], __version__, pure=False)

        waiting = {send(number): number for number in range(len(jobs))}
        tries = [1] * len(jobs)
        done = dask.as_completed(list(waiting))
        for future in done:
            number = waiting.pop(future)
            try:
                run = future.result()
            except dask.KilledWorker:
                if tries[number] == _TRIES:
                    raise WorkersLost(f"run {number + 1} was not finished: its workers died") from None
                tries[number] += 1
                again = send(number)
                waiting[again] = number
                done.add(again)
                continue
            except (dask.CancelledError, OSError):
                lost = "the connection to the scheduler was lost; the same command goes on where it was"
                raise WorkersLost(lost) from None
            yield number, replace(run, job=jobs[number])


def address(engine: str) -> str:
    """The address of the scheduler as Dask has it. Raises InputError."""
    host, _, port = engine.removeprefix(SCHEME).rpartition(":")
    if not engine.startswith(SCHEME) or not host or not port.isdecimal() or int(port) > 65_535:
        remedy = f"give {SCHEME}HOST:PORT of a scheduler, such as {SCHEME}10.0.0.5:8786"
        raise InputError(f"{engine!r} is no engine", source="--on", remedy=remedy)
    return f"tcp://{engine.removeprefix(SCHEME)}"


def _library() -> Any:
    with extra("dask", "a sweep on other machines", source="--on"):
        return import_module("distributed")


def _packed(scenario: Path) -> bytes:
    """The scenario's folder as an archive."""
    folder = scenario if scenario.is_dir() else scenario.parent
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, str(path.relative_to(folder)), recursive=False)
    return buffer.getvalue()


def _play(job: Job, files: bytes, version: str) -> Run:
    """On a worker."""
    collect_seldom()
    if version != __version__:
        raise InputError(f"a worker has Dovetail {__version__}, and not {version}", source="--on")
    folder = _unpacked(hashlib.sha256(files).hexdigest(), files)
    return play(replace(job, variant=replace(job.variant, scenario=folder)))


@lru_cache(maxsize=16)
def _unpacked(_: str, files: bytes) -> Path:
    """Once for each process; it goes when the machine clears its temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="dovetail-"))
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
    return folder
