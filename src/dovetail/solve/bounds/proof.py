"""A lower bound on cost from what whole nodes can hold, sharper than from their room alone."""

from __future__ import annotations

import numpy as np

from dovetail.solve.bounds.bound import SAFETY, Duals
from dovetail.solve.packing.knapsack import Knapsacks
from dovetail.solve.packing.market import Market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.work import Work

_NARROW = 150  # partial loads that are followed at first
_WIDE = 240_000  # the same, times items, for columns that need it
_WIDEST = 20_000


def knapsack_bound(goods: Market, worth: Floats, absorbed: float, known: int, work: Work) -> int:
    """Nano-dollars per hour below which nobody can place the market's demand, whatever `worth` (S,) is.

    If no node can hold more worth than a multiple of its price, then all demand costs at least its worth
    divided by that multiple. `absorbed` is worth that free room takes at no price. `known` is a bound already
    proven: it is the result where it cannot be exceeded, or the work is used up.
    """
    if not len(goods.price) or not work.left:
        return known
    total = float(goods.demand @ worth) - absorbed
    knapsacks = Knapsacks(goods, work)
    highest = 1.0
    for column, price in enumerate(goods.price.tolist()):
        if price <= 0 or total <= known * highest:
            return known
        for width in (_NARROW, min(_WIDEST, _WIDE // len(worth))):
            if not work.left:
                return known
            most = knapsacks.run(column, worth, price * highest, width).most
            if most <= price * highest * (1 + SAFETY):
                break
        highest = max(highest, most / price)
    return max(known, int(total / highest * (1 - SAFETY)))


def dearest_pod(feasible: Mask, price: Amounts, vectors: Amounts, demand: Amounts, free: Amounts) -> int:
    """Nano-dollars per hour that one node costs at least: the cheapest that holds the most demanding pod.

    `feasible` (S, C), `price` (C,), `vectors` (S, R), `demand` (S,). A pod that no free room (N, R) holds by
    itself runs on a node that is bought. Sharper than a relaxation where a plan buys one or two nodes.
    """
    fits = np.all((free[None, :, :] >= vectors[:, None, :]) | (vectors[:, None, :] == 0), axis=2).any(axis=1)
    bought = (demand > 0) & ~fits & feasible.any(axis=1)
    if not bought.any():
        return 0
    cheapest = np.where(feasible[bought], price, np.iinfo(np.int64).max).min(axis=1)
    return int(cheapest.max())


def absorbed(goods: Market, worth: Floats, duals: Duals, free: Amounts) -> float:
    """The most worth that the free room can take, at prices that make no pod worth more than it needs."""
    if not np.maximum(free, 0).any():
        return 0.0
    prices = duals.resources.max(axis=0, initial=0.0)
    cost = goods.vectors @ prices
    wanted = (goods.demand > 0) & (worth > 0)
    if not np.all(cost[wanted] > 0):
        return float("inf")
    raised = float(np.max(worth[wanted] / cost[wanted], initial=0.0))
    return float((np.maximum(free, 0) @ prices).sum()) * raised
