"""Tables look the same whether rich lays out all of their rows or one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dovetail.cli.tables import add_row, lines, new_table


def by_rich(*shown: RenderableType) -> list[str]:
    console = Console(width=10_000)
    with console.capture() as text:
        for one in shown:
            console.print(one)
    return [line.rstrip() for line in text.get().removesuffix("\n").split("\n")]


def written(*shown: RenderableType) -> list[str]:
    return [line.rstrip() for line in lines(Group(*shown), Console(width=10_000))]


def of(*rows: tuple[str, str, str], title: str = "3 nodes") -> Table:
    table = new_table(title, "Name")
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
    ("x", "xx", "x xx"),
]


def test_a_title_is_in_one_line_above_a_narrow_table() -> None:
    table = new_table("The 9 nodes that are there or planned", "Nodes")
    add_row(table, "5")
    assert by_rich(table)[0] == written(table)[0] == "The 9 nodes that are there or planned"


@pytest.mark.parametrize("count", range(len(ROWS) + 1))
def test_rows_that_are_written_look_like_those_of_rich(count: int) -> None:
    table = of(*ROWS[:count])
    assert written(table, Text("and so on")) == by_rich(table, Text("and so on"))


@given(st.lists(st.tuples(*[st.text("a x\u6771\u00e9\u0301", max_size=9)] * 3)), st.text("x y", max_size=40))
def test_all_rows_look_like_those_of_rich(rows: list[tuple[str, str, str]], title: str) -> None:
    assert written(of(*rows, title=title)) == by_rich(of(*rows, title=title))


def test_empty_columns_and_tables_without_headings_look_like_those_of_rich() -> None:
    bare = new_table("")
    assert written(bare) == by_rich(bare)
    unnamed = new_table("What is lost", "", "")
    for row in (("pods", "1,204"), ("", "in the end")):
        add_row(unnamed, *row)
    empty = of(("", "", ""), ("", "", ""))
    for table in (unnamed, empty):
        assert written(table, table) == by_rich(table, table)


def test_rows_of_several_lines_and_with_styles_are_laid_out_by_rich() -> None:
    broken = of(("a", "1", ""))
    broken.add_row(Text("b"), Text("2"), Text("one\ntwo"))
    styled = of(("a", "1", ""))
    styled.add_row(Text("b"), Text("2"), Text("dear"), style="dim")
    marked = of(("a", "1", ""))
    marked.add_row("b", "2", "[bold]markup[/bold]")
    for table in (broken, styled, marked):
        assert written(table) == by_rich(table)
