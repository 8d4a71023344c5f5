"""What commands that play many runs share: seeds, lengths of time, and a line of progress."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import overload

from rich.console import Console

from dovetail.base.beside import cores
from dovetail.base.errors import InputError
from dovetail.simulate.experiment.runs import Run
from dovetail.units.duration import parse_duration

_MOST_SEEDS = 10_000
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")


def seeds_of(text: str) -> tuple[int, ...]:
    """The seeds of 1-3 or 1,4,7. Raises InputError."""
    found: list[int] = []
    for part in text.split(","):
        match = _SPAN.fullmatch(part.strip())
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise InputError(
                f"{part!r} is no seed", source="--seeds", remedy="give --seeds 1-3 or --seeds 1,4,7"
            )
        last = int(match[2] or match[1])
        if last - int(match[1]) >= _MOST_SEEDS:
            raise InputError(f"{part} are more than {_MOST_SEEDS} seeds", source="--seeds")
        found += range(int(match[1]), last + 1)
    return tuple(dict.fromkeys(found))


@overload
def time_of(text: str, flag: str = ...) -> int: ...


@overload
def time_of(text: str | None, flag: str = ...) -> int | None: ...


def time_of(text: str | None, flag: str = "--until") -> int | None:
    """Nanoseconds of a length of time. Raises InputError."""
    if text is None:
        return None
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise InputError(str(error), source=flag) from None
    if length <= 0:
        raise InputError(f"{text!r} is not more than 0s", source=flag)
    return length


def processes_of(jobs: int | None) -> int:
    """How many processes play: as many as there are cores unless --jobs says it. Raises InputError."""
    if jobs is None:
        return cores()
    if jobs < 1:
        raise InputError(f"{jobs} is not at least 1", source="--jobs")
    return jobs


def remark(text: str) -> None:
    """A line beside the answer, on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(text)


@contextmanager
def progress(total: int) -> Iterator[Callable[[Run], None]]:
    """Called with each run that ended: says on standard error how many did, and how long the rest takes."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    begun, done = time.monotonic(), 0

    def report(run: Run) -> None:
        nonlocal done
        done += 1
        left = (time.monotonic() - begun) / done * (total - done)
        rest = f", about {_shown(left)} left" if done < total else ""
        took = f"{run.wall_seconds:.1f} s"
        text = f"{done}/{total} {run.job.variant.name}, seed {run.job.seed}: {took}{rest}"
        console.print(text, markup=False)

    yield report


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
