"""Tables on the terminal, all of one look."""

from __future__ import annotations

from copy import copy

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dovetail.cli.messages import visible
from dovetail.model.offering import HOURS_A_MONTH, NANO_DOLLARS


def new_table(title: str, *headings: str) -> Table:
    """An empty table; columns under `headings` are never broken or cut, and nothing stands above them where
    all headings are empty.
    """
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_header=not headings or any(headings),
    )
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def add_row(table: Table, *cells: str) -> None:
    """A row of plain text: what is in brackets is not markup, and control characters are written out."""
    table.add_row(*(Text(visible(cell)) for cell in cells))


def tall(shown: RenderableType) -> RenderableType:
    """What looks the same where nothing is broken or cut: the rows of each table are the lines of one.

    Rich lays out a cell of 500 lines in a third of the time that it takes for 500 cells.
    """
    if isinstance(shown, Group):
        return Group(*map(tall, shown.renderables))
    if (
        not isinstance(shown, Table)
        or shown.row_styles
        or any(row.style or row.end_section for row in shown.rows)
    ):
        return shown
    columns = [[cell for cell in column.cells if isinstance(cell, Text)] for column in shown.columns]
    if any(len(cells) < shown.row_count or any("\n" in cell.plain for cell in cells) for cells in columns):
        return shown
    made = copy(shown)
    made.columns, made.rows = [column.copy() for column in shown.columns], []
    if shown.rows:
        made.add_row(*(Text("\n").join(cells) for cells in columns))
    return made


def hourly(nanos: int) -> str:
    """Nano-dollars an hour as $1.20/h."""
    return f"${nanos / NANO_DOLLARS:,.2f}/h"


def signed_hourly(nanos: int) -> str:
    """A difference of them, and what it comes to in a month."""
    sign = "-" if nanos < 0 else "+"
    month = abs(nanos) * HOURS_A_MONTH / NANO_DOLLARS
    return f"{sign}${abs(nanos) / NANO_DOLLARS:,.2f}/h ({sign}${month:,.0f} a month)"
