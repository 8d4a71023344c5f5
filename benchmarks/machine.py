"""What a figure was measured on: the machine, the versions of what matters, the date and the commit."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parent.parent


def facts() -> dict[str, str | int]:
    """All of it as JSON values; what the system does not report is left out or 'unknown'."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "processor": _processor(),
        "memoryMiB": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "highspy": version("highspy"),
    }


def peak_mib() -> float:
    """MiB that this process has held at most; on Linux without what its parent held when it was started."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(kib) / 1024
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _commit() -> str:
    """The commit's short name, with '+' where files differ from it; '' outside a repository."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=_ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _processor() -> str:
    """The processor's name as Linux shows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
