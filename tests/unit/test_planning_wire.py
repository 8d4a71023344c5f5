"""Problems and plans survive their way to the worker and back, in pieces; types and nodes travel once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements, Volume
from dovetail.api.meta import Meta
from dovetail.base.errors import PlannerFailed
from dovetail.model.plan import OUT_OF_TIME, Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.runtime.planning import wire
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import features, read_scenarios
from dovetail.units.quantity import Quantity

FOLDER = Path(__file__).parents[1] / "conformance" / "vectors" / "scheduling"


def problems() -> list[Problem]:
    """One of every feature."""
    return [next(read_scenarios(FOLDER / f"{name}.jsonl.gz")).problem for name in features(FOLDER)]


def received(hearing: wire.Hearing, parts: Iterable[bytes]) -> Problem:
    *first, last = [hearing.take(wire.unpack(part)) for part in parts]
    assert first == [None] * len(first)
    assert last is not None
    return last[0]


def bare(problem: Problem) -> Problem:
    """The problem with pods that have nothing but what a plan depends on."""
    pods = []
    for pod in problem.pods:
        meta = pod.metadata
        short = Meta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            labels=meta.labels,
        )
        pods.append(Pod(metadata=short, spec=pod.spec))
    return replace(problem, pods=tuple(pods))


def test_problems_arrive_as_they_were() -> None:
    asking, hearing = wire.Asking(), wire.Hearing()
    for problem in problems():
        assert received(hearing, asking.parts(problem, 1, 2)) == bare(problem)
    room = replace(problems()[0], buys=False)
    assert received(hearing, asking.parts(room, 1, 2)) == bare(room)
    bound = replace(problems()[0], places=False)
    assert received(hearing, asking.parts(bound, 1, 2)) == bare(bound)


def test_plans_for_what_arrives_are_the_same() -> None:
    asking, hearing = wire.Asking(), wire.Hearing()
    for problem in problems()[::8]:
        there = received(hearing, asking.parts(problem, 1, 2))
        assert solve(there, Budget(0)) == solve(problem, Budget(0))


def test_copies_of_a_pod_share_what_they_ask_for() -> None:
    def copy(name: str, app: str) -> Pod:
        container = Container(
            name="main", resources=ResourceRequirements(requests={"cpu": Quantity(100_000_000)})
        )
        volume = Volume(name=f"kube-api-access-{name}")
        meta = Meta(name=name, namespace="default", labels={"app": app})
        return Pod(metadata=meta, spec=PodSpec(containers=(container,), volumes=(volume,)))

    pods = tuple(copy(f"p{number}", "b" if number == 1_500 else "a") for number in range(2_000))
    problem = replace(problems()[0], pods=pods)
    asking, hearing = wire.Asking(), wire.Hearing()
    for _ in range(2):  # numbers begin anew with each question
        there = received(hearing, asking.parts(problem, 1, 2)).pods
        assert [pod.key for pod in there] == [pod.key for pod in pods]
        assert [pod.metadata.labels for pod in there] == [pod.metadata.labels for pod in pods]
        assert {id(pod.spec) for pod in there} == {id(there[0].spec), id(there[1_500].spec)}
        assert there[0].spec == msgspec.structs.replace(pods[0].spec, volumes=())


def test_types_travel_once_and_are_forgotten_when_unused() -> None:
    one, other = problems()[0], problems()[-1]
    asking, hearing = wire.Asking(), wire.Hearing()

    def kinds(problem: Problem) -> list[str]:
        parts = list(asking.parts(problem, 1, 2))
        assert received(hearing, parts) == bare(problem)
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
        assert received(hearing, parts) == bare(problem)
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
    dearer = replace(claim, price=8, min_values_relaxed=True)
    claims = [replace(each, name=f"a-{number}") for number in range(1_200) for each in (claim, dearer)]
    left = [
        Unschedulable(f"default/{number}", reason, {"a": reason})
        for number in range(6_000)
        for reason in ("too large", OUT_OF_TIME)
    ]
    plan = Plan(tuple(claims), unschedulable=tuple(left), existing={"n": ("default/q",)}, work=3)
    parts = list(wire.answer(plan))
    assert len(b"".join(parts)) < 60 * (len(claims) + len(left))
    answering = wire.Answering()
    *first, last = [answering.take(wire.unpack(part)) for part in parts]
    assert first == [None] * 5
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
