"""What memory the worker process may take, so that a monstrous question ends it and not the controller.

Linux only; elsewhere nothing is bounded. A container's kernel may end all its processes once one is over the
limit of the whole (memory.oom.group): so the worker has a limit of its own, below that.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import numpy as np

# Of all that the container or the machine has. The rest is for the controller: under 300 MiB for 1,000 nodes.
_SHARE = (2, 3)
_KEENER = 500  # oom_score_adj on top of the controller's: of the two, the kernel ends the worker
_MOST_ADJ = 1000  # the kernel's own bound


def bound_memory() -> None:
    """Bound this process. What it cannot bound it leaves as it is."""
    if sys.platform != "linux":
        return
    import resource  # not there on every platform

    # OpenBLAS takes 32 MiB when it first multiplies matrices that are not small (64 x 64 are, 128 x 128 are
    # not), and ends the process where it gets none: no plan was made, and nothing said that memory was short.
    large = np.ones((128, 128))
    np.matmul(large, large)
    with contextlib.suppress(OSError, ValueError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + _KEENER, _MOST_ADJ)))
    with contextlib.suppress(OSError, ValueError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most = limit_of(Path("/"), total) * _SHARE[0] // _SHARE[1]
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        # Not RLIMIT_AS: that counts what libraries reserve for their threads and never touch, which is more
        # than a small container has.
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def limit_of(root: Path, total: int) -> int:
    """Bytes that the control groups of this process leave it, in version 1 or 2, `total` at most."""
    least = total
    for base, name, group in _groups(root):
        place = base
        for part in ("", *Path(group).parts[1:]):
            place = place / part
            with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                least = min(least, int((place / name).read_text()))
    return least


def _groups(root: Path) -> list[tuple[Path, str, str]]:
    """Where the groups of this process are: the mount, the name of the file with the limit, and the group."""
    found = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, group = rest.partition(":")
        if not kinds:
            found.append((root / "sys/fs/cgroup", "memory.max", group))
        elif "memory" in kinds.split(","):
            found.append((root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", group))
    return found
