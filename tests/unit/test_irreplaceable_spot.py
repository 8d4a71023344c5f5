"""When spot nodes are seen to stay without a look at what their pods are worth."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replaced
from test_consolidation_candidates import ROOM, big, candidate, existing, kind

from dovetail.api.codec import decode
from dovetail.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PreferredSchedulingTerm,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.disrupt.consolidation import irreplaceable_spot
from dovetail.disrupt.consolidation import search as searching
from dovetail.disrupt.consolidation.irreplaceable_spot import FreeRoom, Market, held_back
from dovetail.disrupt.consolidation.judge import judged
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import SPOT_DISABLED, UNSETTLED, Refused
from dovetail.disrupt.consolidation.question import Candidate, Finding, Question
from dovetail.disrupt.consolidation.saving import Minimum
from dovetail.disrupt.consolidation.search import search
from dovetail.model import labels
from dovetail.model.offering import Offering
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.budget import SolveBudget
from dovetail.solve.solver import solve
from dovetail.verify import verify

DOLLAR = 1_000_000_000
LARGE = {**ROOM, "pods": 100}
NOWHERE = Requirements.of((Requirement.new(labels.ZONE, "In", ("elsewhere",)),))
HERE = Requirements.of((Requirement.new(labels.ZONE, "In", ("a",)),))
ANYWHERE = Requirements.of(())


def offering(price: int, capacity: str, *, available: bool = True, **more: Any) -> Offering:
    wanted = HERE.add(Requirement.new(labels.CAPACITY_TYPE, "In", (capacity,)))
    return Offering("a", capacity, price, wanted, available, **more)


def pool(*offerings: Offering, wanted: Requirements = ANYWHERE, **more: Any) -> Pool:
    sold = replace(kind(DOLLAR), offerings=offerings, capacity=LARGE)
    return Pool("p", NodeClassRef(group="", kind="", name=""), wanted, {}, (sold,), **more)


USUAL = pool(offering(DOLLAR, "on-demand"), offering(DOLLAR // 4, "spot"))
ONE_LEFT = pool(offering(DOLLAR // 5, "reserved", reservation_capacity=1))
NO_SPOT = pool(offering(DOLLAR, "on-demand"), offering(DOLLAR // 4, "spot", available=False))


def node(name: str, cpu: str, price: int = DOLLAR // 2, capacity: str = "spot") -> Candidate:
    return replace(candidate(name, price, capacity=capacity), pods=(big(f"{name}-pod", cpu),))


def question(*leaving: Candidate, sold: Pool = USUAL, others: str = "", **more: Any) -> Question:
    """Each candidate's node is full; the others have 4 CPU free each."""
    full = [replace(existing(one.name), pods=(big(f"{one.name}-on-it", "4"),)) for one in leaving]
    nodes = tuple(replace(one, allocatable=LARGE) for one in (*full, *map(existing, others)))
    return Question(Problem((), (sold,), nodes), leaving, {"p": 5}, **more)


def all_stay(asked: Question) -> bool:
    return held_back(asked, asked.candidates, Market()).keys() == {one.name for one in asked.candidates}


@pytest.mark.parametrize(
    ("asked", "stay"),
    [
        (question(node("a", "2")), True),
        (question(node("a", "2"), node("b", "1")), True),
        (question(), True),
        # Something may follow.
        (question(node("a", "2"), spot_to_spot=True), False),
        (question(node("a", "2"), node("b", "1", capacity="on-demand")), False),
        (question(node("a", "2", 2 * DOLLAR), sold=NO_SPOT), False),
        (question(node("a", "2", 2 * DOLLAR)), True),  # a claim would ask for spot as well
        (question(node("a", "2"), sold=ONE_LEFT), False),
        (question(node("a", "2"), sold=pool(offering(DOLLAR // 5, "reserved"))), True),  # it is full
        # As cheap as it is, but not for the pool, or not now, or with what else the node costs.
        (question(node("a", "2"), sold=pool(offering(9, "on-demand"), wanted=NOWHERE)), True),
        (question(node("a", "2"), sold=pool(offering(9, "on-demand", available=False))), True),
        (question(node("a", "2"), sold=pool(offering(9, "on-demand"), volumes=DOLLAR)), True),
        # Its pods may fit elsewhere: on one that is up and takes pods of others, by all that they ask for.
        (question(node("a", "4"), others="c"), False),
        (question(node("a", "5"), others="c"), True),
        (question(node("a", "4"), node("b", "5"), others="c"), False),
        (question(node("a", "4"), others="c", closed=frozenset("c")), True),
    ],
)
def test_nodes_are_held_back_only_where_neither_capacity_nor_a_cheaper_node_is_there(
    asked: Question, stay: bool
) -> None:
    assert all_stay(asked) is stay


@pytest.mark.parametrize(("price", "stay"), [(DOLLAR + 99, True), (DOLLAR + 100, False)])
def test_what_follows_must_save_what_is_needed_and_no_more(price: int, stay: bool) -> None:
    leaving = replace(node("a", "2", price), minimum=Minimum(share=0.0, least=100))
    asked = question(leaving, sold=NO_SPOT)
    assert all_stay(asked) is stay


@pytest.mark.parametrize(
    ("cpu", "restless", "sold", "why"),
    [
        ("4", "c", USUAL, UNSETTLED),  # it goes once that node is quiet
        ("4", "c", NO_SPOT, UNSETTLED),
        ("4", "", NO_SPOT, ""),
        (
            "4",
            "c",
            pool(offering(DOLLAR // 3, "on-demand")),
            "",
        ),  # where one alone is cheap enough, it is asked
        ("5", "c", USUAL, SPOT_DISABLED),  # quiet or not
        ("5", "", USUAL, SPOT_DISABLED),
    ],
)
def test_room_on_nodes_that_are_not_quiet_is_waited_for_and_nothing_is_bought_for_it(
    cpu: str, restless: str, sold: Pool, why: str
) -> None:
    asked = question(node("a", cpu), others="c", sold=sold, restless=frozenset(restless))
    assert held_back(asked, asked.candidates, Market()) == ({"a": why} if why else {})


def roomy(*names: str, **more: Any) -> tuple[ExistingNode, ...]:
    return tuple(replace(existing(name), allocatable=LARGE, **more) for name in names)


def beside(leaving: Candidate, *nodes: ExistingNode) -> bool:
    """Whether the node stays, with these as all that there are."""
    asked = question(leaving, sold=NO_SPOT)
    asked = replace(asked, problem=replace(asked.problem, nodes=nodes))
    return all_stay(asked)


def test_a_pods_own_node_is_no_other_place() -> None:
    assert beside(node("a", "2"), *roomy("a"))
    assert not beside(node("a", "2"), *roomy("a", "c"))


def test_a_node_that_is_not_up_yet_is_no_other_place() -> None:
    assert not beside(node("a", "2"), *roomy("c", initialized=True))
    assert beside(node("a", "2"), *roomy("c", initialized=False))


@pytest.mark.parametrize(
    ("effect", "stay"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_a_node_whose_taints_all_its_pods_obey_is_no_other_place(effect: str, stay: bool) -> None:
    agents = roomy("c", taints=(Taint(key="agents", effect=effect),))
    leaving = node("a", "2")
    assert beside(leaving, *agents) is stay
    assert not beside(leaving, *agents, *roomy("d"))
    there = big("tolerant", "2")
    tolerant = replaced(there, spec=replaced(there.spec, tolerations=(Toleration(operator="Exists"),)))
    assert not beside(replace(leaving, pods=(tolerant,)), *agents)


@pytest.mark.parametrize(
    ("moving", "others", "stay"),
    [("", "c", False), ("x", "c", True), ("x", "cd", False), ("xyz", "cd", True)],
)
def test_pods_of_nodes_on_their_way_out_have_room_first(moving: str, others: str, stay: bool) -> None:
    """Each of them, and the node's own pod, leaves no room for another one on a node."""
    asked = question(node("a", "3"), others=others)
    pods = tuple(big(name, "3") for name in "xyz")
    waiting = replace(asked, problem=replace(asked.problem, pods=pods))
    assert not all_stay(waiting)  # pods that wait may never find a place
    keys = frozenset(pod.key for pod in pods if pod.metadata.name in moving)
    assert all_stay(replace(waiting, moving=keys)) is stay


@pytest.mark.parametrize(
    ("moving", "others", "packed"),
    [
        ("", "c", True),
        ("", "", False),
        ("22", "cd", True),  # one node has 3 + 0, the other 2 + 2
        ("33", "cd", False),  # 1 CPU is left on each, though 2 are asked for and 2 free
        ("33", "cde", True),
        ("1", "c", True),
        ("3", "c", False),
    ],
)
def test_room_for_pods_beside_those_of_nodes_on_their_way_out_is_packed(
    moving: str, others: str, packed: bool
) -> None:
    asked = crowd(moving, others)
    own = asked.candidates[0]
    assert FreeRoom(asked, asked.candidates).packs(own) is packed
    assert not FreeRoom(replace(asked, closed=frozenset(others)), asked.candidates).packs(own)
    assert not FreeRoom(replace(asked, restless=frozenset(others)), asked.candidates).packs(own)


def crowd(moving: str, others: str) -> Question:
    """A node with a pod of 2 CPU, and moving pods that ask for so many each."""
    asked = question(node("a", "2"), others=others)
    pods = tuple(big(f"m{index}", cpu) for index, cpu in enumerate(moving))
    problem = replace(asked.problem, pods=pods)
    return replace(asked, problem=problem, moving=frozenset(pod.key for pod in pods))


def test_no_plan_is_asked_about_a_node_whose_room_moving_pods_take() -> None:
    """Free capacity as a whole would do: it is not held back, but what a plan would find is seen."""
    asked = crowd("33", "cd")
    assert not all_stay(asked)
    memory = Memory()
    with pytest.raises(StopIteration) as stopped:
        next(search(asked, memory, SolveBudget(Budget(1_000_000)), 0))
    finding = stopped.value.value
    assert [(item.name, item.text) for item in finding.refusals] == [("a", SPOT_DISABLED)]
    assert (finding.move, finding.tried) == (None, 0)
    plan = solve(replace(asked.without(asked.candidates, quiet=True), buys=False), Budget(20_000))
    assert _without_place(plan)
    # Once the pods are where they go, it is asked about.
    problem = replace(asked.problem, pods=())
    later = replace(asked, problem=problem, moving=frozenset())
    next(search(later, memory, SolveBudget(Budget(1_000_000)), 1))


def test_pods_that_move_count_with_their_own_tolerations() -> None:
    there = big("x", "3")
    tolerant = replaced(there, spec=replaced(there.spec, tolerations=(Toleration(operator="Exists"),)))
    asked = question(node("a", "3"), others="c")
    agents = roomy("d", taints=(Taint(key="agents", effect="NoSchedule"),))
    for pod, stay in ((tolerant, False), (there, True)):
        problem = replace(asked.problem, pods=(pod,), nodes=(*asked.problem.nodes, *agents))
        assert all_stay(replace(asked, problem=problem, moving=frozenset({pod.key}))) is stay


def test_one_pod_without_another_place_holds_its_node_back() -> None:
    two = replace(node("a", "1"), pods=(big("small", "1"), big("large", "5")))
    assert beside(two, *roomy("c"))


def test_pods_that_each_fit_elsewhere_and_not_together_hold_their_node_back() -> None:
    two = replace(node("a", "1"), pods=(big("one", "3"), big("other", "3")))
    assert beside(two, *roomy("c"))
    assert not beside(two, *roomy("c", "d"))


def test_rest_that_is_too_small_for_a_pod_is_no_room() -> None:
    """Nodes with 5 CPU free take one pod of 3 CPU each; a pod of 2 CPU fits beside it."""
    free = roomy("c", "d")
    free = tuple(replace(one, allocatable={**LARGE, "cpu": 5000}) for one in free)
    three, pair = (big("one", "3"), big("two", "3"), big("three", "3")), (big("four", "2"), big("five", "2"))
    assert beside(replace(node("a", "1"), pods=three), *free)
    assert not beside(replace(node("a", "1"), pods=(*three[:2], *pair)), *free)


@pytest.mark.parametrize("seed", range(20))
def test_a_look_at_the_roomiest_nodes_first_changes_no_answer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(seed)
    sizes = ("500m", "1", "1500m", "2", "3")
    names = "cdefghij"
    leaving = tuple(
        replace(
            node(name, "1"),
            pods=tuple(big(f"{name}-{n}", draw.choice(sizes)) for n in range(draw.randint(1, 5))),
        )
        for name in "ab"
    )
    asked = question(*leaving, others=names)
    there = [
        replace(one, pods=(big(f"{one.name}-on-it", draw.choice(sizes)),) if one.name in names else one.pods)
        for one in asked.problem.nodes
    ]
    taint = (Taint(key="x", effect="NoSchedule"),)
    nodes = tuple(replace(one, taints=taint if draw.random() < 0.2 else ()) for one in there)
    moving = (big("moving", draw.choice(sizes)),)
    asked = replace(
        asked,
        problem=replace(asked.problem, nodes=nodes, pods=moving),
        restless=frozenset(name for name in names if draw.random() < 0.3),
        moving=frozenset(one.key for one in moving),
    )
    at_once = FreeRoom(asked, leaving)
    monkeypatch.setattr(irreplaceable_spot, "_ROOMIEST", draw.randint(1, 4))
    monkeypatch.setattr(irreplaceable_spot, "_FEW", 1)
    in_turn = FreeRoom(asked, leaving)
    assert list(in_turn.homeless(leaving)) == list(at_once.homeless(leaving))
    assert in_turn.crowded(leaving) == at_once.crowded(leaving)


def test_what_takes_several_nodes_on_demand_is_no_cheaper_than_their_cpus() -> None:
    """Of six pods of 3 CPU 14 CPU find no room: what a node of 4 CPU costs counts three and a half times."""
    six = tuple(big(str(number), "3") for number in range(6))
    assert beside(replace(node("a", "1", 3 * DOLLAR), pods=six), *roomy("c"))
    assert not beside(replace(node("a", "1", 4 * DOLLAR), pods=six), *roomy("c"))


def test_memory_that_no_cpu_is_left_for_is_no_room() -> None:
    """Two nodes for pods of 2 CPU and 1 or 2 GiB: one has little CPU left, and one little memory."""
    both = (*asking("memory", "1Gi").pods, *asking("memory", "2Gi").pods)
    leaving = replace(node("a", "1"), pods=both)
    half = replace(roomy("c")[0], allocatable={**LARGE, "cpu": 2500})
    slight = replace(roomy("d")[0], allocatable={**LARGE, "memory": 2**30 + 2**29})
    assert beside(leaving, half, replace(slight, allocatable={**slight.allocatable, "cpu": 1000}))
    assert not beside(leaving, half, slight)


def selecting(capacity: str, **more: Any) -> Pod:
    """A pod of 2 CPU for nodes of that capacity type."""
    one = big("selecting", "2")
    return replaced(one, spec=replaced(one.spec, node_selector={labels.CAPACITY_TYPE: capacity}, **more))


ON_DEMAND = selecting("on-demand")
SPREAD = replaced(
    big("spread", "2"),
    spec=replaced(
        big("spread", "2").spec,
        topology_spread_constraints=(
            TopologySpreadConstraint(
                max_skew=1, topology_key=labels.CAPACITY_TYPE, when_unsatisfiable="DoNotSchedule"
            ),
        ),
    ),
)
TERM = SelectorRequirement(key=labels.CAPACITY_TYPE, operator="NotIn", values=("spot",))
AFFINE = replaced(
    big("affine", "2"),
    spec=replaced(
        big("affine", "2").spec,
        affinity=Affinity(
            node_affinity=NodeAffinity(
                preferred=(
                    PreferredSchedulingTerm(weight=1, preference=NodeSelectorTerm(match_expressions=(TERM,))),
                )
            )
        ),
    ),
)
APART = replaced(
    big("apart", "2"),
    spec=replaced(
        big("apart", "2").spec,
        affinity=Affinity(
            pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(topology_key=labels.CAPACITY_TYPE),))
        ),
    ),
)


@pytest.mark.parametrize(
    ("own", "pending", "on_nodes", "stay"),
    [
        (big("x", "2"), None, None, True),
        (selecting("spot"), None, None, True),
        (ON_DEMAND, None, None, False),
        (SPREAD, None, None, False),
        (AFFINE, None, None, False),
        (APART, None, None, False),
        (big("x", "2"), ON_DEMAND, None, False),  # the claim may be for both
        (big("x", "2"), None, APART, False),  # it keeps others out of one capacity type
        (big("x", "2"), None, ON_DEMAND, True),
    ],
)
def test_pods_that_may_keep_spot_out_of_a_claim_have_what_is_sold_on_demand(
    own: Pod, pending: Pod | None, on_nodes: Pod | None, stay: bool
) -> None:
    asked = question(replace(node("a", "2", 2 * DOLLAR), pods=(own,)))
    problem = asked.problem
    if pending is not None:
        problem = replace(problem, pods=(pending,))
    if on_nodes is not None:
        problem = replace(problem, nodes=(*problem.nodes, replace(existing("full"), pods=(on_nodes,))))
    assert all_stay(replace(asked, problem=problem)) is stay


@pytest.mark.parametrize(
    ("left", "stay"), [({}, True), ({"q": 24}, True), ({"q": 23}, False), ({"r": 1}, True)]
)
def test_spot_is_not_asked_for_where_a_quota_may_end(left: dict[str, int], stay: bool) -> None:
    """Three pods take three nodes at most, of eight vCPU each."""
    sold = pool(offering(DOLLAR, "on-demand"), offering(DOLLAR // 4, "spot", draws=(("q", 8),)))
    three = tuple(big(str(number), "2") for number in range(3))
    asked = question(replace(node("a", "2", 2 * DOLLAR), pods=three), sold=sold)
    assert all_stay(replace(asked, problem=replace(asked.problem, commons=left))) is stay


def test_a_pool_counts_whose_taints_one_of_the_pods_tolerates() -> None:
    taint = Taint(key="team", value="a", effect="NoSchedule")
    other = replace(pool(offering(9, "on-demand"), taints=(taint,)), name="q")
    asked = question(node("a", "2"))
    asked = replace(asked, problem=replace(asked.problem, pools=(*asked.problem.pools, other)))
    assert all_stay(asked)
    plain, there = big("plain", "2"), big("tolerant", "2")
    tolerant = replaced(
        there, spec=replaced(there.spec, tolerations=(Toleration(key="team", operator="Exists"),))
    )
    for pods in ((tolerant,), (plain, tolerant)):
        assert not all_stay(replace(asked, candidates=(replace(asked.candidates[0], pods=pods),)))


def test_a_type_that_is_sold_as_spot_in_another_zone_only_counts() -> None:
    there = Requirements.of(
        (
            Requirement.new(labels.ZONE, "In", ("b",)),
            Requirement.new(labels.CAPACITY_TYPE, "In", ("spot",)),
        )
    )
    elsewhere = Offering("b", "spot", DOLLAR // 4, there)
    asked = question(node("a", "2", 2 * DOLLAR), sold=pool(offering(DOLLAR, "on-demand"), elsewhere))
    assert not all_stay(asked)


TAINTS = ("NoSchedule", "PreferNoSchedule")
AMOUNTS = st.lists(
    st.tuples(
        st.sampled_from(("500m", "1", "1500m", "2", "3")), st.sampled_from(("", "", "on-demand", "spot"))
    ),
    min_size=1,
    max_size=5,
)


def wishing(name: str, cpu: str, capacity: str) -> Pod:
    one = big(name, cpu)
    selector = {labels.CAPACITY_TYPE: capacity} if capacity else {}
    return replaced(one, spec=replaced(one.spec, node_selector=selector))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(AMOUNTS, st.sampled_from((0.4, 0.9, 1.5, 2.2, 3.1))), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.sampled_from(("", "", *TAINTS))), max_size=3),
    st.lists(st.tuples(st.sampled_from(("", "on-demand")), st.booleans()), max_size=1),
    st.sampled_from(
        (
            (USUAL,),
            (pool(offering(DOLLAR, "on-demand")),),
            (NO_SPOT,),
            (USUAL, replace(pool(offering(DOLLAR * 2 // 3, "on-demand")), name="q")),
            (pool(offering(DOLLAR, "on-demand"), offering(DOLLAR // 4, "spot", draws=(("q", 4),))),),
        )
    ),
)
def test_a_plan_for_what_is_held_back_is_refused(
    leaving: list[tuple[list[tuple[str, str]], float]],
    free: list[tuple[int, bool, str]],
    pending: list[tuple[str, bool]],
    sold: tuple[Pool, ...],
) -> None:
    """`leaving`: the pods of each spot node and its price; `free`: CPUs on nodes that stay, quiet or not, and
    the effect of a taint; `pending`: pods that need a place anyway, and whether they move off a node.
    """
    gone = tuple(
        replace(
            candidate(f"n{index}", round(price * DOLLAR), capacity="spot"),
            pods=tuple(wishing(f"p{index}-{number}", *wish) for number, wish in enumerate(asked)),
        )
        for index, (asked, price) in enumerate(leaving)
    )
    asked = question(*gone)
    room = tuple(
        replace(
            existing(f"s{index}"),
            allocatable={**LARGE, "cpu": 1000 * cpus},
            labels={labels.CAPACITY_TYPE: "on-demand"},
            taints=(Taint(key="agents", effect=effect),) if effect else (),
        )
        for index, (cpus, _, effect) in enumerate(free)
    )
    waiting = tuple(wishing(f"w{number}", "1", wish) for number, (wish, _) in enumerate(pending))
    problem = replace(
        asked.problem, pools=sold, pods=waiting, nodes=(*asked.problem.nodes, *room), commons={"q": 9}
    )
    restless = frozenset(f"s{index}" for index, (_, quiet, _) in enumerate(free) if not quiet)
    moving = frozenset(pod.key for pod, (_, moves) in zip(waiting, pending, strict=True) if moves)
    asked = replace(asked, problem=problem, restless=restless, moving=moving)
    held = held_back(asked, gone, Market())
    event(f"{len(held)} are held back")
    for one in gone:
        for quiet in (False, True):
            problem = asked.without((one,), quiet=quiet)
            plan = solve(problem, Budget(20_000))
            try:
                move = judged(asked, (one,), problem, plan)
            except Refused:
                continue
            waits = not quiet and not move.claims and not restless.isdisjoint(move.places)
            # Nothing is bought for its pods, since those that move have no room beside them.
            in_their_stead = not move.claims and any(left in moving for left in _without_place(plan))
            event("waits" if waits else f"goes for {len(move.claims)} nodes")
            assert waits or in_their_stead or one.name not in held


def _without_place(plan: Plan) -> set[str]:
    """Pods that no node has room for as it is."""
    return {one.pod for one in plan.unschedulable}.union(*(claim.pods for claim in plan.claims))


def asking(name: str, amount: str) -> Candidate:
    """A node with a pod that asks for 2 CPU and so much of something else."""
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", name: amount}}}]
    }
    meta = {"name": "a-pod", "namespace": "default", "uid": "a-pod"}
    return replace(node("a", "2"), pods=(decode({"metadata": meta, "spec": spec}, Pod),))


def test_a_device_that_a_node_does_not_report_is_not_there() -> None:
    has = replace(roomy("c")[0], allocatable={**LARGE, "example.com/device": 1})
    assert beside(asking("example.com/device", "1"), *roomy("c"))
    assert not beside(asking("example.com/device", "1"), has)


def test_a_pod_that_asks_for_none_of_something_fits_where_it_is_overcommitted() -> None:
    over = asking("memory", "1Gi").pods[0]
    full = replace(roomy("c")[0], allocatable={**LARGE, "memory": 0}, pods=(over,))
    assert not beside(asking("memory", "0"), full)
    assert beside(asking("memory", "1"), full)


def test_of_pods_that_are_in_no_plan_the_search_has_something_else_to_say() -> None:
    leaving = node("a", "2")
    spec = leaving.pods[0].spec
    claimed = type(leaving.pods[0])(
        metadata=leaving.pods[0].metadata,
        spec=type(spec)(containers=spec.containers, resource_claims=(PodResourceClaim(name="gpu"),)),
    )
    asked = question(replace(leaving, pods=(claimed,)))
    assert not all_stay(asked)
    assert [item.text for item in ended(asked).refusals] == [searching.UNPLANNED]


def test_prices_are_looked_at_anew_when_types_or_rules_change() -> None:
    market = Market()
    foreign = replace(USUAL.instance_types[0], requirements=NOWHERE)
    for sold, least in (
        (USUAL, 2**63 - 1),
        (NO_SPOT, DOLLAR),
        (pool(offering(3, "on-demand")), 3),
        (replace(NO_SPOT, requirements=NOWHERE), 2**63 - 1),
        (replace(NO_SPOT, volumes=5), DOLLAR + 5),
        (USUAL, 2**63 - 1),
        (pool(offering(7, "on-demand"), offering(3, "on-demand")), 3),
        (replace(USUAL, instance_types=(foreign,), requirements=HERE), 2**63 - 1),
    ):
        assert market.after_spot(Problem((), (sold,)), node("x", "1")).least == least


def test_the_cheapest_pool_counts() -> None:
    pools = tuple(
        replace(pool(offering(price, "on-demand")), name=name)
        for name, price in (("p", 7), ("q", 3), ("r", 5))
    )
    assert Market().after_spot(Problem((), pools), node("x", "1")).least == 3


def ended(asked: Question) -> Finding:
    """What the search answers without a single what-if."""
    with pytest.raises(StopIteration) as stopped:
        next(search(asked, Memory(), SolveBudget(Budget(1_000_000)), 0))
    found: Finding = stopped.value.value
    return found


def test_the_search_says_the_same_with_a_look_at_what_pods_are_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = question(node("a", "2"), node("b", "4"), others="c", closed=frozenset("c"))
    quick = ended(asked)
    monkeypatch.setattr(searching, "held_back", lambda *_: frozenset())
    slow = ended(asked)
    assert quick.refusals == slow.refusals
    assert [item.text for item in quick.refusals] == [SPOT_DISABLED, SPOT_DISABLED]
    assert (quick.move, quick.complete) == (slow.move, slow.complete) == (None, True)


def test_where_only_room_counts_nothing_is_bought_but_what_is_sold_still_opens_domains() -> None:
    """Two pods find room on the one node, which is in zone b; spread over zones a and b one does."""
    spread = {
        "maxSkew": 1,
        "topologyKey": labels.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }

    def asked(names: str, *rules: object, buys: bool = False) -> tuple[int, int, int]:
        """How many pods are on the node, how many nodes are bought, and how many pods are left."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
        pods = tuple(
            decode(
                {
                    "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "a"}},
                    "spec": {"containers": [container], "topologySpreadConstraints": list(rules)},
                },
                Pod,
            )
            for name in names
        )
        there = replace(existing("c"), allocatable=LARGE, labels={labels.ZONE: "b", labels.HOSTNAME: "c"})
        problem = Problem(pods, (USUAL,), (there,), buys=buys)
        plan = solve(problem)
        assert not verify(problem, plan)
        return len(plan.existing["c"]), len(plan.claims), len(plan.unschedulable)

    assert asked("xy") == asked("xy", buys=True) == (2, 0, 0)
    assert (asked("xyz", buys=True), asked("xyz")) == ((2, 1, 0), (2, 0, 1))
    assert (asked("xy", spread, buys=True), asked("xy", spread)) == ((1, 1, 0), (1, 0, 1))
