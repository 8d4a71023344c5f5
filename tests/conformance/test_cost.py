"""Recorded answers of OpenCost: windows and allocations, equal to five decimals."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cost.aggregate import NodeCost, Options, parse_keys, shares_of
from dovetail.cost.allocation import NANO, Allocation, AllocationSet, Properties, Volume
from dovetail.cost.filters import parse_filter
from dovetail.cost.window import Window, parse_window
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

_FILE = Path(__file__).parent / "vectors" / "cost" / "allocation.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]
_TEXTS = ("cluster", "node", "container", "controller", "namespace", "pod")
_MAPS = {
    "labels": "labels",
    "annotations": "annotations",
    "namespaceLabels": "namespace_labels",
    "namespaceAnnotations": "namespace_annotations",
}


def _nanos(dollars: float) -> int:
    return round(dollars * NANO)


def _allocation(given: dict[str, Any], window: Window) -> Allocation:
    about = given["properties"]
    one = Allocation(
        name=given["name"],
        properties=Properties(
            **{name: about.get(name, "") for name in _TEXTS},
            controller_kind=about.get("controllerKind", ""),
            provider_id=about.get("providerID", ""),
            services=tuple(about.get("services") or ()),
            **{ours: about.get(name) or {} for name, ours in _MAPS.items()},
        ),
        window=window,
        start=parse_rfc3339(given["Start"]),
        end=parse_rfc3339(given["End"]),
        cost={name.lower(): _nanos(given.get(f"{name}Cost", 0)) for name in ("CPU", "GPU", "RAM")},
        hours={
            "cpu": given.get("CPUCoreHours", 0),
            "gpu": given.get("GPUHours", 0),
            "ram": given.get("RAMByteHours", 0),
        },
        request={name.lower(): given.get(f"{name}Request", 0) for name in ("CPU", "GPU", "RAM")},
        usage={name.lower(): given.get(f"{name}Usage", 0) for name in ("CPU", "GPU", "RAM")},
        network=_nanos(given.get("NetworkCost", 0)),
        load_balancer=_nanos(given.get("LoadBalancerCost", 0)),
        external=_nanos(given.get("ExternalCost", 0)),
    )
    for volume in given.get("PVs") or ():
        key = f"cluster={volume['Cluster']}:name={volume['Name']}"
        one.volumes[key] = Volume(_nanos(volume["Cost"]), volume["ByteHours"], volume.get("ProviderID", ""))
    return one


def _node(given: dict[str, Any], window: Window) -> NodeCost:
    return NodeCost(
        cluster=given["Cluster"],
        name=given["Name"],
        start=parse_rfc3339(given["Start"]) if "Start" in given else window.start,
        end=parse_rfc3339(given["End"]) if "End" in given else window.end,
        cost={name.lower(): _nanos(given[f"{name}Cost"]) for name in ("CPU", "GPU", "RAM")},
        discount=given.get("Discount", 0.0),
        adjustment=_nanos(given.get("Adjustment", 0)),
    )


def _sets(given: list[dict[str, Any]]) -> list[tuple[AllocationSet, list[NodeCost]]]:
    found = []
    for one in given:
        window = Window(parse_rfc3339(one["Start"]), parse_rfc3339(one["End"]))
        allocations = AllocationSet(window, (_allocation(item, window) for item in one["Allocations"] or ()))
        found.append((allocations, [_node(node, window) for node in one["Nodes"] or ()]))
    return found


def _options(given: dict[str, Any]) -> Options:
    return Options(
        aggregate=parse_keys(given.get("aggregate") or ()),
        include_idle=given.get("IncludeIdle", False),
        idle_by_node=given.get("IdleByNode", False),
        share_idle=given.get("ShareIdle", False),
        split_idle=given.get("SplitIdle", False),
        keep=parse_filter(given.get("Filter", "")),
        share=parse_filter(given.get("Share", "")),
        shared_hourly=given.get("SharedHourlyCosts", {}),
        share_split=given.get("ShareSplit", "__weighted__"),
        accumulate=given.get("Accumulate", ""),
        metadata=given.get("AggregatedMetadata", False),
        merge_unallocated=given.get("MergeUnallocated", False),
    )


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    given = case["input"]
    try:
        if case["op"] == "window":
            window = parse_window(given["window"], parse_rfc3339(given["now"]))
            return {"start": to_rfc3339(window.start), "end": to_rfc3339(window.end)}
        return {"data": [one.to_json() for one in shares_of(_sets(given["sets"]), _options(given))]}
    except ValueError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_answers_of_opencost(case: dict[str, Any]) -> None:
    assert _answer(case) == case["expected"]
