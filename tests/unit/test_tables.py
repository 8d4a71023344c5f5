"""Tables look the same whether rich lays them out row by row or not."""

from __future__ import annotations

import pytest
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dovetail.cli.tables import add_row, new_table, tall


def shown(table: Table) -> str:
    console = Console(width=10_000)
    with console.capture() as text:
        console.print(Group(table, Text("and so on")))
    return text.get()


def of(*rows: tuple[str, str, str]) -> Table:
    table = new_table("3 nodes", "Name")
    table.add_column("$/h", justify="right", no_wrap=True)
    table.add_column("Why")
    for row in rows:
        add_row(table, *row)
    return table


ROWS = [
    ("a", "1", ""),
    ("", "12.5", "for want of room"),
    ("\u6771\u4eac", "", "[bold] is no markup"),
    ("", "", ""),
]


@pytest.mark.parametrize("count", range(len(ROWS) + 1))
def test_a_tall_row_looks_like_many(count: int) -> None:
    table = of(*ROWS[:count])
    made = tall(table)
    assert isinstance(made, Table)
    assert made.row_count == min(count, 1)
    assert (table.row_count, shown(made)) == (count, shown(table))


def test_rows_of_several_lines_and_with_styles_stay_rows() -> None:
    broken = of(("a", "1", ""))
    broken.add_row(Text("b"), Text("2"), Text("one\ntwo"))
    styled = of(("a", "1", ""))
    styled.add_row(Text("b"), Text("2"), Text("dear"), style="dim")
    marked = of(("a", "1", ""))
    marked.add_row("b", "2", "[bold]markup[/bold]")
    for table in (broken, styled, marked):
        assert tall(table) is table
    assert isinstance(tall(Group(broken, Text("x"))), Group)
