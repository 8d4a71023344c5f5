"""What all passes of a solve share: the encoded problem, and what its pods are worth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dovetail.model.plan import Proof
from dovetail.model.problem import Problem
from dovetail.solve.bound.relaxation import Early
from dovetail.solve.bound.topology_mip import Between
from dovetail.solve.budget import Work
from dovetail.solve.instance.arrays import Mask
from dovetail.solve.instance.instance import COLUMNS_PER_UNIT, World
from dovetail.solve.instance.offerings import Columns
from dovetail.solve.instance.pod_classes import Shape


class Desk:
    """A problem, encoded once for all passes."""

    def __init__(self, problem: Problem, work: Work, *, strict: bool = False) -> None:
        """`strict` keeps count of all that pools draw on together, however much is left of it."""
        self.world = World(problem, work, strict=strict)
        self.columns = Columns(self.world.tables, len(self.world.axis.names))
        # By kinds of pods with what they are promised.
        self.proofs: dict[tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...], Proof] = {}
        self.hurried = False  # True iff a packing was cut short, so that a proof got its share
        self._room = self.world.nodes.room.copy()  # on existing nodes, before anything is placed
        self._placeable: list[bool] | None = None  # per shape if alone, once somebody asked
        self.between = Between(self.world, self.columns)
        self.feasible = self._feasible()
        self.early = Early.of(self.world, self.columns, self.feasible)
        self._appraised = False
        if work.left:
            self.appraise()

    def appraise(self) -> None:
        """Find what pods are worth, once. A plan without any work left to improve it does without."""
        if not self._appraised:
            self._appraised = True
            for shape, value in zip(self.world.shapes, self.early.prices().worth.tolist(), strict=True):
                shape.value = value

    def stranded(self, left: Iterable[str]) -> tuple[int, ...]:
        """The shapes of those of these pods that would fit somewhere if they were alone."""
        names = set(left)
        if not names:
            return ()
        if self._placeable is None:
            bought: list[bool] = np.asarray(self.feasible.any(axis=1)).tolist()
            self._placeable = [bought[shape.index] or self._on_node(shape) for shape in self.world.shapes]
        return tuple(
            shape.index
            for shape, alone in zip(self.world.shapes, self._placeable, strict=True)
            if alone and not names.isdisjoint(shape.pods)
        )

    def _on_node(self, shape: Shape) -> bool:
        nodes = self.world.nodes
        fits = np.all((self._room >= shape.vector) | (shape.vector == 0), axis=1)
        return any(
            bool((nodes.feasible(wanted, shape.levels[-1].rules) & fits).any())
            for wanted in (shape.required if shape.levels else ())
        )

    def _feasible(self) -> Mask:
        """Columns that could hold each shape if everything that can be given up were, (S, C)."""
        shapes = self.world.shapes
        vectors = np.array([shape.vector for shape in shapes], dtype=np.int64)
        held = self.columns.holds(vectors.reshape(len(shapes), len(self.world.axis.names)))
        self.world.work.spend(len(shapes) + held.size // COLUMNS_PER_UNIT)
        usable: dict[int, Mask] = {}  # by ladder
        for shape in shapes:
            if shape.ladder not in usable:
                usable[shape.ladder] = self._usable(shape)
        if shapes:
            held &= np.array([usable[shape.ladder] for shape in shapes])
        return held

    def _usable(self, shape: Shape) -> Mask:
        """The same for one shape whatever its size, (C,)."""
        parts = [np.zeros(0, dtype=np.bool_)]
        for table in self.world.tables:
            usable = np.zeros(len(table.offerings), dtype=np.bool_)
            for wanted in shape.required if shape.levels else ():
                if self.world.suits(table.index, wanted, shape.levels[-1].rules):
                    usable |= table.usable(wanted)
            parts.append(usable)
        return np.concatenate(parts)
