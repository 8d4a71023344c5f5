"""How many nodes of a pool may go without others in their place."""

from __future__ import annotations

import pytest
from msgspec import structs
from test_emptiness import NOW, pool, view

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.emptiness import decide
from dovetail.disrupt.minimum import minimum_nodes, spare, without
from dovetail.disrupt.pods import Budgets


def keeping(text: str, name: str = "general", **more: object) -> NodePool:
    owner = pool(name)
    marks = {"dovetail.dev/minimum-nodes": text}
    spec = structs.replace(owner.spec, **more)
    return structs.replace(owner, metadata=structs.replace(owner.metadata, annotations=marks), spec=spec)


@pytest.mark.parametrize(("text", "number"), [("", 0), ("0", 0), ("3", 3), ("007", 7), ("10000", 10_000)])
def test_numbers(text: str, number: int) -> None:
    assert minimum_nodes(keeping(text)) == number


@pytest.mark.parametrize(
    "text", ["-1", "1.5", "1e3", "10001", "9" * 5000, "²", "٣", " 3", "three", "3 nodes"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number of nodes from 0 to 10000"):
        minimum_nodes(keeping(text))
    # Better to keep a node too many.
    assert spare([keeping(text)], [view("a", owner=keeping(text))]) == {"general": 0}


def test_a_number_of_nodes_and_a_least_one_contradict_each_other() -> None:
    with pytest.raises(ValueError, match=r"spec\.replicas says already"):
        minimum_nodes(keeping("3", replicas=2))
    assert spare([keeping("3", replicas=2)], []) == {}


def test_what_is_spare() -> None:
    pools = [keeping("2"), keeping("9", "other"), pool("free")]
    views = [view(name, owner=pools[0]) for name in "abcd"]
    assert spare(pools, views) == {"general": 2, "other": 0}
    assert without({"general": 4, "other": 1, "free": 7}, {"general": 2, "other": 0}) == {
        "general": 2,
        "other": 0,
        "free": 7,
    }


def test_empty_nodes_go_as_far_as_they_are_spare() -> None:
    owner = keeping("2")
    views = [view(name, owner=owner) for name in "abcd"]
    decision = decide(views, [owner], Budgets(()), NOW)
    assert decision.command is not None
    assert len(decision.command.candidates) == 2
    stays = [note.subject for note in decision.notes if "least number of nodes" in note.message]
    assert len(stays) == 2
