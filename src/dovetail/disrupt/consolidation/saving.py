"""What replacing a node has to save at least: nodes are not replaced for pennies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.model.offering import NANO_DOLLARS, parse_dollars

# On a NodePool: its own minimum, as "5%", "$0.01" or "5%,$0.01".
MINIMUM_SAVING = "dovetail.dev/minimum-saving"
DEFAULT_SHARE = 0.02
DEFAULT_LEAST = NANO_DOLLARS // 200


@dataclass(frozen=True, slots=True)
class Minimum:
    """Both must be saved by replacing a node: a share of its price, and nano-dollars per hour."""

    share: float = DEFAULT_SHARE
    least: int = DEFAULT_LEAST

    def of(self, price: int) -> int:
        """Nano-dollars per hour that replacing a node of this price must save."""
        return max(round(self.share * price), self.least)


def parse_minimum(text: str, default: Minimum) -> Minimum:
    """A minimum as users write it; what is not mentioned stays as in `default`. Raises ValueError."""
    share, least = default.share, default.least
    for part in text.split(","):
        item = part.strip()
        if item.endswith("%"):
            share = _percent(item)
        elif item.startswith("$"):
            least = parse_dollars(item)
        else:
            raise ValueError(f'{item!r} is neither a percentage such as "2%" nor an amount such as "$0.005"')
    return Minimum(share, least)


def pool_minimum(annotations: Mapping[str, str], default: Minimum) -> Minimum:
    """The minimum of a pool; an annotation that cannot be read is ignored."""
    text = annotations.get(MINIMUM_SAVING, "")
    try:
        return parse_minimum(text, default) if text else default
    except ValueError:
        return default


def _percent(text: str) -> float:
    try:
        value = float(text[:-1])
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise ValueError(f"{text!r} is not a percentage from 0% to 99%")
    return value / 100
