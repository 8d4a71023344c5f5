"""Which nodes consolidation may take, what it asks without them, and what it makes of the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from test_emptiness import KEEP, NOW, REF, budget, pod, pool, view

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.consolidation.balanced import BALANCED, Totals
from dovetail.disrupt.consolidation.candidates import candidate_of, candidates, closed, obstacle, restless
from dovetail.disrupt.consolidation.churn import Moves
from dovetail.disrupt.consolidation.judge import check, crowds_out, judged, mixed
from dovetail.disrupt.consolidation.price import Refused
from dovetail.disrupt.consolidation.prospects import Prospects
from dovetail.disrupt.consolidation.question import MULTI, SINGLE, Candidate, Finding, Move, Question
from dovetail.disrupt.consolidation.saving import Minimum
from dovetail.disrupt.pods import Budgets, budgets_among
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import Budget, ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.budget import SolveBudget

NONE = Budgets(())
OFFER = {labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "a", labels.CAPACITY_TYPE: "on-demand"}


def claim(owner: str = "general", *, quiet: bool = True, **marks: str) -> NodeClaim:
    named = {key: marks.get(key.rpartition("/")[2].replace("-", "_"), value) for key, value in OFFER.items()}
    stamped = {"karpenter.sh/nodepool": owner, **{key: value for key, value in named.items() if value}}
    conditions = [{"type": "Consolidatable", "status": "True"}] if quiet else []
    document = {
        "metadata": {"name": "claim-n", "uid": "n", "labels": stamped},
        "spec": {"nodeClassRef": REF},
        "status": {"conditions": conditions},
    }
    return decode(document, NodeClaim)


def loaded(*pods: Any, **changes: Any) -> NodeView:
    return view("n", *(pods or (pod(),)), **{"claim": claim(), **changes})


def verdict(case: NodeView, budgets: Budgets = NONE) -> tuple[list[Candidate], list[str]]:
    found, notes = candidates((case,), budgets, NOW, lambda view: candidate_of(view, Minimum(), 7))
    assert all((note.subject, note.reason) == ("claim-n", "Unconsolidatable") for note in notes)
    return list(found), [note.message for note in notes]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (loaded(owner=pool(after="Never")), 'NodePool "general" has consolidation disabled'),
        (loaded(pool=None), 'NodePool "general" has consolidation disabled'),
        (
            loaded(owner=pool(consolidationPolicy="WhenEmpty")),
            'NodePool "general" has consolidation policy WhenEmpty, but node is not empty',
        ),
        (loaded(claim=claim(zone="")), f'Node does not have label "{labels.ZONE}"'),
        (loaded(claim=claim(capacity_type="")), f'Node does not have label "{labels.CAPACITY_TYPE}"'),
        (loaded(price=None), 'Instance Type "m5.large" not found'),
        (loaded(price=None, claim=claim(instance_type="")), 'Instance Type "" not found'),
    ],
)
def test_why_consolidation_does_not_ask_about_a_node_is_reported(case: NodeView, why: str) -> None:
    assert obstacle(case) == why
    if case.pool is not None:
        assert verdict(case) == ([], [why])


@pytest.mark.parametrize(
    "case",
    [
        view("n"),  # empty ones are another method's
        loaded(claim=claim(quiet=False)),
        loaded(pod(annotations=KEEP)),  # what blocks is reported by emptiness
        loaded(going=True),
        loaded(owner=structs.replace(pool(), spec=structs.replace(pool().spec, replicas=3))),
    ],
)
def test_nodes_that_are_left_to_others_are_passed_over_in_silence(case: NodeView) -> None:
    assert verdict(case) == ([], [])


def test_a_pod_that_a_budget_holds_holds_its_node() -> None:
    assert verdict(loaded(), budgets_among((budget(),))) == ([], [])
    assert len(verdict(loaded(), budgets_among((budget(allowed=1),)))[0]) == 1


def test_a_node_that_may_go_is_described_by_what_it_costs_and_what_would_have_to_move() -> None:
    daemon = pod(
        "d", ownerReferences=[{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]
    )
    owner = pool()
    owner = structs.replace(
        owner, metadata=structs.replace(owner.metadata, annotations={"dovetail.dev/minimum-saving": "5%"})
    )
    ((found,), notes) = verdict(loaded(pod("a"), pod("b"), daemon, owner=owner))
    assert notes == []
    assert (found.name, found.pool, found.offer) == ("n", "general", ("m5.large", "a", "on-demand"))
    assert (found.price, found.cost, found.minimum.share) == (107, 2.0, 0.05)
    assert [(one.metadata.name, one.spec.node_name) for one in found.pods] == [("a", ""), ("b", "")]


def test_a_node_that_costs_nothing_or_bears_no_type_may_go() -> None:
    ((free,), _) = verdict(loaded(price=0))
    assert free.price == 7  # the surcharge
    ((unnamed,), _) = verdict(loaded(claim=claim(instance_type="")))
    assert unnamed.offer == ("", "a", "on-demand")


def made(seen: NodeView) -> Candidate:
    return candidate_of(seen, Minimum(), 0)


def test_several_nodes_keep_their_order() -> None:
    views = tuple(replace(loaded(), node=view(name).node) for name in "cab")
    assert [one.name for one in candidates(views, NONE, NOW, made)[0]] == ["c", "a", "b"]


def test_one_that_is_passed_over_ends_nothing_for_those_behind() -> None:
    silent, held, named = view("s"), loaded(nominated=True), loaded()
    views = (silent, replace(held, node=view("h").node), replace(named, node=view("x").node))
    assert [one.name for one in candidates(views, NONE, NOW, made)[0]] == ["x"]


@pytest.mark.parametrize(
    ("case", "not_up", "not_quiet"),
    [
        (loaded(), False, False),
        (loaded(claim=claim(quiet=False)), False, True),
        (loaded(claim=claim(quiet=False), owner=pool(after="Never")), False, False),  # it is never to be
        (loaded(claim=claim(quiet=False), pool=None), False, False),
        (loaded(node=None), True, False),
    ],
)
def test_nodes_that_are_not_up_are_closed_and_others_may_be_restless(
    case: NodeView, not_up: bool, not_quiet: bool
) -> None:
    names = frozenset({case.name})
    assert closed((case,)) == (names if not_up else frozenset())
    assert restless((case,)) == (names if not_quiet else frozenset())


# ------------------------------------------------------------------ what is asked


EMPTY = Requirements({})
ROOM = {"cpu": 4000, "memory": 2**33}


def kind(price: int) -> InstanceType:
    return InstanceType("m", EMPTY, (Offering("a", "on-demand", price, EMPTY),), ROOM)


def candidate(
    name: str, price: int = 100, *pods: str, capacity: str = "on-demand", cost: float = 1.0
) -> Candidate:
    return Candidate(name, "p", ("m", "a", capacity), price, cost, tuple(pod(one) for one in pods))


def existing(name: str, owner: str = "p", **changes: Any) -> ExistingNode:
    return ExistingNode(name, {}, (), ROOM, {"cpu": 5000, "memory": 2**33}, pool=owner, **changes)


def question(*leaving: Candidate, names: Iterable[str] = "abc", **more: Any) -> Question:
    usage = {"cpu": 15000, "memory": 3 * 2**33, "nodes": 3}
    pools = tuple(
        Pool(name, NodeClassRef(group="", kind="", name=""), EMPTY, {}, (kind(10),), usage=usage)
        for name in "pq"
    )
    nodes = tuple(existing(name) for name in names)
    return Question(Problem((pod("waiting"),), pools, nodes), leaving, {"p": 5}, **more)


def test_what_ifs_fill_nodes_that_stay_first_and_those_last_that_go_next() -> None:
    one = pod("r")
    rests = replace(
        candidate("c", 900), pods=(structs.replace(one, metadata=structs.replace(one.metadata, uid="r")),)
    )
    leaving = (candidate("a", 100, "x"), candidate("b", 200, "y"), rests, candidate("e", 100))
    moves = Moves(resting=frozenset("r"))
    asked = question(*leaving, names="abcde", moves=moves)
    assert [node.name for node in asked.without(leaving[3:]).nodes] == ["d", "c", "a", "b"]


def test_a_what_if_has_the_pods_that_move_and_none_of_the_nodes_that_go() -> None:
    asked = question(candidate("a", 100, "x", "y"), candidate("b", 100, "z"), closed=frozenset("c"))
    found = asked.without(asked.candidates)
    assert [one.metadata.name for one in found.pods] == ["x", "y", "z", "waiting"]
    assert [(node.name, node.allocatable) for node in found.nodes] == [("c", {})]
    own, other = found.pools
    assert own.usage == {"cpu": 5000, "memory": 2**33, "nodes": 1}
    assert other.usage == asked.problem.pools[1].usage
    restless = question(candidate("a"), restless=frozenset("b"))
    assert [node.allocatable for node in restless.without([candidate("a")], quiet=True).nodes] == [{}, ROOM]
    assert [node.allocatable for node in restless.without([candidate("a")]).nodes] == [ROOM, ROOM]
    open_ones = question(candidate("a")).without([candidate("a")]).nodes
    assert [(node.name, node.allocatable) for node in open_ones] == [("b", ROOM), ("c", ROOM)]


def test_a_candidate_ranks_by_what_it_saves_for_each_pod_and_needs_its_pools_minimum() -> None:
    spot = candidate("a", 100, capacity="spot", cost=3.0)
    assert (spot.spot, candidate("a").spot) == (True, False)
    assert spot.rank == (-25.0, "a")
    assert candidate("b", 200).rank == (-100.0, "b")
    assert replace(spot, minimum=Minimum(0.5, 0, 0)).needed == 50
    assert spot.content == (100,)
    assert candidate("a", 100, "x").content != candidate("a", 100, "x", "y").content


def test_moves_that_replace_nodes_have_a_purse_of_their_own() -> None:
    moves = Moves(deleting={"default/a": 3}, replacing={"default/a": 0})
    asked = question(candidate("a"), moves=moves)
    assert asked.move_budget().holds("p", {}) and asked.move_budget(replacing=True).holds("p", {})
    assert not asked.move_budget().holds("other", {})


def bought(price: int, *pods: str) -> PlannedClaim:
    wanted = Requirements.of([Requirement.new(labels.CAPACITY_TYPE, "In", ["on-demand"])])
    keys = tuple(f"default/{name}" for name in pods)
    return PlannedClaim("p-0", "p", keys, wanted, ("m",), {}, "m", "a", "on-demand", price, price)


def test_a_plan_that_saves_is_a_move() -> None:
    asked = question(candidate("a", 100_000_000, "x", "y"), candidate("b", 50_000_000, "z"))
    plan = Plan(existing={"c": ("default/x", "default/y", "default/z"), "d": ("default/waiting",)})
    move = judged(asked, asked.candidates, asked.without(asked.candidates), plan)
    assert (move.candidates, move.claims) == (asked.candidates, ())
    assert move.places == {"c": ("default/x", "default/y", "default/z")}
    assert (move.saving, move.cost, move.rate) == (150_000_000, 4.0, 37_500_000)
    assert Move(asked.candidates, (bought(30_000_000, "x"),)).saving == 120_000_000


def test_what_would_be_bought_must_cost_less() -> None:
    asked = question(candidate("a", 100_000_000, "x"))
    plan = Plan(claims=(bought(100_000_000, "x"),))
    with pytest.raises(Refused):
        judged(asked, asked.candidates, asked.without(asked.candidates), plan)


def test_places_name_only_pods_that_move() -> None:
    asked = question(candidate("a", 100, "x"))
    plan = Plan(existing={"c": ("default/waiting", "default/x")})
    assert judged(asked, asked.candidates, asked.without(asked.candidates), plan).places == {
        "c": ("default/x",)
    }


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (
            Plan(existing={"c": ("default/y",)}, unschedulable=(Unschedulable("default/x", "no room"),)),
            "Not all pods would schedule, default/x => no room",
        ),
        (
            Plan(existing={"c": ("default/x",), "rising": ("default/y",)}),
            "Not all pods would schedule, default/y => would schedule against uninitialized node/rising",
        ),
    ],
)
def test_a_plan_without_a_place_for_each_pod_is_refused(plan: Plan, why: str) -> None:
    asked = question(candidate("a", 100, "x", "y"))
    problem = asked.without(asked.candidates)
    problem = replace(problem, nodes=(*problem.nodes, existing("rising", initialized=False)))
    with pytest.raises(Refused) as caught:
        judged(asked, asked.candidates, problem, plan)
    assert str(caught.value) == why


def test_pods_that_waited_before_do_not_count_against_a_move() -> None:
    asked = question(candidate("a", 100, "x"))
    left = (Unschedulable("default/waiting", "no room"),)
    plan = Plan(claims=(bought(1, "waiting"),), existing={"c": ("default/x",)}, unschedulable=left)
    assert judged(asked, asked.candidates, asked.without(asked.candidates), plan).claims == ()


@pytest.mark.parametrize(
    ("plan", "refused"),
    [
        (Plan(claims=(bought(1, "leaving"),), existing={"c": ("default/x",)}), True),
        (Plan(unschedulable=(Unschedulable("default/leaving", "no room"),)), True),
        (Plan(claims=(bought(1, "x", "leaving"),)), False),  # they share what the move pays for
        (Plan(claims=(bought(1, "lost"),), existing={"c": ("default/x", "default/leaving")}), False),
        (Plan(unschedulable=(Unschedulable("default/lost", "no room"),)), False),
    ],
)
def test_a_move_takes_no_room_that_pods_on_their_way_count_on(plan: Plan, refused: bool) -> None:
    keys = {"leaving": "default/leaving", "lost": "default/lost"}  # the second has no place anyway
    asked = question(
        candidate("a", 100_000_000, "x"),
        moving=frozenset(keys.values()),
        settled=frozenset({keys["leaving"]}),
    )
    assert crowds_out(asked, asked.candidates, plan) is refused
    if refused:
        with pytest.raises(Refused, match="would lose their places"):
            judged(asked, asked.candidates, asked.without(asked.candidates), plan)


@pytest.mark.parametrize(
    ("pods", "answer"),
    [(("x", "y"), False), (("x", "waiting"), True), (("waiting",), False), (("x",), False), ((), False)],
)
def test_a_node_for_pods_that_move_and_others_is_mixed(pods: tuple[str, ...], answer: bool) -> None:
    assert (
        mixed([candidate("a", 100, "x"), candidate("b", 100, "y")], Plan(claims=(bought(1, *pods),)))
        is answer
    )
    assert mixed([candidate("a", 100, "x")], Plan(claims=(bought(1, "x"), bought(1, *pods)))) is (
        answer or "y" in pods
    )


def test_a_policy_that_weighs_refuses_what_disrupts_more_than_it_saves() -> None:
    asked = question(
        candidate("a", 100, "x", cost=9.0),
        totals={"p": Totals(BALANCED, 1_000, 20.0), "q": Totals(BALANCED, 1, 1.0)},
    )
    (score,) = asked.scores(asked.candidates, 100)
    assert str(score).startswith("score 0.20 < threshold 0.50")
    with pytest.raises(Refused, match=r"score 0\.20 < threshold"):
        check([score])
    check([replace(score, policy="WhenEmptyOrUnderutilized")])
    with pytest.raises(Refused, match=r"score 0\.20 < threshold"):
        judged(asked, asked.candidates, asked.without(asked.candidates), Plan(existing={"c": ("default/x",)}))


# ------------------------------------------------------------------ what could be saved at most


def big(name: str, cpu: str) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    return decode({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}, Pod)


def test_prospects_are_what_a_node_costs_beyond_the_worth_of_its_pods() -> None:
    """A node of 4 CPU costs $1 an hour: a pod of 1 CPU is worth a quarter of it at best."""
    dollar = 1_000_000_000
    four = replace(kind(dollar), capacity={**ROOM, "pods": 100})
    sold = (Pool("p", NodeClassRef(group="", kind="", name=""), EMPTY, {}, (four,)),)
    leaving = tuple(
        replace(candidate(name, dollar), pods=tuple(big(f"{name}{number}", "1") for number in range(count)))
        for name, count in (("a", 1), ("b", 3))
    )
    nodes = tuple(existing(name) for name in "ab")
    asked = Question(Problem((), sold, nodes), leaving, {"p": 5})
    found = Prospects(asked, asked.candidates, SolveBudget(Budget(1_000_000)))
    assert [found.if_bought(one) for one in leaving] == pytest.approx([dollar * 3 / 4, dollar / 4])
    assert found.bound == pytest.approx(dollar)
    unknown = replace(leaving[0], pods=(*leaving[0].pods, big("new", "1")))
    assert [found.known(one) for one in (*leaving, unknown, candidate("c"))] == [True, True, False, True]


def test_a_spot_node_that_spot_may_not_follow_is_judged_by_prices_on_demand() -> None:
    """Spot costs a quarter of a dollar, on demand a whole one; the node is dear spot, half a dollar."""
    dollar = 1_000_000_000
    four = replace(kind(dollar), capacity={**ROOM, "pods": 100})
    (offered,) = four.offerings
    spot = replace(
        offered,
        price=dollar // 4,
        capacity_type="spot",
        requirements=EMPTY.add(Requirement.new("karpenter.sh/capacity-type", "In", ("spot",))),
    )
    sold = (
        Pool(
            "p",
            NodeClassRef(group="", kind="", name=""),
            EMPTY,
            {},
            (replace(four, offerings=(offered, spot)),),
        ),
    )
    going = replace(candidate("a", dollar // 2), pods=(big("one", "2"),), offer=("x", "z", "spot"))
    for spot_to_spot, one, many in ((False, dollar, 0), (True, dollar // 4, dollar * 3 // 8)):
        asked = Question(Problem((), sold, (existing("a"),)), (going,), {"p": 5}, spot_to_spot=spot_to_spot)
        found = Prospects(asked, asked.candidates, SolveBudget(Budget(1_000_000)))
        assert asked.replaceable(going) is spot_to_spot
        assert found.least(going, [0]) == one
        assert found.if_bought(going) == pytest.approx(many)
        assert found.bound == pytest.approx(dollar // 8)  # whatever may follow, the pods are worth this


def test_what_is_moved_for_new_nodes_is_counted_apart() -> None:
    key = pod("x").metadata.uid[-12:]
    asked = question(candidate("a", 100, "x"), moves=Moves(deleting={key: 1}, replacing={key: 0}))
    moved = asked.candidates[0].workloads
    assert moved == {key: 1}
    assert asked.move_budget().holds("p", moved)
    assert not asked.move_budget(replacing=True).holds("p", moved)


def test_a_question_is_the_same_however_often_it_is_asked() -> None:
    one, same = question(candidate("a", 100, "x")), question(candidate("a", 100, "x"))
    assert one == same and "_nodes" not in repr(one)
    assert not one.spot_to_spot
    with pytest.raises(TypeError):
        Question(one.problem, one.candidates, {}, _nodes=())  # type: ignore[call-arg]
    assert one.without(()).pools[1] is one.problem.pools[1]
    assert (Finding(None).bound, Finding(None).hourly, Finding(None).tried) == (0, 0, 0)
    assert (MULTI, SINGLE) == ("multi", "single")  # as metrics name them
