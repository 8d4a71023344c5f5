"""What one pool says to a pod: the cheapest type that could hold it, or the nearest miss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.explain import words
from dovetail.explain.criteria import Criterion, PoolView, distances
from dovetail.explain.miss import Change, Miss, Offer, PoolVerdict
from dovetail.explain.wanted import Wanted, alternatives
from dovetail.model.arrays import Floats, Mask
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.pod_classes import PodClass

_ALTERNATIVES = 32  # of a required node affinity that are looked at: each takes about a millisecond

NO_TERM = Miss("label", "", "the required node affinity has no term that any node can meet")
_NOTHING_SOLD = Miss("offer", "", "none of its types is sold here")


def ask_pool(view: PoolView, pod_class: PodClass) -> tuple[PoolVerdict, tuple[Change, ...]]:
    """The pool's verdict, and single changes that look as if they would do (not tried yet)."""
    wanted = alternatives(pod_class.sample, view.instance.problem.volumes)
    if not wanted:
        return PoolVerdict(view.pool.name, misses=(NO_TERM,)), ()
    if not len(view.table.offerings):
        return PoolVerdict(view.pool.name, misses=(_NOTHING_SOLD,)), ()
    trials = [_Trial(view, pod_class, item) for item in wanted[:_ALTERNATIVES]]
    changes = tuple(dict.fromkeys(change for trial in trials for change in trial.changes()))
    good = [trial for trial in trials if trial.possible]
    if good:
        best = min(good, key=lambda trial: trial.offer.price)
        return PoolVerdict(view.pool.name, offer=best.offer), changes
    nearest = min(trials, key=lambda trial: trial.distance)
    return PoolVerdict(view.pool.name, misses=nearest.misses()), changes


@dataclass(frozen=True)
class _Trial:
    """A pod, a pool and one alternative of what the pod demands."""

    view: PoolView
    pod_class: PodClass
    wanted: Wanted

    @cached_property
    def rules(self) -> list[Criterion]:
        return list(self.view.criteria(self.pod_class, self.wanted))

    @cached_property
    def violated(self) -> Mask:
        """Which rules (rows) which columns break."""
        return np.array([~rule.holds for rule in self.rules], dtype=np.bool_)

    @cached_property
    def weights(self) -> Floats:
        return distances(self.rules)

    @property
    def best(self) -> int:
        """The column that comes nearest, the cheapest among equals."""
        return int(np.lexsort((self.view.table.price, np.round(self.weights, 9)))[0])

    @property
    def distance(self) -> float:
        return float(self.weights[self.best])

    @cached_property
    def short_of_values(self) -> Miss | None:
        """The label of which what could hold the pod has too few different values."""
        if self.weights.min() > 0 or not self.view.instance.problem.options.strict_min_values:
            return None
        table = self.view.table
        held = np.unique(table.column_type[self.weights == 0])
        for item in self.view.base:
            seen: set[str] = set()
            for number in held.tolist() if item.min_values else ():
                found = table.types[number].requirements.by_key.get(item.key)
                if found is not None and not found.complement:
                    seen.update(value for value in found.values if item.has(value))
            if item.min_values and len(seen) < item.min_values:
                text = (
                    f"minValues {item.min_values} of {words.label(item.key)}: "
                    f"only {len(seen)} among what could hold the pod"
                )
                pool = self.view.pool.name
                order = f"lower minValues of {words.label(item.key)} in NodePool {pool} to {len(seen)}"
                change = Change("min-values", order, item.key, pool=pool, amount=len(seen))
                return Miss("min-values", item.key, text, change)
        return None

    @property
    def possible(self) -> bool:
        return self.distance == 0 and self.short_of_values is None

    @property
    def offer(self) -> Offer:
        """The cheapest that holds the pod."""
        return self.view.offer(self.best)

    def misses(self) -> tuple[Miss, ...]:
        """What the nearest column fails."""
        if self.short_of_values is not None:
            return (self.short_of_values,)
        return self._of(self.best)

    def _of(self, column: int) -> tuple[Miss, ...]:
        broken = np.flatnonzero(self.violated[:, column]).tolist()
        return tuple(dict.fromkeys(self.rules[row].miss(column) for row in broken))

    def changes(self) -> list[Change]:
        """Single changes after which some column would break nothing."""
        if self.short_of_values is not None:
            return [self.short_of_values.change] if self.short_of_values.change else []
        found = []
        alone = self.violated.sum(axis=0) == 1
        for row in range(len(self.rules)):
            only = np.flatnonzero(alone & self.violated[row])
            if len(only):
                order = np.lexsort((self.view.table.price[only], self.weights[only]))
                change = self.rules[row].miss(int(only[order[0]])).change
                if change is not None:
                    found.append(change)
        return found


def pool_views(instance: Instance) -> list[PoolView]:
    """All pools, in the order in which they are tried."""
    return [PoolView(instance, table.index) for table in instance.tables]
