"""A solve takes one core, however many the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_THREADS = Path("/proc/self/task")
_COUNTING = (
    "import dovetail, numpy, os; numpy.ones((99, 99)) @ numpy.ones((99, 99)); print(len(os.listdir({!r})))"
)


@pytest.mark.skipif(not _THREADS.exists(), reason="threads are counted in /proc")
@pytest.mark.parametrize(("asked", "threads"), [(None, 1), ("2", 2)])
def test_matrices_take_one_thread_unless_more_are_asked_for(asked: str | None, threads: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if asked is None else {"OPENBLAS_NUM_THREADS": asked}
    counting = [sys.executable, "-c", _COUNTING.format(str(_THREADS))]
    counted = subprocess.run(counting, env=environment, capture_output=True, text=True, check=True)
    assert int(counted.stdout) <= min(threads, os.cpu_count() or 1)
