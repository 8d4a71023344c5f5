"""Pauses: what Dovetail leaves alone for now, in the whole cluster or in one NodePool."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.model import labels

LAUNCHES, DISRUPTION, ALL = "launches", "disruption", "all"
PAUSES = (ALL, LAUNCHES, DISRUPTION)


@dataclass(frozen=True, slots=True)
class Pause:
    """What is paused. Machines that the cloud takes away, and what is begun already, go on."""

    launches: bool = False
    disruption: bool = False


def read_pause(text: str) -> Pause:
    """From a setting or an annotation. A word that is not known pauses all: better to stand still."""
    if not text:
        return Pause()
    return Pause(launches=text != DISRUPTION, disruption=text != LAUNCHES)


def pause_of(pool: NodePool | None) -> Pause:
    """What the pool's annotation pauses."""
    return read_pause(pool.metadata.annotations.get(labels.PAUSE, "") if pool is not None else "")
