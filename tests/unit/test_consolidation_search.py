"""Which nodes the search tries together, in which order, when it ends, and what it says of those that stay.

What its parts answer (what fits elsewhere, what pods are worth, what a plan comes to) is given by each test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from dovetail.api.core import Pod
from dovetail.api.meta import Meta, OwnerReference
from dovetail.base.clock import MINUTE
from dovetail.disrupt.consolidation import search as searching
from dovetail.disrupt.consolidation.balanced import BALANCED, Totals
from dovetail.disrupt.consolidation.churn import Moves
from dovetail.disrupt.consolidation.irreplaceable_spot import Sold
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import NO_CHEAPER, SCATTERED, SPOT_DISABLED, Refused, Same
from dovetail.disrupt.consolidation.question import MULTI, SINGLE, Candidate, Finding, Move, Question
from dovetail.disrupt.consolidation.saving import Minimum
from dovetail.disrupt.consolidation.search import (
    FRESH,
    MOVED_ENOUGH,
    OUTDONE,
    QUICK,
    REPLACED_ENOUGH,
    RESTING,
    UNPLANNED,
    UNSETTLED,
    search,
)
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.solve.budget import SolveBudget

PLENTY = 1_000_000
LEAST = 10  # nano-dollars per hour that replacing a node must save


def pod(name: str) -> Pod:
    owner = OwnerReference(api_version="v1", kind="ReplicaSet", name="a", uid=name[0], controller=True)
    return Pod(metadata=Meta(name=name, namespace="default", uid=f"uid-{name}", owner_references=(owner,)))


def node(name: str, price: int = 1000, *, cost: float = 1.0, spot: bool = False, pods: int = 1) -> Candidate:
    """A node of the pool named like its first letter."""
    offer = ("m5.large", "a", "spot" if spot else "on-demand")
    on_it = tuple(pod(f"{name}-{number}") for number in range(pods))
    return Candidate(name, name[0], offer, price, cost, on_it, Minimum(0.0, LEAST))


def since(candidate: Candidate, minute: int) -> Candidate:
    """Its pod came at the end of that minute."""
    (on_it,) = candidate.pods
    meta = structs.replace(on_it.metadata, creation_timestamp=f"1970-01-01T00:{minute:02}:59Z")
    return replace(candidate, pods=(structs.replace(on_it, metadata=meta),))


@dataclass
class Parts:
    """What the parts of the search answer. Names of nodes are joined to sets by spaces."""

    question: Question
    fits: Sequence[str] = ()  # nodes whose pods fit elsewhere
    worth: Mapping[str, float] = field(default_factory=dict)  # node -> of its pods, if nodes are bought
    left: Mapping[str, int | None] = field(default_factory=dict)  # node -> cheapest for what finds no room
    saved: Mapping[str, int] = field(default_factory=dict)  # set -> what its move saves
    refused: Mapping[str, Refused] = field(default_factory=dict)
    unsettled: Sequence[str] = ()  # sets whose pods go to the node other-0, and nothing is bought
    unknown: Sequence[str] = ()
    places: Mapping[str, Mapping[str, tuple[str, ...]]] = field(
        default_factory=dict
    )  # where nothing is bought
    scattered: Sequence[str] = ()  # nodes whose pods the scheduler would leave over
    mixed: Sequence[str] = ()
    work: int = 0  # of each plan
    homeless: Sequence[str] = ()  # nodes whose pods have no place in any plan
    tried: list[str] = field(default_factory=list)
    buys: list[bool] = field(default_factory=list)  # whether each plan may buy nodes
    order: list[str] = field(default_factory=list)  # in which it is asked what fits elsewhere

    def judged(
        self, question: Question, candidates: Sequence[Candidate], problem: Problem, plan: Plan
    ) -> Move:
        assert question is self.question and plan.work == self.work
        assert {one.name for one in problem.nodes}.isdisjoint(one.name for one in candidates)
        key = " ".join(one.name for one in candidates)
        self.tried.append(key)
        if key in self.unsettled:
            return Move(tuple(candidates), (), {"other-0": ("default/x",)})
        if key in self.places:
            return Move(tuple(candidates), (), self.places[key])
        if key not in self.saved:
            raise self.refused.get(key, Refused(f"no: {key}"))
        price = sum(one.price for one in candidates) - self.saved[key]
        return Move(tuple(candidates), (cast("PlannedClaim", SimpleNamespace(price=price)),))

    def deletable(
        self, _question: Question, _appraisal: Any, candidates: Sequence[Candidate], *_: Any, **_more: Any
    ) -> tuple[Candidate, ...]:
        self.order = [one.name for one in candidates]
        return tuple(one for name in self.fits for one in candidates if one.name == name)

    def prospects(self, *_: object) -> SimpleNamespace:
        shape = {
            one.key: one.metadata.name for candidate in self.question.candidates for one in candidate.pods
        }
        return SimpleNamespace(
            bound=77,
            known=lambda candidate: candidate.name not in self.unknown,
            if_bought=lambda candidate: candidate.price - self.worth.get(candidate.name, candidate.price),
            wasted=lambda candidate: candidate.price - self.worth.get(candidate.name, candidate.price),
            in_vain=lambda candidate, _: candidate.price - self.worth.get(candidate.name, candidate.price),
            least=lambda _, shapes: self._least(shapes),
            appraisal=SimpleNamespace(pod_class=shape),
        )

    def left_over(self, _: Question, leaving: Sequence[Candidate], _work: SolveBudget) -> frozenset[str]:
        return frozenset(candidate.name for candidate in leaving if candidate.name in self.scattered)

    @staticmethod
    def together(_: Question, candidates: Sequence[Candidate], _work: SolveBudget) -> Sequence[Candidate]:
        return candidates

    def _least(self, shapes: Sequence[str]) -> int | None:
        return self.left[shapes[0].rpartition("-")[0]]

    def room(self, *_: object) -> SimpleNamespace:
        """Pods of nodes in `left` find no room, all others do."""
        return SimpleNamespace(
            homeless=lambda shapes, candidate: shapes if candidate.name in self.left else []
        )

    def play(self, monkeypatch: pytest.MonkeyPatch, work: int = PLENTY, **more: Any) -> Finding:
        memory, now = more.get("memory", Memory()), more.get("now", 0)
        played = SimpleNamespace(left_over=self.left_over, together=self.together)
        monkeypatch.setattr(memory, "rescheduling", played)
        for name in ("judged", "deletable"):
            monkeypatch.setattr(searching, name, getattr(self, name))
        monkeypatch.setattr(searching, "Prospects", self.prospects)
        monkeypatch.setattr(searching, "Room", self.room)
        monkeypatch.setattr(searching, "held_back", lambda *_: {})
        monkeypatch.setattr(
            searching, "mixed", lambda candidates, _: " ".join(one.name for one in candidates) in self.mixed
        )
        left = tuple(
            SimpleNamespace(pod=one.key)
            for candidate in self.question.candidates
            for one in (candidate.pods if candidate.name in self.homeless else ())
        )
        plan = cast("Plan", SimpleNamespace(work=self.work, claims=(), unschedulable=left))
        asking = search(self.question, memory, SolveBudget(Budget(work)), now)
        try:
            problem = next(asking)
            while True:
                self.buys.append(problem.buys)
                problem = asking.send(plan)
        except StopIteration as ended:
            return cast("Finding", ended.value)


def question(*candidates: Candidate, others: int = 0, **more: Any) -> Question:
    names = [one.name for one in candidates] + [f"other-{number}" for number in range(others)]
    nodes = tuple(ExistingNode(name, {}, (), {}, {}) for name in names)
    allowed = more.pop("allowed", {one.pool: 100_000 for one in candidates})
    return Question(Problem((), (), nodes), candidates, allowed, **more)


def parts(*candidates: Candidate, asked: Mapping[str, Any] | None = None, **more: Any) -> Parts:
    return Parts(question(*candidates, **(asked or {})), **more)


def names(move: Move | None) -> str:
    return " ".join(one.name for one in move.candidates) if move is not None else "-"


def stays(found: Finding) -> dict[str, str]:
    assert list(found.refusals) == sorted(found.refusals, key=lambda one: one.name)
    return {one.name: one.text for one in found.refusals}


def test_without_candidates_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    case = parts()
    assert case.play(monkeypatch) == Finding(None)


def test_what_fits_elsewhere_goes_first_and_the_figures_are_of_all_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = parts(node("a1"), node("a2", 500), node("a3"), fits=("a2", "a1"), saved={"a2 a1": 1500})
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == ("a2 a1", ["a2 a1"])
    assert (found.bound, found.hourly, found.tried, found.cut) == (77, 2500, 1, "")
    assert found.complete and not found.refusals and not found.others


def test_fewer_are_tried_when_all_that_fit_cannot_go(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [node(f"a{number}") for number in range(7)]
    fits = [one.name for one in several]
    case = parts(*several, fits=fits, saved={"a0": 1000, "a0 a1": 9}, worth=dict.fromkeys(fits, 995.0))
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == ("a0", [" ".join(fits), "a0 a1 a2", "a0"])
    assert found.tried == 3


@pytest.mark.parametrize(
    ("price", "cost", "least", "saved", "gone"),
    [
        (3000, 3.0, 500, 2500, "b1"),  # 750 for each of two further pods, where a1 saves 500
        (3000, 7.0, 500, 2500, "b1"),  # 250 for each of six: half as much
        (3000, 7.0, 500, 2499, "a1"),
        (3000, 8.0, 500, 2500, "a1"),
        (3000, 3.0, 2500, 500, "a1"),  # does not save more
        (3000, 3.0, 500, 900, "a1"),  # does not save what it promised
        (3000, 3.0, 500, None, "a1"),  # no plan
        (3000, 3.0, 0, 3000, "a1"),  # without another node it goes in its turn
        (900, 1.0, 400, 500, "a1"),
    ],
)
def test_a_larger_saving_is_preferred_to_what_goes_without_another_node(
    monkeypatch: pytest.MonkeyPatch, price: int, cost: float, least: int, saved: int | None, gone: str
) -> None:
    """Pods move once a day: once they have filled the room of small nodes, a large one cannot go any more."""
    savings = {"a1": 1000} | ({"b1": saved} if saved is not None else {})
    left = {"b1": least} if least else {}
    case = parts(node("a1"), node("b1", price, cost=cost), fits=("a1",), saved=savings, left=left)
    found = case.play(monkeypatch)
    assert names(found.move) == gone
    assert [names(move) for move in found.others] == ([] if gone == "a1" else ["a1"])
    assert found.complete


def test_after_a_drift_a_node_is_replaced_whose_pods_should_have_room_but_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else small nodes fill it, until its pods have made the moves of their day."""
    nodes = node("a1"), node("b1", 3000, cost=3.0)
    for forced, gone in ((True, "b1"), (False, "a1")):
        case = parts(
            *nodes,
            asked={"moves": Moves(forced=forced)},
            fits=("a1",),
            saved={"a1": 1000, "b1": 2500},
        )
        assert names(case.play(monkeypatch).move) == gone


@pytest.mark.parametrize(
    ("forced", "others", "kept"), [(True, 2, True), (False, 2, False), (True, 48, True), (True, 49, False)]
)
def test_after_a_drift_pods_of_what_goes_without_others_go_to_their_very_places(
    monkeypatch: pytest.MonkeyPatch, forced: bool, others: int, kept: bool
) -> None:
    """Else they would often come to a node that is replaced next."""
    case = parts(
        node("a1"),
        node("b1"),
        asked={"moves": Moves(forced=forced), "others": others},
        fits=("a1",),
        places={"a1": {"other-0": ("default/a1-0",)}},
    )
    found = case.play(monkeypatch)
    assert found.move is not None
    assert found.move.kept == kept
    aside = {"b1", *(f"other-{number}" for number in range(1, others))}
    assert (set(found.next or ()) == aside) == kept


@pytest.mark.parametrize(
    ("worth", "beside", "spared"),
    [
        (750.0, 1250, True),  # half as much is enough
        (750.0, 1249, False),
        (750.0, None, False),
        (751.0, 1250, False),  # it costs little more than its pods are worth
    ],
)
def test_after_a_drift_no_pod_is_moved_to_a_node_that_should_be_replaced_next(
    monkeypatch: pytest.MonkeyPatch, worth: float, beside: int | None, spared: bool
) -> None:
    """It would be moved again, some minutes later."""

    class Beside(Parts):
        def judged(
            self, question: Question, candidates: Sequence[Candidate], problem: Problem, plan: Plan
        ) -> Move:
            move = super().judged(question, candidates, problem, plan)
            if [one.name for one in candidates] != ["b1"]:
                return move
            (other,) = (one for one in problem.nodes if one.name == "c1")
            if other.free(("cpu",)) > [0]:
                return replace(move, places={"c1": ("default/b1-0",)})
            if beside is None:
                raise Refused("no")
            price = candidates[0].price - beside
            return replace(move, claims=(cast("PlannedClaim", SimpleNamespace(price=price)),))

    nodes = node("a1", 500), node("b1", 3000, cost=3.0), node("c1", 1000, cost=1.0)
    case = Beside(
        question(*nodes, moves=Moves(forced=True)),
        fits=("a1",),
        saved={"a1": 500, "b1": 2500},
        worth={"c1": worth},
        left={"c1": None},
    )
    room = {"cpu": 4000, "pods": 9}
    there = tuple(replace(one, allocatable=room) for one in case.question.problem.nodes)
    case.question = replace(case.question, problem=replace(case.question.problem, nodes=there))
    found = case.play(monkeypatch)
    assert names(found.move) == "b1"
    assert found.move is not None
    assert found.move.saving == (beside if spared else 2500)


def test_few_nodes_are_tried_for_a_larger_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    dear = [node(f"b{number}", 2000 + number) for number in range(6)]
    left = dict.fromkeys((one.name for one in dear), 10)
    case = parts(node("a1"), *dear, fits=("a1",), saved={"a1": 1000}, left=left)
    found = case.play(monkeypatch)
    assert (names(found.move), found.refusals) == ("a1", ())
    assert case.tried == ["a1", "b5", "b4", "b3", "b2"]


def test_no_larger_saving_is_looked_for_once_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    savings = {"a1": 1000, "b1": 2990}
    case = parts(node("a1"), node("b1", 3000), fits=("a1",), saved=savings, left={"b1": 10}, work=40)
    assert names(case.play(monkeypatch, work=40).move) == "a1"
    assert names(case.play(monkeypatch).move) == "b1"


def test_nodes_that_save_most_per_pod_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the price that goes where pods fit elsewhere; by what is left of it where nodes are bought."""
    candidates = (node("a1", 1000, cost=4), node("a2", 1000, cost=1), node("a3", 3000, cost=4), node("a4"))
    worth = {"a1": 0.0, "a2": 500.0, "a3": 0.0, "a4": 500.0}
    case = parts(*candidates, worth=worth)
    case.play(monkeypatch)
    # Savings per pod: a3 600, a2 and a4 250 (by name), a1 200.
    assert case.tried == ["a3 a2 a4 a1", "a3", "a2", "a4", "a1"]


def test_what_goes_without_another_node_is_ordered_by_all_that_it_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates = (
        node("a1", 1000, cost=4),
        node("a2", 600, cost=1),
        node("a3", 1000, cost=1),
        node("a4", 600),
    )
    case = parts(*candidates, left=dict.fromkeys(("a1", "a2", "a3", "a4"), 5000))
    case.play(monkeypatch)
    assert case.order == ["a3", "a2", "a4", "a1"]


def test_of_nodes_that_save_alike_the_first_name_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = (node("a2", 1000), node("a1", 600))
    case = parts(*candidates, worth={"a2": 500.0, "a1": 100.0}, left={"a2": 500, "a1": 100})
    case.play(monkeypatch)
    assert case.order == ["a2", "a1"]
    assert case.tried == ["a1 a2", "a1", "a2"]


def test_sets_shrink_to_a_quarter_down_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [node(f"a{number:02}") for number in range(40)]
    everything = [one.name for one in several]
    case = parts(*several, worth=dict.fromkeys(everything, 0.0))
    case.play(monkeypatch)
    together = [key.split() for key in case.tried if " " in key]
    assert together == [everything, everything[:10], everything[:2]]
    assert case.tried[3:] == everything  # one after the other


@pytest.mark.parametrize(
    ("large", "small", "best"),
    [
        (8 * 1000, 2 * 1000, "8"),  # the same saving per pod: the larger set
        (8 * 500, 2 * 1000, "8"),  # half as good is good enough
        (8 * 500 - 16, 2 * 1000, "2"),
        (None, 2 * 100, "2"),
        (8 * 100, None, "8"),
    ],
)
def test_a_larger_set_is_preferred_that_saves_half_as_much_per_pod(
    monkeypatch: pytest.MonkeyPatch, large: int | None, small: int | None, best: str
) -> None:
    several = [node(f"a{number}") for number in range(8)]
    everything = [one.name for one in several]
    saved = {" ".join(everything): large, " ".join(everything[:2]): small}
    case = parts(
        *several,
        worth=dict.fromkeys(everything, 0.0),
        saved={key: value for key, value in saved.items() if value is not None},
    )
    found = case.play(monkeypatch)
    assert found.move is not None and len(found.move.candidates) == int(best)
    others = [len(one.candidates) for one in found.others]
    assert others == ([10 - int(best)] if large is not None and small is not None else [])
    assert len(case.tried) == 2


@pytest.mark.parametrize(
    ("worth", "together"),
    [(990.0, True), (990.5, False), (1000.0, False), (0.0, True)],
)
def test_only_nodes_that_may_save_what_they_must_are_tried_together(
    monkeypatch: pytest.MonkeyPatch, worth: float, together: bool
) -> None:
    case = parts(node("a1"), node("a2"), worth={"a1": worth, "a2": worth}, left={"a1": 1000, "a2": 1000})
    found = case.play(monkeypatch)
    assert (case.tried[:1] == ["a1 a2"]) == together
    alone = "no: a1" if worth == 0.0 else NO_CHEAPER
    assert stays(found) == {"a1": alone, "a2": alone.replace("a1", "a2")}


@pytest.mark.parametrize(
    ("price_of_one", "worth", "tried"),
    [
        (990, 1000.0, True),  # one node for what finds no room
        (991, 1000.0, False),
        (None, 1000.0, False),  # none is large enough
        (None, 799.0, True),  # several, if its pods are worth less than four fifths of its price
        (None, 801.0, False),
        (1000, 801.0, False),
        (1000, 799.0, True),
        (0, 801.0, True),
    ],
)
def test_when_a_node_is_tried_alone(
    monkeypatch: pytest.MonkeyPatch, price_of_one: int | None, worth: float, tried: bool
) -> None:
    case = parts(node("a1"), worth={"a1": worth}, left={"a1": price_of_one})
    found = case.play(monkeypatch)
    assert case.tried == (["a1"] if tried else [])
    assert stays(found) == {"a1": "no: a1" if tried else NO_CHEAPER}
    assert found.tried == len(case.tried)


def test_the_first_alone_that_can_go_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = (node("a1", 1000), node("a2", 2000), node("a3", 4000))
    worth = {"a1": 1000.0, "a2": 2000.0, "a3": 4000.0}
    case = parts(*candidates, worth=worth, saved={"a2": 500}, left={"a3": 3995})
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == ("a2", ["a2"])
    assert stays(found) == {"a3": NO_CHEAPER}


def test_alone_the_best_hope_per_pod_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = (node("a1", cost=3), node("a2", cost=1), node("a3", cost=1), node("a4", cost=3))
    left = {"a1": 100, "a2": 600, "a3": 600, "a4": 0}
    case = parts(*candidates, worth=dict.fromkeys(left, 1000.0), left=left)
    found = case.play(monkeypatch)
    assert case.tried == ["a4", "a1", "a2", "a3"]
    assert stays(found) == {name: f"no: {name}" for name in ("a1", "a2", "a3", "a4")}


def test_the_start_of_a_node_counts_as_one_pod_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 for one without pods, 250 for each of two."""
    candidates = (node("a1", cost=0), node("a2", cost=1))
    case = parts(*candidates, worth={"a1": 1000.0, "a2": 1000.0}, left={"a1": 700, "a2": 500})
    case.play(monkeypatch)
    assert case.tried == ["a1", "a2"]


@pytest.mark.parametrize("gate", [False, True])
def test_spot_nodes_are_replaced_only_where_that_is_switched_on(
    monkeypatch: pytest.MonkeyPatch, gate: bool
) -> None:
    candidates = (node("a1", spot=True), node("a2", spot=True), node("a3", spot=True))
    worth = {"a1": 0.0, "a2": 0.0, "a3": 1000.0}
    case = parts(*candidates, worth=worth, left={"a3": 1000}, asked={"spot_to_spot": gate})
    found = case.play(monkeypatch)
    assert case.tried == (["a1 a2", "a1", "a2"] if gate else ["a1", "a2"])
    assert stays(found)["a3"] == (NO_CHEAPER if gate else SPOT_DISABLED)


@pytest.mark.parametrize(("least", "tried"), [(1000 - LEAST, ["a1"]), (1000 - LEAST + 1, [])])
def test_a_spot_node_is_tried_for_several_nodes_only_where_one_of_these_is_cheap_enough(
    monkeypatch: pytest.MonkeyPatch, least: int, tried: list[str]
) -> None:
    memory = Memory()
    monkeypatch.setattr(memory.market, "after_spot", lambda *_: Sold(least))
    case = parts(node("a1", spot=True), worth={"a1": 100.0}, left={"a1": None})
    found = case.play(monkeypatch, memory=memory)
    assert case.tried == tried
    assert stays(found) == {"a1": "no: a1" if tried else SPOT_DISABLED}


def test_of_spot_nodes_that_nothing_follows_those_go_whose_pods_find_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates = tuple(node(f"a{number}", spot=True) for number in range(5))
    fits = tuple(one.name for one in candidates)
    case = parts(*candidates, fits=fits, homeless=("a1", "a3"), saved={"a0 a2 a4": 3000})
    assert names(case.play(monkeypatch).move) == "a0 a2 a4"
    assert case.tried == [" ".join(fits), "a0 a2 a4"]
    assert case.buys == [False, False]


def test_a_spot_node_whose_pods_found_no_room_is_in_no_set_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, candidates = Memory(), (node("a1", spot=True), node("a2", spot=True))
    case = parts(*candidates, fits=("a1",), homeless=("a1",), saved={"a2": 9})
    found = case.play(monkeypatch, memory=memory)
    assert (names(found.move), stays(found)) == ("a2", {"a1": SPOT_DISABLED})
    for minute, order in ((1, ["a2"]), (6, ["a1", "a2"])):
        case.question = question(*candidates, others=minute)
        case.play(monkeypatch, memory=memory, now=minute * MINUTE)
        assert case.order == order


def test_nodes_that_others_may_follow_are_not_left_out_for_want_of_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, candidates = Memory(), (node("a1"), node("a2", spot=True))
    case = parts(*candidates, fits=("a1", "a2"), homeless=("a1", "a2"))
    case.play(monkeypatch, memory=memory)
    assert case.tried == ["a1 a2", "a1", "a2"]
    assert case.buys == [True, True, False]
    # What may follow it may be cheap enough.
    monkeypatch.setattr(memory.market, "after_spot", lambda *_: Sold(1000 - LEAST))
    case.question = question(*candidates, others=1)
    case.play(monkeypatch, memory=memory, now=MINUTE)
    assert case.order == ["a1", "a2"]
    monkeypatch.setattr(memory.market, "after_spot", lambda *_: Sold(1000 - LEAST + 1))
    case.question = question(*candidates, others=2)
    case.play(monkeypatch, memory=memory, now=MINUTE)
    assert case.order == ["a1"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"allowed": {"a": 0}}, None),  # what budgets hold is reported elsewhere
        ({"allowed": {}}, None),
        ({"moves": Moves(deleting={"a": 0})}, MOVED_ENOUGH),
        ({"moves": Moves(resting=frozenset({"uid-a1-0"}))}, RESTING),
        ({"fresh": {"a1": 1}}, FRESH),
        ({"moves": Moves(deleting={"a": 1}, replacing={"a": 1})}, "no: a1"),
        ({"totals": {"a": Totals(BALANCED, 100_000, 10.0)}}, "score 0.05 < threshold 0.50"),
        ({"totals": {"a": Totals(BALANCED, 1_000, 10.0)}}, "no: a1"),
    ],
)
def test_nodes_that_may_not_go_now_are_not_tried(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], why: str | None
) -> None:
    case = parts(node("a1"), node("b1"), worth={"a1": 0.0, "b1": 0.0}, left={"a1": 0, "b1": 0})
    asked = {"allowed": {"a": 1, "b": 1}, **more}
    if "allowed" in more:
        asked["allowed"] = {**more["allowed"], "b": 1}
    case.question = question(*case.question.candidates, **asked)
    found = case.play(monkeypatch)
    reasons = stays(found)
    assert reasons.pop("b1") == "no: b1"
    assert (reasons.get("a1", "").startswith(why)) if why else not reasons
    assert ("a1" in " ".join(case.tried).split()) == (why == "no: a1")


def test_a_pod_that_is_in_no_plan_with_others_keeps_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    case = parts(node("a1"), node("a2"), worth={"a1": 0.0, "a2": 0.0}, unknown=("a1",))
    found = case.play(monkeypatch)
    assert case.tried == ["a2"]
    assert stays(found) == {"a1": UNPLANNED, "a2": "no: a2"}


def test_together_no_more_nodes_go_than_budgets_and_moves_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [node(f"a{number}", cost=number) for number in range(4)] + [node("b1", cost=5)]
    worth = {one.name: 0.0 for one in several}
    case = parts(*several, worth=worth, asked={"allowed": {"a": 2, "b": 1}})
    case.play(monkeypatch)
    assert case.tried[0] == "a0 a1 b1"
    moves = Moves(deleting={"a": 3}, replacing={"a": 3})
    case = parts(*several, worth=worth, asked={"moves": moves})
    case.play(monkeypatch)
    assert case.tried[0] == "a0 a1 a2 b1"
    moves = Moves(deleting={"a": 3}, replacing={"a": 1, "b": 0})
    case = parts(*several, worth=worth, asked={"moves": moves})
    case.play(monkeypatch)
    assert case.tried == ["a0", "a1", "a2", "a3", "b1"]


def test_what_only_a_new_node_can_replace_waits_for_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes without any node in its place needs fewer of them."""
    moves = Moves(deleting={"a": 9, "b": 9}, replacing={"a": 0, "b": 0})
    case = parts(
        node("a1"),
        node("b1"),
        worth={"a1": 1000.0, "b1": 1000.0},
        left={"b1": 751},
        saved={},
        asked={"moves": moves},
    )
    found = case.play(monkeypatch)
    assert case.tried == ["a1"]
    assert stays(found) == {"a1": "no: a1", "b1": REPLACED_ENOUGH}
    case.left, case.tried = {"a1": 751}, []
    found = case.play(monkeypatch)
    assert case.tried == ["b1"]
    assert stays(found) == {"a1": REPLACED_ENOUGH, "b1": "no: b1"}


@pytest.mark.parametrize(
    ("spot", "tried", "text"),
    [
        (False, ["a0 a1 a2", "a0 a2"], SCATTERED),
        (True, ["a0 a2"], SPOT_DISABLED),  # no plan is asked for: none may buy anything
    ],
)
def test_nodes_whose_pods_the_scheduler_would_leave_over_stay(
    monkeypatch: pytest.MonkeyPatch, spot: bool, tried: list[str], text: str
) -> None:
    several = [node(f"a{number}", spot=spot) for number in range(3)]
    fits = [one.name for one in several]
    places = {key: {"other-0": ("default/x",)} for key in ("a0 a1 a2", "a0 a2", "a1")}
    case = parts(*several, fits=fits, places=places, scattered=["a1"], asked={"others": 1})
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == ("a0 a2", tried)
    alone = parts(several[1], fits=["a1"], places=places, scattered=["a1"])
    found = alone.play(monkeypatch)
    assert (names(found.move), stays(found)) == ("-", {"a1": text})
    # After a drift pods go to the very places of the plan, whatever the scheduler prefers.
    alone.question = replace(alone.question, moves=Moves(forced=True))
    assert names(alone.play(monkeypatch).move) == "a1"


@pytest.mark.parametrize(("saving", "moves"), [(250, True), (249, False)])
def test_a_replacement_that_saves_a_quarter_is_worth_the_moves_that_are_left(
    monkeypatch: pytest.MonkeyPatch, saving: int, moves: bool
) -> None:
    """Whatever was hoped for, what the plan says is what counts."""
    asked = {"moves": Moves(deleting={"a": 9}, replacing={"a": 0})}
    case = parts(node("a1"), worth={"a1": 1000.0}, left={"a1": 100}, saved={"a1": saving}, asked=asked)
    found = case.play(monkeypatch)
    assert case.tried == ["a1"]
    assert (found.move is not None) is moves
    assert stays(found) == ({} if moves else {"a1": REPLACED_ENOUGH})


@pytest.mark.parametrize(
    ("fits", "restless", "unsettled", "tried", "stay"),
    [
        ((), ["other-0"], ["a1"], ["a1"], {"a1": UNSETTLED}),  # it goes once that node is quiet
        ((), ["other-1"], ["a1"], ["a1"], {}),
        (["a1"], ["other-0"], ["a1"], ["a1"], {}),  # asked without the room of nodes that are not quiet
        (["a1"], ["other-0"], (), ["a1", "a1"], {"a1": "no: a1"}),  # and with it, for what to buy
        (["a1"], (), (), ["a1"], {"a1": "no: a1"}),  # where all are quiet that is the same
    ],
)
def test_what_is_bought_is_no_larger_for_nodes_that_are_not_quiet_yet(
    monkeypatch: pytest.MonkeyPatch,
    fits: Sequence[str],
    restless: Sequence[str],
    unsettled: Sequence[str],
    tried: list[str],
    stay: dict[str, str],
) -> None:
    asked = {"others": 2, "restless": frozenset(restless)}
    case = parts(node("a1"), worth={"a1": 0.0}, fits=fits, unsettled=unsettled, asked=asked)
    found = case.play(monkeypatch)
    assert case.tried == tried
    assert stays(found) == stay
    assert (found.move is None) is bool(stay)


def test_nodes_that_would_be_bought_again_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [node(f"a{number}") for number in range(4)]
    everything = "a0 a1 a2 a3"
    case = parts(
        *several,
        worth=dict.fromkeys(everything.split(), 0.0),
        refused={everything: Same(several[1:3])},
        saved={"a0 a3": 100},
    )
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == ("a0 a3", [everything, "a0 a3"])
    case = parts(*several[:2], worth={"a0": 0.0, "a1": 0.0}, refused={"a0 a1": Same(several[:2])})
    case.play(monkeypatch)
    assert case.tried == ["a0 a1", "a0", "a1"]
    worth = dict.fromkeys(everything.split(), 0.0)
    case = parts(*several, worth=worth, refused={everything: Same(several[1:3])}, work=10)
    assert case.play(monkeypatch, 10).cut == MULTI
    assert case.tried == [everything]


@pytest.mark.parametrize(
    ("count", "kept", "followed"), [(101, 26, True), (101, 25, False), (100, 25, True), (104, 26, False)]
)
def test_a_large_set_that_shrank_to_a_quarter_leaves_it_to_smaller_ones(
    monkeypatch: pytest.MonkeyPatch, count: int, kept: int, followed: bool
) -> None:
    several = [node(f"a{number:03}") for number in range(count)]
    everything = " ".join(one.name for one in several)
    fewer = " ".join(one.name for one in several[-kept:])
    quarter = " ".join(one.name for one in several[: count // 4])
    case = parts(
        *several,
        worth={one.name: 0.0 for one in several},
        refused={everything: Same(several[:-kept])},
        saved={fewer: 100, quarter: 100},
    )
    case.play(monkeypatch)
    assert case.tried[1] == (fewer if followed else quarter)


def test_a_set_that_shrinks_twice_is_measured_by_its_first_size(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [node(f"a{number:03}") for number in range(120)]
    sets = [" ".join(one.name for one in several[:count]) for count in (120, 60, 29)]
    quarter = " ".join(one.name for one in several[:30])
    refused = {sets[0]: Same(several[60:]), sets[1]: Same(several[29:60])}
    case = parts(*several, worth={one.name: 0.0 for one in several}, refused=refused, saved={quarter: 1})
    case.play(monkeypatch)
    assert case.tried[:3] == [*sets[:2], quarter]


def test_work_ends_the_search_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = (node("a1"), node("a2"))
    worth, left = {"a1": 0.0, "a2": 0.0}, {"a1": 0, "a2": 0}
    assert QUICK == 10_000_000  # nanoseconds of each what-if

    def play(work: int) -> tuple[list[str], Finding]:
        case = parts(*candidates, worth=worth, left=left, fits=("a1",), work=10)
        return case.tried, case.play(monkeypatch, work)

    tried, found = play(0)
    assert (tried, found.cut, found.complete, stays(found)) == ([], MULTI, False, {})
    tried, found = play(10)
    assert (tried, found.cut, stays(found)) == (["a1"], MULTI, {"a1": "no: a1"})
    tried, found = play(20)
    assert (tried, found.cut, stays(found)) == (["a1", "a1 a2"], MULTI, {"a1": "no: a1"})
    tried, found = play(21)
    assert (tried, found.cut) == (["a1", "a1 a2"], SINGLE)  # its hopes took what was left
    tried, found = play(23)
    assert (tried, found.cut) == (["a1", "a1 a2", "a2"], SINGLE)
    tried, found = play(33)
    assert (tried, found.cut, stays(found)) == (
        ["a1", "a1 a2", "a2"],
        "",
        {"a1": "no: a1", "a2": "no: a2"},
    )


def test_a_move_that_was_found_is_no_search_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    case = parts(node("a1"), fits=("a1",), saved={"a1": 100}, work=10)
    found = case.play(monkeypatch, 1)
    assert (names(found.move), found.cut) == ("a1", "")


@pytest.mark.parametrize(("others", "cost"), [(19, 1), (20, 2), (39, 2), (40, 3), (41, 3)])
def test_large_what_ifs_cost_more(monkeypatch: pytest.MonkeyPatch, others: int, cost: int) -> None:
    """A unit for twenty nodes that stay, beside what the plan took."""
    candidates = (node("a1"), node("a2"))
    asked = {"others": others}
    worth = {"a1": 0.0, "a2": 0.0}
    for work, cut in ((cost, MULTI), (cost + 1, SINGLE)):
        case = parts(*candidates, worth=worth, asked=asked, work=1)
        assert case.play(monkeypatch, work).cut == cut


def test_what_was_refused_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    case = parts(node("a1"), node("a2"), worth={"a1": 0.0, "a2": 0.0}, work=10)
    assert case.play(monkeypatch, 11, memory=memory).cut == SINGLE
    found = case.play(monkeypatch, memory=memory)
    assert case.tried == ["a1 a2", "a1", "a2"]
    assert (found.tried, stays(found)) == (2, {"a1": "no: a1", "a2": "no: a2"})
    assert case.play(monkeypatch, memory=memory) is found
    assert len(case.tried) == 3


def test_what_was_refused_for_other_pods_sake_is_asked_again_with_another_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory()
    case = parts(node("a1"), node("a2"), worth={"a1": 0.0, "a2": 0.0}, mixed=("a1",))
    case.play(monkeypatch, memory=memory)
    case.question = question(*case.question.candidates, others=1)
    case.tried.clear()
    case.play(monkeypatch, memory=memory, now=MINUTE)
    assert case.tried == ["a1 a2", "a1"]
    case.question = question(*case.question.candidates, others=2)
    case.tried.clear()
    case.play(monkeypatch, memory=memory, now=5 * MINUTE)
    assert case.tried == ["a1 a2", "a1", "a2"]


@pytest.mark.parametrize(
    ("fits", "restless", "tried"),
    [
        ((), ["other-0", "other-1"], []),  # the very nodes that have room are no more quiet than before
        ((), ["other-1"], ["a1"]),
        (["a1"], ["other-0", "other-1"], ["a1"]),  # asked without their room: that was not tried
    ],
)
def test_what_waits_for_quiet_nodes_is_not_planned_again_until_they_are(
    monkeypatch: pytest.MonkeyPatch, fits: Sequence[str], restless: Sequence[str], tried: list[str]
) -> None:
    memory = Memory()
    case = parts(
        node("a1"),
        worth={"a1": 0.0},
        unsettled=["a1"],
        asked={"others": 2, "restless": frozenset(["other-0"])},
    )
    assert stays(case.play(monkeypatch, memory=memory)) == {"a1": UNSETTLED}
    again = parts(
        node("a1"),
        worth={"a1": 0.0},
        fits=fits,
        unsettled=["a1"],
        asked={"others": 2, "restless": frozenset(restless)},
    )
    again.play(monkeypatch, memory=memory, now=MINUTE)
    assert again.tried == tried


@pytest.mark.parametrize(
    ("restless", "tried"),
    [
        (["other-0", "other-1"], []),
        (["other-0"], []),
        (["other-1"], ["a1"]),  # there may be room by now
        ([], ["a1"]),
    ],
)
def test_a_spot_node_that_nothing_follows_is_asked_again_once_another_one_is_quiet(
    monkeypatch: pytest.MonkeyPatch, restless: Sequence[str], tried: list[str]
) -> None:
    """It is asked without the room of nodes that are not quiet."""
    memory = Memory()

    def case(*names: str) -> Parts:
        asked = {"others": 2, "restless": frozenset(names)}
        return parts(node("a1", spot=True), homeless=["a1"], asked=asked)

    first = case("other-0")
    assert stays(first.play(monkeypatch, memory=memory)) == {"a1": SPOT_DISABLED}
    assert (first.tried, first.buys) == (["a1"], [False])
    again = case(*restless)
    again.play(monkeypatch, memory=memory, now=MINUTE)
    assert again.tried == tried


def test_nodes_that_cost_more_than_their_pods_are_worth_go_next_the_emptiest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates = (
        node("a1"),
        node("a2", 1000, cost=5),
        node("a3"),  # its pods rest: for an hour at most
        node("a4"),  # worth its price
        node("b1"),  # no moves are left
        node("c1"),  # the budget lets none go now
    )
    case = parts(
        *candidates,
        asked={
            "moves": Moves(deleting={"b": 0}, resting=frozenset({"uid-a3-0"})),
            "allowed": {"a": 1, "b": 1},
        },
        fits=("a1",),
        saved={"a1": 1000},
        worth={"a1": 0.0, "a2": 700.0, "a3": 750.0, "a4": 751.0, "b1": 0.0, "c1": 0.0},
    )
    found = case.play(monkeypatch)
    assert (names(found.move), found.next) == ("a1", ("a3", "c1", "a2"))


@pytest.mark.parametrize(
    ("price", "worth", "came", "moves", "waits"),
    [
        (4000, 0.0, 0, 1, True),
        (4000, 2400.0, 0, 1, True),  # 400 for each of its pods and itself, where 200 are saved
        (4000, 2401.0, 0, 1, False),
        (40_000, 30_001.0, 0, 1, False),  # less than a quarter of its price
        (4000, 0.0, 4, 1, True),  # free in ten minutes
        (4000, 0.0, 5, 1, False),
        (4000, 0.0, 0, 0, False),  # no moves are left
    ],
)
def test_a_node_waits_for_one_that_saves_far_more_once_its_pods_have_rested(
    monkeypatch: pytest.MonkeyPatch, price: int, worth: float, came: int, moves: int, waits: bool
) -> None:
    case = parts(
        node("a1", cost=4),
        since(node("b1", price, cost=3), came),
        asked={"moves": Moves(deleting={"b": moves}, resting=frozenset({"uid-b1-0"}))},
        fits=("a1",),
        saved={"a1": 1000},
        worth={"b1": worth},
    )
    found = case.play(monkeypatch, now=55 * MINUTE)
    assert (names(found.move), stays(found).get("a1")) == (("-", OUTDONE) if waits else ("a1", None))
    assert stays(found)["b1"] == RESTING


RESTS = {"moves": Moves(resting=frozenset({"uid-b1-0"}))}


@pytest.mark.parametrize(
    ("asked", "worth", "price", "waits"),
    [
        (RESTS, 3000.0, 1000, True),  # 700 are saved beyond what a1 could save later
        (RESTS, 3000.0, 1301, False),  # more than the 1000 of b1
        (RESTS, 3001.0, 1000, False),  # less than a quarter of its price
        (RESTS | {"fresh": {"b1": 65 * MINUTE}}, 3000.0, 1000, True),
        (RESTS | {"fresh": {"b1": 65 * MINUTE + 1}}, 3000.0, 1000, False),
        ({"fresh": {"b1": 65 * MINUTE}}, 3000.0, 1000, False),  # bought to save money
        ({"moves": Moves(deleting={"b": 0}, resting=frozenset({"uid-b1-0"}))}, 3000.0, 1000, False),
    ],
)
def test_it_is_waited_for_a_node_that_could_go_in_minutes_and_not_once_it_took_the_pods(
    monkeypatch: pytest.MonkeyPatch, asked: Mapping[str, Any], worth: float, price: int, waits: bool
) -> None:
    case = parts(
        node("a1", price, cost=4),
        since(node("b1", 4000, cost=8), 0),
        asked=asked,
        fits=("a1",),
        places={"a1": {"b1": ("default/a1-0",)}},
        worth={"a1": price - 300.0, "b1": worth},
        left={"b1": 3999},
    )
    found = case.play(monkeypatch, now=55 * MINUTE)
    assert (names(found.move), stays(found).get("a1")) == (("-", OUTDONE) if waits else ("a1", None))


FORCED = {"allowed": {"a": 1}, "moves": Moves(forced=True)}


@pytest.mark.parametrize(
    ("asked", "gone", "aside", "tried"),
    [
        # By what they save per pod a1 goes first.
        (FORCED | {"allowed": {"a": 2}}, "a1", None, ["a1"]),  # both may go at once
        (FORCED | {"moves": Moves()}, "a1", None, ["a1"]),  # nothing had to move
        (FORCED | {"lately": frozenset({"uid-a2-0"})}, "a1", None, ["a1"]),
        (FORCED, "a2", {"a1", "other-1"}, ["a1 a2"] * 3 + ["a2"]),
        (FORCED | {"others": 20}, "a1", None, ["a1"]),
        (FORCED | {"restless": frozenset({"other-0"})}, "a1", None, ["a1 a2"] * 3 + ["a2", "a1"]),
        (
            FORCED | {"restless": frozenset({"other-0"}), "lately": frozenset({"uid-x"})},
            "-",
            {"a2"},
            ["a1 a2"] * 3 + ["a2", "a1"],
        ),
    ],
)
def test_after_a_drift_nodes_that_go_one_after_the_other_are_planned_together(
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, Any],
    gone: str,
    aside: set[str] | None,
    tried: list[str],
) -> None:
    both = node("a1", 1000, cost=1), node("a2", 1500, cost=9)
    case = parts(
        *both,
        asked={"others": 2, **asked},
        fits=("a1",),
        saved={"a1": 1000},
        places={"a2": {"other-0": ("default/a2-0",)}},
    )
    on_it = structs.replace(pod("x"), metadata=structs.replace(pod("x").metadata, uid="uid-x"))
    nodes = [
        replace(one, pods=(on_it,)) if one.name == "other-0" else one for one in case.question.problem.nodes
    ]
    case.question = replace(case.question, problem=replace(case.question.problem, nodes=tuple(nodes)))
    monkeypatch.setattr(searching, "sets", lambda *_: [[*both], [both[1]]])
    monkeypatch.setattr(searching, "purchases", lambda *_: [])
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == (gone, tried)
    assert aside is None or set(found.next or ()) == aside
    assert stays(found).get("a1") == (OUTDONE if gone == "-" else None)


@pytest.mark.parametrize(("price", "gone"), [(1501, "a1"), (1500, "-")])
def test_nodes_that_go_one_after_the_other_keep_nothing_waiting_that_saves_more(
    monkeypatch: pytest.MonkeyPatch, price: int, gone: str
) -> None:
    a1, a2 = node("a1", price), node("a2", 1500)
    case = parts(
        a1,
        since(a2, 0),
        asked=FORCED | {"moves": Moves(forced=True, resting=frozenset({"uid-a2-0"}))},
        fits=("a1",),
        saved={"a1": price},
        worth={"a1": float(price), "a2": 1500.0},
        places={"a2": {"other-0": ("default/a2-0",)}},
    )
    monkeypatch.setattr(searching, "sets", lambda *_: [[case.question.candidates[1]]])
    monkeypatch.setattr(searching, "purchases", lambda *_: [])
    found = case.play(monkeypatch, now=55 * MINUTE)
    assert names(found.move) == gone
    assert stays(found).get("a1") == (OUTDONE if gone == "-" else None)


@pytest.mark.parametrize(
    ("saved", "gone", "tried"),
    [
        (1251, "a2", ["a1 a2", "a1 a2"]),  # a quarter more of a2 than by a1 alone; nothing cheaper is found
        (1250, "a1", ["a1 a2"]),
    ],
)
def test_of_nodes_that_go_one_after_the_other_one_is_replaced_first_where_that_saves_a_quarter_more(
    monkeypatch: pytest.MonkeyPatch, saved: int, gone: str, tried: list[str]
) -> None:
    both = node("a1", 1000), node("a2", 1000)
    case = parts(
        *both,
        asked=FORCED | {"others": 2},
        saved={"a1 a2": saved},
        places={"a1": {"other-0": ("default/a1-0",)}},
        worth={"a1": 1000.0, "a2": 1000.0},
    )

    def bought(_: Question, joint: Move, free: set[str]) -> Move | None:
        assert free == {"a1", "a2"}
        return Move(joint.candidates[1:], joint.claims, {}, kept=True)

    monkeypatch.setattr(searching, "sets", lambda *_: [[both[0]]])
    monkeypatch.setattr(searching, "purchases", lambda *_: [[*both]])
    monkeypatch.setattr(searching, "bought_first", bought)
    found = case.play(monkeypatch)
    assert (names(found.move), case.tried) == (gone, ["a1", *tried])
    assert found.move is not None
    assert found.move.kept


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ({}, ()),  # each was looked at and stays
        ({"moves": Moves(deleting={"a": 0})}, ()),
        ({"moves": Moves(resting=frozenset({"uid-a1-0"}))}, None),
        ({"fresh": {"a1": 1}}, None),
        ({"allowed": {}}, None),
    ],
)
def test_where_nothing_moves_it_is_known_what_goes_next_only_if_all_stay(
    monkeypatch: pytest.MonkeyPatch, asked: Mapping[str, Any], known: tuple[str, ...] | None
) -> None:
    case = parts(node("a1"), asked=asked, left={"a1": 5000}, worth={"a1": 0.0})
    assert case.play(monkeypatch).next == known
