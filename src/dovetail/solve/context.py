"""What all passes of a solve share: the encoded problem, and what its pods are worth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dovetail.model.plan import Proof
from dovetail.model.problem import Problem
from dovetail.solve.bound.relaxation import Early
from dovetail.solve.bound.topology_mip import TopologyBound
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.arrays import Mask
from dovetail.solve.instance.instance import COLUMNS_PER_UNIT, Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pod_classes import PodClass


class SolveContext:
    """A problem, encoded once for all passes."""

    def __init__(self, problem: Problem, work: SolveBudget, *, strict: bool = False) -> None:
        """`strict` keeps count of all that pools draw on together, however much is left of it."""
        self.instance = Instance(problem, work, strict=strict)
        self.columns = OfferingsTable(self.instance.tables, len(self.instance.axis.names))
        # By kinds of pods with what they are promised.
        self.proofs: dict[tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...], Proof] = {}
        self.slice_over = False  # True iff a packing was cut short, so that a proof got its share
        self._capacity = self.instance.nodes.capacity.copy()  # on existing nodes, before anything is placed
        self._placeable: list[bool] | None = None  # per pod class if alone, once something asked
        self.topology_bound = TopologyBound(self.instance, self.columns)
        self.feasible = self._feasible()
        self.early = Early.of(self.instance, self.columns, self.feasible)
        self._appraised = False
        if work.left:
            self.appraise()

    def appraise(self) -> None:
        """Find what pods are worth, once. A plan without any work left to improve it does without."""
        if not self._appraised:
            self._appraised = True
            for pod_class, value in zip(
                self.instance.pod_classes, self.early.prices().dual_values.tolist(), strict=True
            ):
                pod_class.value = value

    def stranded(self, left: Iterable[str]) -> tuple[int, ...]:
        """The pod classes of those of these pods that would fit somewhere if they were alone."""
        names = set(left)
        if not names:
            return ()
        if self._placeable is None:
            bought: list[bool] = np.asarray(self.feasible.any(axis=1)).tolist()
            self._placeable = [
                bought[pod_class.index] or self._on_node(pod_class) for pod_class in self.instance.pod_classes
            ]
        return tuple(
            pod_class.index
            for pod_class, alone in zip(self.instance.pod_classes, self._placeable, strict=True)
            if alone and not names.isdisjoint(pod_class.pods)
        )

    def _on_node(self, pod_class: PodClass) -> bool:
        nodes = self.instance.nodes
        fits = np.all((self._capacity >= pod_class.vector) | (pod_class.vector == 0), axis=1)
        return any(
            bool((nodes.feasible(wanted, pod_class.levels[-1].rules) & fits).any())
            for wanted in (pod_class.required if pod_class.levels else ())
        )

    def _feasible(self) -> Mask:
        """Columns that could hold each pod class if everything that can be given up were, (S, C)."""
        pod_classes = self.instance.pod_classes
        vectors = np.array([pod_class.vector for pod_class in pod_classes], dtype=np.int64)
        held = self.columns.holds(vectors.reshape(len(pod_classes), len(self.instance.axis.names)))
        self.instance.work.spend(len(pod_classes) + held.size // COLUMNS_PER_UNIT)
        usable: dict[int, Mask] = {}  # by ladder
        for pod_class in pod_classes:
            if pod_class.ladder not in usable:
                usable[pod_class.ladder] = self._usable(pod_class)
        if pod_classes:
            held &= np.array([usable[pod_class.ladder] for pod_class in pod_classes])
        return held

    def _usable(self, pod_class: PodClass) -> Mask:
        """Columns whose labels and taints suit one pod class, whatever its size, (C,)."""
        parts = [np.zeros(0, dtype=np.bool_)]
        for table in self.instance.tables:
            usable = np.zeros(len(table.offerings), dtype=np.bool_)
            for wanted in pod_class.required if pod_class.levels else ():
                if self.instance.suits(table.index, wanted, pod_class.levels[-1].rules):
                    usable |= table.usable(wanted)
            parts.append(usable)
        return np.concatenate(parts)
