"""Twins: items of equal requests and different rules. Where one has run out, another may do as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.solve.supply.encode import Amounts, Mask

_Counts = tuple[tuple[int, int], ...]


class Twins:
    """Knows who can stand in for whom; `any` is False where nobody can."""

    def __init__(self, vectors: Amounts, kind: Amounts, feasible: Mask, conflict: Mask) -> None:
        """`vectors` (I, R), `kind` (I,), `feasible` (I, C), `conflict` (K, K) of kinds."""
        self._kind: list[int] = kind.tolist()
        self._feasible = feasible
        self._conflict: list[list[bool]] = conflict.tolist()
        groups: dict[bytes, list[int]] = {}
        # Items that fewer nodes suit go first: those that suit everywhere can wait.
        for item in np.argsort(feasible.sum(axis=1), kind="stable").tolist():
            groups.setdefault(vectors[item].tobytes(), []).append(item)
        self._groups = [groups[vector.tobytes()] for vector in vectors]
        self.any = len(groups) < len(vectors)

    def load(self, counts: _Counts, column: int, left: Sequence[int]) -> _Counts:
        """A load of the same requests, of what is left (I,), the named items first; () if there is none."""
        chosen: dict[int, int] = {}
        kinds: list[int] = []
        for item, number in counts:
            need = number
            for each in (item, *self._groups[item]):
                have = left[each] - chosen.get(each, 0)
                if have <= 0 or not self._feasible[each, column]:
                    continue
                apart = self._conflict[self._kind[each]]
                if any(apart[kind] for kind in kinds):
                    continue
                taken = min(need, have, 1) if apart[self._kind[each]] else min(need, have)
                chosen[each] = chosen.get(each, 0) + taken
                kinds.append(self._kind[each])
                need -= taken
                if not need:
                    break
            if need:
                return ()
        return tuple(sorted(chosen.items()))
