"""The least number of nodes that a NodePool keeps (`dovetail.dev/minimum-nodes`). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.static import is_static
from dovetail.model import labels

_MOST = 10_000  # nodes: more is a slip, and would be bought


def minimum_nodes(pool: NodePool) -> int:
    """How many nodes the pool keeps, 0 where it is not said. Raises ValueError where it cannot be read."""
    text = pool.metadata.annotations.get(labels.MINIMUM_NODES, "")
    if not text:
        return 0
    if is_static(pool):
        raise ValueError("spec.replicas says already how many nodes it has")
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST)) and int(text) <= _MOST):
        raise ValueError(f"{text!r} is not a whole number of nodes from 0 to {_MOST}")
    return int(text)


def left(pool: NodePool, there: int) -> int | None:
    """How many of its nodes that are there may go without others in their place; None where any may.

    None of them may where the number cannot be read.
    """
    if labels.MINIMUM_NODES not in pool.metadata.annotations or is_static(pool):
        return None
    try:
        return max(0, there - minimum_nodes(pool))
    except ValueError:
        return 0


def spare(pools: Iterable[NodePool], views: Sequence[NodeView]) -> dict[str, int]:
    """Pool name -> nodes that may go without others in their place; pools that keep no number are left out.

    Nodes that are not initialized yet, or on their way out, are not there.
    """
    keeping = [pool for pool in pools if labels.MINIMUM_NODES in pool.metadata.annotations]
    if not keeping:
        return {}
    there = Counter(view.pool_name for view in views if view.counts and not view.leaves)
    found = {pool.metadata.name: left(pool, there[pool.metadata.name]) for pool in keeping}
    return {name: count for name, count in found.items() if count is not None}


def kept(pool: str) -> str:
    """Why a node stays, as its event has it."""
    return f'NodePool "{pool}" keeps its least number of nodes ({labels.MINIMUM_NODES})'


def without(allowed: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """What budgets allow of nodes that go without others in their place."""
    return {pool: min(count, most.get(pool, count)) for pool, count in allowed.items()}
