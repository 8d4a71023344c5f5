"""Runs in a pool of processes: the same figures whatever their number and order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from dovetail.base.collector import collect_seldom
from dovetail.base.errors import DovetailError
from dovetail.simulate.analysis.figures import Summary
from dovetail.simulate.experiment.measures import measured
from dovetail.simulate.experiment.steps import Steps, steps
from dovetail.simulate.experiment.variant import Variant
from dovetail.simulate.run import simulate

_TRIES = 3  # of a run whose process was killed


class WorkersLost(DovetailError):
    """Processes went on dying; a run was not finished."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run: a variant and a seed, for so many nanoseconds at most. `records`: its event log is wanted."""

    variant: Variant
    seed: int
    until: int | None = None
    records: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to. Everything but the records is small, and goes from process to process."""

    job: Job
    figures: dict[str, float]
    sha256: str
    wall_seconds: float
    start: int
    end: int
    timezone: str
    summary: Summary | None = None
    steps: Steps | None = None
    records: Sequence[dict[str, Any]] = field(default=(), repr=False)


def play(job: Job) -> Run:
    """Simulate it. Raises InputError."""
    scenario = job.variant.load(job.seed, job.until)
    result = simulate(scenario)
    groups = scenario.file.settings.policy == "cluster-autoscaler"
    return Run(
        job,
        measured(result.summary, result.records),
        result.sha256,
        result.wall_seconds,
        result.start,
        result.end,
        scenario.file.timezone,
        result.summary if job.records else None,
        steps(result.records, groups=groups),
        tuple(result.records) if job.records else (),
    )


def _begun(begin: Callable[[], None] | None) -> None:
    """First in each process of a pool."""
    collect_seldom()
    if begin is not None:
        begin()


def played(
    jobs: Sequence[Job], workers: int, begin: Callable[[], None] | None = None
) -> Iterator[tuple[int, Run]]:
    """Each job's number and run, as they come to their end. `begin` runs first in each process.

    With one worker everything is played here. A run whose process dies is played again, by a new one; raises
    WorkersLost where that happens three times, and InputError as `play` does.
    """
    if workers < 2 or len(jobs) < 2:
        if begin is not None:
            begin()
        for number, job in enumerate(jobs):
            yield number, play(job)
        return
    left = dict(enumerate(jobs))
    # One process reads all modules, and those that play are copies of it.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    for _ in range(_TRIES):
        with ProcessPoolExecutor(min(workers, len(left)), context, _begun, (begin,)) as pool:
            waiting: dict[Future[Run], int] = {pool.submit(play, job): n for n, job in left.items()}
            try:
                for done in as_completed(waiting):
                    number = waiting[done]
                    run = done.result()
                    del left[number]
                    yield number, run
            except BrokenProcessPool:
                continue
            finally:
                for one in waiting:
                    one.cancel()
        return
    raise WorkersLost(f"{len(left)} of {len(jobs)} runs were not finished: their processes were killed")
