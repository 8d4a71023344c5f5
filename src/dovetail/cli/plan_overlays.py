"""NodeOverlays among the manifests: what they make of the types that pools may buy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cli.messages import note
from dovetail.cluster.problem import pool_labels
from dovetail.model.offering import InstanceType
from dovetail.model.overlays import Overlaid, Supply, evaluate

Types = Callable[[NodePool], tuple[InstanceType, ...]]


def overlaid(types: Types, overlays: Iterable[NodeOverlay], pools: Iterable[NodePool]) -> Types:
    """The types of pools with all that overlays change; what each of these comes to is said."""
    given = tuple(overlays)
    if not given:
        return types
    supplies = {
        pool.metadata.name: Supply(pool.metadata.name, pool_labels(pool), types(pool)) for pool in pools
    }
    found = evaluate(given, supplies.values())
    _tell(found)
    sold = {name: found.types(name, supply.types) for name, supply in supplies.items()}
    return lambda pool: sold[pool.metadata.name]


def _tell(found: Overlaid) -> None:
    counted = sorted(name for name, verdict in found.verdicts.items() if not verdict.reason)
    if counted:
        named = f"NodeOverlay {counted[0]} counts" if len(counted) == 1 else _several(counted)
        note(f"{named} here; in a cluster the gate NodeOverlay decides, which is shut by default")
    for name, verdict in sorted(found.verdicts.items()):
        if verdict.reason:
            note(f"NodeOverlay {name} is left out: {verdict.message}")


def _several(names: list[str]) -> str:
    return f"NodeOverlays {', '.join(names)} count"
