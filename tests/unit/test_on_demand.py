"""Shares of on-demand capacity: what is asked for, and what each pod is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.codec import decode, encode
from dovetail.api.core import Pod
from dovetail.base.errors import Invalid
from dovetail.base.mergepatch import clone, merge
from dovetail.kube.memory.rules import check_pod_update
from dovetail.model import labels
from dovetail.model.on_demand import (
    Share,
    Siblings,
    gated,
    held,
    patch,
    share_of,
    tell_one,
    to_give_up,
    told_together,
    turn_of,
)

SHARES = st.builds(Share, st.integers(0, 20), st.integers(0, 100))
KEY = labels.CAPACITY_TYPE
NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def waiting(
    name: str = "web-0", share: str = "2 + 30%", kind: str = "ReplicaSet", **spec: Any
) -> dict[str, Any]:
    """A pod at the gate."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "resourceVersion": "1",
            "annotations": {labels.ON_DEMAND_SHARE: share},
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [{"name": "main"}],
            "schedulingGates": [{"name": "dovetail.dev/on-demand"}],
            **spec,
        },
    }


def several(number: int, share: str) -> tuple[Pod, ...]:
    return tuple(decode(waiting(f"web-{index}", share), Pod) for index in range(number))


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("2", Share(2, 0)),
        (" 2 ", Share(2, 0)),
        ("30%", Share(0, 30)),
        ("2+30%", Share(2, 30)),
        ("2 + 30%", Share(2, 30)),
        ("0", Share(0, 0)),
        ("100%", Share(0, 100)),
        ("1000000", Share(1_000_000, 0)),
    ],
)
def test_shares_are_read(text: str, share: Share) -> None:
    assert Share.read(text) == share
    assert Share.read(str(share)) == share


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "2.5", "101%", "30% + 2", "2 30%", "2 + 3", "1000001", "2 +", "%", "٣", "1_0"]
)
def test_what_is_no_share_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match='valid are a number of pods \\("2"\\)'):
        Share.read(text)


@pytest.mark.parametrize(
    ("share", "counts"),
    [
        (Share(2, 30), [0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6]),
        (Share(0, 50), [0, 1, 1, 2, 2, 3]),
        (Share(3, 0), [0, 1, 2, 3, 3, 3]),
        (Share(0, 100), [0, 1, 2, 3]),
        (Share(0, 0), [0, 0, 0]),
    ],
)
def test_a_share_is_rounded_up(share: Share, counts: list[int]) -> None:
    assert [share.of(number) for number in range(len(counts))] == counts


@given(SHARES, st.integers(0, 200))
def test_a_share_grows_by_one_pod_at_most_and_is_never_more_than_all(share: Share, pods: int) -> None:
    assert 0 <= share.of(pods + 1) - share.of(pods) <= 1
    assert share.of(pods) <= pods


@given(SHARES, st.integers(1, 40))
def test_however_far_a_replica_set_shrinks_the_share_is_exact(share: Share, number: int) -> None:
    """Its pods of the lowest deletion cost go first."""
    pods = told_together(several(number, str(share)))
    order = sorted(
        pods, key=lambda pod: int(pod.metadata.annotations[labels.POD_DELETION_COST]), reverse=True
    )
    assert [turn_of(pod) for pod in order] == list(range(1, number + 1))
    for left in range(number + 1):
        assert Siblings(order[:left]).held == share.of(left)


@given(SHARES, st.lists(st.integers(0, 30), max_size=30))
def test_pods_that_come_never_make_more_lack_and_have_turns_of_their_own(
    share: Share, steps: list[int]
) -> None:
    pods: list[Pod] = []
    for step in steps:
        if pods and step % 3 == 0:
            del pods[step % len(pods)]
        before = Siblings(pods)
        lacks, wanted = before.lacks(share), share.of(before.pods + 1)
        after = tell_one(several(1, str(share))[0], before)
        pods.append(after)
        assert held(after) == (before.held < wanted)
        assert Siblings(pods).lacks(share) <= lacks
    turns = [turn for pod in pods if (turn := turn_of(pod)) is not None]
    assert len(turns) == len(set(turns))


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {NODE_AFFINITY: {"nodeSelectorTerms": list(terms)}}}


OTHER = {"key": "zone", "operator": "In", "values": ["a"]}
OFF = {"key": KEY, "operator": "In", "values": ["on-demand", "reserved"]}


@pytest.mark.parametrize(
    ("spec", "terms"),
    [
        ({}, [{"matchExpressions": [OFF]}]),
        ({"nodeSelector": {"disk": "ssd"}}, [{"matchExpressions": [OFF]}]),
        ({"affinity": required({"matchExpressions": [OTHER]})}, [{"matchExpressions": [OTHER, OFF]}]),
        (
            {
                "affinity": {
                    **required({"matchExpressions": [OTHER]}, {"matchFields": [OTHER]}),
                    "podAffinity": {},
                }
            },
            [{"matchExpressions": [OTHER, OFF]}, {"matchExpressions": [OFF], "matchFields": [OTHER]}],
        ),
    ],
)
def test_a_held_pod_asks_for_what_is_not_spot_in_every_alternative(
    spec: dict[str, Any], terms: list[dict[str, Any]]
) -> None:
    document = waiting(share="1", **spec)
    pod = decode(document, Pod)
    after = tell_one(pod, Siblings())
    assert held(after)
    assert not gated(after)
    changed = merge(clone(document), patch(pod, after))
    assert changed["spec"]["affinity"]["nodeAffinity"][NODE_AFFINITY]["nodeSelectorTerms"] == terms
    assert "schedulingGates" not in changed["spec"]
    assert changed["metadata"]["annotations"] == {
        labels.ON_DEMAND_SHARE: "1",
        labels.OFF_SPOT: "true",
        labels.POD_DELETION_COST: "-1",
    }
    check_pod_update(Pod, document, changed)
    assert encode(decode(changed, Pod)) == encode(after)


@pytest.mark.parametrize(
    ("document", "off", "turn"),
    [
        (waiting(share="0"), False, 1),
        (waiting(share="1", kind="StatefulSet"), True, None),
        (waiting(share="1", kind="DaemonSet"), False, None),
        (waiting(share="0", nodeSelector={KEY: "on-demand"}), True, None),
        (waiting(share="1", nodeSelector={KEY: "on-demand"}), True, None),
    ],
)
def test_what_a_pod_is_told_depends_on_what_made_it(
    document: dict[str, Any], off: bool, turn: int | None
) -> None:
    after = tell_one(decode(document, Pod), Siblings())
    assert (held(after), turn_of(after)) == (off, turn)


def test_a_deletion_cost_of_the_workloads_own_stays() -> None:
    document = waiting()
    document["metadata"]["annotations"][labels.POD_DELETION_COST] = "7"
    after = tell_one(decode(document, Pod), Siblings())
    assert after.metadata.annotations[labels.POD_DELETION_COST] == "7"


def test_other_gates_stay() -> None:
    document = waiting()
    document["spec"]["schedulingGates"].insert(0, {"name": "quota"})
    pod = decode(document, Pod)
    changed = merge(clone(document), patch(pod, tell_one(pod, Siblings())))
    assert changed["spec"]["schedulingGates"] == [{"name": "quota"}]


def test_a_pod_without_the_annotation_says_so() -> None:
    document = waiting()
    document["metadata"]["annotations"] = {}
    with pytest.raises(ValueError, match="has no annotation"):
        share_of(decode(document, Pod))


def running(name: str, off: str | None, **status: Any) -> Pod:
    document = waiting(name, "50%")
    document["spec"].pop("schedulingGates")
    if off is not None:
        document["metadata"]["annotations"][labels.OFF_SPOT] = off
    if off == "true":
        document["spec"]["nodeSelector"] = {KEY: "on-demand"}
    ready = {"type": "Ready", "status": "True"}
    document["status"] = {"conditions": [ready], **status}
    return decode(document, Pod)


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        ([running("a", "false"), running("b", "false")], "b"),
        ([running("a", "false"), running("b", "true")], None),
        # A template without the gate: what comes in its place would be no better.
        ([running("a", None), running("b", None)], None),
        ([running("a", "false"), running("b", "false", conditions=[])], None),
        ([running("a", "false"), running("b", "false"), running("c", "true", phase="Failed")], "b"),
        ([], None),
    ],
)
def test_one_pod_goes_where_too_few_are_held_and_all_is_quiet(pods: list[Pod], goes: str | None) -> None:
    found = to_give_up(pods, lambda _: True)
    assert (found.metadata.name if found is not None else None) == goes
    assert to_give_up(pods, lambda _: False) is None


NARROW, WIDE = required({"matchExpressions": [OTHER, OFF]}), required({"matchExpressions": [OTHER]})


@pytest.mark.parametrize(
    ("before", "after", "fine"),
    [
        ({"affinity": WIDE}, {"affinity": NARROW}, True),
        ({"affinity": NARROW}, {"affinity": WIDE}, False),
        ({}, {"affinity": WIDE}, True),
        ({"affinity": WIDE}, {}, False),
        ({"affinity": {**WIDE, "podAffinity": {}}}, {"affinity": NARROW}, False),
        ({"schedulingGates": None, "affinity": WIDE}, {"affinity": NARROW}, False),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "1", "b": "2"}}, True),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "2"}}, False),
        ({"nodeSelector": {"a": "1"}}, {}, False),
        ({}, {"nodeSelector": {"a": "1"}}, True),
    ],
)
def test_rules_of_a_gated_pod_may_be_narrowed_and_no_others(
    before: dict[str, Any], after: dict[str, Any], fine: bool
) -> None:
    old, new = waiting(**before), waiting(**after)
    new["spec"].pop("schedulingGates")
    if fine:
        check_pod_update(Pod, old, new)
        return
    with pytest.raises(Invalid):
        check_pod_update(Pod, old, new)


def test_pods_that_are_there_count_and_an_invalid_share_stays_at_the_gate() -> None:
    there = [running("a", "true"), running("b", "false")]
    assert [held(pod) for pod in told_together(several(3, "50%"), there)] == [True, False, True]
    (bad,) = several(1, "half")
    assert told_together([bad]) == (bad,)
