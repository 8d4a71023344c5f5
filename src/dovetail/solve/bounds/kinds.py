"""Shapes that are nearly alike, taken together, so that the relaxation stays small however many there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.solve.packing.cells import on_grid
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask

_MOST_KINDS = 250
_FIRST_STEP = 0.05  # sizes within about 5 % are alike, if that makes few enough kinds
_WIDER = 1.4


@dataclass(frozen=True, slots=True)
class Kinds:
    """K kinds of pods: their columns (K, C), mean requests (K, R), and number of pods (K,)."""

    feasible: Mask
    vectors: Floats
    demand: Floats


def kinds_of(feasible: Mask, room: Amounts, vectors: Amounts, demand: Amounts) -> Kinds:
    """The shapes by kind: equal ones together, and where there are too many different ones, near-equal ones.

    `feasible` (S, C), `room` (C, R), `vectors` (S, R), `demand` (S,). A kind is feasible where all of its
    shapes are, if there is such a column.
    """
    labels = _numbered(vectors, np.packbits(feasible, axis=1))
    step = _FIRST_STEP
    while labels.max(initial=0) >= _MOST_KINDS:
        labels = _numbered(on_grid(vectors, 1 + step), _rules(feasible, room, vectors))
        if step > _WIDER:
            break  # what is left differs by rules
        step *= _WIDER
    count = int(labels.max(initial=-1)) + 1
    weight = np.maximum(demand, 1e-3).astype(np.float64)
    total = np.bincount(labels, weights=weight, minlength=count)
    sums = [np.bincount(labels, weights=weight * column, minlength=count) for column in vectors.T]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(count))
    every: Mask = np.logical_and.reduceat(feasible[order], starts, axis=0)
    some: Mask = np.logical_or.reduceat(feasible[order], starts, axis=0)
    shared: Mask = np.where(np.any(every, axis=1, keepdims=True), every, some)
    pods: Floats = np.bincount(labels, weights=demand, minlength=count).astype(np.float64)
    return Kinds(shared, np.stack(sums, axis=1) / total[:, None], pods)


def _rules(feasible: Mask, room: Amounts, vectors: Amounts) -> npt.NDArray[np.uint8]:
    """What of the columns tells rules apart and not sizes: those that are large enough for every shape."""
    large = np.all(room >= vectors.max(axis=0, initial=0), axis=1)
    return np.packbits(feasible[:, large], axis=1)


def _numbered(amounts: Amounts, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Equal rows of both get equal numbers, from 0 and in the rows' order."""
    # The bytes of integers that are not negative, the highest first, are in the order of their values.
    raw = np.ascontiguousarray(amounts).astype(">i8").view(np.uint8).reshape(len(amounts), -1)
    keys = [row.tobytes() for row in np.concatenate([raw, bits], axis=1)]
    number = {key: index for index, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], dtype=np.int64)
