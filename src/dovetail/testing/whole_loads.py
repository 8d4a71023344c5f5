"""All sets of pods that one new node can hold, found by adding one pod after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import port_error
from dovetail.testing.exhaustive.market import Market, bound, repulsion
from dovetail.testing.knapsack import Amounts

Block = tuple[int, ...]  # pods of each kind


@dataclass(frozen=True, slots=True)
class Near:
    """Kinds that want one of `meant` on their node; `first`: the first of themselves may come alone."""

    owners: tuple[int, ...]
    meant: tuple[int, ...]
    first: bool


class Blocks:
    """Of one market, by sites; rules on single nodes are kept."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self.kinds = market.kinds
        self._far = repulsion(market)
        self.near = tuple(self._nearness())
        rules = dict.fromkeys(rule for kind in market.kinds for rule in kind.facts.spread)
        self._hosts = [(bound(market.kinds, rule), rule.max_skew) for rule in rules if rule.key == HOSTNAME]

    def of(self, site: int, most: int) -> list[Block]:
        """Those that the site holds, the empty one left out; more than `most` if there are."""
        found: list[Block] = []
        begun = tuple(0 for _ in self.kinds)
        stack = [(begun, 0)]
        while stack and len(found) <= most:
            block, start = stack.pop()
            for kind in range(start, len(self.kinds)):
                more = tuple(count + (number == kind) for number, count in enumerate(block))
                if self._fits(more, kind, self._market.room[site], site):
                    found.append(more)
                    stack.append((more, kind))
        return found

    def lonely(self, block: Block, near: Near) -> bool:
        """True iff some pod has no pod beside it that it wants, but pods that want the same."""
        for owner in near.owners:
            mates = [kind for kind in near.meant if owner not in near.meant or kind not in near.owners]
            if block[owner] and not any(block[kind] for kind in mates):
                return True
        return False

    def hopeless(self, block: Block) -> bool:
        """True iff some pod has no pod beside it that it wants, and may not be the first."""
        for near in self.near:
            for owner in near.owners:
                mates = [kind for kind in near.meant if owner not in near.meant or kind not in near.owners]
                alone = block[owner] and not any(block[kind] for kind in mates)
                if alone and not (near.first and owner in near.meant):
                    return True
        return False

    def _fits(self, block: Block, new: int, room: Amounts, site: int) -> bool:
        kinds, needs = self.kinds, self._market.needs
        if not self._market.allowed[new, site] or block[new] > len(kinds[new].pods):
            return False
        used = sum(count * needs[kind] for kind, count in enumerate(block))
        if ((used > room) & (used > 0)).any():
            return False
        for kind, count in enumerate(block):
            alone = kind == new and count < 2
            if count and not alone and self._clash(kind, new):
                return False
        return all(sum(block[kind] for kind in some) <= most for some, most in self._hosts if new in some)

    def _clash(self, one: int, other: int) -> bool:
        mine, theirs = self.kinds[one].facts.ports, self.kinds[other].facts.ports
        return HOSTNAME in self._far[one, other] or bool(mine and theirs and port_error(mine, theirs))

    def _nearness(self) -> Iterator[Near]:
        names, kinds = self._market.problem.namespaces, list(enumerate(self.kinds))
        for rules in dict.fromkeys(kind.facts.affinity.affinity for kind in self.kinds):
            if not any(rule.key == HOSTNAME for rule in rules):
                continue
            owners = tuple(number for number, kind in kinds if kind.facts.affinity.affinity == rules)
            meant = tuple(
                number
                for number, kind in kinds
                if all(rule.matches(kind.facts.namespace, kind.facts.labels, names) for rule in rules)
            )
            yield Near(owners, meant, bool(set(owners) & set(meant)))
