"""NodeOverlays: what they make of the prices and the capacity of instance types, per node pool. Pure.

`evaluate` looks at all overlays, pools and types together: the heaviest overlay wins, adjustments never add
up, and an overlay that stands against another one of its weight counts nowhere. `Overlaid.types` applies the
outcome to a pool's types as they are then, whose prices may have changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.runtime import validate_node_overlay
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources, amounts
from dovetail.units.money import DEAREST, NANO_DOLLARS

INVALID, CONFLICT = "RuntimeValidation", "Conflict"
_CONFLICT = "conflict with another overlay"
_HUNDRED = Decimal(100)
_SHOWN = 40  # characters of a price that is none: as many as one that is may need


@dataclass(frozen=True, slots=True)
class Supply:
    """What a pool may buy, before any overlay; `labels` are those that each of its nodes carries."""

    pool: str
    labels: Mapping[str, str]
    types: tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with an overlay, as its condition says it; nothing where the reason is empty."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Price:
    """What an overlay makes of a price: `text` is a price, or a signed adjustment of the one there is.

    `sells` is True iff what has no price of its own is for sale at this one: an absolute price of types that
    the overlay names, and asks nothing else of. A price for much else would sell what was not meant.
    """

    text: str  # "" for none
    sells: bool = False

    @staticmethod
    def of(overlay: NodeOverlay) -> Price:
        spec = overlay.spec
        if spec.price is None:
            return Price(spec.price_adjustment or "")
        named = all(item.key == labels.INSTANCE_TYPE and item.operator == "In" for item in spec.requirements)
        return Price(spec.price, named and bool(spec.requirements))

    @property
    def absolute(self) -> bool:
        return not self.text.startswith(("+", "-"))

    @property
    def countable(self) -> bool:
        """False for what is no number. Our definition refuses it; another one in the cluster may not."""
        try:
            return adjusted(Decimal(DEAREST), self.text).is_finite()
        except ArithmeticError:
            return False

    def on(self, offering: Offering) -> Offering:
        """The offering at that price."""
        dollars = adjusted(Decimal(offering.price) / NANO_DOLLARS, self.text)
        return replace(
            offering,
            price=round(min(dollars, Decimal(DEAREST)) * NANO_DOLLARS),
            list_price=offering.price,
            available=offering.available or (offering.unpriced and self.sells),
            unpriced=offering.unpriced and not self.sells,
            estimated=offering.estimated and not self.absolute,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What overlays make of one type in one pool: `prices` by the requirements of its offerings."""

    prices: Mapping[Requirements, Price]
    capacity: Resources

    def of(self, kind: InstanceType) -> InstanceType:
        """The type as it is then."""
        return replace(
            kind,
            offerings=tuple(map(self._offering, kind.offerings)) if self.prices else kind.offerings,
            capacity={**kind.capacity, **self.capacity},
        )

    def _offering(self, offering: Offering) -> Offering:
        price = self.prices.get(offering.requirements)
        return price.on(offering) if price is not None else offering


@dataclass(frozen=True, slots=True)
class Overlaid:
    """The outcome: verdicts by the names of overlays, and changes by pool and type."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    # Invariant: every pool that was looked at has an entry, and no type without a change has one.
    changes: Mapping[str, Mapping[str, Change]] = field(default_factory=dict)

    def types(self, pool: str, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """The pool's types with all that overlays change; the same tuple where nothing does."""
        changes = self.changes.get(pool)
        if not changes:
            return types
        return tuple(
            change.of(kind) if (change := changes.get(kind.name)) is not None else kind for kind in types
        )

    def repriced(self, pool: str, names: Iterable[str]) -> bool:
        """True iff the price of one of these types is an overlay's."""
        return any(change.prices for change in self._of(pool, names))

    def resized(self, pool: str, names: Iterable[str]) -> bool:
        """True iff a resource of one of these types is an overlay's."""
        return any(change.capacity for change in self._of(pool, names))

    def _of(self, pool: str, names: Iterable[str]) -> Iterator[Change]:
        changes = self.changes.get(pool, {})
        return (changes[name] for name in names if name in changes)


def adjusted(dollars: Decimal, change: str) -> Decimal:
    """A price after `price` or `priceAdjustment`: "0.25" is the price, "+0.01" and "-10%" change it.

    Never below zero.
    """
    if not change.startswith(("+", "-")):
        return Decimal(change) if change else dollars
    if change.endswith("%"):
        result = dollars * (1 + Decimal(change[:-1]) / _HUNDRED)
    else:
        result = dollars + Decimal(change)
    return max(result, Decimal(0))


def ordered(overlays: Iterable[NodeOverlay]) -> tuple[NodeOverlay, ...]:
    """As they are handled: the heaviest first; of one weight, z before a."""
    return tuple(sorted(overlays, key=lambda item: (item.spec.weight, item.metadata.name), reverse=True))


def evaluate(overlays: Iterable[NodeOverlay], supplies: Iterable[Supply]) -> Overlaid:
    """What all overlays make of what all pools may buy. Time: overlays times types of all pools."""
    pools = tuple(supplies)
    records = {supply.pool: {kind.name: _Record() for kind in supply.types} for supply in pools}
    verdicts: dict[str, Verdict] = {}
    for overlay in ordered(overlays):
        name = overlay.metadata.name
        messages = validate_node_overlay(overlay)
        if messages:
            verdicts[name] = Verdict(INVALID, "; ".join(messages))
            continue
        wanted = _Wanted.of(overlay)
        if not wanted.price.countable:
            text = wanted.price.text[:_SHOWN]
            verdicts[name] = Verdict(INVALID, f"invalid value: {text} in price, restricted")
            continue
        chosen = [
            (records[supply.pool][kind.name], offerings)
            for supply in pools
            for kind, offerings in _chosen(supply, wanted.requirements)
        ]
        if any(record.conflicts(wanted, offerings) for record, offerings in chosen):
            verdicts[name] = Verdict(CONFLICT, _CONFLICT)
            continue
        verdicts[name] = Verdict()
        for record, offerings in chosen:
            record.take(wanted, offerings)
    changes = {
        pool: {name: record.change for name, record in types.items() if record.changed}
        for pool, types in records.items()
    }
    return Overlaid(verdicts, changes)


def matched(overlay: NodeOverlay, supplies: Iterable[Supply]) -> frozenset[str]:
    """The types that a valid overlay is for, whatever becomes of it beside others."""
    requirements = Requirements.read(overlay.spec.requirements)
    return frozenset(kind.name for supply in supplies for kind, _ in _chosen(supply, requirements))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an overlay asks for, once it is known to be valid."""

    requirements: Requirements
    price: Price
    capacity: Resources
    weight: int

    @staticmethod
    def of(overlay: NodeOverlay) -> _Wanted:
        spec = overlay.spec
        requirements = Requirements.read(spec.requirements)
        return _Wanted(requirements, Price.of(overlay), amounts(spec.capacity), spec.weight)


def _chosen(
    supply: Supply, requirements: Requirements
) -> Iterator[tuple[InstanceType, tuple[Requirements, ...]]]:
    """The types that an overlay is for, with what those of their offerings say that it is for."""
    of_pool = Requirements.from_labels(supply.labels).by_key
    for kind in supply.types:
        known = (of_pool, kind.requirements.by_key)
        # Of the keys that are asked for alone: to join all that a type says takes five times as long.
        joined = Requirements.of(by[key] for key in requirements.by_key for by in known if key in by)
        # What neither the pool nor the type knows matches only where it may be absent.
        if not joined.suits(requirements):
            continue
        offerings = tuple(
            one.requirements for one in kind.offerings if one.requirements.overlaps(requirements)
        )
        if offerings:
            yield kind, offerings


@dataclass(slots=True)
class _Record:
    """What overlays, heaviest first, made of one type in one pool so far."""

    prices: dict[Requirements, Price] = field(default_factory=dict)
    # The weight of the last overlay that wanted to price an offering, in vain too: two light ones stand
    # against each other even where a heavier one hides both.
    priced_by: dict[Requirements, int] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    # The resources and the weight of the last overlay alone that had some for this type. Of three with one
    # weight the third is not held against the first, as in Karpenter.
    last_sized: frozenset[str] = frozenset()
    sized_by: int = 0

    def conflicts(self, wanted: _Wanted, offerings: tuple[Requirements, ...]) -> bool:
        """True iff it stands against one of its weight that came before."""
        if wanted.price.text and any(self.priced_by.get(one) == wanted.weight for one in offerings):
            return True
        return self.sized_by == wanted.weight and not self.last_sized.isdisjoint(wanted.capacity)

    def take(self, wanted: _Wanted, offerings: tuple[Requirements, ...]) -> None:
        """Count it in."""
        if wanted.price.text:
            for one in offerings:
                self.prices.setdefault(one, wanted.price)
                self.priced_by[one] = wanted.weight
        if wanted.capacity:
            self.capacity = {**wanted.capacity, **self.capacity}
            self.last_sized, self.sized_by = frozenset(wanted.capacity), wanted.weight

    @property
    def changed(self) -> bool:
        return bool(self.prices or self.capacity)

    @property
    def change(self) -> Change:
        return Change(self.prices, self.capacity)
