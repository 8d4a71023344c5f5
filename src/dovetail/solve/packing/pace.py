"""Pace: pods that must stand on different nodes dictate how many nodes there are, and so how large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.solve.packing.lots import Lots
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask

_CREDIT = 0.1  # of a node's fair price: what a node gains in rank by the pods that need nodes of their own
_SLACK = 2.0  # times the fair price of a node: as dear it may be
_PULL = 10  # times the credit: what such pods gain when it is decided who goes first


@dataclass(frozen=True, slots=True)
class Pace:
    """What a greedy packing should look for next."""

    credit: Floats  # (K,) nano-dollars per hour, per bundle of a kind
    price: float  # nano-dollars per hour that the next node should cost at most

    @property
    def pull(self) -> Floats:
        """(K,) by how much more a bundle should seem worth when nodes are filled."""
        return self.credit * _PULL


class Crowds:
    """Sets of kinds of which a node holds only so much: rows, and cliques of kinds that conflict."""

    def __init__(self, lots: Lots) -> None:
        cliques = _cliques(lots.conflict)
        self._takes = np.concatenate([lots.takes.T, cliques]).astype(np.float64)  # (F, K)
        self._has = np.concatenate([lots.has, np.ones(len(cliques), dtype=np.int64)])
        self._kinds = len(lots.kinds)

    def pace(self, left: Amounts, value: float) -> Pace:
        """For bundles left per kind (K,) of so much worth in all."""
        none = Pace(np.zeros(self._kinds), float("inf"))
        if not len(self._has):
            return none
        nodes = np.ceil(self._takes @ left / np.maximum(self._has, 1))
        most = float(nodes.max())
        if most < 1:
            return none
        fair = value / most
        tight = (nodes / most) ** 4
        credit: Floats = _CREDIT * fair / tight.sum() * (tight @ (self._takes > 0))
        return Pace(credit, fair * _SLACK)


def _cliques(conflict: Mask) -> Amounts:
    """Sets of kinds of which a node takes one bundle, (F, K), grown greedily until each kind is in one."""
    found: list[Amounts] = []
    open_to = np.diagonal(conflict).copy()
    for kind in np.flatnonzero(open_to).tolist():
        if not open_to[kind]:
            continue
        clique = np.zeros(len(conflict), dtype=np.int64)
        clique[kind] = 1
        fits = conflict[kind] & np.diagonal(conflict)
        fits[kind] = False
        while fits.any():
            other = int(np.argmax(fits))
            clique[other] = 1
            fits &= conflict[other]
            fits[other] = False
        open_to[clique > 0] = False
        found.append(clique)
    return np.array(found, dtype=np.int64).reshape(len(found), len(conflict))
