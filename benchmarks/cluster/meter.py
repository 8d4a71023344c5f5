"""What a process and its children use, as Linux reports."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """The process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of all of them so far."""
    return sum(_cpu(pid) for pid in pids)


def resident_mib(pids: list[int]) -> float:
    """Memory of all of them now; what they share counts once for each."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * _PAGE / 2**20


def share(pid: int, seconds: float) -> float:
    """The part of one core that a process and its children use in that time."""
    before, begun = cpu_seconds(family(pid)), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(family(pid)) - before) / (time.monotonic() - begun)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
