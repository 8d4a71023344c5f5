"""Recorded screens of eks-node-viewer: the same figures, words and order.

Two differences are meant, and held here by name: Karpenter's v1 taint and reserved capacity are known.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import SECOND
from dovetail.units.money import NANO_DOLLARS
from dovetail.units.quantity import parse_quantity
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339
from dovetail.views.top.board import Board, Settings
from dovetail.views.top.order import Sort
from dovetail.views.top.text import screen

_FILE = Path(__file__).parent / "vectors" / "viewer.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]
NOW = parse_rfc3339("2026-03-02T12:00:00Z")
_DIFFERENT = {
    "v1-taint cpu 0% (0/29 pods) m5.large/$0.0960 On-Demand - Ready": (
        "v1-taint cpu 0% (0/29 pods) m5.large/$0.0960 On-Demand Cordoned Ready"
    ),
    "reserved cpu 0% (0/29 pods) m5.large - - Ready": (
        "reserved cpu 0% (0/29 pods) m5.large Reserved - Ready"
    ),
}


def _board(given: dict[str, Any]) -> Board:
    settings = Settings(
        resources=tuple(given.get("resources") or ("cpu",)),
        extra_labels=tuple(given.get("extraLabels") or ()),
        sort=Sort.parse(given.get("nodeSort") or "creation=dsc"),
        pricing=not given.get("disablePricing"),
    )
    board = Board(settings)
    for item in given["nodes"]:
        if item.get("hidden"):
            continue
        document = item.get("node") or item["nodeClaim"]
        meta = document["metadata"]
        meta["creationTimestamp"] = to_rfc3339(NOW - item["ageSeconds"] * SECOND)
        for each in document.get("status", {}).get("conditions", ()):
            each["lastTransitionTime"] = to_rfc3339(NOW - item["notReadySeconds"] * SECOND)
        kind = Node if "node" in item else NodeClaim
        obj = decode(document, kind)
        board.take("ADDED", obj)
        if item["price"] is not None:
            provider = obj.spec.provider_id if isinstance(obj, Node) else obj.status.provider_id
            board.cost(provider, round(item["price"] * NANO_DOLLARS))
    for document in given["pods"]:
        board.take("ADDED", decode(document, Pod))
    return board


def _words(lines: list[str]) -> list[str]:
    """Spacing and bars need not be the same."""
    found = (" ".join(line.replace("█", "").replace("░", "").split()) for line in lines)
    return [line for line in (item.replace("( ", "(") for item in found) if line]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_recorded(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    board = _board(given)
    shown = screen(board, NOW, height=given.get("height") or 200, page=given.get("page") or 0)
    assert _words(shown) == [_DIFFERENT.get(line, line) for line in _words(expected["screen"])]
    stats = expected["stats"]
    assert board.sums.nodes == stats["nodes"]
    assert len(board.pods) == stats["pods"]
    assert board.bound == stats["boundPods"]
    assert {phase: count for phase, count in board.phases.items() if count} == stats["podsByPhase"]
    assert board.sums.price / NANO_DOLLARS == pytest.approx(stats["totalPrice"])
    for mine, recorded in ((board.sums.used, stats["used"]), (board.sums.allocatable, stats["allocatable"])):
        assert {name: amount for name, amount in mine.items() if amount.nanos} == {
            name: parse_quantity(text) for name, text in recorded.items() if parse_quantity(text).nanos
        }
    board.check()
