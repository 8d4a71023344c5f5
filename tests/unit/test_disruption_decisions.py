"""What the tables of single methods leave out: who counts for budgets, what blocks, whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from test_emptiness import KEEP, NOW, READY, REF, budget, pod, pool, view

from dovetail.api.codec import decode
from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import Budget, NodePool
from dovetail.base.clock import HOUR, SECOND
from dovetail.disrupt import candidates
from dovetail.disrupt.allowance import allowances, blocked_notes, consuming, within
from dovetail.disrupt.budgets import UNLIMITED, allowed_disruptions, allows_any, fault, is_active, pool_allows
from dovetail.disrupt.candidates import NodeView, blocker, blockers, judge_alone
from dovetail.disrupt.command import DRIFTED, EMPTY, EXPIRED, UNDERUTILIZED, UNHEALTHY, Command, Decision
from dovetail.disrupt.confirmation import token, too_many
from dovetail.disrupt.consolidation.balanced import Score, totals
from dovetail.disrupt.consolidation.churn import MOVED_PODS, Arrival, Ledger, MoveBudget, Present
from dovetail.disrupt.consolidation.saving import Minimum, parse_minimum, pool_minimum
from dovetail.disrupt.drift import drifted_since, pool_drift
from dovetail.disrupt.emptiness import decide, validate
from dovetail.disrupt.expiry import expired_since, expires
from dovetail.disrupt.faults import node_mark_fault, pool_faults
from dovetail.disrupt.pause import Pause, pause_of, read_pause
from dovetail.disrupt.pods import Budgets, do_not_disrupt, do_not_disrupt_error, evictable, eviction_cost
from dovetail.disrupt.rollout import MOVED, Rules, rollout
from dovetail.disrupt.static import is_static, surplus
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

NONE = Budgets(())
COST = "controller.kubernetes.io/pod-deletion-cost"


def claim(name: str = "n", owner: str = "general", **more: Any) -> NodeClaim:
    """A claim; `more` are `conditions`, `annotations`, `age` (nanoseconds) and fields of the spec."""
    conditions = [{"type": kind, "status": status} for kind, status in more.pop("conditions", {}).items()]
    meta = {
        "name": f"claim-{name}",
        "uid": name,
        "labels": {"karpenter.sh/nodepool": owner} if owner else {},
        "annotations": more.pop("annotations", {}),
        "creationTimestamp": to_rfc3339(NOW - more.pop("age", 0)),
    }
    status = {"conditions": conditions, "providerID": more.pop("provider", "i")}
    return decode({"metadata": meta, "spec": {"nodeClassRef": REF, **more}, "status": status}, NodeClaim)


def marked(**annotations: str) -> NodePool:
    found = pool()
    names = {f"dovetail.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return structs.replace(found, metadata=structs.replace(found.metadata, annotations=names))


# ------------------------------------------------------------------ budgets


@pytest.mark.parametrize(
    ("case", "counted", "used"),
    [
        (view(), 1, 0),
        (view(going=True), 1, 1),
        (view(queued=True), 1, 1),
        (view(going=True, queued=True), 1, 1),
        # What is not there yet, and what the cloud ends already, is no node of the pool.
        (view(node=decode({"metadata": {"name": "n"}, "status": READY}, Node)), 0, 0),
        (view(node=None, queued=True), 0, 0),
        (view(claim=claim(conditions={"InstanceTerminating": "True"}), going=True), 0, 0),
        (view(claim=claim(conditions={"InstanceTerminating": "False"}), going=True), 1, 1),
    ],
)
def test_which_nodes_budgets_count(case: NodeView, counted: int, used: int) -> None:
    half = pool(budgets=[{"nodes": "100%"}])
    assert allowances((half,), (case,), EMPTY, NOW) == {"general": counted - used}
    assert consuming((half,), (case,), EMPTY) == {"general": used}


def test_nodes_that_are_not_ready_use_up_no_budget_for_unhealthy_ones() -> None:
    half = pool(budgets=[{"nodes": "100%"}])
    ill = view(node=decode({"metadata": {"name": "n", "labels": {labels.INITIALIZED: "true"}}}, Node))
    assert consuming((half,), (ill,), DRIFTED) == {"general": 1}
    assert consuming((half,), (ill,), UNHEALTHY) == {"general": 0}
    assert consuming((half,), (replace(ill, going=True),), UNHEALTHY) == {"general": 1}


def test_budgets_take_the_first_candidates_and_name_the_pools_that_refused() -> None:
    views = tuple(view(name, owner=pool(owner)) for name, owner in zip("abcdef", "yyxxzz", strict=True))
    taken, refused = within(views, {"y": 1, "x": 0, "z": 2})
    assert ([item.name for item in taken], refused) == (["a", "e", "f"], ("x", "y"))
    assert within(views[:1], {}) == ((), ("y",))
    (note,) = blocked_notes(refused, {"y": 1, "x": 0}, DRIFTED)  # y's budget is used up now, not closed
    assert (note.subject, note.reason, note.on_pool) == ("x", "DisruptionBlocked", True)
    assert [note.subject for note in blocked_notes(("gone",), {}, DRIFTED)] == ["gone"]


def test_a_pool_without_budgets_is_not_limited_however_many_nodes_go() -> None:
    assert allowed_disruptions((), EMPTY, 10, 3, NOW) == UNLIMITED


@pytest.mark.parametrize(
    ("fields", "complains"),
    [
        ({"nodes": "10%"}, False),
        ({"nodes": "x"}, True),
        ({"nodes": "x%"}, True),
        ({"nodes": "1", "schedule": "@daily", "duration": "1h"}, False),
        ({"nodes": "1", "schedule": "at night", "duration": "1h"}, True),
        ({"nodes": "1", "schedule": "@daily", "duration": "1 day"}, True),
        # One without the other says nothing about when: it allows nothing, and that is reported.
        ({"nodes": "1", "schedule": "@daily"}, True),
        ({"nodes": "1", "duration": "1h"}, True),
    ],
)
def test_a_budget_that_cannot_be_read_is_reported_and_allows_nothing(
    fields: dict[str, str], complains: bool
) -> None:
    found = Budget(**fields)
    assert bool(fault(found)) == complains
    if complains:
        assert allowed_disruptions((found,), EMPTY, 10, 0, NOW) == 0


@pytest.mark.parametrize(
    ("zone", "instant", "active"),
    [
        ("UTC", "2026-07-01T09:00:00Z", True),
        ("Asia/Seoul", "2026-07-01T09:00:00Z", False),
        ("Asia/Seoul", "2026-07-01T00:00:00Z", True),
        ("Asia/Seoul", "2026-06-30T23:59:59Z", False),
        ("Asia/Seoul", "2026-07-01T08:59:59Z", True),
        # Nine o'clock is an hour earlier in summer, which no schedule in UTC can say.
        ("Europe/Berlin", "2026-07-01T07:00:00Z", True),
        ("Europe/Berlin", "2026-01-01T07:00:00Z", False),
        ("Europe/Berlin", "2026-01-01T08:00:00Z", True),
    ],
)
def test_schedules_count_in_the_time_zone_of_their_pool(zone: str, instant: str, active: bool) -> None:
    closed = {"nodes": "0", "schedule": "0 9 * * *", "duration": "9h"}
    owner = zoned(zone, {"nodes": "3"}, closed)
    now = parse_rfc3339(instant)
    assert pool_allows(owner, DRIFTED, 10, 1, now) == (0 if active else 2)
    assert allows_any(owner, DRIFTED, now) != active


def test_a_time_zone_that_is_none_leaves_only_budgets_without_a_schedule() -> None:
    assert pool_allows(zoned("Asia/Soul", {"nodes": "3"}), DRIFTED, 10, 0, NOW) == 3
    daily = {"nodes": "5", "schedule": "@daily", "duration": "1h"}
    owner = zoned("../../etc/passwd", {"nodes": "3"}, daily)
    assert pool_allows(owner, DRIFTED, 10, 0, NOW) == 0
    assert [(item.reason, item.place) for item in pool_faults(owner)] == [
        ("InvalidAnnotation", "dovetail.dev/time-zone")
    ]
    assert not list(pool_faults(zoned("Asia/Seoul", daily)))


def zoned(zone: str, *budgets: dict[str, str]) -> NodePool:
    owner = pool(budgets=list(budgets))
    marks = {"dovetail.dev/time-zone": zone}
    return structs.replace(owner, metadata=structs.replace(owner.metadata, annotations=marks))


def test_a_schedule_that_never_hits_is_always_active() -> None:
    assert is_active(Budget(nodes="0", schedule="0 0 30 2 *", duration="1h"), NOW)


# ------------------------------------------------------------------ what blocks a node


def labelled(**annotations: str) -> Node:
    marks = {"karpenter.sh/nodepool": "general", "karpenter.sh/initialized": "true"}
    return decode({"metadata": {"name": "n", "labels": marks, "annotations": annotations}}, Node)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (view(claim=claim(annotations=KEEP)), 'Disruption is blocked through the "karpenter.sh/do-not-'),
        (view(node=labelled(**{"karpenter.sh/do-not-disrupt": "1h"})), ""),
        (view(claim=claim(owner="")), 'Node does not have label "karpenter.sh/nodepool"'),
        (view(pool=marked(pause="disruption")), "Disruption of the NodePool is paused (NodePool=general)"),
        (view(pool=marked(pause="all")), "Disruption of the NodePool is paused (NodePool=general)"),
        (view(pool=marked(pause="launches")), ""),
    ],
)
def test_more_blockers(case: NodeView, expected: str) -> None:
    assert blocker(case, NONE, NOW).startswith(expected)
    assert bool(blocker(case, NONE, NOW)) == bool(expected)


@pytest.mark.parametrize(
    ("grace", "must_go", "blocked"),
    [(None, False, True), (None, True, True), ("1h", False, True), ("1h", True, False)],
)
def test_pods_do_not_block_a_node_that_must_go_and_has_an_end(
    grace: str | None, must_go: bool, blocked: bool
) -> None:
    more = {} if grace is None else {"terminationGracePeriod": grace}
    case = view("n", pod(annotations=KEEP), claim=claim(**more))
    assert bool(blocker(case, NONE, NOW, must_go=must_go)) == blocked
    assert list(blockers(case, NONE, NOW)) == [
        'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/p)'
    ]


def test_pods_block_unless_it_is_said_that_the_node_must_go() -> None:
    ending = replace(view("n", pod(annotations=KEEP)), claim=claim(terminationGracePeriod="1h"))
    assert blocker(ending, NONE, NOW) and not blocker(ending, NONE, NOW, must_go=True)


def test_each_pod_is_held_against_its_own_budgets() -> None:
    free = pod("free", labels={"app": "other"})
    found = blocker(view("n", free, pod("p")), Budgets((budget(),)), NOW)
    assert found == "Pdb prevents pod evictions (PodDisruptionBudget=[default/b])"


def test_many_pools_that_refused_are_reported_in_order() -> None:
    names = "hgfedcba"
    assert within([view(name, owner=pool(name)) for name in names], {})[1] == tuple(sorted(names))


@pytest.mark.parametrize(
    ("cost", "empty"), [("-134217728", True), ("-134217729", True), ("-134217727", False), ("0", False)]
)
def test_a_node_whose_pods_cost_nothing_to_evict_counts_as_empty(cost: str, empty: bool) -> None:
    assert view("n", pod("p", cost)).empty is empty


def test_a_claim_without_a_node_is_not_ready_and_has_no_price_to_rank_by() -> None:
    assert not view("n", node=None).ready
    assert view("n").ready
    assert view("n", price=None).rank() == (0.0, "n")


@pytest.mark.parametrize(
    "asked", ["blockers", "eviction_cost", "reschedulable", "evictable", "parse_nillable", "parse_rfc3339"]
)
def test_whatever_cannot_be_asked_about_a_node_is_raised(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question after the other fails: each is asked, of each of its objects."""
    real = getattr(candidates, asked)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": to_rfc3339(NOW + SECOND)}
    bare = {"type": "Drifted", "status": "True"}
    document = {
        "metadata": {"name": "claim-n", "uid": "n", "creationTimestamp": to_rfc3339(NOW)},
        "spec": {"nodeClassRef": REF, "expireAfter": "720h"},
        "status": {"conditions": [bare, condition]},
    }
    whole = view("n", pod("a"), pod("b"), owner=pool(after="30s"), claim=decode(document, NodeClaim))
    seen: list[object] = []

    def noted(*given: Any) -> Any:
        seen.append(given[0])
        return real(*given)

    monkeypatch.setattr(candidates, asked, noted)
    monkeypatch.setattr(NodeView, "rank", lambda one: seen.append(one.name))
    judge_alone(whole, NOW)
    wanted = {
        "blockers": [whole],
        "eviction_cost": [*whole.pods],
        "reschedulable": [*whole.pods],
        "evictable": [*whole.pods],
        "parse_nillable": ["720h", "30s"],
        "parse_rfc3339": [to_rfc3339(NOW), to_rfc3339(NOW + SECOND)],
    }[asked]
    assert [one for one in seen if one != "n"] == wanted and "n" in seen
    judge_alone(replace(whole, pool=None), NOW)
    assert seen.count("30s") == (asked == "parse_nillable")


def test_what_saves_most_for_each_disrupted_pod_goes_first() -> None:
    views = [
        view("two", pod("a"), pod("b"), price=300),
        view("one", pod("c"), price=180),
        view("none", price=95),
        view("unknown", price=None),
        # Pods that stay or come back by themselves cost nothing, nor do those that want to go first.
        view("daemons", pod("d", ownerReferences=[OWNER]), pod("e", cost=str(-(2**31))), price=96),
    ]
    assert [item.name for item in sorted(views, key=NodeView.rank)] == [
        "two",
        "daemons",
        "none",
        "one",
        "unknown",
    ]


OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
MIRROR = {**OWNER, "kind": "Node"}
TOLERANT = [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]
OTHERWISE = [{"key": "team", "operator": "Exists"}]
GOING = {"deletionTimestamp": "2026-03-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("case", "tolerations", "expected"),
    [
        (pod(), [], True),
        (pod(), OTHERWISE, True),
        (pod(), TOLERANT, False),
        (pod(status={"phase": "Failed"}), [], False),
        (pod(**GOING), [], False),
        (pod(ownerReferences=[MIRROR]), [], False),
        (pod(ownerReferences=[OWNER]), [], True),
    ],
)
def test_which_pods_a_drain_evicts(case: Any, tolerations: list[Any], expected: bool) -> None:
    read = decode({"metadata": {"name": "x"}, "spec": {"tolerations": tolerations}}, type(case))
    spec = structs.replace(case.spec, tolerations=read.spec.tolerations)
    assert evictable(structs.replace(case, spec=spec)) is expected


@pytest.mark.parametrize(
    ("text", "status", "meta", "expected"),
    [
        ("true", {}, {}, True),
        ("", {}, {}, False),
        ("false", {}, {}, False),
        ("true", {"phase": "Succeeded"}, {}, False),
        ("true", {}, GOING, False),
        ("1h", {}, {}, True),  # it has not started
        ("1h", {"startTime": to_rfc3339(NOW - HOUR + SECOND)}, {}, True),
        ("1h", {"startTime": to_rfc3339(NOW - HOUR)}, {}, False),
        ("0s", {"startTime": to_rfc3339(NOW)}, {}, False),
        ("0s", {}, {}, False),
        ("-1h", {}, {}, False),
    ],
)
def test_how_long_a_pod_is_protected(
    text: str, status: dict[str, Any], meta: dict[str, Any], expected: bool
) -> None:
    found = pod(annotations={"karpenter.sh/do-not-disrupt": text}, status=status, **meta)
    assert do_not_disrupt(found, NOW) is expected
    assert bool(do_not_disrupt_error(found)) == (text in ("false", "0s", "-1h"))


@pytest.mark.parametrize(
    ("cost", "priority", "expected"),
    [
        ("0", 0, 1.0),
        (str(2**27), 0, 2.0),
        ("0", 2**25, 2.0),
        ("0", -(2**25), 0.0),
        (str(2**31 - 1), 2**28, 10.0),
        (str(-(2**31)), -(2**30), -10.0),
        ("dear", 0, 1.0),
    ],
)
def test_what_evicting_a_pod_costs(cost: str, priority: int, expected: float) -> None:
    found = pod(cost=cost)
    found = structs.replace(found, spec=structs.replace(found.spec, priority=priority))
    assert eviction_cost(found) == pytest.approx(expected)


# ------------------------------------------------------------------ ages, pauses, static pools


def test_expiry() -> None:
    old, never = claim(expireAfter="1h", age=HOUR), claim(expireAfter="Never", age=HOUR)
    assert (expires(old), expires(never)) == (NOW, None)
    first = marked(expiration="replace-first")
    for owner, since in ((first, NOW), (marked(expiration="later"), None), (pool(), None), (None, None)):
        assert expired_since(view(claim=old, pool=owner), NOW) == since
    assert expired_since(view(claim=old, pool=first), NOW - 1) is None
    assert expired_since(view(claim=never, pool=first), NOW) is None


@pytest.mark.parametrize(
    ("text", "launches", "disruption"),
    [
        ("", False, False),
        ("launches", True, False),
        ("disruption", False, True),
        ("all", True, True),
        ("everything", True, True),
    ],
)
def test_pauses(text: str, launches: bool, disruption: bool) -> None:
    assert read_pause(text) == Pause(launches, disruption) == pause_of(marked(pause=text))
    assert pause_of(None) == Pause()
    faults = [(item.reason, item.place) for item in pool_faults(marked(pause=text))]
    assert faults == ([("InvalidAnnotation", "dovetail.dev/pause")] if text == "everything" else [])


def test_what_cannot_be_read_on_a_pool_is_reported() -> None:
    owner = pool(budgets=[{"nodes": "1"}, {"nodes": "some"}])
    marks = {"dovetail.dev/expiration": "soon", "dovetail.dev/minimum-saving": "much"}
    owner = structs.replace(owner, metadata=structs.replace(owner.metadata, annotations=marks))
    found = list(pool_faults(owner))
    assert [(item.reason, item.place) for item in found] == [
        ("InvalidBudget", "1"),
        ("InvalidAnnotation", "dovetail.dev/expiration"),
        ("InvalidAnnotation", "dovetail.dev/minimum-saving"),
    ]
    assert found[0].message.startswith(
        "Until budget 2 of the NodePool is mended, no node of it is disrupted: "
    )
    assert not list(pool_faults(marked(expiration="replace-first", minimum_saving="3%")))
    assert not node_mark_fault(labelled())
    for text, wrong in (("", False), ("true", False), ("1h", True)):
        assert bool(node_mark_fault(labelled(**{"karpenter.sh/do-not-disrupt": text}))) == wrong


def test_which_static_nodes_go_first() -> None:
    kept = pod("kept", annotations=KEEP)
    views = [
        view("held", kept, pod("q"), claim=claim("held")),
        view("dear", pod("a"), pod("b"), claim=claim("dear")),
        view("cheap", pod("c"), claim=claim("cheap")),
        view("empty", claim=claim("empty")),
        view("new", pod("d"), pod("e"), claim=claim("new", provider="")),
        view("for-ever", pod("k"), pod("l"), pod("m"), claim=claim("for-ever", expireAfter="Never")),
        view("never-young", pod("n"), pod("o"), pod("r"), claim=claim("never-young", expireAfter="0s")),
        # Two pods, but only a quarter of its life is left: that is half a pod.
        view("old", pod("f"), pod("g"), claim=claim("old", expireAfter="4h", age=3 * HOUR)),
        view("young", pod("h"), pod("i"), claim=claim("young", expireAfter="4h", age=-HOUR)),
        view("over", pod("j"), claim=claim("over", expireAfter="4h", age=9 * HOUR)),
        # One cannot have more than all of its life left.
        view("a-young", *map(pod, "stuv"), claim=claim("a-young", expireAfter="4h", age=-HOUR)),
        view("lasting", *map(pod, "wxyz"), claim=claim("lasting", expireAfter="Never")),
    ]
    order = ["new", "empty", "over", "old", "cheap", "dear", "young", "for-ever", "never-young"]
    order += ["a-young", "lasting", "held"]
    for count in (-1, 0, 1, 8, 12, 13):
        assert [item.name for item in surplus(views, count, NOW)] == order[: max(0, count)]


def test_static_pools_are_no_matter_of_emptiness() -> None:
    fixed = pool()
    fixed = structs.replace(fixed, spec=structs.replace(fixed.spec, replicas=2))
    assert (is_static(fixed), is_static(pool()), is_static(None)) == (True, False, False)
    decision = decide((view("a", owner=fixed), view("b")), (pool(),), NONE, NOW)
    assert decision.command is not None
    assert [item.name for item in decision.command.candidates] == ["b"]


# ------------------------------------------------------------------ whose turn it is


def test_a_rollout_takes_empty_nodes_first_then_those_due_for_longest() -> None:
    views = (
        view("late", pod("a")),
        view("early", pod("b")),
        view("empty"),
        view("not-due", pod("c")),
        view("kept", pod("d"), nominated=True),
        view("also-early", pod("e")),
    )
    due = {"late": 30, "early": 10, "empty": 50, "kept": 1, "also-early": 10}
    owner = pool(budgets=[{"nodes": "3"}])
    found = rollout(views, lambda one: due.get(one.name), DRIFTED, Rules((owner,), NONE, NOW))
    assert [item.name for item in found.empty] == ["empty"]
    assert [item.name for item in found.loaded] == ["also-early", "early"]
    notes = [(note.subject, note.reason, note.on_pool) for note in found.notes]
    assert notes == [("claim-kept", "DisruptionBlocked", False)]
    closed = pool(budgets=[{"nodes": "0"}])
    found = rollout(views[:3], lambda one: due.get(one.name), DRIFTED, Rules((closed,), NONE, NOW))
    assert (found.empty, found.loaded, [note.subject for note in found.notes]) == ((), (), ["general"])


def test_a_rollout_goes_by_time_before_it_goes_by_name() -> None:
    views = tuple(view(name, pod(f"p-{name}")) for name in "abc")
    due = {"a": 30, "b": 20, "c": 10}
    owner = pool(budgets=[{"nodes": "2"}])
    found = rollout(views, lambda one: due[one.name], DRIFTED, Rules((owner,), NONE, NOW))
    assert [item.name for item in found.loaded] == ["c", "b"]


@pytest.mark.parametrize(
    ("due", "forced", "order", "waiting"),
    [
        # Nodes whose pods came by drift go last; where they came to save money, they wait for an hour.
        (NOW - SECOND, True, "bdca", ""),
        (NOW - SECOND, False, "bd", "ac"),
        (NOW - HOUR + 1, False, "bd", "ac"),
        (NOW - HOUR, False, "bdca", ""),
    ],
)
def test_a_rollout_takes_first_what_was_moved_longest_ago(
    due: int, forced: bool, order: str, waiting: str
) -> None:
    views = tuple(view(name, pod(name, uid=f"uid-{name}"), claim=claim(name)) for name in "abcd")
    came = {"uid-a": Arrival(NOW - 1, forced), "uid-c": Arrival(NOW - 2, forced)}
    rules = Rules((pool(budgets=[{"nodes": "4"}]),), NONE, NOW, came)
    found = rollout(views, lambda _: due, DRIFTED, rules)
    assert [item.name for item in found.loaded] == list(order)
    assert [(note.subject, note.message) for note in found.notes] == [
        (f"claim-{name}", MOVED) for name in waiting
    ]


def test_an_empty_node_waits_for_no_pods_that_were_moved() -> None:
    light = pod(uid="light", annotations={"controller.kubernetes.io/pod-deletion-cost": str(-(2**31))})
    one = view("n", light)
    assert one.empty
    assert one.moving == (light,)
    rules = Rules((pool(),), NONE, NOW, {"light": Arrival(NOW)})
    assert rollout((one,), lambda _: NOW, DRIFTED, rules).empty == (one,)


def test_a_rollout_passes_pods_over_where_the_node_has_an_end() -> None:
    one = view("n", pod(annotations=KEEP), claim=claim(terminationGracePeriod="1h"))
    found = rollout((one,), lambda _: 1, EXPIRED, Rules((pool(),), NONE, NOW))
    assert found.loaded == (one,)


# ------------------------------------------------------------------ commands, confirmations


def test_a_command_in_words() -> None:
    views = tuple(view(f"n{number}", price=10**9) for number in range(6))
    assert Command(EMPTY, views[:1]).describe() == "delete: nodepools=[general]: [n0] (savings: $1.00)"
    text = Command(UNDERUTILIZED, views[:5]).describe("why not")
    assert text == "delete: nodepools=[general]: [n0 n1 n2 n3 n4], reason: why not (savings: $5.00)"
    text = Command(EXPIRED, (view("x", owner=pool("z")), *views)).describe()
    assert text.startswith("delete: nodepools=[general z]: [x n0 n1 n2 n3 and 2 other(s)] (savings: $6.00")
    many = Command(EMPTY, tuple(view(name, owner=pool(name)) for name in "hgfedcba")).describe()
    assert "nodepools=[a b c d e f g h]" in many
    assert Command(EMPTY, (view("x", node=None, price=None),)).names() == ("claim-x",)
    assert Command(EMPTY, (view("x", price=None),)).savings == 0
    assert (EMPTY, DRIFTED, EXPIRED, UNDERUTILIZED) == ("Empty", "Drifted", "Expired", "Underutilized")
    bought = SimpleNamespace(price=4 * 10**8, surcharge=10**8)
    for count, words in ((1, "1 replacement"), (2, "2 replacements")):
        made = Command(DRIFTED, views[:2], cast("Any", (bought,) * count))
        left = f"{2 - 0.3 * count:.2f}"
        assert made.describe() == f"replace: nodepools=[general]: [n0 n1] -> [{words}] (savings: ${left})"
        assert (made.decision, made.savings) == ("replace", 2 * 10**9 - count * 3 * 10**8)
    assert Command(EMPTY, views[:1]).decision == "delete"
    assert Decision(None) == Decision(None, (), more=False)


@pytest.mark.parametrize(("fleet", "most"), [(10, 5), (50, 5), (51, 6), (100, 10), (1_001, 101)])
def test_how_many_nodes_end_without_a_confirmation(fleet: int, most: int) -> None:
    assert (too_many(most, fleet), too_many(most + 1, fleet)) == (False, True)
    assert len(token(["a", "b"])) == 8 and token(["a", "b"]) == token(["b", "a"]) != token(["a"])


# ------------------------------------------------------------------ consolidation: moves and policies


def owned(name: str, owner: str) -> Any:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": owner,
        "controller": True,
    }
    return pod(name, uid=name, ownerReferences=[reference], creationTimestamp=to_rfc3339(0))


def test_moves_of_a_set_of_nodes_add_up() -> None:
    move_budget = MoveBudget({"p": 9}, {"a": 2, "b": 1})
    moved = {"a": 1, "b": 1, "free": 1}
    assert move_budget.holds("p", moved)
    move_budget.take("p", moved)
    assert move_budget.holds("p", {"a": 1})
    assert not move_budget.holds("p", {"a": 1, "b": 1})
    assert not move_budget.holds("p", {"a": 2})


def test_only_these_very_moves_are_found_and_taken_back() -> None:
    ledger = Ledger(1)
    pods = [owned("1", "a"), owned("2", "b")]
    entry = ledger.record("p", pods, 10)
    assert ledger.find("p", pods, 10) is entry
    assert ledger.find("p", pods, 11) is None
    assert ledger.find("q", pods, 0) is None
    assert ledger.find("p", pods[:1], 0) is None
    for _ in range(2):
        ledger.take_back(entry)
    assert ledger.find("p", pods, 0) is None


@pytest.mark.parametrize(("made", "replacing"), [(0, 4), (2, 2), (3, 0)])
def test_half_of_the_moves_are_kept_for_deletions(made: int, replacing: int) -> None:
    pods = [owned(str(each), "a") for each in range(4)]
    late = [
        structs.replace(one, metadata=structs.replace(one.metadata, creation_timestamp="")) for one in pods
    ]
    ledger = Ledger(1)
    ledger.record("p", late[:made], HOUR)
    found = ledger.left(Present(late), 2 * HOUR)
    assert (found.deleting, found.replacing) == ({"a": 4 - made}, {"a": replacing})


def test_a_move_is_written_for_a_day_under_the_name_that_a_restart_looks_for() -> None:
    ledger = Ledger(1)
    ledger.record("p", [owned("1", "a")], HOUR)
    assert MOVED_PODS == "dovetail.dev/moved-pods"
    assert ledger.text("p", 2 * HOUR) == '{"1970-01-01T01:00:00Z":{"a":1}}'
    assert ledger.text("p", 25 * HOUR) == "{}"
    again = Ledger(1)
    again.read("p", '{"1970-01-01T01:00:00Z":{"a":1}}', HOUR)  # made at this very moment
    assert again.find("p", [owned("1", "a")], HOUR) is not None


def test_what_a_pool_costs_in_all() -> None:
    balanced = pool(consolidationPolicy="Balanced")
    views = (
        view("stray", pool=None),
        view("a", pod("1"), pod("2"), owner=balanced, price=100),
        view("b", pod("3"), owner=balanced, price=None),
        view("c", owner=pool("other"), price=7),
    )
    found = totals(views, 5)
    one, other = found["general"], found["other"]
    assert (one.policy, one.price, one.cost) == ("Balanced", 110, 5.0)
    assert (other.price, other.cost) == (12, 1.0)


@pytest.mark.parametrize(
    ("saving", "disruption", "refused"),
    [(0.1, 0.2, False), (0.1, 0.21, True), (0.0, 0.0, False), (0.3, 0.1, False), (0.0, 0.1, True)],
)
def test_balanced_takes_what_saves_half_of_what_it_disrupts(
    saving: float, disruption: float, refused: bool
) -> None:
    score = Score("p", "Balanced", saving, disruption)
    assert score.refused == refused
    assert ("<" in str(score)) == refused
    assert not replace(score, policy="WhenEmpty").refused


# ------------------------------------------------------------------ drift


def kind(name: str, *offered: tuple[str, str], available: bool = True) -> InstanceType:
    nothing = Requirements({})
    sold = tuple(Offering(zone, capacity, 1, nothing, available) for zone, capacity in offered)
    return InstanceType(name, nothing, sold, {})


@pytest.mark.parametrize(
    ("types", "age", "reason"),
    [
        ((kind("m.large", ("a", "spot")),), HOUR, ""),
        ((kind("c.large", ("b", "spot")), kind("m.large", ("b", "spot"), ("a", "spot"))), HOUR, ""),
        ((kind("m.large", ("a", "spot"), available=False),), HOUR, ""),  # sold out is not gone
        ((), HOUR, "InstanceTypeNotFound"),
        ((), HOUR - SECOND, ""),  # types may come late
        ((kind("m.large", ("a", "on-demand"), ("b", "spot")),), HOUR, "InstanceTypeNotFound"),
        ((kind("c.large", ("a", "spot")),), HOUR, "InstanceTypeNotFound"),
        ((kind("m.large"),), HOUR, "InstanceTypeNotFound"),
    ],
)
def test_a_type_that_is_sold_no_more_where_the_node_is(
    types: tuple[InstanceType, ...], age: int, reason: str
) -> None:
    marks = {"node.kubernetes.io/instance-type": "m.large", "topology.kubernetes.io/zone": "a"}
    marks["karpenter.sh/capacity-type"] = "spot"
    found = claim(age=age)
    found = structs.replace(found, metadata=structs.replace(found.metadata, labels=marks))
    assert pool_drift(found, pool(), types, NOW) == reason


@pytest.mark.parametrize(
    ("made", "now", "drifted"),
    [
        ({"": "1", "-version": "v3"}, {"": "2", "-version": "v3"}, True),
        ({"": "1", "-version": "v3"}, {"": "1", "-version": "v3"}, False),
        ({"": "1", "-version": "v2"}, {"": "2", "-version": "v3"}, False),
        ({"": "1"}, {"": "2", "-version": "v3"}, False),
        ({"": "1", "-version": "v3"}, {"": "2"}, False),
        ({"-version": "v3"}, {"": "2", "-version": "v3"}, False),
        ({"": "1", "-version": "v3"}, {"-version": "v3"}, False),
        ({}, {}, False),
    ],
)
def test_a_template_has_changed_if_hashes_of_one_version_differ(
    made: dict[str, str], now: dict[str, str], drifted: bool
) -> None:
    def marks(hashes: dict[str, str]) -> dict[str, str]:
        return {f"karpenter.sh/nodepool-hash{key}": value for key, value in hashes.items()}

    owner = pool()
    owner = structs.replace(owner, metadata=structs.replace(owner.metadata, annotations=marks(now)))
    reason = pool_drift(claim(annotations=marks(made)), owner, (), NOW)
    assert reason == ("NodePoolDrifted" if drifted else "")


def test_a_claim_outside_of_its_pools_requirements_has_drifted() -> None:
    wanted = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]
    spec = {"template": {"spec": {"nodeClassRef": REF, "requirements": wanted}}}
    owner = decode({"metadata": {"name": "general"}, "spec": spec}, NodePool)
    found = claim()
    for zone, reason in (("a", "RequirementsDrifted"), ("b", "")):
        meta = structs.replace(found.metadata, labels={"topology.kubernetes.io/zone": zone})
        assert pool_drift(structs.replace(found, metadata=meta), owner, (), NOW) == reason


@pytest.mark.parametrize(("status", "since"), [("True", NOW), ("False", None), ("", None)])
def test_when_a_claim_drifted(status: str, since: int | None) -> None:
    found = claim(conditions={"Drifted": status} if status else {})
    conditions = [
        structs.replace(one, last_transition_time=to_rfc3339(NOW)) for one in found.status.conditions
    ]
    changed = structs.replace(found, status=structs.replace(found.status, conditions=tuple(conditions)))
    assert drifted_since(view(claim=changed)) == since


# ------------------------------------------------------------------ emptiness, once more


def test_why_a_node_is_not_taken_as_empty() -> None:
    never = pool("never", after="Never")
    views = (
        view("blocked", nominated=True),
        view("young", claim=claim("young")),  # not consolidatable yet
        view("never", owner=never),
        view("empty"),
    )
    decision = decide(views, (pool(), never), NONE, NOW)
    assert decision.command is not None
    assert [item.name for item in decision.command.candidates] == ["empty"]
    assert [(note.subject, note.reason) for note in decision.notes] == [
        ("claim-blocked", "DisruptionBlocked"),
        ("claim-never", "Unconsolidatable"),
    ]


def test_validation_looks_at_everything_again() -> None:
    before = tuple(view(name) for name in ("a", "b", "c", "d"))
    command = decide(before, (pool(),), NONE, NOW).command
    assert command is not None
    fixed = pool()
    fixed = structs.replace(fixed, spec=structs.replace(fixed.spec, replicas=1))
    later = (
        view("a", owner=fixed),
        view("b", owner=pool(after="Never")),
        view("c", claim=claim("c")),
        view("d"),
    )
    left = validate(command, later, (pool(),), NONE, NOW)
    assert left is not None
    assert [item.name for item in left.candidates] == ["d"]


# ------------------------------------------------------------------ the least saving


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0%", Minimum(share=0.0)),
        ("99%", Minimum(share=0.99)),
        ("$0", Minimum(least=0)),
        ("$0.5/pod", Minimum(per_pod=500_000_000)),
        ("100%", None),
        ("-1%", None),
        ("x%", None),
        ("0.01", None),
        ("0.01/pod", None),
    ],
)
def test_the_least_saving_of_a_pool(text: str, found: Minimum | None) -> None:
    default = Minimum(share=0.5)
    assert pool_minimum({}, default) == default
    if found is None:
        assert pool_minimum({"dovetail.dev/minimum-saving": text}, default) == default
        with pytest.raises(ValueError, match=r"\S"):
            parse_minimum(text, default)
    else:
        assert pool_minimum({"dovetail.dev/minimum-saving": text}, Minimum()) == found


def test_the_least_saving_is_rounded_to_the_next_nano_dollar() -> None:
    assert Minimum(share=0.5, least=0).of(7, 1.0) == 4
    assert Minimum(share=0.0, least=0, per_pod=3).of(100, 1.6) == 5
    assert Minimum(share=0.0, least=0).of(100, 9.0) == 0
