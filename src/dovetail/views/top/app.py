"""The terminal application: a board drawn ten times a second, and keys to ask it more."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from dovetail.base.clock import SECOND
from dovetail.views.top import beyond, text
from dovetail.views.top.board import NAME, POD_COUNT, PRICE, USAGE, Board
from dovetail.views.top.feed import Feed
from dovetail.views.top.grid import NARROW, Grid
from dovetail.views.top.order import CREATION, Sort
from dovetail.views.top.panes import PANES, Subject, fitting, matching, page

FRAME = 0.1  # seconds
_KEPT = 600  # frames whose times are kept
_SORTS = (CREATION, NAME, PRICE, USAGE, POD_COUNT)


class Top(App[None]):
    """Shows a board that a feed fills. `failure` is what ended the feed, if anything went wrong.

    `frames` are the seconds that the latest frames took to make, drawing excluded.
    """

    CSS = """
    #head { padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #tabs { height: 1; padding: 0 1; background: $panel; }
    #filter { height: 3; display: none; }
    Grid { height: 1fr; }
    Page { background: $surface; }
    Page Static { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # The line of panes shows their keys.
        *(Binding(str(number), f"pane({number - 1})", show=False) for number in range(1, len(PANES) + 1)),
        Binding("slash", "filter", "filter"),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("space", "pace(0)", "pause"),
        Binding("plus", "pace(1)", "faster"),
        Binding("minus", "pace(-1)", "slower"),
        Binding("escape", "clear", show=False),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, board: Board, feed: Feed, zone: ZoneInfo) -> None:
        super().__init__()
        self.board = board
        self.feed = feed
        self.zone = zone
        self.frames: deque[float] = deque(maxlen=_KEPT)
        self.failure: BaseException | None = None
        self._pane = PANES[0]
        self._words = ""  # the filter
        self._items: Sequence[Any] = ()
        self._of: tuple[object, ...] = ()  # what `_items` were chosen by
        self._pace = ""
        self._second = 0
        self._counts: dict[str, int] = {}
        self._head = Static(id="head")
        self._tabs = Static(id="tabs")
        self._grid = Grid(id="grid")
        self._filter = Input(placeholder="words that a line must have, such as: spot zone=a", id="filter")

    def compose(self) -> ComposeResult:
        """See App."""
        yield from (self._head, self._tabs, self._grid, self._filter, Footer())

    def on_mount(self) -> None:
        """See App."""
        self.title = f"dovetail top: {self.feed.title}"
        self._grid.focus()
        self._coming = asyncio.get_running_loop().create_task(self.feed.run(), name="feed")
        self._coming.add_done_callback(self._ended)
        self.frame()
        self.set_interval(FRAME, self.frame)

    async def on_unmount(self) -> None:
        """See App."""
        self._coming.cancel()
        await asyncio.wait((self._coming,))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
            self.exit()

    def frame(self) -> None:
        """Take in what came, and draw it if that changed anything, or the second did."""
        if not self._grid.is_attached:
            return  # the timer ticks until after the screens are taken down
        begun = time.perf_counter()
        self.feed.fill(self.board)
        now = self.feed.now()
        second = int(begun)
        if second != self._second:
            self._second = second
            self._counts = {pane.name: len(pane.items(self.board, now)) for pane in PANES[1:-1]}
        # What is dear to find out is looked at once a second.
        news = self.board.revision if self._pane.name == "nodes" else 0
        of = (news, second, self._pane, self._words, self._pace, self.feed.trouble())
        if of != self._of:
            self._of = of
            self._draw(now)
            self.frames.append(time.perf_counter() - begun)

    def _draw(self, now: int) -> None:
        board, pane = self.board, fitting(self._pane, narrow=self.size.width < NARROW)
        self._items = items = matching(pane, board, self._words, now)
        head = self._head_text(now)
        self._head.update(head, layout=False)
        if self._head.styles.height is None or self._head.styles.height.value != head.plain.count("\n") + 1:
            self._head.styles.height = head.plain.count("\n") + 1
        self._tabs.update(self._tabs_text(), layout=False)
        nothing = f"none with all of: {self._words}" if self._words else f"no {pane.title}"
        self._grid.show(
            pane.headings(board), len(items), lambda line: pane.cells(board, items[line], now), nothing
        )

    def _head_text(self, now: int) -> Text:
        width = self.size.width - 2
        lines = text.head(self.board, width=width)
        gap = beyond.gap(self.board)
        if len(lines[-1]) + 3 + len(gap) <= width:
            lines[-1] += f"   {gap}"
        else:
            lines.append(gap)
        at = datetime.fromtimestamp(now // SECOND, self.zone)
        drawn = Text("\n".join((*lines, f"{self.feed.title}   {at:%Y-%m-%d %H:%M:%S %Z}   {self._pace}   ")))
        return drawn.append(self.feed.trouble(), style="bold yellow")

    def _tabs_text(self) -> Text:
        drawn = Text()
        for number, pane in enumerate(PANES, 1):
            counted = self._counts.get(pane.name, self.board.sums.nodes if number == 1 else None)
            count = "" if counted is None else f" {counted:,}"
            drawn.append(f" {number} {pane.title}{count} ", style="reverse" if pane is self._pane else "")
        drawn.append(f"   sort {str(self.board.settings.sort).lstrip('@')}", style="dim")
        if self._words:
            drawn.append(f"   filter: {self._words} (esc clears it)", style="bold")
        return drawn

    # Keys -----------------------------------------------------------------------------------------------

    def action_pane(self, number: int) -> None:
        """Show that pane."""
        self._pane = PANES[number]
        self._grid.top()
        self.frame()

    def action_filter(self) -> None:
        """Ask for words."""
        self._filter.display = True
        self._filter.focus()

    def on_input_changed(self, changed: Input.Changed) -> None:
        """Words count as they are typed."""
        self._words = changed.value
        self.frame()

    def on_input_submitted(self) -> None:
        """Back to the table."""
        self._filter.display = False
        self._grid.focus()

    def action_clear(self) -> None:
        """Leave the words, and forget them."""
        self._filter.value = ""
        self.on_input_submitted()

    def action_sort(self) -> None:
        """By the next of what nodes can be sorted by."""
        key = self.board.settings.sort.key
        at = _SORTS.index(key) + 1 if key in _SORTS else 0
        following = _SORTS[at % len(_SORTS)]
        self._sort(Sort(following, following != NAME))

    def action_reverse(self) -> None:
        """The other way round."""
        sort = self.board.settings.sort
        self._sort(replace(sort, descending=not sort.descending))

    def _sort(self, sort: Sort) -> None:
        self.board.show(replace(self.board.settings, sort=sort))
        self._grid.top()
        self.frame()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """See App: keys of a pace are shown where there is one, or the last keys have no room."""
        del parameters
        return action != "pace" or self.feed.paced

    def action_pace(self, change: int) -> None:
        """Of a simulation."""
        self._pace = self.feed.pace(change)
        self.frame()

    def on_grid_chosen(self, chosen: Grid.Chosen) -> None:
        """Show more about what a line is about."""
        subject = self._pane.subject(self._items[chosen.line]) if chosen.line < len(self._items) else None
        if subject is not None:
            self.push_screen(Page(self, subject))


class Page(ModalScreen[None]):
    """All that is known of one object, kept up to date."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "dismiss", "back"),
        Binding("q", "app.quit", "quit"),
        Binding("j", "turn('down')", show=False),
        Binding("k", "turn('up')", show=False),
        Binding("g", "turn('home')", show=False),
        Binding("G", "turn('end')", show=False),
    ]

    def __init__(self, top: Top, subject: Subject) -> None:
        super().__init__()
        self._top = top
        self._subject = subject
        self._page_text = Static(id="page")

    def compose(self) -> ComposeResult:
        """See Screen."""
        with VerticalScroll():
            yield self._page_text
        yield Footer()

    def on_mount(self) -> None:
        """See Screen."""
        self.query_one(VerticalScroll).focus()
        self._draw()
        self.set_interval(1, self._draw)

    def action_turn(self, way: str) -> None:
        """The keys of tables, here too."""
        getattr(self.query_one(VerticalScroll), f"scroll_{way}")(animate=False)

    def _draw(self) -> None:
        if not self._page_text.is_attached:
            return  # as above
        top = self._top
        self._page_text.update(page(top.board, self._subject, top.feed.now(), top.zone))
