"""What consolidation must save, how often it moves pods, and what the policy Balanced says: pure rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from dovetail.api.core import Pod
from dovetail.api.meta import Meta, OwnerReference
from dovetail.base.clock import HOUR, MINUTE
from dovetail.disrupt.consolidation.balanced import Totals, scores
from dovetail.disrupt.consolidation.churn import Ledger, Purse
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.question import Finding, Mover, Question
from dovetail.disrupt.consolidation.saving import Minimum, parse_minimum, pool_minimum
from dovetail.model.problem import ExistingNode, Problem
from dovetail.units.timestamp import to_rfc3339

DOLLAR = 1_000_000_000


def pod(name: str, owner: str = "") -> Pod:
    made = (OwnerReference(api_version="v1", kind="ReplicaSet", name=owner, uid=owner, controller=True),)
    return Pod(metadata=Meta(name=name, uid=name, owner_references=made if owner else ()))


def born(one: Pod, instant: int) -> Pod:
    meta = structs.replace(one.metadata, creation_timestamp=to_rfc3339(instant))
    return structs.replace(one, metadata=meta)


@pytest.mark.parametrize(
    ("price", "pods", "needed"),
    [(DOLLAR, 1, DOLLAR // 50), (DOLLAR // 10, 1, DOLLAR // 200), (DOLLAR, 20, DOLLAR // 25)],
)
def test_the_largest_of_the_minima_counts(price: int, pods: int, needed: int) -> None:
    assert Minimum(per_pod=DOLLAR // 500).of(price, pods) == needed
    assert Minimum().of(price, pods) == min(needed, DOLLAR // 50)


def test_minima_as_users_write_them() -> None:
    assert parse_minimum("5%", Minimum()) == Minimum(share=0.05)
    assert parse_minimum("$0.01, 3%,$0.002/pod", Minimum()) == Minimum(0.03, DOLLAR // 100, DOLLAR // 500)
    assert pool_minimum({"dovetail.dev/minimum-saving": "much"}, Minimum()) == Minimum()
    for text in ("much", "-1%", "100%", "$x", "1%,,"):
        with pytest.raises(ValueError, match=r"\S"):
            parse_minimum(text, Minimum())


def test_a_workload_has_as_many_moves_a_day_as_pods() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)]
    ledger = Ledger(1)
    ledger.record("p", pods[:3], 0)
    left = ledger.left([*pods, pod("alone")], HOUR)
    assert (left.deleting, left.replacing) == ({"a": 1, "alone": 1}, {"a": 0, "alone": 1})
    assert ledger.left(pods, 24 * HOUR).deleting == {"a": 4}


def test_moves_that_were_forced_count_for_an_hour_even_after_a_restart() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)]
    ledger, again = Ledger(1), Ledger(1)
    ledger.record("p", pods[:1], HOUR)
    ledger.record("p", pods[1:], HOUR, forced=True)
    again.read("p", ledger.text("p", HOUR), HOUR)
    for one in (ledger, again):
        assert one.left(pods, HOUR).deleting == {"a": 0}
        assert one.left(pods, 2 * HOUR - 1).deleting == {"a": 0}
        assert one.left(pods, 2 * HOUR).deleting == {"a": 3}
        assert one.left(pods, 25 * HOUR).deleting == {"a": 4}


def test_moves_of_pods_that_are_gone_do_not_count() -> None:
    old = [born(pod(f"old-{number}", "a"), HOUR) for number in range(3)]
    moved = [born(pod(f"moved-{number}", "a"), 2 * HOUR) for number in range(5)]
    ledger = Ledger(1)
    ledger.record("p", moved, 2 * HOUR)
    assert ledger.left([*old, *moved], 3 * HOUR).deleting == {"a": 3}
    assert ledger.left([*old, moved[0]], 3 * HOUR).deleting == {"a": 3}  # the load fell
    assert ledger.left(old, 3 * HOUR).replacing == {"a": 3}


def test_a_purse_counts_budgets_and_moves() -> None:
    purse = Purse({"general": 2}, {"a": 2})
    assert not purse.holds("other", [])
    assert not purse.holds("general", [pod(str(number), "a") for number in range(3)])
    purse.take("general", [pod("0", "a")])
    assert purse.holds("general", [pod("1", "a"), pod("2", "free")])
    purse.take("general", [pod("1", "a")])
    assert not purse.holds("general", [])


def test_balanced_weighs_what_is_saved_against_what_is_disrupted() -> None:
    pools = {"a": Totals("Balanced", 10 * DOLLAR, 100.0)}
    (score,) = scores([("a", DOLLAR, 12.0), ("b", DOLLAR, 5.0)], 2 * DOLLAR, pools)
    assert str(score) == "score 0.83 >= threshold 0.50 (k: 2, savings 10.0%, disruption 12.0%)"
    (score,) = scores([("a", DOLLAR, 30.0)], DOLLAR, pools)
    assert str(score) == "score 0.33 < threshold 0.50 (k: 2, savings 10.0%, disruption 30.0%)"
    assert score.refused
    assert not replace(score, policy="WhenEmptyOrUnderutilized").refused


def test_a_ledger_is_written_and_read_again() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)]
    ledger = Ledger(1)
    entry = ledger.record("p", pods[:1], 2 * HOUR)
    ledger.record("q", pods[1:3], 3 * HOUR)
    again = Ledger(1)
    for name in ("p", "q"):
        again.read(name, ledger.text(name, 4 * HOUR), 4 * HOUR)
    assert again.left(pods, 4 * HOUR) == ledger.left(pods, 4 * HOUR)
    assert again.left(pods, 26 * HOUR).deleting == {"a": 2}  # the first is a day old
    ledger.take_back(entry)
    assert ledger.left(pods, 4 * HOUR).deleting == {"a": 2}


def test_what_was_not_moved_after_all_is_given_back_once() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)]
    ledger = Ledger(1)
    ledger.record("p", pods[:1], HOUR)
    ledger.record("p", pods[1:3], 2 * HOUR)
    ledger.record("q", pods[3:], 3 * HOUR)
    for _ in range(2):  # there is nothing of it left to give the second time
        ledger.give_back("p", [*pods[1:3], pod("other", "b")], 2 * HOUR)
        assert ledger.left(pods, 4 * HOUR).deleting == {"a": 2}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"now": {"a": 1}}', '{"1970-01-01T00:00:01Z": 3}'])
def test_what_cannot_be_read_counts_nothing(text: str) -> None:
    ledger = Ledger(1)
    ledger.read("p", text, HOUR)
    ledger.read("p", '{"2030-01-01T00:00:00Z":{"a":1}}', HOUR)  # not yet
    assert ledger.left([pod("a-0", "a")], HOUR).deleting == {"a": 1}


def test_a_ledger_stays_small_enough_for_an_annotation() -> None:
    ledger = Ledger(1)
    for hour in range(20):
        many = [pod(f"{hour}-{number}", f"{hour:06}{number:06}") for number in range(1_000)]
        ledger.record("p", many, hour * HOUR)
    text = ledger.text("p", 20 * HOUR)
    assert len(text) < 2**18
    assert "1970-01-01T19:00:00Z" in text
    assert "1970-01-01T00:00:00Z" not in text


def test_a_finding_that_rests_on_old_verdicts_is_looked_at_again() -> None:
    node = Mover("n", "p", ("t", "a", "on-demand"), DOLLAR, 1.0, ())
    first = Question(Problem((), (), (ExistingNode("n", {}, (), {}, {}),)), (node,), {"p": 1})
    later = replace(first, allowed={"p": 2})
    memory = Memory()
    assert memory.recall(first, 0) is None
    memory.refuse((node,), "too dear", 0, fleeting=False)
    memory.recall(later, MINUTE)
    assert memory.refused((node,), MINUTE) == "too dear"
    memory.keep(Finding(None))
    assert memory.recall(later, 4 * MINUTE) == Finding(None)
    assert memory.recall(later, 5 * MINUTE) is None
    assert not memory.refused((node,), 5 * MINUTE)


def test_what_other_pods_made_impossible_is_said_of_one_question_only() -> None:
    node = Mover("n", "p", ("t", "a", "on-demand"), DOLLAR, 1.0, ())
    first = Question(Problem((), (), (ExistingNode("n", {}, (), {}, {}),)), (node,), {"p": 1})
    memory = Memory()
    memory.recall(first, 0)
    memory.refuse((node,), "too dear", 0, fleeting=True)
    assert memory.refused((node,), 0) == "too dear"
    memory.recall(replace(first, allowed={"p": 2}), 0)
    assert not memory.refused((node,), 0)
