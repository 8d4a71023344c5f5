"""Amounts, demands and lists as people say them."""

from __future__ import annotations

import pytest

from dovetail.explain import words
from dovetail.model.label_values import Requirement
from dovetail.model.selector import Selector


@pytest.mark.parametrize(
    ("name", "value", "up", "text"),
    [
        ("cpu", 1500, False, "1.5 CPU"),
        ("cpu", 250, True, "0.25 CPU"),
        ("memory", 3 * 2**30, False, "3 GiB memory"),
        ("memory", 2 * 2**30 + 1, True, "2.1 GiB memory"),
        ("memory", 2 * 2**30 + 1, False, "2 GiB memory"),
        ("memory", 200 * 2**20, False, "200 MiB memory"),
        ("pods", 1, False, "1 pod"),
        ("pods", 3, False, "3 pods"),
        ("nvidia.com/gpu", 2, False, "2 nvidia.com/gpu"),
    ],
)
def test_amounts(name: str, value: int, up: bool, text: str) -> None:
    assert words.amount(name, value, up=up) == text


def test_amounts_without_their_names() -> None:
    assert [words.bare(name, 1000) for name in ("cpu", "pods", "nvidia.com/gpu")] == ["1", "1000", "1000"]
    assert words.bare("memory", 2**30) == "1 GiB"


@pytest.mark.parametrize("value", [1, 2**20 - 1, 2**30 - 1, 2**30, 5 * 2**30 // 3, 7 * 2**33 // 5])
def test_what_is_rounded_down_is_what_is_said(value: int) -> None:
    least = words.rounded_down("memory", value)
    assert least <= value
    assert words.amount("memory", value) == words.amount("memory", least, up=True)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (Requirement.new("topology.kubernetes.io/zone", "In", ["z-b"]), "zone z-b"),
        (
            Requirement.new("karpenter.k8s.aws/instance-category", "In", ["m", "c"]),
            "instance-category c or m",
        ),
        (Requirement.new("team", "NotIn", ["a", "b"]), "team not a or b"),
        (Requirement.new("team", "Exists"), "a label team"),
        (Requirement.new("team", "DoesNotExist"), "no label team"),
        (Requirement.new("generation", "Gt", ["4"]), "generation at least 5"),
        (Requirement.new("generation", "Lt", ["9"]), "generation at most 8"),
        (
            Requirement.new("generation", "Gt", ["4"]).intersection(
                Requirement.new("generation", "Lt", ["9"])
            ),
            "generation 5 to 8",
        ),
    ],
)
def test_demands(item: Requirement, text: str) -> None:
    assert words.demand(item) == text


def test_lists_and_selectors() -> None:
    assert words.listed([]) == ""
    assert words.listed(["a"]) == "a"
    assert words.listed("abc", "or") == "a, b or c"
    assert words.listed("abcdefg") == "a, b, c, d and 3 more"
    assert (
        words.selector(Selector.parse("app=web,tier in (a,b),!old,new"))
        == "app=web, new, !old, tier in a or b"
    )
    assert words.selector(Selector(None)) == "no pod at all"
    assert words.selector(Selector()) == "any pod"
