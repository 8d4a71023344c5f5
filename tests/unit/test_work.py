"""What ends a solve: work that is used up, or a stop from outside."""

from __future__ import annotations

import pytest

from dovetail.base.clock import SECOND
from dovetail.model.problem import WORK_PER_SECOND, Budget
from dovetail.solve.budget import Deadline, SolveBudget


def test_counted_work_ends_a_solve() -> None:
    work = SolveBudget(Budget(10))
    work.spend(9)
    assert work.left
    work.spend(1)
    assert not work.left


def test_a_stop_is_final() -> None:
    answers = iter([False, True, False])
    work = SolveBudget(Budget(10), lambda: next(answers))
    assert [work.left, work.left, work.left] == [True, False, False]


@pytest.mark.parametrize(
    ("first", "end"),
    [
        (0, 100),
        (10, 70),  # three times as long as the beginning took is kept back
        (30, 45),  # at most 55 in a hundred
        (45, 45),
        (150, 150),
    ],
)
def test_until_keeps_back_time_for_the_end(first: int, end: int) -> None:
    moment = 1_000
    stop = Deadline(1_100, lambda: moment)
    answers = {}
    for moment in range(1_000 + first, 1_200):
        answers[moment - 1_000] = stop() >= 1
    assert [passed for passed, over in answers.items() if over] == list(range(end, 200))


def test_twice_what_it_took_to_find_domains_is_kept_back() -> None:
    moment = 0
    stop = Deadline(100, lambda: moment)
    moment = 4
    stop()
    moment = 12
    stop.checker()
    moment = 50  # judged once: later rounds show nothing new
    stop.checker()
    over = {}
    for moment in (71, 72):
        over[moment] = stop() >= 1
    assert over == {71: False, 72: True}


def test_another_plan_is_made_as_long_as_the_least_that_it_takes_is_left() -> None:
    moment = 0
    stop = Deadline(100, lambda: moment)
    work = SolveBudget(Budget(10), stop)
    moment = 4
    assert work.left
    moment = 12
    work.clock.checker()
    found = {}
    for moment in (70, 77, 79, 80):  # late from 72 on; domains took 8, the end takes three times 4
        found[moment] = work.time_over, work.another
    assert found == {70: (False, True), 77: (True, True), 79: (True, True), 80: (True, False)}


def test_nothing_is_known_of_the_time_that_another_plan_has_where_no_clock_ends_the_solve() -> None:
    assert SolveBudget(Budget(0)).another
    assert not SolveBudget(Budget(10), lambda: True).another


def test_a_deadline_that_has_passed_leaves_no_time() -> None:
    assert Deadline(100, lambda: 200)() >= 1


def test_a_part_ends_with_its_share_of_the_work_or_of_the_time() -> None:
    over = 0.0
    work = SolveBudget(Budget(100), lambda: over)
    work.spend(20)
    part = work.part(0.5)
    work.spend(39)
    assert part.left
    work.spend(1)
    assert not part.left
    over = 0.2
    part = work.part(0.5)
    over = 0.5
    assert part.left
    over = 0.7
    assert work.left
    assert not part.left
    over = 1.0
    assert not work.left
    assert not work.part(1.0).left


def test_what_is_spared_is_there_later() -> None:
    over = 0.2
    work = SolveBudget(Budget(100), lambda: over)
    work.spend(20)
    with work.sparing(0.25):
        assert work.left
        assert work.rest == 60
        work.spend(60)
        assert not work.left
    assert work.left
    with work.sparing(0.25):
        assert work.left
        over = 0.8
        assert not work.left
        assert not work.time_over
    assert work.left


def test_what_is_spared_in_what_is_spared_is_a_share_of_the_rest() -> None:
    over = 0.0
    work = SolveBudget(Budget(100), lambda: over)
    with work.sparing(0.4), work.sparing(0.0, of_time=0.5):
        assert work.rest == 60
        over = 0.29
        assert work.left
        over = 0.31
        assert not work.left
    assert work.left


@pytest.mark.parametrize(
    ("nanoseconds", "rate", "work"),
    [(SECOND, WORK_PER_SECOND, WORK_PER_SECOND), (SECOND // 2, 3_000_000, 1_500_000), (1, 1_000, 1)],
)
def test_a_deadline_maps_to_work(nanoseconds: int, rate: int, work: int) -> None:
    assert Budget.within(nanoseconds, rate) == Budget(work)


def test_a_deadline_gives_the_seconds_that_are_left() -> None:
    moment = 0
    work = SolveBudget(Budget(work=1_000), Deadline(2_000_000_000, lambda: moment))
    moment = 100_000_000
    assert work.left  # the first question: three times as long is kept back for the end
    assert work.seconds == pytest.approx(2.0 - 0.3 - 0.1)
    moment = 3_000_000_000
    assert work.seconds == 0.0
    assert SolveBudget(Budget(work=1_000)).seconds == float("inf")


def test_shapes_have_their_turn_as_long_as_nodes_for_them_can_be_bought_and_written_down_in_time() -> None:
    moment = 0
    stop = Deadline(100, lambda: moment)
    work = SolveBudget(Budget(10), stop)
    moment = 20
    assert work.left  # asks for the first time: encoding took 20
    over = work.clock.turns(20.0)
    moment = 30
    assert not over(0.01, 0.01, False)  # so few are tried in any case
    found = {}
    # As long as half of encoding and finding domains took is to come, and 0.3 times encoding.
    for moment, got in ((40, 0.49), (52, 0.495), (53, 0.5)):
        found[moment] = over(0.5, got, False)
    assert found == {40: False, 52: False, 53: True}
    # Nodes for few copies of a pod are made sooner.
    for copies, last in ((1.0, 55), (50.0, 46), (1_000.0, 46)):
        moment = 20
        late = work.clock.turns(copies)
        for moment in (last, last + 1):
            found[moment] = late(0.5, moment / 100, False)
        assert (found[last], found[last + 1]) == (False, True), copies


def test_pods_placed_one_by_one_take_less_time_for_nodes() -> None:
    """They come to nodes of others, which are bought as they are: 0.3 times as long."""
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    moment = 20
    assert work.left
    over = work.clock.turns(20.0)
    found = {}
    for moment, got in ((40, 0.4), (74, 0.499), (75, 0.5)):  # besides 0.3 times encoding, and that of half
        found[moment] = over(0.5, got, True)
    assert found == {40: False, 74: False, 75: True}


@pytest.mark.parametrize(("known", "last"), [(0, 15), (60, 66)])
def test_the_longer_it_took_to_know_what_is_asked_for_the_less_of_it_is_read(known: int, last: int) -> None:
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    moment = known
    enough = work.clock.reading()
    found = {}
    for moment in (last, last + 1):
        found[moment] = enough()
    assert found == {last: False, last + 1: True}


def test_shapes_without_domains_take_no_time_for_nodes() -> None:
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    moment = 20
    assert work.left
    over = work.clock.turns(20.0)
    found = {}
    for moment in (60, 94, 95):  # a plan without nodes takes 0.3 times as long as encoding
        found[moment] = over(1.0, 0.0, False)
    assert found == {60: False, 94: False, 95: True}


def test_nodes_are_bought_as_long_as_there_is_time_to_write_them_down() -> None:
    moment = 0
    stop = Deadline(100, lambda: moment)
    work = SolveBudget(Budget(10), stop)
    moment = 20
    assert work.left  # asks for the first time: encoding took 20, a plan without nodes takes 0.3 times that
    closing, twice = work.closing(), work.closing(2.15)
    found = {}
    for moment in (85, 86, 94):  # and nodes for all pods 0.4 times that
        found[moment] = closing(0.0), closing(0.1), closing(1.0)
    # A plan has some pods, however late it is.
    assert found == {85: (False, False, False), 86: (False, False, True), 94: (False, True, True)}
    moment = 43  # twice the 23 until then are to come
    assert not twice(0.1)
    assert twice(1.0)
    work.safe()
    assert not work.closing()(1.0)
    assert work.closing(otherwise=True)(0.0)


def test_sizes_are_told_apart_where_there_is_time_for_it() -> None:
    """What is to come takes twice as long as what it took until then, if there is no plan yet."""
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    found = {}
    for moment in (33, 34):
        found[moment] = work.clock.hasty
    assert found == {33: False, 34: True}
    work.safe()
    assert not work.clock.hasty


def test_time_is_short_where_encoding_took_much_of_it() -> None:
    found = {}
    for first in (18, 19):
        moment = 0
        work = SolveBudget(Budget(10), Deadline(100, lambda: moment))  # noqa: B023 asked in this round only
        moment = first
        assert work.left
        found[first] = work.short
    assert found == {18: False, 19: True}


def test_a_plan_is_proven_where_that_does_not_make_it_late() -> None:
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    moment = 20
    assert work.left  # encoding took 20: to write a plan down takes 0.3 times that, to prove it twice that
    found = {}
    for moment in (53, 54):
        found[moment] = work.clock.provable()
    work.safe()  # it is written
    for moment in (59, 60):
        found[moment] = work.clock.provable()
    assert found == {53: True, 54: False, 59: True, 60: False}


def test_what_a_proof_is_about_tells_how_long_it_takes() -> None:
    """Four times as long as it took to work that out; to begin one as long as encoding says, at least."""
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    moment = 10
    assert work.left  # encoding took 10
    with work.clock.scoping():
        moment = 20
    found = {}
    for moment in (56, 57):
        found[moment] = work.clock.provable(scoped=True), work.clock.provable()
    assert found == {56: (True, True), 57: (False, False)}
    with work.clock.scoping():
        moment = 58
    assert work.clock.provable(scoped=True)
    found = {}
    for moment in (76, 77):
        found[moment] = work.clock.provable()
    assert found == {76: True, 77: False}


def test_less_is_left_than_a_first_plan_took() -> None:
    moment = 0
    work = SolveBudget(Budget(10), Deadline(100, lambda: moment))
    moment = 10
    assert work.left  # encoding took 10
    moment = 50
    assert not work.clock.halfway  # there is no plan yet
    work.safe()
    found = {}
    for moment in (60, 61):
        found[moment] = work.clock.halfway
    assert found == {60: False, 61: True}


def test_without_a_clock_there_is_always_time() -> None:
    work = SolveBudget(Budget(0))
    assert work.clock.provable()
    assert not work.clock.turns(5.0)(1.0, 1.0, False)
    assert not work.closing()(1.0)
    assert not work.short
    work.safe()
    assert not work.clock.halfway


@pytest.mark.parametrize(("wanting", "stages"), [(False, 1), (True, 4)])
def test_a_stage_that_had_all_the_work_it_could_use_is_the_last(wanting: bool, stages: int) -> None:
    work, number = SolveBudget(Budget(10_000_000)), 0
    for _ in work.stages():
        number += 1
        assert work.until(work.used + 1)
        assert not (wanting and work.until(work.used))
    assert number == stages
