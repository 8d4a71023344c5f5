"""Tables on the terminal, all of one look."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dovetail.cli.messages import visible


def new_table(title: str, *headings: str) -> Table:
    """An empty table; columns under `headings` are never broken or cut."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def add_row(table: Table, *cells: str) -> None:
    """A row of plain text: what is in brackets is not markup, and control characters are written out."""
    table.add_row(*(Text(visible(cell)) for cell in cells))
