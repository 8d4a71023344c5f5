"""Objects that a real API server judged, and what has to be the same in other verdicts on them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "vectors"

Case = dict[str, Any]


def read_cases(name: str = "admission") -> list[Case]:
    """All recorded objects of a file with their verdicts, in order."""
    with gzip.open(_FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def places(causes: Iterable[dict[str, str]]) -> set[tuple[str, str]]:
    """(field, reason) of every cause."""
    return {(cause["field"], cause["reason"]) for cause in causes}


# Reasons of budgets as of Karpenter 1.14, which these were recorded with, and as of 1.15.
_REASONS = '"Underutilized", "Empty", "Drifted"'
_REASONS_NOW = f'{_REASONS}, "Unhealthy"'


def rule_texts(causes: Iterable[dict[str, str]]) -> set[tuple[str, str]]:
    """(field, message) of every cause but types, patterns and bounds, whose words may differ."""
    texts = set()
    for cause in causes:
        message = cause["message"]
        if " in body " in message:
            continue
        # A rule that a server fails to evaluate is simply broken.
        _, found, rule = message.partition(" evaluating rule: ")
        text = f"Invalid value: {rule}" if found else message
        texts.add((cause["field"], text if _REASONS_NOW in text else text.replace(_REASONS, _REASONS_NOW)))
    return texts


_WAIT = ("spec.disruption.consolidateAfter", "FieldValueRequired")


def with_wait(case: Case) -> dict[str, Any] | None:
    """The object with the consolidateAfter that 1.15 gives it, where 1.14 refused it for lacking one."""
    if _WAIT not in places(case["expected"].get("causes", ())):
        return None
    document = case["object"]
    spec = document["spec"]
    return {**document, "spec": {**spec, "disruption": {**spec["disruption"], "consolidateAfter": "0s"}}}
