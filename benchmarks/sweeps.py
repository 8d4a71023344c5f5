"""What an engine adds to the runs of a sweep: the same runs in a pool of processes and on Dask's workers.

python -m benchmarks.sweeps [SCENARIO] [--runs 24] [--workers 2] [--rounds 3] [--no-profile]

Processor time is measured, of all processes together, as a busy machine makes any wall time too long. What
both take before the first run is left out: each worker plays two runs first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from dovetail.simulate.experiment.engine import SCHEME, played_on
from dovetail.simulate.experiment.runs import Job, play, played
from dovetail.simulate.experiment.variant import Variant

_TICK = os.sysconf("SC_CLK_TCK")
_PATIENCE = 60  # seconds for the scheduler to say where it is


@contextmanager
def cluster(workers: int, *, profile: bool) -> Iterator[tuple[str, list[int]]]:
    """A Dask scheduler and workers as deploy/sweep starts them: its address, and their process ids."""
    told = {**os.environ, "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": str(profile)}
    with tempfile.TemporaryDirectory() as folder:
        file, found = Path(folder) / "scheduler.json", []

        def start(what: str, *flags: str) -> None:
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1"]
            given = [*command, "--no-dashboard", *flags]
            found.append(subprocess.Popen(given, env=told, cwd=folder, stderr=subprocess.DEVNULL))

        start("scheduler", "--port", "0", "--scheduler-file", str(file))
        try:
            until = time.monotonic() + _PATIENCE
            while not (file.exists() and file.read_text().endswith("}")):
                if time.monotonic() > until:
                    raise TimeoutError("the scheduler does not say where it is")
                time.sleep(0.1)
            address = str(json.loads(file.read_text())["address"])
            for _ in range(workers):
                start("worker", address, "--nthreads", "1", "--no-nanny")
            yield address.replace("tcp://", SCHEME), [one.pid for one in found]
        finally:
            for one in found:
                one.kill()
                one.wait()


def spent(processes: list[int]) -> float:
    """Processor seconds of these and of this process."""
    ticks = 0
    for one in processes:
        fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICK + time.process_time()


def main() -> int:
    """Print processor seconds for each run, alone and on Dask, and what is left of linear."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("scenario", nargs="?", type=Path, default=Path("examples/burst"))
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each, one after the other: medians")
    parser.add_argument("--no-profile", action="store_true", help="workers do not sample what they do")
    given = parser.parse_args()
    jobs = [Job(Variant("", given.scenario.resolve()), seed) for seed in range(1, given.runs + 1)]
    for job in jobs[:2]:
        play(job)
    alone, dask = [], []
    with cluster(given.workers, profile=not given.no_profile) as (engine, processes):
        list(played_on(engine, jobs[: 2 * given.workers]))
        for _ in range(given.rounds):
            begun = time.process_time()
            one = dict(played(jobs, 1))
            alone.append((time.process_time() - begun) / given.runs)
            begun = spent(processes)
            other = dict(played_on(engine, jobs))
            dask.append((spent(processes) - begun) / given.runs)
            same = all(one[number].sha256 == other[number].sha256 for number in one)
            verdict = "equal" if same else "NOT EQUAL"
            print(f"alone {alone[-1]:.3f} s, Dask {dask[-1]:.3f} s for each run; {verdict}", flush=True)
    first, second = median(alone), median(dask)
    print(f"medians: alone {first:.3f} s, Dask {second:.3f} s: {first / second:.1%} of linear")
    return 0


if __name__ == "__main__":
    sys.exit(main())
