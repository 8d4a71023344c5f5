"""Whose turn it is, round by round, with hostile pods beside ordinary ones."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.base.clock import SECOND
from dovetail.controllers.provisioning.fairness import (
    HARD,
    LONGEST_BACKOFF,
    ROUND,
    Candidate,
    Ledger,
    WaitingList,
    settled,
    take_turn,
)
from dovetail.testing import problems


def _some(namespace: str, count: int, cost: int = 1) -> list[Candidate]:
    names = [f"{namespace}/p-{number:05}" for number in range(count)]
    return [Candidate(name, namespace, name.encode(), cost) for name in names]


def _rounds(waiting: list[Candidate], bad: set[str], most: int) -> list[tuple[frozenset[str], bool]]:
    """Rounds of a second each, in which a plan with a bad pod fails; others place their pods."""
    ledger, found = Ledger(), []
    for number in range(most):
        turn, ledger = take_turn(waiting, ledger, number * SECOND)
        failed = bool(turn.pods & bad)
        ledger = settled(ledger, turn, "boom" if failed else "", number * SECOND)
        found.append((turn.pods, failed))
        if not failed:
            waiting = [item for item in waiting if item.pod not in turn.pods]
    return found


ORDINARY = [
    ("many classes of one namespace", _some("a", 3 * ROUND)),
    ("500 classes beside 20", [*_some("a", 500), *_some("b", 20)]),
    ("10,000 pods of a few classes", [Candidate(f"a/{n}", "a", b"%d" % (n % 50), 5) for n in range(10_000)]),
]


@pytest.mark.parametrize(("_", "waiting"), ORDINARY)
def test_an_ordinary_batch_is_one_plan(_: str, waiting: list[Candidate]) -> None:
    turn, _ledger = take_turn(waiting, Ledger(), 0)
    assert turn.pods == {item.pod for item in waiting}
    assert turn.later == ()


def test_a_hard_class_has_its_turn_alone_and_ever_more_seldom_while_it_has_no_place() -> None:
    """The solver leaves it over beside others: in a plan with them it would wait for ever."""
    waiting = [*_some("a", 20), *_some("b", 1, cost=HARD)]
    ledger, alone = Ledger(), []
    for second in range(120):
        turn, ledger = take_turn(waiting, ledger, second * SECOND)  # nothing has a place
        ledger = settled(ledger, turn, "", second * SECOND, turn.pods)
        if turn.pods == {"b/p-00000"}:
            alone.append(second)
        else:
            assert turn.pods == {item.pod for item in waiting[:20]}
    assert alone[0] == 1
    waits = [later - earlier for earlier, later in pairwise(alone)]
    assert [round(wait, -1) for wait in waits] == [10, 20, 40]
    assert "takes long to plan" in next(iter(ledger.aside.values())).cause


@pytest.mark.parametrize(("slow", "rounds"), [(1, [5, 1]), (2, [6, 2, 1])])
def test_what_a_plan_did_not_come_to_has_the_next_rounds_for_itself(slow: int, rounds: list[int]) -> None:
    """The solver answers what is simple, and one class that asks for much only as the first of a plan."""
    waiting = [*_some("a", 4), *_some("b", slow)]
    left = frozenset(item.pod for item in waiting)
    hard = sorted(pod for pod in left if pod.startswith("b/"))
    ledger, found, now = Ledger(), [], 0
    for _ in rounds:
        turn, ledger = take_turn(waiting, ledger, now)
        found.append(len(turn.pods))
        late = [pod for pod in hard if pod in turn.pods][len(turn.pods) == len(turn.pods & set(hard)) :]
        ledger = settled(ledger, turn, "", now, left & turn.pods, frozenset(late))
        now += SECOND
    assert found == rounds
    assert ledger.late == frozenset()
    assert [ledger.aside[kind].failures for kind in ledger.aside] == [1]  # the one that was alone
    turn, ledger = take_turn(waiting, ledger, now)
    assert turn.pods == {item.pod for item in waiting} - {hard[-1]}
    assert turn.aside.keys() == {hard[-1]}


def test_a_class_that_is_late_alone_is_tried_ever_more_seldom() -> None:
    waiting, ledger, tried = _some("a", 1), Ledger(), []
    for second in range(100):
        turn, ledger = take_turn(waiting, ledger, second * SECOND)
        if turn.pods:
            tried.append(second)
            every = frozenset(turn.pods)
            ledger = settled(ledger, turn, "", second * SECOND, every, every)
    assert tried == [0, 1, 11, 31, 71]


def test_a_large_class_that_gets_on_is_not_set_aside() -> None:
    waiting, ledger = [Candidate(f"a/{number}", "a", b"one", 1) for number in range(10)], Ledger()
    for _ in range(10):
        turn, ledger = take_turn(waiting, ledger, 0)
        assert turn.pods == {item.pod for item in waiting}
        waiting = waiting[1:]
        rest = frozenset(item.pod for item in waiting)
        ledger = settled(ledger, turn, "", 0, rest, rest)
    assert not ledger.aside


def test_a_namespace_with_few_pods_is_not_crowded_out() -> None:
    waiting = [*_some("hostile", 3 * ROUND), *_some("ordinary", 20)]
    rounds = _rounds(waiting, set(), 4)
    assert {item.pod for item in waiting[-20:]} <= rounds[0][0]
    assert len(rounds[0][0]) <= ROUND  # the rest has nothing beside it any more: one plan
    assert frozenset().union(*(pods for pods, _ in rounds)) == {item.pod for item in waiting}


def test_hard_pods_have_a_round_each_after_all_others() -> None:
    waiting = [*_some("hostile", 5, HARD), *_some("hostile-2", 20), *_some("ordinary", 20)]
    rounds = [pods for pods, _ in _rounds(waiting, set(), 6)]
    assert rounds[0] == {item.pod for item in waiting[5:]}
    assert {name for pods in rounds[1:] for name in pods} == {item.pod for item in waiting[:5]}


@pytest.mark.parametrize("bad", [{"a/p-00000"}, {"a/p-00317"}, {"a/p-00001", "a/p-00900", "a/p-00999"}])
def test_what_makes_plans_fail_is_found_by_halves(bad: set[str]) -> None:
    waiting = _some("a", 1000)
    rounds = _rounds(waiting, bad, 100)
    placed = frozenset().union(*(pods for pods, failed in rounds if not failed))
    assert placed == {item.pod for item in waiting} - bad
    last = max(number for number, (pods, failed) in enumerate(rounds) if pods and not failed)
    assert last <= 2 + 2 * len(bad) * 11  # a failure and a success for each halving
    alone = [number for number, (pods, failed) in enumerate(rounds) if failed and len(pods) == 1]
    assert len(alone) <= len(bad) * 4  # after 10, 20, 40 seconds


def test_one_failure_of_the_solver_is_nobodys_fault() -> None:
    waiting = _some("a", 10)
    turn, ledger = take_turn(waiting, Ledger(), 0)
    again, ledger = take_turn(waiting, settled(ledger, turn, "died", 0), SECOND)
    assert again.pods == turn.pods
    assert settled(ledger, again, "", SECOND).suspects == ()


def test_others_have_their_turn_between_suspects_and_a_failing_pod_waits_ever_longer() -> None:
    bad, ledger, now, waits = _some("a", 1), Ledger(), 0, []
    for round_ in range(40):
        fresh = [Candidate(f"b/{round_}", "b", b"web", 1)]
        for _ in range(2):
            turn, ledger = take_turn([*bad, *fresh], ledger, now)
            failed = bad[0].pod in turn.pods
            ledger = settled(ledger, turn, "boom" if failed else "", now)
            if not failed:
                fresh = [item for item in fresh if item.pod not in turn.pods]
            if failed and turn.aside == {} and len(turn.pods) == 1:
                waits.append(now)
        assert round_ < 4 or not fresh
        now += 60 * SECOND
    assert all(later - sooner <= LONGEST_BACKOFF + 60 * SECOND for sooner, later in pairwise(waits))
    assert len(waits) < 15


def test_costs_follow_what_pods_ask_for() -> None:
    every = [problems.pod(name, "web", (100, 64), rule) for name, rule in problems.rules("web", "db").items()]
    pods = [decode(item, Pod) for item in every]
    costs = {item.pod: item.cost for item in WaitingList().candidates(pods)}
    assert costs["default/plain"] == 1 < costs["default/rather in zone-c"] < costs["default/one per host"]


def test_pods_that_wait_are_read_once_and_again_when_they_changed() -> None:
    documents = [problems.pod(name, "web", (100, 64), {}) for name in ("a", "b", "c")]
    pods, waiting = [decode(item, Pod) for item in documents], WaitingList()
    first = waiting.candidates(pods[:2])
    assert first[0].kind == first[1].kind
    changed = decode(problems.pod("b", "web", (200, 64), {}), Pod)
    a, b, c = waiting.candidates([pods[0], changed, pods[2]])
    assert a is first[0] and b.kind != first[1].kind and c.kind == a.kind
    assert waiting.candidates(pods[1:2])[0].kind == first[1].kind
    assert waiting.candidates(pods)[0] is not a, "one that waited no more is forgotten"
