"""Where pods of one shape may go as things stand: existing nodes, then new ones of the pools in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.model.requirement import Requirements
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.placing.judge import UNLIMITED, Judge, Stance
from dovetail.solve.placing.policy import Policy
from dovetail.solve.placing.slots import Slot
from dovetail.solve.supply.world import Pins, World, lookup

_UNFAVOURED = 4  # times the price that a domain seems to cost which is not favoured
_LAST = 1 << 40  # what nodes cost in domains that are not favoured: more than any number of a node
_BEYOND = 1 << 49  # more than any domain seems to cost: added where more pods than are best would go
_RANK = 50  # bits of a slot's cost that are below the order of preference
# Levels that obey the same topology rules, each with one of its demands on labels; the first is preferred.
Stage = list[tuple[int, Requirements]]


class Survey:
    """Finds slots. Every slot is legal for one pod but for spreads that count the pods themselves."""

    def __init__(self, world: World, judge: Judge, policy: Policy) -> None:
        self._world = world
        self._policy = policy
        self._judge = judge
        self._placed: dict[tuple[int, int, Pins], int] = {}  # (shape, row, pins) -> pods, where targets count

    def taken(self, shape: Shape, slot: Slot, pods: int) -> None:
        """So many pods went there."""
        if shape.index in self._policy.targets:
            key = (shape.index, slot.row, () if slot.row >= 0 else slot.pins)
            self._placed[key] = self._placed.get(key, 0) + pods

    def slots(self, shape: Shape, stance: Stance, stage: Stage, pods: int) -> list[Slot]:
        """All of them where a spread must choose, else as many as the pods need, the preferred ones first."""
        found: list[Slot] = []
        aimed = shape.index in self._policy.targets
        rows: set[int] = set()
        pins: set[Pins] = set()
        room = rank = 0
        for number, wanted in stage:
            tiers = [] if stance.near else self._judge.pools(shape, number, wanted)
            for tier in ((), *tiers):
                if not stance.spreads and room >= pods and not aimed:
                    return found
                base = Slot(rank << _RANK, 0, number, wanted, (), tier)
                rank += 1
                if not tier and not self._world.nodes.nodes:
                    continue
                slots = (
                    self._on_new(shape, stance, base, pins)
                    if tier
                    else self._on_nodes(shape, stance, base, pods, rows)
                )
                fresh = list(self._aimed(shape, slots) if aimed else slots)
                pins.update([slot.pins for slot in fresh if tier])
                rows.update([slot.row for slot in fresh if not tier])
                found += fresh
                room += sum([slot.room for slot in fresh])
        return found

    def _on_new(self, shape: Shape, stance: Stance, base: Slot, known: set[Pins]) -> Iterator[Slot]:
        room = 1 if stance.lonely else UNLIMITED
        for place in self._world.places(base.pools, base.wanted, shape.vector, stance.keys):
            self._world.work.spend(1)
            if place.pins in known or not self._legal(shape, stance, place.pins):
                continue
            favoured = any(value == self._policy.favoured for _, value in place.pins)
            cost = int(place.estimate * (1 if favoured or not self._policy.favoured else _UNFAVOURED))
            yield Slot(base.cost + cost, room, base.level, base.wanted, place.pins, place.pools)

    def _aimed(self, shape: Shape, slots: Iterator[Slot]) -> Iterator[Slot]:
        """The slots, each as far as pods of the shape are best there, and dearer what is beyond that."""
        targets = self._policy.targets[shape.index]
        for slot in slots:
            pins = dict(slot.pins)
            best = sum(
                target.pods
                for target in targets
                if target.row == slot.row
                and all(pins.get(key, value) == value for key, value in target.domains)
            )
            best -= self._placed.get((shape.index, slot.row, () if slot.row >= 0 else slot.pins), 0)
            if best > 0:
                yield replace(slot, room=min(slot.room, best))
            if slot.room > best:
                rest = slot.room - max(0, best)
                yield replace(slot, cost=slot.cost + _BEYOND, room=rest, beyond=True)

    def _legal(self, shape: Shape, stance: Stance, pins: Pins) -> bool:
        if not shape.involved:
            return True
        domain_of = lookup(pins)
        groups = self._world.topology.groups
        if not all(domain_of(groups[index].id.key) for index in stance.spreads):
            return False
        return not self._judge.refused(shape, stance.steady, domain_of, skip_hosts=True)

    def _on_nodes(
        self, shape: Shape, stance: Stance, base: Slot, pods: int, known: set[int]
    ) -> Iterator[Slot]:
        world, rules = self._world, shape.levels[base.level].rules
        nodes = world.nodes
        spreads = [world.topology.groups[index].id.key for index in stance.spreads]
        room: dict[tuple[str, ...], int] = {}  # found so far, by the domains that must be chosen from
        needed = shape.vector
        apart = self._policy.apart and stance.near and self._judge.followers(shape).any()
        if self._policy.roomy and stance.near:
            needed = needed + self._judge.followers(shape)
        for row in nodes.candidates(base.wanted, rules, needed):
            world.work.spend(1)
            domains = tuple([nodes.domain(row, key) for key in spreads])
            enough = room.get(domains, 0) >= pods and shape.index not in self._policy.targets
            if enough or row in known or not nodes.accepts(row, shape):
                continue
            most = nodes.holds(row, shape)
            if apart:
                most = min(most, 0 if self._judge.anchored(shape, nodes.nodes[row].name) else 1)
            if shape.involved:
                if not all(domains) or not self._open(shape, stance, row):
                    continue
                most = min(most, self._judge.most_on_host(shape, stance, nodes.nodes[row].name))
            if most > 0:
                room[domains] = room.get(domains, 0) + most
                pins = tuple([(key, nodes.domain(row, key)) for key in stance.keys])
                most = 1 if stance.lonely else most
                favoured = self._policy.favoured
                last = bool(favoured) and all(value != favoured for _, value in pins)
                yield Slot(base.cost + row + last * _LAST, most, base.level, base.wanted, pins, row=row)

    def _open(self, shape: Shape, stance: Stance, row: int) -> bool:
        nodes = self._world.nodes
        return not self._judge.refused(
            shape, stance.steady, lambda key: nodes.domain(row, key), skip_hosts=False
        )
