"""The cheapest choice among all patterns of nodes, for programs small enough that every pattern is listed."""

from __future__ import annotations

import numpy as np

from dovetail.model.problem import Budget
from dovetail.solve.bound.topology_colgen import Enumeration, Master
from dovetail.solve.bound.topology_model import Rows
from dovetail.solve.budget import SolveBudget
from dovetail.solve.colgen.highs import minimum
from dovetail.solve.instance.instance import Instance

ANY_PRICE = 1 << 40  # nano-dollars per hour
MANY = 200_000  # patterns
PLENTY = Budget(work=100_000_000)


def cheapest_choice(instance: Instance, rows: Rows) -> float:
    """In dollars per hour; infinite if no nodes keep the rules."""
    work = SolveBudget(PLENTY)
    every = Enumeration(rows, ANY_PRICE, work, MANY).run()
    assert every is not None
    master = Master(instance, rows, every)
    answer = minimum(master.model(master.every), work)
    return np.inf if answer.values is None else answer.bound
