"""What consolidation must save, how often it moves pods, and what the policy Balanced says: pure rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Meta, OwnerReference
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.disrupt.consolidation.balanced import Totals, scores
from dovetail.disrupt.consolidation.churn import Arrival, Entry, Ledger, MoveBudget, Present
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.question import Candidate, Finding, Question
from dovetail.disrupt.consolidation.saving import Minimum, parse_minimum, pool_minimum
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirements
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
    assert pool_minimum({"dovetail.dev/minimum-saving": ""}, Minimum(0.5)) == Minimum(0.5)
    assert pool_minimum({}, Minimum(0.5)) == Minimum(0.5)
    for text in ("much", "-1%", "100%", "$x", "1%,,", "x%"):
        with pytest.raises(ValueError, match=r"\S"):
            parse_minimum(text, Minimum())


def test_a_workload_has_as_many_moves_a_day_as_pods() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)]
    ledger = Ledger(1)
    ledger.record("p", pods[:3], 0)
    left = ledger.left(Present([*pods, pod("alone")]), HOUR)
    assert (left.deleting, left.replacing) == ({"a": 1, "alone": 1}, {"a": 0, "alone": 1})
    assert ledger.left(Present(pods), 24 * HOUR).deleting == {"a": 4}


def test_pods_that_had_to_move_rest_for_an_hour_even_after_a_restart() -> None:
    old = [pod(f"old-{number}", "a") for number in range(3)]
    came = [born(pod(f"new-{number}", "a"), HOUR + number * MINUTE) for number in range(3)]
    ledger, again = Ledger(1), Ledger(1)
    assert not ledger.record("p", [pod("b", "b")], HOUR).forced
    ledger.record("p", old[:2], HOUR, forced=True)
    assert not Entry("p", HOUR, {}).forced
    again.read("p", ledger.text("p", HOUR), HOUR)
    pods = [*came, born(pod("there", "a"), HOUR - 2 * SECOND)]
    for one in (ledger, again):
        resting = [
            sorted(one.left(Present(pods), instant).resting)
            for instant in (HOUR + 3 * MINUTE, 2 * HOUR, 2 * HOUR + SECOND, 2 * HOUR + MINUTE + SECOND)
        ]
        assert resting == [["new-0", "new-1"], ["new-0", "new-1"], ["new-1"], []]
        assert one.left(Present(pods), 2 * HOUR).deleting == {"a": 4}  # it is no move of the day


def test_a_pod_came_by_the_latest_move_that_it_can_have_come_by() -> None:
    """Others of its workload may have gone since they had to move, and one came later for another reason."""
    ledger = Ledger(1)
    ledger.record("p", [pod("a", "a")], HOUR, forced=True)
    ledger.record("q", [pod("b", "a")], HOUR + MINUTE)
    came = born(pod("came", "a"), HOUR + 2 * MINUTE)
    assert not ledger.left(Present([came]), HOUR + 3 * MINUTE).resting
    first = born(pod("first", "a"), HOUR + 30 * SECOND)
    assert ledger.left(Present([came, first]), HOUR + 3 * MINUTE).resting == {"first"}
    late = born(pod("late", "a"), 2 * HOUR)
    assert not ledger.left(Present([came, late]), 2 * HOUR + MINUTE).resting


def test_which_pods_came_by_a_move_within_the_hour() -> None:
    ledger = Ledger(1)
    assert not ledger.lately(Present([pod("a")]), HOUR)
    ledger.record("p", [pod("a", "a")], HOUR, forced=True)
    ledger.record("q", [pod("b", "b"), pod("c", "b")], HOUR + MINUTE)
    pods = [
        born(pod("a-new", "a"), HOUR + 2 * SECOND),
        born(pod("b-new", "b"), HOUR + 2 * MINUTE),
        born(pod("b-old", "b"), HOUR),
        born(pod("else", "c"), HOUR + 2 * MINUTE),
    ]
    first = {"a-new": Arrival(HOUR + 3 * SECOND, forced=True)}
    second = {"b-new": Arrival(HOUR + 2 * MINUTE + SECOND)}
    for now, expected in (
        (HOUR + 3 * MINUTE, first | second),
        (2 * HOUR + 3 * SECOND, second),
        (2 * HOUR + 3 * MINUTE, {}),
        (4 * HOUR, {}),
    ):
        assert ledger.lately(Present(pods), now) == expected


def test_moves_of_pods_that_are_gone_do_not_count() -> None:
    old = [born(pod(f"old-{number}", "a"), HOUR) for number in range(3)]
    moved = [born(pod(f"moved-{number}", "a"), 2 * HOUR) for number in range(5)]
    ledger = Ledger(1)
    ledger.record("p", moved, 2 * HOUR)
    assert ledger.left(Present([*old, *moved]), 3 * HOUR).deleting == {"a": 3}
    assert ledger.left(Present([*old, moved[0]]), 3 * HOUR).deleting == {"a": 3}  # the load fell
    assert ledger.left(Present(old), 3 * HOUR).replacing == {"a": 3}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.booleans()), max_size=4),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=6),
    st.integers(30, 60),
    st.integers(0, 40),
)
def test_what_is_left_stays_the_same_for_as_long_as_the_ledger_says(
    made: list[tuple[int, str, bool]], there: list[tuple[int, str]], first: int, later: int
) -> None:
    """Instants in hours. Whoever asks again before then need not: the same is left of the same pods."""
    ledger = Ledger(1)
    for at, owner, forced in sorted(made):
        ledger.record("p", [pod(str(at), owner)], at * HOUR, forced=forced)
    pods = [born(pod(str(index), owner), at * HOUR) for index, (at, owner) in enumerate(there)]
    left = ledger.left(Present(pods), first * HOUR)
    until = ledger.same_until()
    instant = (first + later) * HOUR
    assert until > first * HOUR or not until
    assert instant >= until or ledger.left(Present(pods), instant) == left


def test_a_purse_counts_budgets_and_moves() -> None:
    move_budget = MoveBudget({"general": 2}, {"a": 2})
    assert not move_budget.holds("other", {})
    assert not move_budget.holds("general", {"a": 3})
    move_budget.take("general", {"a": 1})
    assert move_budget.holds("general", {"a": 1, "free": 1})
    move_budget.take("general", {"a": 1})
    assert not move_budget.holds("general", {})


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
    assert again.left(Present(pods), 4 * HOUR) == ledger.left(Present(pods), 4 * HOUR)
    assert again.left(Present(pods), 26 * HOUR).deleting == {"a": 2}  # the first is a day old
    ledger.take_back(entry)
    assert ledger.left(Present(pods), 4 * HOUR).deleting == {"a": 2}


def test_what_was_not_moved_after_all_is_given_back_once() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)]
    ledger = Ledger(1)
    ledger.record("p", pods[:1], HOUR)
    ledger.record("p", pods[1:3], 2 * HOUR)
    ledger.record("q", pods[3:], 3 * HOUR)
    for _ in range(2):  # there is nothing of it left to give the second time
        ledger.give_back("p", [*pods[1:3], pod("other", "b")], 2 * HOUR)
        assert ledger.left(Present(pods), 4 * HOUR).deleting == {"a": 2}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"now": {"a": 1}}', '{"1970-01-01T00:00:01Z": 3}'])
def test_what_cannot_be_read_counts_nothing(text: str) -> None:
    ledger = Ledger(1)
    ledger.read("p", text, HOUR)
    ledger.read("p", '{"2030-01-01T00:00:00Z":{"a":1}}', HOUR)  # not yet
    assert ledger.left(Present([pod("a-0", "a")]), HOUR).deleting == {"a": 1}


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
    node = Candidate("n", "p", ("t", "a", "on-demand"), DOLLAR, 1.0, ())
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
    node = Candidate("n", "p", ("t", "a", "on-demand"), DOLLAR, 1.0, ())
    first = Question(Problem((), (), (ExistingNode("n", {}, (), {}, {}),)), (node,), {"p": 1})
    memory = Memory()
    memory.recall(first, 0)
    memory.refuse((node,), "too dear", 0, fleeting=True)
    assert memory.refused((node,), 0) == "too dear"
    memory.recall(replace(first, allowed={"p": 2}), 0)
    assert not memory.refused((node,), 0)


# ------------------------------------------------------------------ what is remembered


def node(name: str = "n", *uids: str, price: int = DOLLAR) -> Candidate:
    return Candidate(name, "p", ("t", "a", "on-demand"), price, 1.0, tuple(pod(uid) for uid in uids))


def asked(*names: str, allowed: int = 1, pools: tuple[Pool, ...] = ()) -> Question:
    nodes = tuple(ExistingNode(name, {}, (), {}, {}) for name in names)
    return Question(Problem((), pools, nodes), tuple(map(node, names)), {"p": allowed})


def offers(limit: int | None = None, usage: int = 0) -> tuple[Pool, ...]:
    none = Requirements({})
    limits = {"cpu": limit} if limit is not None else {}
    made = Pool("p", NodeClassRef(group="", kind="", name=""), none, {}, (), limits=limits)
    return (replace(made, usage={"cpu": usage}),)


def test_a_finding_holds_for_the_very_same_question_once_it_is_complete() -> None:
    memory, first = Memory(), asked("n")
    memory.recall(first, 0)
    memory.keep(Finding(None, cut="multi"))
    assert memory.recall(first, 0) is None  # there is more to look at
    memory.keep(Finding(None, tried=1))
    assert memory.recall(asked("n"), 100 * MINUTE) == Finding(None, tried=1)
    assert memory.recall(asked("n", allowed=2), 0) is None
    assert memory.recall(first, 0) is None


def test_sets_are_known_in_any_order_and_only_for_their_question() -> None:
    memory = Memory()
    memory.recall(asked("a", "b"), 0)
    memory.refuse((node("b"), node("a")), "together", 0, fleeting=False)
    assert memory.refused((node("a"), node("b")), 0) == "together"
    assert memory.refused((node("a"),), 0) == memory.refused((node("b"),), 0) == ""
    memory.recall(asked("a", "b", allowed=2), 0)
    assert memory.refused((node("a"), node("b")), 0) == ""


@pytest.mark.parametrize(
    ("later", "is_known"),
    [
        (node("n", "x", "y"), True),
        (node("n", "x"), False),
        (node("n", "x", "z"), False),
        (node("n", "x", "y", price=DOLLAR + 1), False),
        (node("m", "x", "y"), False),
    ],
)
def test_a_verdict_about_one_node_holds_while_the_node_stays_as_it_is(
    later: Candidate, is_known: bool
) -> None:
    memory = Memory()
    memory.recall(asked("n", "m"), HOUR)
    memory.refuse((node("n", "x", "y"),), "too dear", HOUR, fleeting=False)
    memory.recall(asked("n", "m", allowed=2), HOUR)
    assert memory.refused((later,), HOUR) == ("too dear" if is_known else "")


@pytest.mark.parametrize(("age", "is_known"), [(5 * MINUTE - 1, True), (5 * MINUTE, False)])
def test_a_verdict_about_one_node_holds_for_five_minutes(age: int, is_known: bool) -> None:
    memory = Memory()
    memory.recall(asked("n"), HOUR)
    memory.refuse((node(),), "too dear", HOUR, fleeting=False)
    memory.recall(asked("n", allowed=2), HOUR)
    assert bool(memory.refused((node(),), HOUR + age)) == is_known


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [
        (offers(), offers(), True),
        (offers(usage=1), offers(usage=2), True),  # what was bought changes nothing of what may be
        (offers(10), offers(20), False),
        (offers(), (), False),
    ],
)
def test_verdicts_do_not_outlive_what_may_be_bought(
    before: tuple[Pool, ...], after: tuple[Pool, ...], is_known: bool
) -> None:
    memory = Memory()
    memory.recall(asked("n", pools=before), 0)
    memory.refuse((node(),), "too dear", 0, fleeting=False)
    memory.recall(asked("n", allowed=2, pools=after), 0)
    assert bool(memory.refused((node(),), 0)) == is_known


def test_a_node_that_came_back_is_looked_at_anew() -> None:
    memory = Memory()
    memory.recall(asked("a", "b"), 0)
    for name in "ab":
        memory.refuse((node(name),), "too dear", 0, fleeting=False)
    memory.recall(asked("a"), 0)
    memory.recall(asked("a", "b"), 0)
    assert memory.refused((node("a"),), 0) == "too dear"
    assert memory.refused((node("b"),), 0) == ""


def test_the_oldest_verdict_decides_how_long_a_finding_holds() -> None:
    memory = Memory()
    memory.recall(asked("a", "b"), HOUR)
    memory.refuse((node("a"),), "too dear", HOUR, fleeting=False)
    memory.refuse((node("b"),), "too dear", HOUR + MINUTE, fleeting=False)
    later = asked("a", "b", allowed=2)
    memory.recall(later, HOUR + MINUTE)
    for name in "ab":
        assert memory.refused((node(name),), HOUR + MINUTE)
    memory.keep(Finding(None))
    assert memory.recall(later, HOUR + 5 * MINUTE - 1) == Finding(None)
    assert memory.recall(later, HOUR + 5 * MINUTE) is None


# ------------------------------------------------------------------ shares of pools, and what was moved


def test_balanced_shares_the_saving_by_price_and_answers_in_order_of_pools() -> None:
    pools = {name: Totals("Balanced", 8 * DOLLAR, 40.0) for name in "edcba"}
    moved = [(name, (number + 1) * DOLLAR, 4.0) for number, name in enumerate("edcba")]
    found = scores([*moved, ("b", DOLLAR, 4.0), ("unknown", 4 * DOLLAR, 9.0)], 4 * DOLLAR, pools)
    assert [one.pool for one in found] == ["a", "b", "c", "d", "e"]
    # Of 20 dollars those of b cost 5: a quarter of 4 dollars, of 8 in all.
    assert [one.saving for one in found] == [0.125, 0.125, 0.075, 0.05, 0.025]
    assert [one.disruption for one in found] == [0.1, 0.2, 0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("price", "whole", "cost", "saving", "disruption"),
    [(0, DOLLAR, 2.0, 0.0, 0.5), (DOLLAR, 0, 2.0, 0.0, 0.5), (DOLLAR, DOLLAR, 2.0, 1.0, 0.5)],
)
def test_what_costs_nothing_is_no_share_of_anything(
    price: int, whole: int, cost: float, saving: float, disruption: float
) -> None:
    (score,) = scores([("a", price, cost)], DOLLAR, {"a": Totals("Balanced", whole, 4.0)})
    assert (score.saving, score.disruption) == (saving, disruption)
    (score,) = scores([("a", price, cost)], DOLLAR, {"a": Totals("Balanced", whole, 0.0)})
    assert (score.disruption, score.value) == (0.0, float("inf"))


def test_only_so_many_moves_are_given_back_as_pods_stayed() -> None:
    pods = [pod(f"a-{number}", "a") for number in range(4)] + [pod(f"b-{number}", "b") for number in range(4)]
    ledger = Ledger(1)
    ledger.record("p", [*pods[:2], pods[4]], HOUR)
    ledger.record("p", [pods[2], pods[5]], HOUR)
    ledger.record("p", pods[3:4], HOUR - 1)
    ledger.give_back("p", pods[:1], HOUR)
    assert ledger.left(Present(pods), HOUR).deleting == {"a": 1, "b": 2}
    ledger.give_back("p", pods[:2], HOUR)
    assert ledger.left(Present(pods), HOUR).deleting == {"a": 3, "b": 2}


@pytest.mark.parametrize(("came", "counts"), [(-2, False), (-1, True), (0, True), (60, True)])
def test_a_pod_counts_as_moved_unless_it_was_there_before(came: int, counts: bool) -> None:
    """Its timestamp names a second: it may have come at the end of it."""
    ledger = Ledger(1)
    ledger.record("p", [pod("a-0", "a")], HOUR)
    one = born(pod("new", "a"), HOUR + came * 1_000_000_000)
    assert ledger.left(Present([one]), 2 * HOUR).deleting == {"a": 0 if counts else 1}


@pytest.mark.parametrize(("kept", "uid"), [(True, "x123456789012"), (False, "x12345678901y")])
def test_workloads_are_known_by_twelve_characters_of_their_uids(kept: bool, uid: str) -> None:
    ledger = Ledger(1)
    ledger.record("p", [pod("a", "123456789012")], HOUR)
    assert ledger.left(Present([pod("b", uid)]), HOUR).deleting == {uid[-12:]: 0 if kept else 1}
