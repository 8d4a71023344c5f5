"""The panes of the terminal application as tables of cells, and the page about one thing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from rich.text import Text

from dovetail.base.clock import SECOND
from dovetail.model.resources import pod_quantities
from dovetail.units.duration import format_age
from dovetail.units.money import dollars
from dovetail.views.top import beyond, text
from dovetail.views.top.board import Board, Note, Row

Cell = str | Text
Subject = tuple[str, str]  # kind and key of an object
_BAR, _SHORT_BAR = 20, 8  # the short one leaves room for types and prices on 80 columns
_UNTOLD = "nothing was seen of it yet"


class Pane(Protocol):
    """One table: its items, what is said of each, and of which object more can be shown."""

    name: str
    title: str

    def items(self, board: Board, now: int, /) -> Sequence[Any]:
        """In the order in which they are shown."""

    def headings(self, board: Board, /) -> tuple[str, ...]:
        """Of the columns."""

    def cells(self, board: Board, item: Any, now: int, /) -> list[Cell]:
        """One for each column."""

    def said(self, board: Board, item: Any, now: int, /) -> str:
        """The words by which it is found."""

    def subject(self, item: Any, /) -> Subject | None:
        """The object that it is about."""


class Nodes:
    """Every node that is shown, as eks-node-viewer has it, and why it stays. `bar` is how long usage is."""

    name, title = "nodes", "nodes"

    def __init__(self, bar: int = _BAR) -> None:
        self._bar = bar

    def items(self, board: Board, now: int) -> Sequence[Row]:
        """See Pane."""
        return board.rows(now)

    def headings(self, board: Board) -> tuple[str, ...]:
        """See Pane."""
        settings = board.settings
        return (
            "NODE",
            *(name.upper() for name in settings.resources),
            *("PODS", "TYPE", "KIND", "STATE", "READY"),
            *(key.rpartition("/")[2].upper() for key in settings.extra_labels),
            "WHY IT STAYS",
        )

    def cells(self, board: Board, item: Row, now: int) -> list[Cell]:
        """See Pane."""
        settings = board.settings
        return [
            item.name,
            *(_usage(item.share(name), self._bar) for name in settings.resources),
            text.pods(item),
            text.offer(item, pricing=settings.pricing),
            item.kind,
            Text(item.state, style="yellow" if item.state != "-" else ""),
            Text(item.readiness(now), style="" if item.ready else "red"),
            *(item.label(key, now) for key in settings.extra_labels),
            Text(beyond.mark(board, item, now), style="dim"),
        ]

    def said(self, _board: Board, item: Row, _now: int) -> str:
        """See Pane: all of its labels too, as key=value and by the last part of their keys."""
        return _said(item)

    def subject(self, item: Row) -> Subject | None:
        """See Pane."""
        return "Node", item.name


class Claims:
    """Claims without a node."""

    name, title = "claims", "claims without node"

    def items(self, board: Board, _now: int) -> Sequence[beyond.Coming]:
        """See Pane."""
        return beyond.coming(board)

    def headings(self, _board: Board) -> tuple[str, ...]:
        """See Pane."""
        return ("CLAIM", "POOL", "TYPE", "PRICE", "AGE", "STATE", "MESSAGE")

    def cells(self, board: Board, item: beyond.Coming, now: int) -> list[Cell]:
        """See Pane."""
        price = item.row.price if item.row is not None else None
        return [
            item.claim.metadata.name,
            beyond.pool(item.claim),
            beyond.claim_type(item.claim),
            "-" if price is None or not board.settings.pricing else f"${dollars(price):.4f}",
            format_age(now - item.since),
            item.stage,
            item.message,
        ]

    def said(self, board: Board, item: beyond.Coming, now: int) -> str:
        """See Pane."""
        return " ".join(map(str, self.cells(board, item, now)))

    def subject(self, item: beyond.Coming) -> Subject | None:
        """See Pane."""
        return "NodeClaim", item.claim.metadata.name


class Pending:
    """Pods without a node, and why."""

    name, title = "pending", "pending pods"

    def items(self, board: Board, _now: int) -> Sequence[beyond.Waiting]:
        """See Pane."""
        return beyond.waiting(board)

    def headings(self, _board: Board) -> tuple[str, ...]:
        """See Pane."""
        return ("POD", "OWNER", "WAITS", "REQUESTS", "REASON")

    def cells(self, board: Board, item: beyond.Waiting, now: int) -> list[Cell]:
        """See Pane."""
        waits = format_age(now - item.since)
        return [
            item.pod.key,
            beyond.owner(item.pod),
            waits,
            beyond.requests(item.pod),
            beyond.why(board, item.pod),
        ]

    def said(self, board: Board, item: beyond.Waiting, now: int) -> str:
        """See Pane."""
        return " ".join(map(str, self.cells(board, item, now)))

    def subject(self, item: beyond.Waiting) -> Subject | None:
        """See Pane."""
        return "Pod", item.pod.key


class Upcoming:
    """Budgets, drift, age: what comes next."""

    name, title = "next", "what comes next"

    def items(self, board: Board, now: int) -> Sequence[beyond.Next]:
        """See Pane."""
        return beyond.upcoming(board, now)

    def headings(self, _board: Board) -> tuple[str, ...]:
        """See Pane."""
        return ("WHAT", "ABOUT", "")

    def cells(self, _board: Board, item: beyond.Next, _now: int) -> list[Cell]:
        """See Pane."""
        return [item.what, item.about, item.text]

    def said(self, _board: Board, item: beyond.Next, _now: int) -> str:
        """See Pane."""
        return f"{item.what} {item.about} {item.text}"

    def subject(self, item: beyond.Next) -> Subject | None:
        """See Pane."""
        return None if item.what == "budget" else ("Node", item.about)


PANES: tuple[Pane, ...] = (Nodes(), Claims(), Pending(), Upcoming())
_SHORT_NODES = Nodes(_SHORT_BAR)


def fitting(pane: Pane, *, narrow: bool) -> Pane:
    """The pane as it fits a terminal."""
    return _SHORT_NODES if narrow and isinstance(pane, Nodes) else pane


@lru_cache(maxsize=16_384)
def _said(row: Row) -> str:
    marked = (f"{key}={value} {key.rpartition('/')[2]}={value}" for key, value in row.labels.items())
    ready = "ready" if row.ready else "notready"
    return " ".join((row.name, row.type, row.kind, row.state, ready, *marked)).lower()


def _usage(share: float, wide: int) -> Text:
    """Green is well used, red is not: as in eks-node-viewer."""
    style = "green" if share > 90 else "yellow" if share > 60 else "red"
    return Text(f"{text.bar(share, wide)} {min(share, 100):3.0f}%", style=style)


def matching(pane: Pane, board: Board, words: str, now: int) -> Sequence[Any]:
    """The items of a pane whose text has all of the words."""
    items, wanted = pane.items(board, now), words.lower().split()
    if not wanted:
        return items
    found = []
    for item in items:
        said = pane.said(board, item, now).lower()
        if all(word in said for word in wanted):
            found.append(item)
    return found


def page(board: Board, subject: Subject, now: int, zone: ZoneInfo) -> Text:
    """All that is known of an object: a node or claim with its pods and history, or a pod with its own."""
    kind, key = subject
    if kind == "Pod":
        return _drawn(key, _about_pod(board, key, zone))
    row = board.find(key)
    if row is None and key in board.claims:
        subjects: tuple[Subject, ...] = (("NodeClaim", key),)
        return _drawn(key, _history(board.notes(subjects), zone))
    if row is None:
        return _drawn(key, iter(("", "It is gone.", *_history(board.notes((subject,)), zone))))
    return _drawn(row.name, _about_node(board, row, now, zone))


def _drawn(title: str, lines: Iterator[str]) -> Text:
    drawn = Text(title, style="bold")
    for line in lines:
        heading = line.isupper() and not line.startswith(" ")
        drawn.append(f"\n{line}", style="bold cyan" if heading else "not bold")
    return drawn


def _about_node(board: Board, row: Row, now: int, zone: ZoneInfo) -> Iterator[str]:
    settings = board.settings
    price = f", ${dollars(row.price):.4f}/hour" if row.price is not None and settings.pricing else ""
    yield f"{row.type} {row.kind}{price}, {row.labels.get('topology.kubernetes.io/zone', 'no zone')}"
    claim = f"claim {row.claim.metadata.name}" if row.claim is not None else "no claim"
    yield f"pool {row.pool or '-'}, {claim}, {row.instance or 'no instance'}"
    yield f"{row.state}, {row.readiness(now)}, {format_age(now - row.created)} old"
    yield from ("", "USED")
    for name in sorted({*row.allocatable, *row.used}):
        used, there = row.used.get(name, 0), row.allocatable.get(name, 0)
        yield f"  {name:28} {used!s:>12} of {there!s:<12} {row.share(name):5.1f}%"
    yield from ("", "WHY IT STAYS")
    for why in beyond.stays(board, row, now) or ("nothing keeps it: it may go",):
        yield f"  {why}"
    yield from ("", f"PODS ({len(row.pods)})")
    for pod in sorted(row.pods, key=lambda pod: pod.key):
        yield f"  {pod.key:50} {pod.status.phase:10} {beyond.requests(pod)}"
    yield from _history(board.notes(_subjects(row)), zone)
    yield from ("", "LABELS")
    for key, value in sorted(row.labels.items()):
        yield f"  {key}={value}"


def _subjects(row: Row) -> Iterator[Subject]:
    if row.node is not None:
        yield "Node", row.name
    if row.claim is not None:
        yield "NodeClaim", row.claim.metadata.name


def _about_pod(board: Board, key: str, zone: ZoneInfo) -> Iterator[str]:
    pod = board.pods.get(key)
    if pod is not None:
        yield f"{beyond.owner(pod)}, {pod.status.phase}, on {pod.spec.node_name or 'no node yet'}"
        yield from ("", "REQUESTS")
        for name, amount in sorted(pod_quantities(pod).items()):
            yield f"  {name:28} {amount!s:>12}"
        if not pod.spec.node_name:
            yield from ("", "WHY IT WAITS", f"  {beyond.why(board, pod)}")
    yield from _history(board.notes((("Pod", key),)), zone)


def _history(notes: Sequence[Note], zone: ZoneInfo) -> Iterator[str]:
    yield from ("", "HISTORY")
    if not notes:
        yield f"  {_UNTOLD}"
    for note in notes:
        at = datetime.fromtimestamp(note.at // SECOND, zone)
        yield f"  {at:%Y-%m-%d %H:%M:%S}  {note.text}"
