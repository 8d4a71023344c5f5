"""Where a region's prices are from, and of when they are: what every plan, catalogue and report says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.cloud.catalog import store

HOW = {
    "size": "other sizes of the family",
    "region": "the type's price elsewhere",
    "generation": "an older generation",
    "resources": "vCPUs, memory and disks",
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """`lists` are (date, source, prices), the newest first; the rest are numbers of types of the region."""

    region: str
    lists: tuple[tuple[str, str, int], ...]
    estimated: dict[str, int]  # by kind, as in HOW
    unknown: int
    types: int
    spot: str  # the date of spot prices as AWS gave them; "" for estimates

    @property
    def date(self) -> str:
        """Of the newest list; "" where none says."""
        return max((date for date, _, _ in self.lists), default="")

    def sentence(self) -> str:
        """For people."""
        parts = [
            f"{source or 'a list'}{f' of {date}' if date else ''} ({count:,} types)"
            for date, source, count in self.lists
        ]
        text = f"Prices of {self.region}: {', '.join(parts) or 'no list'}"
        if estimates := sum(self.estimated.values()):
            text += f"; {estimates:,} estimated from relatives (~)"
        if self.unknown:
            text += f"; {self.unknown:,} unknown, which are not bought"
        return f"{text}; spot {f'as of {self.spot}' if self.spot else 'estimated (~)'}."

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "date": self.date or None,
            "lists": [
                {"date": date or None, "source": source, "types": count} for date, source, count in self.lists
            ],
            "estimated": self.estimated,
            "unknown": self.unknown,
            "spot": self.spot or "estimated",
        }


def provenance(region: str) -> Provenance:
    """Of a region's prices. Raises InputError for an unknown region."""
    kinds = store.estimates(region).values()
    unknown, types = store.unpriced(region)
    described = store.live(region)
    return Provenance(
        region,
        store.lists(region),
        {kind: count for kind in HOW if (count := sum(one == kind for one in kinds))},
        unknown,
        types,
        described.asked if described is not None else "",
    )
