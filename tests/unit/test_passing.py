"""Places are passed on over several machines until none lacks room."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_order import pod

from dovetail.controllers.provisioning.passing import Candidate, Crowd, passed_on
from dovetail.model.resources import pod_requests

Waiting = dict[str, list[int]]  # by machine, the CPUs of those that wait


def crowds(free: dict[str, int], waiting: Waiting, stay: str = "", zones: str = "") -> list[Crowd]:
    """Machines with so many CPUs free beside all that wait there; pods of one size are of one kind, and those
    with `stay` in their names' machine are to stay in their zone.
    """
    every = frozenset(range(len(free)))
    found = []
    for number, (name, cpus) in enumerate(free.items()):
        pods = [pod(f"{name}-{n}", cpu=str(cpu)) for n, cpu in enumerate(waiting.get(name, ()))]
        some = tuple(
            Candidate(one, f"{pod_requests(one)['cpu']} {name in stay}", every, name in stay) for one in pods
        )
        zone = zones[number] if zones else "a"
        found.append(Crowd(name, zone, {"cpu": cpus * 1000, "memory": 0, "pods": 9}, some))
    return found


@pytest.mark.parametrize(
    ("free", "waiting", "moves"),
    [
        ({"x": 0, "y": 1}, {"x": [1]}, {}),  # nothing is lacking
        ({"x": -1, "y": 1}, {"x": [1, 2]}, {"x-0": "y"}),
        ({"x": -1, "y": 0}, {"x": [1]}, {}),  # there is no room
        ({"x": -2, "y": 1, "z": 1}, {"x": [1, 1]}, {"x-0": "y", "x-1": "z"}),
        # The large one has room nowhere, until a small one goes on.
        ({"x": -2, "y": 1, "z": 1}, {"x": [2], "y": [1]}, {"x-0": "y", "y-0": "z"}),
        ({"x": -2, "y": 1}, {"x": [1, 1]}, {"x-0": "y"}),  # less is lacking
    ],
)
def test_the_fewest_pods_move_after_which_least_is_lacking(
    free: dict[str, int], waiting: Waiting, moves: dict[str, str]
) -> None:
    found = {one.metadata.name: name for one, name in passed_on(crowds(free, waiting))}
    assert found == moves


def test_one_that_must_stay_in_its_zone_goes_to_no_other() -> None:
    free, waiting = {"x": -1, "y": 1, "z": 1}, {"x": [1]}
    assert [name for _, name in passed_on(crowds(free, waiting, "x", "aba"))] == ["z"]
    assert passed_on(crowds(free, waiting, "x", "abc")) == []


def test_none_goes_where_it_does_not_suit() -> None:
    x, y, z = crowds({"x": -1, "y": 1, "z": 1}, {"x": [1]})
    only = Candidate(x.waiting[0].pod, "one", frozenset({2}), stays=False)
    assert [name for _, name in passed_on([Crowd("x", "a", x.free, (only,)), y, z])] == ["z"]


def test_a_question_is_the_same_for_other_pods_of_the_same_kinds_alone() -> None:
    free, waiting = {"x": -1, "y": 1}, {"x": [1, 2]}
    asked = [one.question for one in crowds(free, waiting)]
    assert asked == [one.question for one in crowds(free, waiting)]
    others: list[tuple[dict[str, int], Waiting, str]] = [
        ({"x": -1, "y": 2}, waiting, "aa"),
        (free, {"x": [2, 1]}, "aa"),
        (free, {"x": [1, 2], "y": [1]}, "aa"),
        (free, waiting, "ab"),
    ]
    for room, pods, zones in others:
        assert asked != [one.question for one in crowds(room, pods, "", zones)]


SIZES = st.lists(st.integers(1, 3), max_size=4)


@given(st.tuples(SIZES, SIZES, SIZES), st.tuples(*[st.integers(-3, 3)] * 3))
def test_nowhere_is_more_lacking_than_before(sizes: tuple[list[int], ...], spare: tuple[int, ...]) -> None:
    names = "xyz"
    free = dict(zip(names, spare, strict=True))
    given_crowds = crowds(free, dict(zip(names, sizes, strict=True)))
    moves = passed_on(given_crowds)
    after = {name: cpus * 1000 for name, cpus in free.items()}
    for one, name in moves:
        after[name] -= pod_requests(one)["cpu"]
        after[one.metadata.name[0]] += pod_requests(one)["cpu"]
    assert all(after[name] >= min(0, free[name] * 1000) for name in names)
    lacking = [sum(min(0, cpus) for cpus in some.values()) for some in (free, after)]
    assert not moves or lacking[0] * 1000 < lacking[1]
    assert len({one.metadata.name for one, _ in moves}) == len(moves)
    if not moves and lacking[0]:  # then no single move helps
        for source, target in product(names, names):
            waits = [one.pod for one in given_crowds[names.index(source)].waiting]
            assert source == target or not any(
                free[source] < 0 and pod_requests(one)["cpu"] <= free[target] * 1000 for one in waits
            )
