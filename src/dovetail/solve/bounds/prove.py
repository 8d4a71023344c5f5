"""The proof of what pods must cost: worths of pods that no offering can hold more of than its price."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.solve.bounds.absorb import absorbed, copies_in
from dovetail.solve.bounds.relaxation import Duals, most_held
from dovetail.solve.bounds.scope import Scope
from dovetail.solve.packing.knapsack import Knapsacks
from dovetail.solve.packing.market import Market
from dovetail.solve.plan import COLUMNS, DEAREST_POD, RELAXATION, Proof, Worth
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.work import Work

_NARROW = 150  # partial loads that are followed at first
_WIDE = 240_000  # the same, times items, for columns that need it
_WIDEST = 20_000
_MOST = np.iinfo(np.int64).max
_SLACK = 1e-9  # share by which worths are lowered for rounding in floating point


def prove(scope: Scope, duals: Duals, found: Floats | None, hourly: int, work: Work) -> Proof:
    """The best proof for a plan of that price. `found` (S,): worths from column generation, if there was any.

    `duals` are of the relaxation over the scope's kinds. No tolerance of a linear program can make the bound
    too high: all worths are scaled until no offering can hold more than its price.
    """
    best = _dearest(scope)
    best = max(best, _proof(scope, duals, RELAXATION, _scaled(duals.worth, _ratio(scope, duals))), key=_bound)
    if best.bound >= hourly or found is None or not work.left:
        return best
    goods = scope.market()

    def enough(highest: float) -> bool:
        return float(scope.demand @ found) <= best.bound * highest

    highest = highest_ratio(goods, found, enough, work)
    if highest is None:
        return best
    return max(best, _proof(scope, duals, COLUMNS, _scaled(found, highest)), key=_bound)


def highest_ratio(
    goods: Market, worth: Floats, hopeless: Callable[[float], bool], work: Work
) -> float | None:
    """No node can hold more worth (S,) than this multiple, at least 1, of its price.

    None if that cannot be told within the work, or once the multiple is `hopeless`.
    """
    knapsacks = Knapsacks(goods, work)
    highest = 1.0
    for column, price in enumerate(goods.price.tolist()):
        if price <= 0 or hopeless(highest):
            return None
        most = 0.0
        for width in (_NARROW, min(_WIDEST, _WIDE // len(worth))):
            if not work.left:
                return None
            most = knapsacks.run(column, worth, price * highest, width).most
            if most <= price * highest * (1 + _SLACK):
                break
        highest = max(highest, most / price)
    return highest


def _dearest(scope: Scope) -> Proof:
    """One pod that no free room holds by itself has to be on a node that is bought.

    Sharper than a relaxation where a plan buys one or two nodes.
    """
    asked = scope.vectors[:, None, :] > 0
    fits = np.all((scope.free[None, :, :] >= scope.vectors[:, None, :]) | ~asked, axis=2).any(axis=1)
    least = np.min(np.where(scope.feasible, scope.price, _MOST), axis=1, initial=_MOST, where=~fits[:, None])
    least = np.where(fits, 0, least)
    if not least.any():
        return Proof()
    kind = int(least.argmax())
    bound = int(least[kind])
    return Proof(bound, DEAREST_POD, (Worth(scope.pods[kind][:1], bound),))


def _ratio(scope: Scope, duals: Duals) -> float:
    """No offering's resources are worth more than this multiple of its price."""
    useful = scope.feasible.any(axis=0)
    most = most_held(duals, scope.feasible[:, useful], scope.room[useful])
    price = scope.price[useful].astype(np.float64)
    if np.any((price <= 0) & (most > 0)):
        return float("inf")
    return float(np.max(most / np.maximum(price, 1.0), initial=1.0))


def _scaled(worth: Floats, ratio: float) -> Amounts:
    """Whole nano-dollars, such that nothing is worth more than before divided by the ratio."""
    scaled: Amounts = np.floor(worth / ratio * (1 - _SLACK)).astype(np.int64)
    return scaled


def _proof(scope: Scope, duals: Duals, method: str, worth: Amounts) -> Proof:
    """What the worths prove: all pods together are worth that much, less what free room takes."""
    copies = copies_in(
        scope.free, scope.vectors, scope.demand, np.ones((len(worth), len(scope.free)), np.bool_)
    )
    taken = absorbed(worth.astype(np.float64), scope.vectors, copies, scope.free, duals.resources)
    names: dict[str, int] = {}
    for name, amount in zip(scope.free_names, np.ceil(taken).astype(np.int64).tolist(), strict=True):
        if amount:
            names[name] = names.get(name, 0) + amount
    total = int(worth @ scope.demand) - sum(names.values())
    if total <= 0:
        return Proof()
    worths = tuple(Worth(pods, each) for pods, each in zip(scope.pods, worth.tolist(), strict=True) if each)
    return Proof(total, method, worths, names)


def _bound(proof: Proof) -> int:
    return proof.bound
