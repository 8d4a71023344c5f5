"""Problems and plans survive their way to the worker and back, in pieces; types and nodes travel once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.base.errors import PlannerFailed
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.runtime.planning import wire
from dovetail.testing.scenarios import features, read_scenarios

FOLDER = Path(__file__).parents[1] / "conformance" / "vectors" / "scheduling"


def problems() -> list[Problem]:
    """One of every feature."""
    return [next(read_scenarios(FOLDER / f"{name}.jsonl.gz")).problem for name in features(FOLDER)]


def received(hearing: wire.Hearing, parts: Iterable[bytes]) -> Problem:
    *first, last = [hearing.take(wire.unpack(part)) for part in parts]
    assert first == [None] * len(first)
    assert last is not None
    return last[0]


def test_problems_arrive_as_they_were() -> None:
    asking, hearing = wire.Asking(), wire.Hearing()
    for problem in problems():
        assert received(hearing, asking.parts(problem, 1, 2)) == problem
    room = replace(problems()[0], buys=False)
    assert received(hearing, asking.parts(room, 1, 2)) == room


def test_types_travel_once_and_are_forgotten_when_unused() -> None:
    one, other = problems()[0], problems()[-1]
    asking, hearing = wire.Asking(), wire.Hearing()

    def kinds(problem: Problem) -> list[str]:
        parts = list(asking.parts(problem, 1, 2))
        assert received(hearing, parts) == problem
        return [type(wire.unpack(part)).__name__ for part in parts]

    assert "NewTypes" in kinds(one)
    assert "NewTypes" not in kinds(one)
    changed = replace(
        one,
        pools=tuple(
            replace(pool, instance_types=(replace(pool.instance_types[0]), *pool.instance_types[1:]))
            for pool in one.pools
        ),
    )
    assert "NewTypes" in kinds(changed)
    assert "NewTypes" in kinds(other)
    assert "NewTypes" in kinds(one)


def test_nodes_of_what_ifs_travel_once() -> None:
    whole = next(problem for problem in problems() if len(problem.nodes) > 2)
    asking, hearing = wire.Asking(), wire.Hearing()

    def sent(nodes: tuple[ExistingNode, ...]) -> list[str]:
        problem = replace(whole, nodes=nodes)
        parts = list(asking.parts(problem, 1, 2))
        assert received(hearing, parts) == problem
        batches = [part for part in map(wire.unpack, parts) if isinstance(part, wire.SomeNodes)]
        return [node.name for batch in batches for node in batch.nodes]

    first, *others = whole.nodes
    assert sent(whole.nodes) == [node.name for node in whole.nodes]
    assert sent(tuple(others)) == []
    assert sent((replace(others[0]), *whole.nodes[2:])) == [others[0].name]
    assert sent(whole.nodes) == [first.name, others[0].name]


def test_plans_arrive_as_they_were() -> None:
    claim = PlannedClaim(
        "a-0", "a", ("default/p",), Requirements(), ("m",), {"cpu": 1}, "m", "z", "spot", 7, 9
    )
    plan = Plan(tuple(replace(claim, name=f"a-{number}") for number in range(600)), work=3)
    answering = wire.Answering()
    *first, last = [answering.take(wire.unpack(part)) for part in wire.answer(plan)]
    assert first == [None] * 3
    assert last == plan


def test_a_fault_is_raised() -> None:
    with pytest.raises(PlannerFailed, match="no luck"):
        wire.Answering().take(wire.unpack(wire.pack(wire.Fault("no luck"))))


def test_hashes_do_not_travel() -> None:
    requirement = Requirement.new("a", "In", ("b",))
    both = Requirements.of((requirement,))
    hash(both)
    for value in (requirement, both):
        copy = pickle.loads(pickle.dumps(value))
        assert copy == value
        assert copy._hash == 0
