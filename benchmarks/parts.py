"""Which part of the program a process' CPU time goes to, by samples of its call stack.

A sample counts once, for the innermost call that is in one of the parts. What parts have in common (`model`,
`api`, `base`, numpy) counts for the part that called it, and so does HiGHS.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from types import CodeType, FrameType

import dovetail

_PERIOD = 0.004  # seconds of CPU between two samples: a stack is walked in some 10 us
_ROOT = PurePath(dovetail.__file__).parent
OTHER = "event loop and the rest"
# By the first of these that a module's path below `dovetail` begins with.
_PARTS: Mapping[str, str] = {
    "solve": "plans",
    "runtime/planning": "plans",
    "verify": "checks of plans",
    "controllers/provisioning": "provisioning",
    "controllers/disruption": "disruption",
    "disrupt": "disruption",
    "controllers": "controllers of nodes, claims, pools",
    "runtime": "controllers of nodes, claims, pools",
    "cloud/aws/fake": "the cloud, as played",
    "cloud/inmemory": "the cloud, as played",
    "cloud/spot_market": "the cloud, as played",
    "cloud/simulated": "the cloud, as played",
    "cloud": "provider",
    "cluster": "informers and state",
    "kube/memory": "API server, as played",
    "kube": "informers and state",
    "simulate/scheduler": "scheduler, as played",
    "simulate/kubelet": "kubelets, as played",
    "simulate/workloads": "workloads, as played",
    "simulate/violations": "invariants",
    "simulate/analysis": "event log",
    "simulate/environment": "the cloud, as played",
}


def part_of(module: str) -> str | None:
    """The part of a module, given by its path below `dovetail`; None for what parts have in common."""
    return next((part for prefix, part in _PARTS.items() if module.startswith(prefix)), None)


@contextmanager
def sampled() -> Iterator[dict[str, float]]:
    """Seconds of CPU by part, of what this process does meanwhile; only in a process' main thread."""
    seconds: dict[str, float] = {}
    known: dict[CodeType, str | None] = {}

    def sample(_: int, frame: FrameType | None) -> None:
        part = None
        while frame is not None and part is None:
            code = frame.f_code
            if code not in known:
                known[code] = _part(code)
            part, frame = known[code], frame.f_back
        name = part or OTHER
        seconds[name] = seconds.get(name, 0.0) + _PERIOD

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _PERIOD, _PERIOD)
    try:
        yield seconds
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _part(code: CodeType) -> str | None:
    path = PurePath(code.co_filename)
    return part_of(path.relative_to(_ROOT).as_posix()) if path.is_relative_to(_ROOT) else None
