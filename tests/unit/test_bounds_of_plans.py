"""Pods that ask for very much: ordinary ones beside them have their places, and work is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import bounds
from benchmarks.solve import inputs
from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.explain.node import node_story
from dovetail.explain.pod import UNEXPLAINED, nearest_misses, pod_story
from dovetail.model import labels
from dovetail.model.label_values import Requirement, integer
from dovetail.model.pod_rules import levels, rules_of
from dovetail.model.requirement import Requirements
from dovetail.solve.instance.interning import Interner
from dovetail.solve.instance.topology import Topology
from dovetail.solve.solver import solve


@pytest.mark.parametrize(
    "name", ["preferred pod anti, 2000", "soft spreads, 2000", "selector, 10000", "preferred node keys, 3000"]
)
def test_ordinary_pods_have_places_beside_it(name: str) -> None:
    left = solve(bounds.problem(name)).left
    assert not [pod for pod in left if pod < "default/pod-1"]


def test_preferences_about_other_pods_take_a_bounded_number_of_levels() -> None:
    asked = bounds.problem("preferred pod anti, 2000")
    pod = next(pod for pod in asked.pods if pod.key == "default/pod-100000")
    found = list(levels(rules_of(pod, respect_preferences=True), soft_taints_exist=False))
    assert len(found) == 129
    assert sum(len(words) for _, words in found) == 2_000


def test_simple_pods_are_read_first_and_what_there_is_no_time_for_is_left_out() -> None:
    asked = bounds.problem("distinct spreads, 3000")
    questions = iter(range(100))
    interner = Interner(
        asked.options,
        Topology({}),
        asked.volumes,
        soft_taints_exist=False,
        reading=lambda: lambda: next(questions, None) is None,
    )
    interner.read(asked.pods)
    assert len(interner.left_out) == 3_000 - 99
    assert not [pod for pod in interner.left_out if pod < "default/pod-1"]


def test_rules_about_pods_that_have_a_label_are_counted_by_that_label() -> None:
    """Of 1,000 different pods each spreads those with a label of its own. As if each pod might belong to each
    of the groups, 245 were read, whatever the time.
    """
    documents = []
    for number in range(1_000):
        own = f"member-{number}"
        spread = inputs.spread(labels.ZONE, {})
        spread["labelSelector"] = {"matchExpressions": [{"key": own, "operator": "Exists"}]}
        documents.append(inputs.pod(number, 100, 128, {own: "yes"}, topologySpreadConstraints=[spread]))
    asked = inputs.problem(documents, inputs.linear_types(8))
    topology = Topology({})
    interner = Interner(asked.options, topology, asked.volumes, soft_taints_exist=False)
    interner.read(asked.pods)
    assert interner.left_out == []
    assert [topology.matching("default", pod.metadata.labels) for pod in asked.pods] == [
        (number,) for number in range(1_000)
    ]
    assert topology.matching("other", {"member-5": "yes"}) == ()
    assert topology.may_count(frozenset({("member-5", "whatever")}))
    assert not topology.may_count(frozenset({("app", "yes")}))


@pytest.mark.parametrize(("seconds", "read"), [(1, 245), (4, 490), (9, 735)])
def test_with_more_time_more_pods_of_rules_about_any_pod_are_read(seconds: int, read: int) -> None:
    """Each keeps off all that lack its label, which any other pod may."""
    documents = []
    for number in range(1_000):
        near = inputs.near("podAntiAffinity", labels.HOSTNAME, {})
        [term] = near["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        term["labelSelector"] = {"matchExpressions": [{"key": f"own-{number}", "operator": "DoesNotExist"}]}
        documents.append(inputs.pod(number, 100 + number, 128, {f"own-{number}": "yes"}, affinity=near))
    asked = inputs.problem(documents, inputs.linear_types(8))
    interner = Interner(asked.options, Topology({}), asked.volumes, soft_taints_exist=False, seconds=seconds)
    interner.read(asked.pods)
    assert len(asked.pods) - len(interner.left_out) == read


def test_a_pod_of_many_resources_that_comes_first_leaves_no_others_out() -> None:
    """Resources are counted in all: read first, it would leave no capacity for any that another pod asks
    for.
    """
    asked = bounds.problem("preferred pod anti, 2000")
    amounts = {f"example.com/r{number}": "1" for number in range(1_000)}
    main = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    meta = {"name": "many", "namespace": "other", "creationTimestamp": "2000-01-01T00:00:00Z"}
    many = decode({"metadata": meta, "spec": {"containers": [main]}}, Pod)
    left = solve(replace(asked, pods=(many, *asked.pods))).left
    assert "other/many" in left
    assert not [pod for pod in left if pod < "default/pod-1"]


def test_what_there_is_no_time_to_explain_is_marked() -> None:
    """All but the pods that are alike and the most."""
    asked = bounds.problem("one per zone, 300")
    main = {"name": "main", "resources": {"requests": {"cpu": "5000"}}}
    large = decode({"metadata": {"name": "large"}, "spec": {"containers": [main]}}, Pod)
    asked = replace(asked, pods=(*asked.pods, large))
    misses = nearest_misses(asked, solve(asked), lambda: True)
    assert len(misses) == 298
    unexplained = [pod for pod, texts in misses.items() if set(texts.values()) == {UNEXPLAINED}]
    assert unexplained == [large.key]


def test_a_story_that_is_cut_short_says_so() -> None:
    asked = bounds.problem("one per zone, 300")
    plan = solve(asked)
    left = next(iter(plan.left))
    cut = pod_story(asked, plan, left, lambda: True)
    assert cut.cut
    assert [pool.text for pool in cut.verdict.pools] == [
        "not looked at: the time for the explanation was over"
    ]
    assert not any(pool.ways for pool in cut.verdict.pools)
    whole = pod_story(asked, plan, left)
    assert not whole.cut
    assert "not looked at" not in whole.verdict.pools[0].text
    node = node_story(asked, plan, plan.claims[0].name, lambda: True)
    assert node.cut
    assert not node.possible


def test_many_demands_on_one_label_are_intersected_at_once() -> None:
    some = [Requirement.new("k", "NotIn", (f"v{number}",)) for number in range(50)]
    some += [Requirement.new("k", "Gt", ("3",)), Requirement.new("k", "In", ("4", "5", "v1"))]
    one = some[0]
    for item in some[1:]:
        one = item.intersection(one)
    assert Requirements.of(some).get("k") == one == Requirement.new("k", "In", ("4", "5"))


@pytest.mark.parametrize(
    ("text", "number"), [("9" * 5_000, None), ("-" + "0" * 5_000 + "7", -7), ("0", 0), ("", None)]
)
def test_whole_numbers_of_any_length(text: str, number: int | None) -> None:
    assert integer(text) == number
