"""Pod requests and tolerations against recorded answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod, Taint, Toleration
from dovetail.model.resources import amounts, pod_limits, pod_requests
from dovetail.model.taints import taint_text, untolerated
from dovetail.units.quantity import parse_quantity

VECTORS = Path(__file__).parent / "vectors"


def load(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(gzip.decompress((VECTORS / name).read_bytes()))["cases"]
    return cases


@pytest.mark.parametrize("vector", load("resources.json.gz"), ids=lambda vector: vector["case"]["name"])
def test_requests_and_limits(vector: dict[str, Any]) -> None:
    pod = decode(vector["case"]["pod"], Pod)
    expected = vector["expected"]
    requests = pod_requests(pod)
    assert requests == amounts({name: parse_quantity(text) for name, text in expected["requests"].items()})
    assert {name: amount * (1 if name == "cpu" else 1000) for name, amount in requests.items()} == expected[
        "requestsMilli"
    ]
    assert pod_limits(pod) == amounts(
        {name: parse_quantity(text) for name, text in expected["limits"].items()}
    )


@pytest.mark.parametrize("vector", load("taints.json.gz"), ids=lambda vector: vector["case"]["name"])
def test_tolerations(vector: dict[str, Any]) -> None:
    case, expected = vector["case"], vector["expected"]
    taints = [decode(item, Taint) for item in case["taints"]]
    tolerations = [decode(item, Toleration) for item in case["tolerations"]]
    refused = untolerated(taints, tolerations)
    error = "; ".join(sorted(f"did not tolerate taint (taint={taint_text(item)})" for item in refused))
    assert error == (expected["error"] or "")
    assert (not error) == expected["tolerated"]
