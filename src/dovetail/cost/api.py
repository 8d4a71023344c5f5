"""OpenCost's HTTP API, read only: a path and its query -> status and JSON, nothing of HTTP itself.

/allocation and /allocation/compute (the same), each with /summary, and /assets. The same again under /model:
there OpenCost's own web UI asks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dovetail.base.clock import HOUR, MINUTE
from dovetail.cost import kubecost
from dovetail.cost.aggregate import NodeCost, Options, key_of, parse_keys, shares_of
from dovetail.cost.allocation import RESOURCES, Allocation, AllocationSet, dollars, rounded
from dovetail.cost.facts import Facts, VolumeRun, volume_cost
from dovetail.cost.filters import Asset, parse_asset_filter, parse_filter
from dovetail.cost.ledger import devices, disk_cost, node_costs, stepped
from dovetail.cost.window import Window, parse_window
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import to_rfc3339

_MOST_STEPS = 5_000
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
_NEEDS_IDLE = "bad request - includeIdle must be set true if includeProportionalAssetResourceCosts is true"


class Past(Protocol):
    """Where the facts are from."""

    @property
    def span(self) -> tuple[int, int]:
        """From when until when it knows, nanoseconds since the epoch."""

    def read(self, start: int, end: int) -> Facts:
        """All that ran between two instants."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP."""

    status: int
    body: bytes
    kind: str = "application/json"


class _Refused(Exception):
    def __init__(self, status: int, text: str, *, plain: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.plain = plain


def answer(path: str, query: Mapping[str, str], past: Past, now: int) -> Reply | None:
    """What OpenCost answers; None for a path that is none of its. Raises InputError as `past` does.

    `now`, nanoseconds since the epoch, is what windows are counted from.
    """
    name = path.removeprefix("/model").rstrip("/")
    try:
        match name:
            case "/allocation" | "/allocation/compute":
                _, sets, shares = _allocation(query, past, now)
                return _json(
                    [_with_shares(one.to_json(), own) for one, own in zip(sets, shares, strict=True)]
                )
            case "/allocation/summary" | "/allocation/compute/summary":
                return _json(_summary(*_allocation(query, past, now)[:2]))
            case "/assets":
                window = _window(query, now)
                keep = _asset_filter(query)
                return _json(_assets(past.read(window.start, window.end), window, keep))
    except _Refused as refused:
        text = str(refused)
        if refused.plain:
            return Reply(refused.status, f"{text}\n".encode(), "text/plain; charset=utf-8")
        body = {"code": refused.status, "status": "error", "message": text, "data": None}
        return Reply(refused.status, _encoded(body))
    return None


def _json(data: object) -> Reply:
    return Reply(200, _encoded({"code": 200, "data": data}))


def _encoded(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def _window(query: Mapping[str, str], now: int) -> Window:
    try:
        return parse_window(query.get("window", ""), now)
    except ValueError as error:
        raise _Refused(400, f"Invalid 'window' parameter: {error}", plain=True) from None


def _asset_filter(query: Mapping[str, str]) -> Callable[[Asset], bool]:
    try:
        return parse_asset_filter(query.get("filter", ""))
    except ValueError as error:
        raise _Refused(400, f"err parsing filter: {error}", plain=True) from None


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "") in _TRUE


def _includes_idle(query: Mapping[str, str]) -> bool:
    return _flag(query, "includeIdle" if "includeIdle" in query else "idle")  # idle: Kubecost's word


def _with_shares(costs: dict[str, Any], shares: Mapping[str, Any]) -> dict[str, Any]:
    for name, own in shares.items():
        if name in costs:
            costs[name]["proportionalAssetResourceCosts"] = own
    return costs


def _allocation(
    query: Mapping[str, str], past: Past, now: int
) -> tuple[Window, list[AllocationSet], list[dict[str, Any]]]:
    """The window, the answers, and with each by name the shares of assets, where they are asked for."""
    window = _window(query, now)
    given = query.get("aggregate", "")
    proportional = _flag(query, "includeProportionalAssetResourceCosts")
    if proportional and not _includes_idle(query):
        raise _Refused(400, _NEEDS_IDLE)
    if window.length < 0:
        raise _Refused(500, f"illegal window: [{to_rfc3339(window.start)}, {to_rfc3339(window.end)})")
    try:
        share, hourly, share_split = (
            kubecost.shared(query),
            kubecost.shared_hourly(query),
            kubecost.split(query),
        )
        wanted = kubecost.filter_text(query)
    except ValueError as error:
        raise _Refused(400, str(error), plain=True) from None
    accumulate = query.get("accumulateBy", "") or ("all" if _flag(query, "accumulate") else "")
    try:
        options = Options(
            aggregate=parse_keys([part for part in given.split(",") if part]),
            include_idle=_includes_idle(query),
            idle_by_node=_flag(query, "idleByNode"),
            share_idle=_flag(query, "shareIdle"),
            keep=parse_filter(wanted),
            share=share,
            shared_hourly=hourly,
            share_split=share_split,
            accumulate=accumulate,  # type: ignore[arg-type] # any text: what is unknown is refused below
            metadata=_flag(query, "includeAggregatedMetadata"),
        )
        windows = window.steps(_step(query, window)) if window.length else []
        facts = past.read(window.start, window.end)
        made = stepped(facts, windows, disks=True)
        borne = [asset_shares(*one, options) for one in made] if proportional else []
        answers = shares_of(made, options)
        return window, answers, [_shares(one, windows, borne) for one in answers]
    except ValueError as error:
        raise _Refused(500, str(error)) from None


def _shares(answer: AllocationSet, steps: Sequence[Window], borne: Sequence[AssetShares]) -> dict[str, Any]:
    """Of one answer, which may be of several steps."""
    whole = AssetShares()
    for step, own in zip(steps, borne, strict=False):
        if answer.window.start <= step.start and step.end <= answer.window.end:
            whole.add(own)
    return whole.to_json()


def _step(query: Mapping[str, str], window: Window) -> int:
    """What is no duration is the whole window, as OpenCost has it."""
    text = query.get("step", "")
    try:
        step = int(text[:-1]) * 24 * HOUR if text.endswith("d") else parse_duration(text) if text else 0
    except ValueError:
        step = 0
    step = step if step > 0 else window.length
    if window.length // max(1, step) > _MOST_STEPS:
        raise _Refused(400, f"bad request - more than {_MOST_STEPS} steps")
    return step


def _summary(window: Window, sets: Sequence[AllocationSet]) -> dict[str, Any]:
    shown = {"start": to_rfc3339(window.start), "end": to_rfc3339(window.end)}
    return {
        "step": sets[0].window.length if sets else window.length,
        "sets": [
            {
                "allocations": {item.name: _short(item) for item in one},
                "window": {"start": to_rfc3339(one.window.start), "end": to_rfc3339(one.window.end)},
            }
            for one in sets
        ],
        "window": shown,
    }


_SHORT = ("name", "start", "end", "networkCost", "loadBalancerCost", "pvCost", "sharedCost", "externalCost")
_SHORT_MEANS = ("cpuCore", "gpu", "ramByte")


def _short(one: Allocation) -> dict[str, Any]:
    whole = one.to_json()
    names = [*_SHORT, "totalCost", "totalEfficiency"]
    names += [f"{mean}{of}Average" for mean in _SHORT_MEANS for of in ("Request", "Usage")]
    names += [f"{resource}Cost{more}" for resource in RESOURCES for more in ("", "Idle")]
    return {name: whole[name] for name in names}


def _assets(facts: Facts, window: Window, keep: Callable[[Asset], bool]) -> dict[str, Any]:
    found = {}
    known = Window(window.start, max(window.start, min(window.end, facts.end)))
    for node in node_costs(facts, known, disks=True):
        found[_place("Compute", node.cluster, "Node", node.provider_id, node.name)] = _node_asset(
            node, window
        )
        disk = disk_cost(facts.instances[node.provider_id], known)
        if disk:
            found[_place("Storage", node.cluster, "Disk", node.provider_id, node.name)] = _disk_asset(
                node, window, disk
            )
    for volume in facts.volumes:
        cost = volume_cost(volume, known.start, known.end)
        if cost:
            end = known.end if volume.end is None else min(known.end, volume.end)
            where = _place("Storage", facts.cluster, "Disk", volume.name, volume.name)
            found[where] = _volume_asset(
                volume, facts.cluster, window, cost, max(known.start, volume.start), end
            )
    return {name: one for name, one in found.items() if keep(_filtered(one))}


def _filtered(one: Mapping[str, Any]) -> Asset:
    """What a filter looks at of what is answered."""
    about = one["properties"]
    return Asset(
        name=about["name"],
        type=one["type"],
        category=about["category"],
        cluster=about["cluster"],
        provider=about["provider"],
        provider_id=about["providerID"],
        service=about["service"],
        labels=one["labels"],
    )


def _volume_asset(
    volume: VolumeRun, cluster: str, window: Window, cost: int, start: int, end: int
) -> dict[str, Any]:
    namespace, _, claim = volume.claim.partition("/")
    return (
        _asset("Disk", "Storage", cluster, volume.name, volume.name)
        | _lived(window, start, end)
        | {
            "byteHours": rounded(volume.size * (end - start) / HOUR),
            "bytes": volume.size,
            "volumeName": volume.name,
            "claimName": claim,
            "claimNamespace": namespace,
            "local": 0,
            "adjustment": 0,
            "totalCost": dollars(cost),
        }
    )


_PROVIDER = "AWS"


def _place(category: str, cluster: str, kind: str, provider_id: str, name: str) -> str:
    """OpenCost's name of an asset."""
    unknown = "__undefined__"
    return "/".join((_PROVIDER, unknown, unknown, category, cluster, kind, "Kubernetes", provider_id, name))


def _asset(kind: str, category: str, cluster: str, name: str, provider_id: str) -> dict[str, Any]:
    about = {"category": category, "provider": _PROVIDER, "service": "Kubernetes", "cluster": cluster}
    return {"type": kind, "properties": about | {"name": name, "providerID": provider_id}, "labels": {}}


def _lived(window: Window, start: int, end: int) -> dict[str, Any]:
    return {
        "window": {"start": to_rfc3339(window.start), "end": to_rfc3339(window.end)},
        "start": to_rfc3339(start),
        "end": to_rfc3339(end),
        "minutes": rounded((end - start) / MINUTE),
    }


def _node_asset(node: NodeCost, window: Window) -> dict[str, Any]:
    hours = (node.end - node.start) / HOUR
    cores, memory = node.amounts.get("cpu", 0) / 1000, node.amounts.get("memory", 0)
    gpus = devices(node.amounts)
    return (
        _asset("Node", "Compute", node.cluster, node.name, node.provider_id)
        | _lived(window, node.start, node.end)
        | {
            "nodeType": node.node_type,
            "pool": node.pool,
            "cpuCores": cores,
            "ramBytes": memory,
            "cpuCoreHours": rounded(cores * hours),
            "ramByteHours": rounded(memory * hours),
            "GPUHours": rounded(gpus * hours),
            "gpuCount": gpus,
            "preemptible": int(node.capacity_type == "spot"),
            "discount": node.discount,
            "cpuCost": dollars(node.cost["cpu"]),
            "gpuCost": dollars(node.cost["gpu"]),
            "ramCost": dollars(node.cost["ram"]),
            "adjustment": 0,
            "totalCost": dollars(sum(node.cost.values())),
        }
    )


def _disk_asset(node: NodeCost, window: Window, cost: int) -> dict[str, Any]:
    return (
        _asset("Disk", "Storage", node.cluster, node.name, node.provider_id)
        | _lived(window, node.start, node.end)
        | {"local": 1, "adjustment": 0, "totalCost": dollars(cost)}
    )


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
