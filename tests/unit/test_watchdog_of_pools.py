"""The watchdog's rules on node pools: limits and disruption budgets, on both sides of each condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_violations import START, Document, Story, claim, cluster, disrupt, node, pool
from test_watchdog_of_machines import SECOND, condition, finish, going, seen, state

from dovetail.disrupt.command import REPLACES
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.model.shared_limits import SharedLimit
from dovetail.simulate.violations import Shared, Watchdog
from dovetail.units.timestamp import to_rfc3339

Edit = Callable[[Document], None]
LIMIT = "limits"
SHARED = "shared limit"
CENT = 10**7
BUDGET = "disruption budget of nodes"


# ------------------------------------------------------------------ limits


def test_the_limits_of_a_pool_are_its_own() -> None:
    story = cluster()
    story.put(pool(limit="4"))
    other = claim("n3")
    other["metadata"]["labels"]["karpenter.sh/nodepool"] = "other"
    story.put(other)
    assert not seen(story)
    story.put(claim("n4", providerID=""))
    message = "n4 brings cpu to 6000, over 4000"
    assert [(item[0], item[2]) for item in seen(story)] == [("limits", message)]


def test_nodes_that_go_are_not_counted_for_limits() -> None:
    stamp = to_rfc3339(START)
    for taken in ("reason", "taint", "deleted", "node"):
        story = cluster()
        story.put(pool(limit="4"))
        if taken == "reason":
            state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
        elif taken == "taint":
            story.taint("n1")
        elif taken == "deleted":
            story.change("NodeClaim", "n1", lambda item: item["metadata"].update(deletionTimestamp=stamp))
        else:
            story.change("Node", "n1", lambda item: item["metadata"].update(deletionTimestamp=stamp))
        story.put(claim("n3"))
        assert not seen(story), taken
        story.put(claim("n4"))
        assert [rule for rule, *_ in seen(story)] == ["limits"], taken


@pytest.mark.parametrize(
    ("limits", "messages"),
    [
        ({"cpu": "6"}, []),
        ({"cpu": "5"}, ["n3 brings cpu to 6000, over 5000"]),
        ({"nodes": "3"}, []),
        ({"nodes": "2"}, ["n3 brings nodes to 3, over 2"]),
        ({"memory": "0"}, []),  # none of it is known
        ({"nodes": "2", "cpu": "5"}, ["n3 brings cpu to 6000, over 5000", "n3 brings nodes to 3, over 2"]),
        ({}, []),
    ],
)
def test_what_a_launch_brings_a_pool_to(limits: Document, messages: list[str]) -> None:
    story = cluster()
    document = pool()
    document["spec"]["limits"] = limits
    story.put(document)
    story.put(claim("n3"))
    assert [(rule, text) for rule, _, text in seen(story)] == [(LIMIT, text) for text in messages]


def test_limits_are_checked_when_a_launch_states_its_size_and_only_then() -> None:
    story = cluster()
    story.put(claim("n3", capacity={}))
    story.put(pool(limit="5"))
    story.put(claim("n4", capacity={}))  # not launched yet
    story.change("NodeClaim", "n1", lambda item: item["metadata"].update(labels={"a": "b", **KEPT}))
    assert not seen(story)
    story.put(claim("n3"))
    assert len(seen(story)) == 1
    story.change("NodeClaim", "n3", lambda item: item["metadata"].update(labels={"a": "b", **KEPT}))
    story.remove("NodeClaim", "n3")
    assert len(seen(story)) == 1


@pytest.mark.parametrize(
    ("first", "second", "apart", "found"),
    [
        (True, True, 0, 0),  # two leaders at once: neither knows what the other one makes
        (True, True, 15, 0),
        (True, True, 16, 1),  # by then it is known
        (False, True, 0, 1),  # made before the leader changed
        (True, False, 0, 1),
    ],
)
def test_claims_of_two_leaders_are_not_added_up(first: bool, second: bool, apart: int, found: int) -> None:
    story = cluster()
    document = pool()
    document["spec"]["limits"] = {"cpu": "6"}
    story.put(document)
    for name, several in (("n3", first), ("n4", second)):
        story.several = several
        story.put(claim(name, capacity={}))
        story.now += apart * SECOND
    story.several = False
    for name in ("n3", "n4"):
        story.change("NodeClaim", name, lambda item: item["status"].update(capacity={"cpu": "2"}))
    assert len(seen(story)) == found
    story.put(claim("n5"))  # of one that knows both
    assert len(seen(story)) == found + 1


KEPT = {"karpenter.sh/nodepool": "main", "team": "x"}


@pytest.mark.parametrize("owner", [{}, {"karpenter.sh/nodepool": "gone"}])
def test_a_claim_of_no_pool_has_no_limits_and_no_budgets(owner: Document) -> None:
    story = cluster()
    document = claim("n3")
    document["metadata"]["labels"] = owner
    story.put(document)
    story.change("NodeClaim", "n3", disrupt)
    assert not seen(story)


# ------------------------------------------------------------------ limits that pools share


def sold_as(spot: int, on_demand: int) -> tuple[Offering, ...]:
    prices = {"spot": spot, "on-demand": on_demand}
    return tuple(Offering("a", kind, price * CENT, Requirements()) for kind, price in prices.items())


TYPES = (
    InstanceType("small", Requirements(), sold_as(3, 10), {"cpu": 2000}),
    InstanceType("large", Requirements(), sold_as(12, 40), {"cpu": 8000}),
)


def sharing(*limits: tuple[str, int]) -> Story:
    """Nodes n1 and n2, small and on spot, of a pool whose limits it shares with another one."""
    story = cluster()
    shared = Shared((SharedLimit("all", limits),), lambda _: (TYPES, CENT))
    story.watchdog = Watchdog(lambda: story.now, several=lambda: story.several, shared=shared)
    story.put(pool())
    for name in ("n1", "n2"):
        story.put(launched(name))
        story.put(node(name))
    return story


def launched(name: str, owner: str = "main") -> Document:
    found = claim(name)
    found["metadata"]["labels"] |= {
        labels.INSTANCE_TYPE: "small",
        labels.ZONE: "a",
        labels.CAPACITY_TYPE: "spot",
    }
    found["metadata"]["labels"][labels.NODEPOOL] = owner
    return found


def made(name: str, *types: str, kinds: tuple[str, ...] = ("spot", "on-demand"), **marks: str) -> Document:
    """A claim that has not been launched yet."""
    found = claim(name, capacity={}, providerID="")
    wanted = {labels.INSTANCE_TYPE: types, labels.CAPACITY_TYPE: kinds}
    found["spec"]["requirements"] = [
        {"key": key, "operator": "In", "values": list(values)} for key, values in wanted.items()
    ]
    found["metadata"]["annotations"] = marks
    return found


SPOT = ("spot",)


@pytest.mark.parametrize(
    ("limit", "new", "message"),
    [
        (("cpu", 6000), made("n3", "small"), ""),
        (("cpu", 6000), made("n3", "small", "large"), "cpu to 12000, over 6000"),
        (("cpu", 5000), made("n3", "small"), "cpu to 6000, over 5000"),
        (("nodes", 3), made("n3", "large"), ""),
        (("nodes", 2), made("n3", "large"), "nodes to 3, over 2"),
        # Nodes at 3 cents and one for their volumes each.
        (("hourly-cost", 12 * CENT), made("n3", "small", kinds=SPOT), ""),
        (("hourly-cost", 19 * CENT), made("n3", "small"), ""),
        (
            ("hourly-cost", 18 * CENT),
            made("n3", "small"),
            "hourly-cost to 190000000, over 180000000",
        ),
        (
            ("hourly-cost", 20 * CENT),
            made("n3", "small", "large", kinds=SPOT),
            "hourly-cost to 210000000, over 200000000",
        ),
        (("hourly-cost", 0), made("n3", "none"), "hourly-cost to 80000000, over 0"),
    ],
)
def test_a_claim_counts_as_the_worst_that_it_may_become(
    limit: tuple[str, int], new: Document, message: str
) -> None:
    story = sharing(limit)
    story.put(new)
    assert seen(story) == ([(SHARED, "all", f"n3 may bring {message}")] if message else [])
    story.change("NodeClaim", "n3", lambda item: item["metadata"].update(generation=2))
    assert len(seen(story)) == bool(message)  # it is judged once


def test_another_pools_nodes_count_as_well() -> None:
    story = sharing(("nodes", 3))
    story.put(launched("other", "second"))
    assert not seen(story)  # what had been launched before is not judged
    story.put(made("n3", "small"))
    assert seen(story) == [(SHARED, "all", "n3 may bring nodes to 4, over 3")]


def test_pools_that_are_not_under_a_limit_are_free() -> None:
    story = sharing(("nodes", 3))
    story.watchdog = Watchdog(
        lambda: story.now, shared=Shared((SharedLimit("l", (("nodes", 0),), ("x",)),), lambda _: (TYPES, 0))
    )
    story.put(pool())
    story.put(made("n3", "small"))
    assert not seen(story)


def test_nodes_on_their_way_out_are_not_counted() -> None:
    story = sharing(("nodes", 2))
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
    story.put(made("n3", "small"))
    assert not seen(story)
    story.put(made("n4", "small"))
    assert seen(story) == [(SHARED, "all", "n4 may bring nodes to 3, over 2")]


@pytest.mark.parametrize(
    ("new", "found"),
    [
        (made("n3", "small", kinds=SPOT, **{REPLACES: "{}"}), 0),
        (made("n3", "small", **{REPLACES: "{}"}), 1),  # it may cost more than what goes
        (made("n3", "small", kinds=SPOT), 1),  # it is in place of nothing
    ],
)
def test_above_a_limit_what_goes_may_be_replaced_by_as_much(new: Document, found: int) -> None:
    story = sharing(("hourly-cost", CENT))
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
    story.put(new)
    assert len(seen(story)) == found


def test_of_two_leaders_neither_knows_what_the_other_one_makes() -> None:
    story = sharing(("nodes", 3))
    story.several = True
    story.put(made("n3", "small"))
    story.put(made("n4", "small"))
    assert not seen(story)


# ------------------------------------------------------------------ budgets


def budgeted(nodes: str, **more: Any) -> Edit:
    return lambda item: item["spec"]["disruption"].update(budgets=[{"nodes": nodes, **more}])


def three(nodes: str = "1", **more: Any) -> Story:
    """Nodes n1, n2 and n3, of which so many may be disrupted."""
    story = cluster()
    for name in ("n1", "n2", "n3"):
        story.put(claim(name))
        story.put(node(name))
    story.change("NodePool", "main", budgeted(nodes, **more))
    return story


def used(many: int, of: int, name: str = "n1") -> list[tuple[str, str, str]]:
    text = f"{name} is disrupted as Drifted while {many} of {of} nodes already are"
    return [(BUDGET, "main", text)]


@pytest.mark.parametrize(
    ("nodes", "reasons", "found"),
    [
        ("1", {}, []),
        ("0", {}, used(0, 3)),
        ("100%", {}, []),
        ("0", {"reasons": ["Drifted"]}, used(0, 3)),
        ("0", {"reasons": ["Empty"]}, []),  # no budget is about it
    ],
)
def test_one_node_is_disrupted(nodes: str, reasons: Document, found: list[Any]) -> None:
    story = three(nodes, **reasons)
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
    assert seen(story) == found
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"), condition("Other"))
    assert seen(story) == found  # it is reported once


def test_only_a_condition_that_is_true_disrupts() -> None:
    story = three("0")
    state(story, "n1", condition("DisruptionReason", "False", "Drifted"))
    assert not seen(story)
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
    assert seen(story) == used(0, 3)


def test_what_is_new_and_disrupted_at_once_is_held_against_the_budget_as_well() -> None:
    story = three("0")
    story.put(claim("n9", conditions=[condition("DisruptionReason", "True", "Drifted")]))
    assert seen(story) == used(0, 3, "n9")


def _terminating(story: Story) -> None:
    state(story, "n2", condition("InstanceTerminating"), condition("DisruptionReason", "True", "Empty"))


def _not_initialized(story: Story) -> None:
    story.change("Node", "n2", lambda item: item["metadata"]["labels"].pop("karpenter.sh/initialized"))


def _without_node(story: Story) -> None:
    story.remove("Node", "n2")


def _deleted(kind: str, ago: int) -> Callable[[Story], None]:
    return lambda story: story.change(kind, "n2", lambda item: going(item, story.now - ago))


def _not_ready(status: str, ago: int | None) -> Callable[[Story], None]:
    def change(story: Story) -> None:
        since = to_rfc3339(story.now - ago) if ago is not None else ""
        ready = {**condition("Ready", status), "lastTransitionTime": since}
        story.change("Node", "n2", lambda item: item["status"].update(conditions=[ready]))

    return change


def _no_word(story: Story) -> None:
    story.change("Node", "n2", lambda item: item["status"].update(conditions=[]))


@pytest.mark.parametrize(
    ("other", "many", "of"),
    [
        (lambda _: None, 0, 3),
        (_terminating, 0, 2),
        (_not_initialized, 0, 2),
        (_without_node, 0, 2),
        (_deleted("NodeClaim", 15 * SECOND), 0, 3),
        (_deleted("NodeClaim", 16 * SECOND), 1, 3),
        (_deleted("Node", 15 * SECOND), 0, 3),
        (_deleted("Node", 16 * SECOND), 1, 3),
        (_not_ready("False", 15 * SECOND), 0, 3),
        (_not_ready("False", 16 * SECOND), 1, 3),
        (_not_ready("Unknown", 16 * SECOND), 1, 3),
        (_not_ready("False", None), 1, 3),
        (_not_ready("True", 16 * SECOND), 0, 3),
        (_no_word, 1, 3),
    ],
)
def test_which_nodes_count_and_which_are_disrupted(
    other: Callable[[Story], None], many: int, of: int
) -> None:
    story = three("0")
    other(story)
    before = seen(story)
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
    assert seen(story)[len(before) :] == used(many, of)


def test_the_node_itself_does_not_count_against_its_own_budget() -> None:
    story = three("1")
    story.change("Node", "n1", lambda item: going(item, START - 60 * SECOND))
    state(story, "n1", condition("DisruptionReason", "True", "Drifted"))
    assert not seen(story)
    assert not [item for item in finish(story) if item[0] == BUDGET]
