"""Branch and bound over every way to put pods on nodes.

Pods are taken kind by kind, node by node. What is left costs at least what it would without any rule
between pods, without limits and reservations: that is exact, by dynamic programming over what is left. A
finished plan counts only if the checker finds no fault in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from dovetail.model.labels import HOSTNAME
from dovetail.model.plan import Plan
from dovetail.testing.exhaustive.answer import Bought, plan_of
from dovetail.testing.exhaustive.market import Block, Market, Option, closed, repulsion
from dovetail.verify import verify

LEFT_OUT = 10**15  # what it costs to leave a pod out, in nano-dollars: more than any plan
_NO_FAULT = frozenset({"left over", "weight"})  # whether more could be placed is what the search itself asks


class TooLarge(Exception):
    """The search gave up; nothing is proven."""


class Search:
    """The best plan found so far. Invariant: `best` costs `least`, and no better plan was passed over."""

    def __init__(self, market: Market, below: int, effort: int) -> None:
        self.market = market
        self.least = below
        self.best: Plan | None = None
        self._effort = effort
        self._blocks = tuple(market.blocks())
        self._price = {block: market.options(block)[0].price for block in self._blocks}
        self._apart = repulsion(market)
        self._closed = closed(market)
        self._rows = len(market.problem.nodes)
        self.rest = cache(self._rest)
        self.rest_with_nodes = cache(self._rest_with_nodes)

    def run(self) -> Plan | None:
        """The cheapest plan that costs less than asked for; None if there is none. Raises TooLarge."""
        self._fill(0, self.market.whole, [], 0)
        return self.best

    def _rest(self, left: Block) -> int:
        """The least that new nodes for these pods cost, whatever the rules between pods."""
        if not any(left):
            return 0
        first = _first(left)
        least = LEFT_OUT * left[first] + self.rest(_without(left, first))
        for block in self._blocks:
            if block[first] and _within(block, left):
                least = min(least, self._price[block] + self.rest(_minus(left, block)))
        return least

    def _rest_with_nodes(self, row: int, left: Block) -> int:
        """The least that these pods cost on new nodes and on the existing ones from `row` on."""
        if row == self._rows:
            return self.rest(left)
        return min(self.rest_with_nodes(row + 1, _minus(left, block)) for block in self._fillings(row, left))

    def _fillings(self, row: int, left: Block) -> Iterator[Block]:
        for block in product(*(range(count + 1) for count in left)):
            if not any(block) or self.market.holds(row, block):
                yield block

    def _fill(self, row: int, left: Block, chosen: list[Block], spent: int) -> None:
        """Choose what goes onto existing nodes, one after the other, then buy."""
        if row == self._rows:
            self._buy(left, chosen, [], spent)
            return
        moves = [
            (spent + self.rest_with_nodes(row + 1, _minus(left, block)), block)
            for block in self._fillings(row, left)
        ]
        for value, block in sorted(moves):
            if value < self.least and self._may_fill(row, block, chosen):
                self._fill(row + 1, _minus(left, block), [*chosen, block], spent)

    def _buy(self, left: Block, filled: list[Block], bought: list[Bought], spent: int) -> None:
        """Choose nodes for the rest, in falling order of their blocks, so that no set comes twice."""
        self._effort -= 1
        if self._effort < 0:
            raise TooLarge
        if not any(left):
            self._judge(filled, bought, spent)
            return
        first = _first(left)
        moves: list[tuple[int, Block, Option]] = []
        for block in self._blocks:
            if block[first] and _within(block, left):
                rest = self.rest(_minus(left, block))
                moves += [(option.price + rest, block, option) for option in self.market.options(block)]
        last = (bought[-1].block, bought[-1].option.number) if bought else (left, len(self.market.sites))
        for value, block, option in sorted(moves, key=lambda move: (move[0], move[1], move[2].number)):
            if spent + value >= self.least:
                break
            if (block, option.number) <= last and self._may_buy(block, option, filled, bought):
                node = Bought(block, option)
                self._buy(_minus(left, block), filled, [*bought, node], spent + option.price)
        given_up = LEFT_OUT * left[first]
        rest_left = _without(left, first)
        if spent + given_up + self.rest(rest_left) < self.least:
            self._buy(rest_left, filled, bought, spent + given_up)

    def _judge(self, filled: list[Block], bought: list[Bought], spent: int) -> None:
        if spent >= self.least:
            return
        self._effort -= 20
        plan = plan_of(self.market, filled, bought)
        if all(item.rule in _NO_FAULT for item in verify(self.market.problem, plan)):
            self.best, self.least = plan, spent

    def _may_fill(self, row: int, block: Block, chosen: list[Block]) -> bool:
        labels = self._labels(row)
        if not self._friendly(block, labels):
            return False
        return all(
            not self._clash(block, labels, other, self._labels(number)) for number, other in enumerate(chosen)
        )

    def _labels(self, row: int) -> dict[str, str]:
        node = self.market.problem.nodes[row]
        return {**node.labels, HOSTNAME: node.labels.get(HOSTNAME, node.name)}

    def _may_buy(self, block: Block, option: Option, filled: list[Block], bought: list[Bought]) -> bool:
        """False iff the node breaks a rule with what is chosen so far, whatever else is chosen later."""
        pool, labels = option.site.pool, {**option.site.labels, HOSTNAME: ""}
        if not self._friendly(block, labels):
            return False
        if any(self._clash(block, labels, other, self._labels(row)) for row, other in enumerate(filled)):
            return False
        for number, node in enumerate(bought):
            theirs = {**node.option.site.labels, HOSTNAME: f"{number}"}
            if self._clash(block, labels, node.block, theirs):
                return False
        every = [*(node.option for node in bought), option]
        same = sum(item.site.reservation == option.site.reservation for item in every)
        if option.site.reservation and same > option.site.offering.reservation_capacity:
            return False
        mine = [item.site.kind for item in every if item.site.pool.name == pool.name]
        for name, limit in (pool.limits or {}).items():
            size = sum(1 if name == "nodes" else kind.capacity.get(name, 0) for kind in mine)
            if size and pool.usage.get(name, 0) + size > limit:
                return False
        return True

    def _friendly(self, block: Block, labels: dict[str, str]) -> bool:
        """True iff nothing on the node itself or in its domains keeps the block away."""
        for index, count in enumerate(block):
            if count and any(labels.get(key) == value for key, value in self._closed[index]):
                return False
        for one, count in enumerate(block):
            for other in range(one, len(block)):
                both = count > 1 if one == other else count and block[other]
                if both and any(key in labels for key in self._apart[one, other]):
                    return False
        return True

    def _clash(self, block: Block, labels: dict[str, str], other: Block, theirs: dict[str, str]) -> bool:
        for one, here in enumerate(block):
            for two, there in enumerate(other):
                if here and there:
                    for key in self._apart[one, two]:
                        if labels.get(key) is not None and labels.get(key) == theirs.get(key):
                            return True
        return False


def _first(left: Block) -> int:
    return next(index for index, count in enumerate(left) if count)


def _without(left: Block, index: int) -> Block:
    return (*left[:index], 0, *left[index + 1 :])


def _within(block: Block, left: Block) -> bool:
    return all(a <= b for a, b in zip(block, left, strict=True))


def _minus(left: Block, block: Block) -> Block:
    return tuple(a - b for a, b in zip(left, block, strict=True))
