"""NodeOverlays among the manifests: what they make of the types that pools may buy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.words import number_of
from dovetail.cli.messages import note
from dovetail.cluster.problem import pool_labels, pool_requirements
from dovetail.model.offering import InstanceType
from dovetail.model.overlays import Supply, evaluate, matched

Types = Callable[[NodePool], tuple[InstanceType, ...]]


def overlaid(types: Types, overlays: Iterable[NodeOverlay], pools: Iterable[NodePool]) -> Types:
    """The types of pools with all that overlays change; what each of these comes to is said."""
    given = sorted(overlays, key=lambda item: item.metadata.name)
    if not given:
        return types
    given_pools = tuple(pools)
    supplies = {
        pool.metadata.name: Supply(pool.metadata.name, pool_labels(pool), types(pool)) for pool in given_pools
    }
    found = evaluate(given, supplies.values())
    bought = [
        replace(supplies[pool.metadata.name], types=_bought(pool, supplies[pool.metadata.name].types))
        for pool in given_pools
    ]
    for overlay in given:
        verdict = found.verdicts[overlay.metadata.name]
        what = f"is left out: {verdict.message}" if verdict.reason else _outcome(overlay, bought)
        note(f"NodeOverlay {overlay.metadata.name} {what}")
    note("prices here are those with NodeOverlays; a cluster heeds them where its gate NodeOverlay is open")
    sold = {name: found.types(name, supply.types) for name, supply in supplies.items()}
    return lambda pool: sold[pool.metadata.name]


def _bought(pool: NodePool, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """Those that the pool's own requirements allow."""
    wanted = pool_requirements(pool)
    return tuple(
        replace(kind, offerings=tuple(one for one in kind.offerings if one.requirements.overlaps(wanted)))
        for kind in types
        if kind.requirements.overlaps(wanted)
    )


def _outcome(overlay: NodeOverlay, bought: Iterable[Supply]) -> str:
    count = len(matched(overlay, bought))
    if not count:
        return "matches no type that a NodePool may buy"
    return " and ".join(_changes(overlay, number_of(count, "type"))) or "sets nothing"


def _changes(overlay: NodeOverlay, types: str) -> Iterator[str]:
    spec = overlay.spec
    if spec.price is not None:
        yield f"sets the price of {types} to ${spec.price}/h"
    elif spec.price_adjustment is not None:
        yield f"changes the price of {types} by {spec.price_adjustment}"
    if spec.capacity:
        amounts = ", ".join(f"{amount} {name}" for name, amount in sorted(spec.capacity.items()))
        yield f"gives {types} {amounts}"
