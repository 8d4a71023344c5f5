"""Arrays as decisions have them: their types, and the axis of resources that amounts run along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dovetail.model.resources import LARGEST, Resources

Mask = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ENDLESS = 1 << 62  # more than any amount, price or work
UNLIMITED = 1 << 40  # more pods or nodes than there can be; sums and products with prices stay within 64 bits
TABLE = 2_000_000  # cells of the largest table that is filled as a whole: 16 MB
BLOCK = 256  # rows that are compared with many others at once: what a comparison takes of memory ends
_RANKED = 200  # rows of needs, from which on to sort capacities first takes less time than it saves


class Axis:
    """The resources that anyone asks for, in a fixed order: the rows of every amount vector.

    Amounts are cut off at LARGEST and -LARGEST, so that their sums stay within 64 bits; no capacity is
    larger.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names)))

    def vector(self, resources: Resources) -> Amounts:
        """Amounts in row order, shape (R,)."""
        return np.array([_cut(resources.get(name, 0)) for name in self.names], dtype=np.int64)

    def matrix(self, many: Sequence[Resources]) -> Amounts:
        """The vectors of N of them, shape (N, R)."""
        rows = [[_cut(each.get(name, 0)) for name in self.names] for each in many]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.names))

    def mapping(self, vector: Amounts) -> dict[str, int]:
        """The inverse of `vector`, without zeros."""
        amounts = zip(self.names, vector.tolist(), strict=True)
        return {name: int(amount) for name, amount in amounts if amount}


def share(rows: Mask, columns: Mask) -> Mask:
    """(A, B): whether any of N things is true in both; `rows` (A, N), `columns` (N, B).

    Nothing in here can be invalid. Libraries for matrices work on whole registers, and now and then complain
    of what happens to be in lanes that nothing was loaded into.
    """
    with np.errstate(invalid="ignore"):
        result: Mask = rows.astype(np.float32) @ columns.astype(np.float32) > 0
    return result


def holding(needs: Amounts, capacity: Amounts) -> Mask:
    """(N, C): which of `capacity` (C, R) is at least as much of everything as each of `needs` (N, R).

    Of many, ranks are compared in place of amounts: they are short, so that it takes a third of the time.
    """
    found = np.ones((len(needs), len(capacity)), dtype=np.bool_)
    for need, has in zip(needs.T, capacity.T, strict=True):
        if len(needs) > _RANKED:
            different, place = np.unique(has, return_inverse=True)
            short = np.int16 if len(different) < 1 << 15 else np.int64
            need, has = np.searchsorted(different, need).astype(short), place.reshape(-1).astype(short)
        for start in range(0, len(needs), BLOCK):
            found[start : start + BLOCK] &= need[start : start + BLOCK, None] <= has
    return found


def alike(rows: Mask, order: Iterable[int] | None = None) -> list[list[int]]:
    """The indices of `rows` (N, M) that are equal, per kind of row: those of `order` in it, or all."""
    groups: dict[bytes, list[int]] = {}
    keys = _as_bytes(np.packbits(rows, axis=1))
    for index in range(len(keys)) if order is None else order:
        groups.setdefault(keys[index], []).append(index)
    return list(groups.values())


def distinct(rows: Amounts) -> Amounts:
    """Of `rows` (N, M) that are equal the first one's index, in order: numpy.unique would sort them."""
    keys = _as_bytes(rows)
    last = len(keys) - 1
    return np.array(sorted(dict(zip(reversed(keys), range(last, -1, -1), strict=True)).values()), np.int64)


def numbered(amounts: Amounts, *bits: npt.NDArray[np.uint8]) -> Amounts:
    """Equal rows get equal numbers (N,), from 0 and in the rows' own order: of amounts (N, M), none of them
    negative, and then of bits (N, B).
    """
    # The bytes of such integers, the highest first, are in the order of their values.
    raw = np.ascontiguousarray(amounts).astype(">i8").view(np.uint8)
    keys = _as_bytes(np.concatenate([raw, *bits], axis=1))
    number = {key: index for index, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def _as_bytes(rows: npt.NDArray[np.generic]) -> list[bytes]:
    """Each row as one value."""
    packed = np.ascontiguousarray(rows)
    width = f"V{packed.strides[0]}"
    keys: list[bytes] = packed.view(width)[:, 0].tolist() if packed.size else [b""] * len(packed)
    return keys


def _cut(amount: int) -> int:
    return amount if -LARGEST < amount < LARGEST else LARGEST if amount > 0 else -LARGEST
