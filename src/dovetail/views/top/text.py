"""The lines of a board under the words of eks-node-viewer, so that people can compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dovetail.model.resources import PODS
from dovetail.units.money import dollars, monthly
from dovetail.units.quantity import Quantity
from dovetail.views.top.board import Board, Row, Sums, percent

_WIDE, _NARROW, _SHORT = 40, 35, 5  # characters of the bars above, of those of nodes, and the fewest
_HELP = "←/→ page • q: quit"
_WAITING = "Waiting for update or no nodes found..."
_ZERO = Quantity(0)


def screen(board: Board, now: int, *, height: int | None = None, page: int = 0) -> list[str]:
    """All lines; with `height`, the page of that number (from 0 on) as it fits on so many lines."""
    rows = board.rows(now)
    above = _head(board, _WIDE, lambda sums: money(sums.price))
    if not rows:
        return [*above, "", _WAITING, "•", _HELP]
    if height is None:
        return [*above, "", *table(rows, board, now)]
    each = max(1, (height - len(above) - 3) // len(board.settings.resources) - 1)
    pages = -(-len(rows) // each)
    page = max(0, min(page, pages - 1))
    shown = rows[page * each : (page + 1) * each]
    return [*above, "", *table(shown, board, now), "•" * pages, _HELP]


def head(board: Board, *, width: int | None = None) -> list[str]:
    """A line for each resource, and one for the pods; bars are as long as `width` lets them be.

    Says more of prices than eks-node-viewer does.
    """
    found = _head(board, _WIDE, _price)
    over = max(map(len, found)) - width if width is not None else 0
    return _head(board, max(_SHORT, _WIDE - over), _price) if over > 0 else found


def _head(board: Board, wide: int, said: Callable[[Sums], str]) -> list[str]:
    board.refresh()
    sums, settings = board.sums, board.settings
    lines = []
    for number, resource in enumerate(settings.resources):
        used, there = sums.used.get(resource, _ZERO), sums.allocatable.get(resource, _ZERO)
        share = percent(used, there)
        amount = f"({used!s:>10}/{there})" if number == 0 else f" {used}/{there}"
        first = f"{sums.nodes:,} nodes" if number == 0 else ""
        price = said(sums) if number == 0 and settings.pricing else ""
        lines.append([first, amount, f"{share:.1f}%", resource, bar(share, wide), price])
    phases = board.phases
    pods = (
        f"{len(board.pods):,} pods ({phases['Pending']:,} pending {phases['Running']:,} running "
        f"{board.bound:,} bound)"
    )
    return [*aligned(lines), pods]


def _price(sums: Sums) -> str:
    """Nodes without a known price, as on another cloud, cost nothing in the sum: that is said."""
    if not sums.unpriced:
        return money(sums.price)
    if sums.unpriced == sums.nodes:
        return "prices unknown"
    return f"{money(sums.price)} without {sums.unpriced:,} of unknown price"


def money(hourly: int) -> str:
    """What so many nano-dollars per hour are."""
    return f"${dollars(hourly):,.3f}/hour | ${monthly(hourly):,.3f}/month"


def table(rows: Sequence[Row], board: Board, now: int) -> list[str]:
    """The lines of nodes, in columns; as many for each as there are resources."""
    return aligned([cells for row in rows for cells in lines(row, board, now)])


def lines(row: Row, board: Board, now: int) -> list[list[str]]:
    """The cells of one node: a line for each resource."""
    settings = board.settings
    found = []
    for number, resource in enumerate(settings.resources):
        share = row.share(resource)
        usage = [resource, bar(share, _NARROW), f"{min(share, 100):3.0f}%"]  # the bar ends there
        if number == 0:
            found.append([row.name, *usage, *_about(row, board, now)])
        else:
            found.append([" ", *usage])
    return found


def _about(row: Row, board: Board, now: int) -> list[str]:
    settings = board.settings
    return [
        pods(row),
        offer(row, pricing=settings.pricing),
        row.kind,
        row.state,
        row.readiness(now),
        *(row.label(key, now) for key in settings.extra_labels),
    ]


def pods(row: Row) -> str:
    """How many it has, of how many it can have."""
    return f"({len(row.pods)}/{row.allocatable.get(PODS, _ZERO).value()} pods)"


def offer(row: Row, *, pricing: bool) -> str:
    """Type and price."""
    return row.type + (f"/${dollars(row.price):.4f}" if pricing and row.price is not None else "")


def bar(share: float, width: int) -> str:
    """So many percent, as a bar."""
    filled = max(0, min(width, round(width * share / 100)))
    return "█" * filled + "░" * (width - filled)


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells, each column as wide as its widest."""
    count = max(map(len, cells), default=0)
    widths = [max(len(line[at]) for line in cells if at < len(line)) for at in range(count)]
    return [
        " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in cells
    ]
