"""What a claim must not ask for, so that the cloud launches nothing there is not enough left for."""

from __future__ import annotations

import numpy as np

from dovetail.model import labels
from dovetail.model.requirement import Requirement
from dovetail.solve.supply.encode import Amounts, Mask, PoolTable

_KEYS = (labels.CAPACITY_TYPE, labels.ZONE)


def within_reach(table: PoolTable, columns: Amounts, allowed: Mask) -> tuple[Amounts, list[Requirement]]:
    """Of these columns, the cheapest first, those that a claim may still ask for, and what it must leave out.

    A claim asks for types, capacity types and zones that all go with each other: what has nothing allowed in
    it goes first, then what keeps the cheapest allowed one from being asked for, then other types.
    """
    if allowed.all() or not allowed.any():
        return columns[allowed], []
    values = {key: np.array(table.domains(key), dtype=np.str_)[columns] for key in _KEYS}
    first = int(np.argmax(allowed))
    kind = table.column_type[columns]
    kept: Mask = np.ones(len(columns), dtype=np.bool_)
    without: dict[str, set[str]] = {key: set() for key in _KEYS}
    for key in _KEYS:
        lost = set(values[key].tolist()) - set(values[key][allowed].tolist())
        without[key] |= lost
        kept &= ~np.isin(values[key], sorted(lost))
    for key in _KEYS:
        if bool((kept & ~allowed & (kind == kind[first])).any()):
            lost = set(values[key][kept].tolist()) - {str(values[key][first])}
            without[key] |= lost
            kept &= values[key] == values[key][first]
    kept &= ~np.isin(kind, kind[kept & ~allowed])
    return columns[kept], [
        Requirement.new(key, "NotIn", sorted(lost)) for key, lost in without.items() if lost - {""}
    ]
