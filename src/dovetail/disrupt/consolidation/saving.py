"""What replacing a node has to save at least: nodes are not replaced for pennies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.units.money import NANO_DOLLARS, parse_dollars

# On a NodePool: its own minimum, as "5%", "$0.01", "$0.002/pod" or several of them.
MINIMUM_SAVING = "dovetail.dev/minimum-saving"
_EACH = "/pod"
DEFAULT_SHARE = 0.02
DEFAULT_LEAST = NANO_DOLLARS // 200


@dataclass(frozen=True, slots=True)
class Minimum:
    """All must be saved by replacing a node: a share of its price, nano-dollars per hour, some per pod."""

    share: float = DEFAULT_SHARE
    least: int = DEFAULT_LEAST
    per_pod: int = 0

    def of(self, price: int, cost: float) -> int:
        """Nano-dollars per hour that replacing a node must save; `cost` is 1 for each ordinary pod on it."""
        return max(round(self.share * price), self.least, round(self.per_pod * cost))


def parse_minimum(text: str, default: Minimum) -> Minimum:
    """A minimum as users write it; what is not mentioned stays as in `default`. Raises ValueError."""
    share, least, per_pod = default.share, default.least, default.per_pod
    for part in text.split(","):
        item = part.strip()
        if item.endswith("%"):
            share = _percent(item)
        elif item.startswith("$") and item.endswith(_EACH):
            per_pod = parse_dollars(item.removesuffix(_EACH))
        elif item.startswith("$"):
            least = parse_dollars(item)
        else:
            raise ValueError(f'{item!r} is neither a percentage such as "2%" nor an amount such as "$0.005"')
    return Minimum(share, least, per_pod)


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
