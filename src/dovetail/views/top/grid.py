"""A table of which only the lines that are seen are made: 5,000 nodes cost what forty do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

Cell = str | Text
_HEADING, _CHOSEN = Style(bold=True, dim=True), Style(reverse=True)
_GAP = 2
NARROW, _NAME = 100, 24  # a terminal of fewer columns shows of the first so many characters, or a third
_END = 6  # characters at the end of a pod's name, which tell it from others of its workload
_ASIDE = 20  # columns that a step sideways has


class Grid(ScrollView, can_focus=True):
    """`show` gives it headings, a number of lines, and the function that makes the cells of one.

    Columns are as wide as what has been seen in them, so that they stand still while one scrolls.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,left,h", "page(-1)", show=False),
        Binding("pagedown,right,l", "page(1)", show=False),
        Binding("less_than_sign,shift+left", "aside(-1)", show=False),
        Binding("greater_than_sign,shift+right", "aside(1)", show=False),
        Binding("home,g", "move(-1000000000)", show=False),
        Binding("end,G", "move(1000000000)", show=False),
        Binding("enter", "choose", "open"),
    ]

    class Chosen(Message):
        """The user asks for more about the line of that number."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._headings: tuple[str, ...] = ()
        self._count = 0
        self._make: Callable[[int], Sequence[Cell]] = lambda _: ()
        self._made: dict[int, Sequence[Cell]] = {}  # lines that were made since `show`
        self._widths: list[int] = []
        self._nothing = ""
        self._style = Style()  # of the widget: dear to ask for, and the same for all lines
        self.cursor = 0

    def show(
        self, headings: tuple[str, ...], count: int, cells: Callable[[int], Sequence[Cell]], nothing: str = ""
    ) -> None:
        """From now on. `cells` is asked for the lines that are seen, each time that they are drawn.

        `nothing` is said where there are none.
        """
        self._nothing = nothing
        if headings != self._headings:
            self._widths = [len(text) for text in headings]
        self._headings, self._count, self._make = headings, count, cells
        self._made = {}
        self._style = self.rich_style
        self.cursor = max(0, min(self.cursor, count - 1))
        self._measure()
        self.virtual_size = Size(sum(self._widths) + _GAP * len(self._widths), count + 1)
        self.refresh()

    def on_resize(self) -> None:
        """Columns are measured anew."""
        self._widths = [len(text) for text in self._headings]
        self.show(self._headings, self._count, self._make, self._nothing)

    def top(self) -> None:
        """To the first line."""
        self.cursor = 0
        self.scroll_to(y=0, animate=False)

    def _seen(self) -> range:
        first = int(self.scroll_offset.y)
        return range(first, min(self._count, first + max(1, self.size.height)))

    def _cells(self, number: int) -> Sequence[Cell]:
        if number not in self._made:
            name, *rest = self._make(number)
            self._made[number] = (self._fitted(name), *rest)
        return self._made[number]

    def _fitted(self, name: Cell) -> Cell:
        """A name takes no more than a third of a narrow terminal; the page about it has all of it."""
        width = self.size.width
        most = max(_NAME, width // 3) if 0 < width < NARROW else len(name)
        if len(name) <= most:
            return name
        text = str(name)
        ending = text[-_END:] if "." not in text else ""  # a node's is the domain of all
        return f"{text[: most - 1 - len(ending)]}…{ending}"

    def _measure(self) -> None:
        for number in self._seen():
            for at, cell in enumerate(self._cells(number)):
                self._widths[at] = max(self._widths[at], len(cell))

    def render_line(self, y: int) -> Strip:
        """See ScrollView: the headings stay above, the rest scrolls below them."""
        left, first = int(self.scroll_offset.x), int(self.scroll_offset.y)
        number = first + y - 1
        if y == 0:
            strip = self._strip(self._headings, _HEADING)
        elif number < self._count:
            strip = self._strip(
                self._cells(number), _CHOSEN if number == self.cursor and self.has_focus else Style()
            )
        elif y == 1 and not self._count:
            return Strip([Segment(self._nothing, _HEADING)]).crop_extend(0, self.size.width, self._style)
        else:
            return Strip.blank(self.size.width, self._style)
        return strip.crop_extend(left, left + self.size.width, self._style).apply_style(self._style)

    def _strip(self, cells: Sequence[Cell], style: Style) -> Strip:
        segments: list[Segment] = []
        for width, cell in zip(self._widths, cells, strict=False):
            text = cell if isinstance(cell, Text) else Text(cell)
            segments += [Segment(text.plain, style + _style(text))]
            segments.append(Segment(" " * (width - len(text) + _GAP), style))
        return Strip(segments)

    def action_move(self, lines: int) -> None:
        """The cursor, and the view with it."""
        self.cursor = max(0, min(self._count - 1, self.cursor + lines))
        self.scroll_to_region(Region(0, self.cursor, 1, 2), animate=False, force=True)
        self.refresh()

    def action_page(self, pages: int) -> None:
        """A screen further."""
        self.action_move(pages * max(1, self.size.height - 2))

    def action_aside(self, steps: int) -> None:
        """Show the columns further right, or left."""
        self.scroll_to(x=self.scroll_offset.x + steps * _ASIDE, animate=False)

    def action_choose(self) -> None:
        """Ask for more about the line of the cursor."""
        if self._count:
            self.post_message(self.Chosen(self.cursor))

    async def _on_click(self, event: Any) -> None:
        number = int(self.scroll_offset.y) + event.y - 1
        if event.y > 0 and number < self._count:
            self.action_choose() if number == self.cursor else self.action_move(number - self.cursor)


def _style(text: Text) -> Style:
    return text.style if isinstance(text.style, Style) else Style.parse(text.style or "")
