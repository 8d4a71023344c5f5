"""How much of each asset a group bears: its part of what a node, or the whole cluster, cost, by resource.

OpenCost calls it proportional asset resource costs. An asset is a node where idle is counted by node, else
the cluster; what it cost includes what is idle of it, so the parts of all groups and idle are 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.cost.aggregate import NodeCost, Options, key_of
from dovetail.cost.allocation import RESOURCES, AllocationSet, rounded

_Place = tuple[str, str, str]  # cluster, node and its provider id; "" where the cluster is the asset
_WORDS = {"cpu": "cpuPercentage", "gpu": "gpuPercentage", "ram": "ramPercentage"}


def _nothing() -> dict[str, int]:
    return dict.fromkeys(RESOURCES, 0)


@dataclass(slots=True)
class AssetShares:
    """Nano-dollars by resource: of each asset in all, and of each group of it."""

    whole: defaultdict[_Place, dict[str, int]] = field(default_factory=lambda: defaultdict(_nothing))
    groups: defaultdict[str, defaultdict[_Place, dict[str, int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_nothing))
    )

    def add(self, other: AssetShares) -> None:
        """Take in those of another step."""
        for place, cost in other.whole.items():
            _sum(self.whole[place], cost)
        for name, places in other.groups.items():
            for place, cost in places.items():
                _sum(self.groups[name][place], cost)

    def to_json(self) -> dict[str, Any]:
        """By group and asset, as OpenCost writes them; parts are 0 to 1."""
        return {
            name: {_key(place): self._shares_of(place, cost) for place, cost in places.items()}
            for name, places in self.groups.items()
        }

    def _shares_of(self, place: _Place, cost: dict[str, int]) -> dict[str, Any]:
        cluster, node, provider = place
        whole = self.whole[place]
        about: dict[str, Any] = {"cluster": cluster}
        if node:
            about |= {"node": node, "providerID": provider}
        about |= {word: _part(cost[resource], whole[resource]) for resource, word in _WORDS.items()}
        return about | {"nodeResourceCostPercentage": _part(sum(cost.values()), sum(whole.values()))}


def asset_shares(made: AllocationSet, nodes: Sequence[NodeCost], options: Options) -> AssetShares:
    """Of allocations before they are grouped, and the nodes that they are of."""
    found = AssetShares()
    places: dict[tuple[str, str], _Place] = {}
    for node in nodes:
        by_node = options.idle_by_node
        place = (node.cluster, node.name if by_node else "", node.provider_id if by_node else "")
        places[node.cluster, node.name] = place
        _sum(found.whole[place], node.paid)
    for one in made:
        about = one.properties
        asset = places.get((about.cluster, about.node))
        # A volume that no pod mounts is on none.
        if asset is not None and (options.keep is None or options.keep(about)):
            _sum(found.groups[key_of(about, options.aggregate)][asset], one.cost)
    return found


def _sum(sums: dict[str, int], more: dict[str, int]) -> None:
    for resource in RESOURCES:
        sums[resource] += more[resource]


def _part(cost: int, whole: int) -> float | None:
    return rounded(cost / whole) if whole > 0 else 0


def _key(place: _Place) -> str:
    cluster, node, _ = place
    return f"{cluster},{node}" if node else cluster
