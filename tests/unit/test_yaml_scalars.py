"""Scalars as kubectl reads them; a test on a control plane holds this table against kubectl itself."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.base.yaml_writing import all_written, inline, written
from dovetail.reading.yamltext import read_documents

SCALARS: dict[str, Any] = {
    "099720109477": 99720109477,
    "08": 8,
    "-08": -8,
    "012": 10,
    "0888": 888,
    "1e3": 1000,
    "1.e3": 1000,
    "12e03": 12000,
    "1.": 1,
    "1.5": 1.5,
    "+.5": 0.5,
    "1_000": 1000,
    "1_0.5": 10.5,
    "0o17": 15,
    "0x1F": 31,
    "0x_1": 1,
    "0b11": 3,
    "+12": 12,
    "y": True,
    "N": False,
    "on": True,
    "190:20:30": "190:20:30",
    "_1": "_1",
    "0o8": "0o8",
    "0b12": "0b12",
    "1,000": "1,000",
    "tRUE": "tRUE",
    "2026-01-01": "2026-01-01",
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_a_scalar_without_quotes_is_what_kubectl_takes_it_for(text: str, value: Any) -> None:
    (document,) = read_documents(f"a: {text}\n", "a.yaml")
    found = document.value["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", SCALARS)
def test_text_is_written_so_that_it_stays_text(text: str) -> None:
    for wrote in (written({"a": text}), all_written([{"a": text}])):
        (document,) = read_documents(wrote, "a.yaml")
        assert document.value == {"a": text}


@pytest.mark.parametrize(
    "value",
    ["1e3", "on", "5m", "a: b", "", 3, 0.5, True, None, [{"nodes": "10%"}, {"nodes": "0"}], ["x" * 90] * 3],
)
def test_a_value_stands_in_one_line_and_is_read_back_as_it_was(value: Any) -> None:
    text = inline(value)
    assert "\n" not in text
    (found,) = read_documents(f"a: {text}", "a.yaml")
    assert found.value == {"a": value}
