"""How many vCPUs an account may run at once, as Service Quotas has it: per way of buying and family of types.

The codes are those of the console of Service Quotas (Amazon EC2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.model import labels

SERVICE = "ec2"
STANDARD = "standard"  # A, C, D, H, I, M, R, T, Z
Quotas = Mapping[tuple[str, str], int]  # (capacity type, family) -> vCPUs
_ON_DEMAND = {
    "L-1216C47A": STANDARD,
    "L-6E869C2A": "dl",
    "L-74FC7D96": "f",
    "L-DB2E81BA": "g",
    "L-F7808C92": "hpc",
    "L-1945791B": "inf",
    "L-417A185B": "p",
    "L-2C3B7624": "trn",
    "L-43DA4232": "u",
    "L-7295265B": "x",
}
_SPOT = {
    "L-34B43A08": STANDARD,
    "L-85EED4F7": "dl",
    "L-88CF9481": "f",
    "L-3819A6DF": "g",
    "L-B5D1601B": "inf",
    "L-7212CCBC": "p",
    "L-6B0D517C": "trn",
    "L-E3A00192": "x",
}
_FAMILIES = (
    (re.compile(r"dl\d"), "dl"),
    (re.compile(r"hpc"), "hpc"),
    (re.compile(r"inf"), "inf"),
    (re.compile(r"trn"), "trn"),
    (re.compile(r"(g|gr|vt)\d"), "g"),
    (re.compile(r"p\d"), "p"),
    (re.compile(r"f\d"), "f"),
    (re.compile(r"u"), "u"),
    (re.compile(r"x"), "x"),
)
_CODES = {
    **{code: (labels.ON_DEMAND, family) for code, family in _ON_DEMAND.items()},
    **{code: (labels.SPOT, family) for code, family in _SPOT.items()},
}


def family(instance_type: str) -> str:
    """By which quota EC2 counts the type's vCPUs."""
    return next((name for pattern, name in _FAMILIES if pattern.match(instance_type)), STANDARD)


def read(answers: Iterable[Mapping[str, Any]]) -> Quotas:
    """The quotas of ListServiceQuotas that count vCPUs."""
    return {
        _CODES[item["QuotaCode"]]: int(item["Value"])
        for item in answers
        if item.get("QuotaCode") in _CODES and "Value" in item
    }
