"""The requirement algebra against recorded answers, then its laws."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.requirement import Requirement, Requirements

VECTORS = json.loads(gzip.decompress((Path(__file__).parent / "vectors/requirements.json.gz").read_bytes()))
WELL_KNOWN = frozenset(VECTORS["wellKnownLabels"])
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Gte", "Lt", "Lte")


def read(items: list[dict[str, Any]]) -> Requirements:
    return Requirements.of(
        Requirement.new(item["key"], item["operator"], item.get("values") or (), item.get("minValues"))
        for item in items
    )


def written(item: Requirement) -> list[dict[str, Any]]:
    entries = []
    for operator, values in item.selector_requirements():
        entry: dict[str, Any] = {"key": item.key, "operator": operator}
        if values:
            entry["values"] = list(values)
        if item.min_values is not None:
            entry["minValues"] = item.min_values
        entries.append(entry)
    return entries


def check_side(actual: Requirements, expected: list[dict[str, Any]], text: str) -> None:
    assert str(actual) == text
    assert [item.key for item in actual] == [item["key"] for item in expected]
    for item, answer in zip(actual, expected, strict=True):
        assert item.operator() == answer["operator"]
        assert sorted(item.values) == answer["values"] if "values" in answer else not item.values
        assert (item.gte, item.lte, item.min_values) == tuple(
            answer.get(name) for name in ("gte", "lte", "minValues")
        )
        assert item.complement == answer["complement"]
        assert item.size() == int(answer["len"])
        assert str(item) == answer["string"]
        entries = written(item)
        if item.complement and item.values and (item.gte is not None or item.lte is not None):
            # The original drops what is forbidden within bounds when it writes a claim; we keep it.
            assert entries.pop()["operator"] == "NotIn"
        assert entries == answer["nodeSelectorRequirements"]


def check_text(actual: str, expected: str | None) -> None:
    """The original names one unknown label, whichever it meets first; we name every reason."""
    assert (expected or "") in actual
    assert bool(actual) == bool(expected)


@pytest.mark.parametrize("vector", VECTORS["cases"], ids=lambda vector: vector["case"]["name"])
def test_recorded_answer(vector: dict[str, Any]) -> None:
    case, expected = vector["case"], vector["expected"]
    a, b = read(case["a"]), read(case["b"])
    sides = {"a": a, "b": b, "added": a.add(*b)}
    for name, side in sides.items():
        check_side(side, expected[name], expected[f"{name}String"])
        for key, probes in expected["has"][name].items():
            assert {value: side.get(key).has(value) for value in probes} == probes
    check_text(a.compatible(b), expected["compatibleError"])
    check_text(a.compatible(b, WELL_KNOWN), expected["compatibleAllowUndefinedWellKnownError"])
    assert a.intersects(b) == (expected["intersectsError"] or "")
    for key, verdict in expected["hasIntersection"].items():
        assert a.get(key).has_intersection(b.get(key)) == verdict


values = st.sampled_from(["", "-4", "0", "007", "1", "5", "6", "7", "10", "a", "zone-a", "+3", "1_0", " 1"])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(OPERATORS))
    if operator in ("In", "NotIn"):
        chosen = draw(st.lists(values, max_size=4))
    elif operator in ("Exists", "DoesNotExist"):
        chosen = []
    else:
        chosen = [str(draw(st.integers(-6, 12)))]
    return Requirement.new("key", operator, chosen, draw(st.none() | st.integers(1, 4)))


@given(requirements(), requirements(), requirements())
def test_intersection_is_commutative_associative_idempotent(
    a: Requirement, b: Requirement, c: Requirement
) -> None:
    both = a.intersection(b)
    assert both == b.intersection(a)
    assert hash(both) == hash(b.intersection(a))
    assert both.intersection(c) == a.intersection(b.intersection(c))
    assert a.intersection(a) == a
    assert both.intersection(a) == both


@given(requirements(), requirements(), values)
def test_intersection_has_what_both_have(a: Requirement, b: Requirement, value: str) -> None:
    assert a.intersection(b).has(value) == (a.has(value) and b.has(value))
    if a.has(value) and b.has(value):
        assert a.has_intersection(b)


@given(st.lists(requirements(), min_size=1, max_size=4))
def test_any_value_is_allowed(items: list[Requirement]) -> None:
    joined = Requirements.of(items).get("key")
    value = joined.any_value()
    assert value == "" or joined.has(value)
    if joined.complement and joined.gte is None and joined.lte is None:
        assert value


@given(st.lists(requirements(), min_size=1, max_size=4))
def test_selector_requirements_round_trip(items: list[Requirement]) -> None:
    joined = Requirements.of(items)
    again = Requirements.of(
        Requirement.new(item.key, item.operator, item.values) for item in joined.selector_requirements()
    )
    for value in ("", "-4", "0", "1", "7", "12", "a"):
        assert again.get("key").has(value) == joined.get("key").has(value)


def test_keys_come_in_order_whatever_they_were_added_in() -> None:
    built = Requirements.of(Requirement.new(key, "Exists") for key in ("c", "a", "b"))
    assert all(left.key < right.key for left, right in pairwise(built))
    assert built == Requirements.of(Requirement.new(key, "Exists") for key in ("b", "c", "a"))


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("zone", ' (typo of "topology.kubernetes.io/zone"?)'),
        ("topology.kubernetes.io/zon", ' (typo of "topology.kubernetes.io/zone"?)'),
        ("example.com/zone", ' (typo of "topology.kubernetes.io/zone"?)'),
        ("rack", ""),
    ],
)
def test_unknown_label_names_its_typo(key: str, hint: str) -> None:
    wanted = Requirements.of([Requirement.new(key, "In", ["x"])])
    error = Requirements.of(()).compatible(wanted, frozenset({"topology.kubernetes.io/zone"}))
    assert error == f'label "{key}" does not have known values{hint}'


def test_a_bound_that_is_no_integer_admits_nothing() -> None:
    nothing = Requirement.new("key", "Gt", ["many"])
    assert not nothing.has("5")
    assert nothing.any_value() == ""


def test_unknown_operator_is_named() -> None:
    with pytest.raises(ValueError, match="'Near' of requirement 'key' is not one of In, NotIn"):
        Requirement.new("key", "Near", ["x"])
