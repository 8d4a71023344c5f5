"""The watchdog's rules on nodes, claims and instances, on both sides of each condition, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from test_violations import MINUTE, START, Document, Story, claim, cluster, instance, node, pod

from dovetail.api.core import Node, Pod
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.simulate.violations import Violation, Watchdog
from dovetail.simulate.violations.audit import AuditedClient, AuditedLog
from dovetail.simulate.violations.ending import Ending
from dovetail.simulate.violations.mirror import Change
from dovetail.units.timestamp import to_rfc3339

STAMP = "karpenter.sh/nodeclaim-termination-timestamp"
FINALIZER = "karpenter.sh/termination"
SECOND = MINUTE // 60
Edit = Callable[[Document], None]


def rows(found: Iterable[Violation]) -> list[tuple[str, str, str]]:
    return [(item.rule, item.subject, item.message) for item in found]


def seen(story: Story) -> list[tuple[str, str, str]]:
    return rows(story.watchdog.found)


def with_pods(*names: str, **metadata: Any) -> Story:
    """Both nodes are there, and these pods on n1, for an hour."""
    story = cluster()
    for name in names:
        story.put(pod(name, cpu="100m", **metadata))
        story.bind(name, "n1")
    story.now += 60 * MINUTE
    return story


def deadline(story: Story, at: int) -> None:
    stamp = {STAMP: to_rfc3339(at)}
    story.change("NodeClaim", "n1", lambda item: item["metadata"].update(annotations=stamp))


def let_go(story: Story, kind: str = "Node", name: str = "n1", finalizers: tuple[str, ...] = ()) -> None:
    story.change(kind, name, lambda item: item["metadata"].update(finalizers=list(finalizers)))


def condition(kind: str, status: str = "True", reason: str = "", at: str = "") -> Document:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at}


def state(story: Story, name: str, *conditions: Document) -> None:
    story.change("NodeClaim", name, lambda item: item["status"].update(conditions=list(conditions)))


def unready(story: Story) -> None:
    story.change("Node", "n1", lambda item: item["status"].update(conditions=[condition("Ready", "Unknown")]))


# ------------------------------------------------------------------ finalizers


def test_a_finalizer_that_goes_with_pods_is_reported_with_their_names() -> None:
    story = with_pods("b", "a", "c")
    let_go(story)
    assert ("finalizer", "n1", "its finalizer went while d/a, d/b, d/c were still there") in seen(story)


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        (lambda story: let_go(story), ["finalizer", "abandoned instance"]),
        (lambda story: (story.watchdog.ended("i-n1"), let_go(story)), []),
        (lambda story: (unready(story), let_go(story)), ["abandoned instance"]),
        (lambda story: (deadline(story, story.now), let_go(story)), ["abandoned instance"]),
        (
            lambda story: (deadline(story, story.now + SECOND), let_go(story)),
            ["finalizer", "abandoned instance"],
        ),
        (lambda story: let_go(story, finalizers=(FINALIZER, "more")), []),
        (lambda story: story.remove("Node", "n1"), ["finalizer", "abandoned instance"]),
        (lambda story: let_go(story, name="n2"), ["abandoned instance"]),
    ],
)
def test_when_a_node_may_be_let_go(case: Callable[[Story], object], rules: list[str]) -> None:
    story = with_pods("a")
    case(story)
    assert [rule for rule, *_ in seen(story)] == rules


def test_pods_that_stay_or_go_by_themselves_hold_up_no_finalizer() -> None:
    story = with_pods()
    stays: dict[str, Edit] = {
        "mirror": lambda item: item["metadata"].update(
            ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}]
        ),
        "going": lambda item: item["metadata"].update(deletionTimestamp=to_rfc3339(story.now)),
        "done": lambda item: item["status"].update(phase="Succeeded"),
        "tolerant": lambda item: item["spec"].update(tolerations=[{"operator": "Exists"}]),
    }
    for name, edit in stays.items():
        document = pod(name, cpu="1m")
        edit(document)
        story.put(document)
        story.bind(name, "n1")
    story.watchdog._found.clear()
    let_go(story)
    assert [rule for rule, *_ in seen(story)] == ["abandoned instance"]


def test_a_node_without_a_claim_has_no_deadline() -> None:
    story = with_pods("a")
    story.remove("NodeClaim", "n1")
    let_go(story)
    assert [rule for rule, *_ in seen(story)] == ["finalizer", "abandoned instance"]


def test_a_node_without_the_finalizer_may_go_as_it_likes() -> None:
    story = with_pods()
    story.put(node("n3", finalizers=["another"]))
    story.put(pod("a"))
    story.bind("a", "n3")
    story.change("Node", "n3", lambda item: item["metadata"].update(finalizers=[]))
    story.remove("Node", "n3")
    assert not seen(story)


@pytest.mark.parametrize("kind", ["Node", "NodeClaim"])
def test_an_instance_that_is_let_go_while_it_runs_is_reported(kind: str) -> None:
    story = with_pods()
    if kind == "NodeClaim":
        let_go(story, kind, finalizers=(FINALIZER,))
    let_go(story, kind, finalizers=(FINALIZER, "other"))
    assert not seen(story)
    let_go(story, kind, finalizers=("other",))
    assert seen(story) == [("abandoned instance", "n1", "its finalizer went while i-n1 was still there")]


def test_a_claim_that_never_had_an_instance_may_be_let_go() -> None:
    story = with_pods()
    empty = claim("n3", providerID="")
    empty["metadata"]["finalizers"] = [FINALIZER]
    story.put(empty)
    let_go(story, "NodeClaim", "n3")
    assert not seen(story)


# ------------------------------------------------------------------ what is disrupted as empty, and ends


@pytest.mark.parametrize(
    ("reason", "metadata", "age", "rules"),
    [
        ("Empty", {}, MINUTE, ["not empty"]),
        ("Empty", {}, 30 * SECOND, ["not empty"]),
        ("Empty", {}, 29 * SECOND, []),  # who looked may not know it yet
        ("Drifted", {}, MINUTE, []),
        ("Empty", {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-9"}}, MINUTE, []),
        (
            "Empty",
            {"ownerReferences": [{"apiVersion": "v1", "kind": "DaemonSet", "name": "x", "uid": "x"}]},
            MINUTE,
            [],
        ),
    ],
)
def test_what_is_disrupted_as_empty_is_empty(
    reason: str, metadata: Document, age: int, rules: list[str]
) -> None:
    story = cluster()
    story.put(pod("a", **metadata))
    story.bind("a", "n1")
    story.now += age
    state(story, "n2", condition("DisruptionReason", "False", reason))
    state(story, "n1", condition("DisruptionReason", "True", reason))
    assert [rule for rule, *_ in seen(story)] == rules
    if rules:
        assert seen(story)[0] == ("not empty", "n1", "is disrupted as empty while d/a are there")
    again = condition("DisruptionReason", "True", reason, to_rfc3339(story.now))
    state(story, "n1", again)  # reported once
    assert [rule for rule, *_ in seen(story)] == rules


def test_a_claim_without_a_node_is_empty() -> None:
    story = cluster()
    story.put(claim("n3"))
    state(story, "n3", condition("DisruptionReason", "True", "Empty"))
    assert not seen(story)


@pytest.mark.parametrize(
    ("case", "told_"),
    [
        (lambda _: None, True),
        (unready, False),
        (lambda story: deadline(story, story.now + 95 * SECOND), False),  # clocks are so far apart
        (lambda story: deadline(story, story.now + 96 * SECOND), True),
        (lambda story: story.watchdog.ended("i-n1"), False),
        (lambda story: story.remove("Pod", "a"), False),
    ],
)
def test_an_instance_is_ended_once_its_pods_have_left(case: Callable[[Story], object], told_: bool) -> None:
    story = with_pods("a")
    case(story)
    state(story, "n1", condition("InstanceTerminating", "False"))
    assert not seen(story)
    state(story, "n1", condition("InstanceTerminating"))
    message = "its instance is ended while d/a are still there"
    assert seen(story) == ([("ended with pods", "n1", message)] if told_ else [])
    state(story, "n1", condition("InstanceTerminating", at=to_rfc3339(story.now)))
    assert len(seen(story)) == told_


def test_a_claim_whose_node_never_came_may_be_ended() -> None:
    story = cluster()
    story.put(claim("n3"))
    state(story, "n3", condition("InstanceTerminating"))
    story.put(claim("n4", conditions=[condition("InstanceTerminating")]))
    assert not seen(story)


# ------------------------------------------------------------------ registration


@pytest.mark.parametrize(
    ("edit", "lacks"),
    [
        (lambda _: None, []),
        (lambda item: item["metadata"]["labels"].pop("team"), ["lacks the label team=x of its claim"]),
        (lambda item: item["metadata"]["labels"].update(team="y"), ["lacks the label team=x of its claim"]),
        (
            lambda item: [item["metadata"]["labels"].pop(key) for key in ("team", "karpenter.sh/nodepool")],
            [
                "lacks the label karpenter.sh/nodepool=main of its claim",
                "lacks the label team=x of its claim",
            ],
        ),
        (lambda item: item["spec"].update(taints=[]), ["lacks the taint team:NoSchedule of its claim"]),
        (
            lambda item: item["spec"]["taints"][0].update(value="y"),
            ["lacks the taint team:NoSchedule of its claim"],
        ),
        (
            lambda item: item["spec"]["taints"][0].update(effect="NoExecute"),
            ["lacks the taint team:NoSchedule of its claim"],
        ),
    ],
)
def test_a_registered_node_has_all_that_its_claim_says(edit: Edit, lacks: list[str]) -> None:
    for synced in (True, False):
        story = cluster()
        owner = claim("n3")
        owner["metadata"]["labels"] = dict(reversed(owner["metadata"]["labels"].items()))
        story.put(owner)
        document = node("n3")
        edit(document)
        if not synced:
            document["metadata"]["labels"]["karpenter.sh/do-not-sync-taints"] = "true"
        story.put(document)
        wanted = [text for text in lacks if synced or "taint" not in text]
        assert seen(story) == [("registration", "n3", text) for text in wanted]
        story.change("Node", "n3", lambda item: item["metadata"].update(annotations={"x": "y"}))
        assert len(seen(story)) == len(wanted)  # once


def test_nodes_are_not_held_against_a_claim_before_they_are_registered() -> None:
    story = cluster()
    story.put(claim("n3"))
    document = node("n3")
    document["spec"]["taints"] = []
    del document["metadata"]["labels"]["karpenter.sh/registered"]
    story.put(document)
    story.put({**node("n4"), "spec": {"providerID": "", "taints": []}})  # of no pool
    story.put({**node("n5"), "spec": {"providerID": "i-else", "taints": []}})
    assert not seen(story)
    story.change(
        "Node", "n3", lambda item: item["metadata"]["labels"].update({"karpenter.sh/registered": ""})
    )
    assert [rule for rule, *_ in seen(story)] == ["registration"]


# ------------------------------------------------------------------ instances and claims


def test_a_claim_is_launched_once() -> None:
    watchdog = cluster().watchdog
    running, other = instance("n1"), instance("n2")
    ending = replace(running, terminating=True)
    twins = [replace(running, provider_id=name) for name in ("i-b", "i-a")]
    assert not watchdog.launch("n1", [])
    assert not watchdog.launch("n1", [other, ending])
    message = "another instance is asked for while i-a runs for it"
    assert rows(watchdog.launch("n1", [*twins, other])) == [("launched twice", "n1", message)]


ALONE = {
    "n1": ("pairing", "n1", "has no instance"),
    "i-c": ("pairing", "i-c", "runs for c, but no claim knows it"),
    "i-x": ("pairing", "i-x", "runs for x, but no claim knows it"),
    "i-n2": ("pairing", "i-n2", "runs for n2, but no claim knows it"),
}


def test_what_is_alone_for_ten_minutes_is_reported_once() -> None:
    story = cluster()
    look = [instance("n2"), instance("x"), instance("c")]
    assert not story.watchdog.instances(look)
    story.now += 10 * MINUTE
    assert not story.watchdog.instances(look)
    story.now += 1
    assert rows(story.watchdog.instances(look)) == [ALONE["i-c"], ALONE["i-x"], ALONE["n1"]]
    story.now += 60 * MINUTE
    assert not story.watchdog.instances(look)


def test_what_was_together_in_between_begins_anew() -> None:
    story = cluster()
    both = [instance("n1"), instance("n2")]
    for look in (both[1:], both, both[1:]):
        assert not story.watchdog.instances(look)
        story.now += 9 * MINUTE
    assert not story.watchdog.instances(both[1:])
    story.now += 2 * MINUTE
    assert rows(story.watchdog.instances(both[1:])) == [ALONE["n1"]]


@pytest.mark.parametrize(
    ("found", "alone"),
    [
        (instance("x"), True),
        (replace(instance("x"), terminating=True), False),
        (replace(instance("x"), claim=""), False),  # of no claim, so not ours
        (instance("n3"), False),  # it starts: its claim does not know it yet
        (replace(instance("n2"), provider_id="i-second"), True),
    ],
)
def test_which_instances_are_alone(found: Any, alone: bool) -> None:
    story = cluster()
    story.put(claim("n3", providerID=""))
    for _ in range(2):
        answer = story.watchdog.instances([instance("n1"), instance("n2"), found])
        story.now += 11 * MINUTE
    assert found.provider_id in [item.subject for item in answer] if alone else True
    assert alone or {item.subject for item in answer} <= {"n3"}


# ------------------------------------------------------------------ what never ends


def finish(story: Story) -> list[tuple[str, str, str]]:
    before = len(seen(story))
    return rows(story.watchdog.finish())[before:]


CLAIM_STAYS = "has neither become a node nor been given up"


@pytest.mark.parametrize(("age", "told_"), [(20 * MINUTE, False), (20 * MINUTE + SECOND, True)])
def test_a_claim_becomes_a_node_or_is_given_up(age: int, told_: bool) -> None:
    story = cluster()
    for name in ("n4", "n3"):
        document = claim(name, providerID="")
        document["metadata"]["creationTimestamp"] = to_rfc3339(START)
        story.put(document)
    document = claim("n5", conditions=[condition("Registered")])
    document["metadata"]["creationTimestamp"] = to_rfc3339(START)
    story.put(document)
    story.now += age
    wanted = [("claim left over", name, CLAIM_STAYS) for name in ("n3", "n4")] if told_ else []
    assert finish(story) == wanted


@pytest.mark.parametrize(("late", "told_"), [(0, False), (1, True)])
def test_what_must_end_may_take_twenty_minutes(late: int, told_: bool) -> None:
    end = Ending(START + 20 * MINUTE + late, START, frozenset())
    assert end.overdue(to_rfc3339(START)) is told_


def test_what_had_less_time_since_the_last_fault_is_let_be() -> None:
    for quiet, told_ in ((START + MINUTE, False), (START - MINUTE, True)):
        story = Story()
        story.watchdog = Watchdog(lambda story=story: story.now, quiet_from=quiet)
        document = claim("n3")
        document["metadata"]["creationTimestamp"] = to_rfc3339(START)
        story.put(document)
        story.now += 20 * MINUTE + SECOND
        assert bool(finish(story)) is told_


@pytest.mark.parametrize(("status", "told_"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_command_ends(status: str, told_: bool) -> None:
    story = cluster()
    registered = condition("Registered")
    state(story, "n1", registered, condition("DisruptionReason", status, "Drifted", to_rfc3339(START)))
    story.now += 21 * MINUTE
    message = "was to go, and neither goes nor is let be"
    assert finish(story) == ([("disruption left over", "n1", message)] if told_ else [])


def going(document: Document, at: int = START, **metadata: Any) -> Document:
    document["metadata"].update(deletionTimestamp=to_rfc3339(at), **metadata)
    return document


def endless(kind: str, name: str = "n1") -> tuple[str, str, str]:
    return ("finalizer", name, f"{kind} is being deleted and never ends")


@pytest.mark.parametrize(
    ("pods", "grace", "finalizers", "at", "found"),
    [
        ((), None, [FINALIZER], START, [endless("NodeClaim"), endless("Node")]),
        ((), None, [FINALIZER], START + MINUTE, []),
        ((), None, ["other"], START, []),
        # Pods may take all the time that they like, if no end was set.
        (("a",), None, [FINALIZER], START, []),
        (("done",), None, [FINALIZER], START, [endless("NodeClaim"), endless("Node")]),
        (("a",), "10m", [FINALIZER], START, [endless("NodeClaim"), endless("Node")]),
        ((), "10m", [FINALIZER], START, [endless("NodeClaim"), endless("Node")]),
    ],
)
def test_a_deletion_ends(
    pods: tuple[str, ...], grace: str | None, finalizers: list[str], at: int, found: list[Any]
) -> None:
    story = cluster()
    for name in pods:
        story.put(pod(name))
        story.bind(name, "n1")
        if name == "done":
            story.change("Pod", name, going)
    document = going(claim("n1"), at, finalizers=finalizers)
    if grace:
        document["spec"]["terminationGracePeriod"] = grace
    story.put(document)
    story.put(going(node("n1"), at, finalizers=finalizers))
    story.now += 20 * MINUTE + SECOND
    assert finish(story) == found


def test_a_node_without_an_instance_is_no_claims_that_has_none_either() -> None:
    story = cluster()
    document = claim("n3", providerID="")
    document["spec"]["terminationGracePeriod"] = "10m"
    story.put(document)
    alone = going(node("n4"), finalizers=[FINALIZER])
    alone["spec"]["providerID"] = ""
    story.put(alone)
    story.put(pod("a"))
    story.bind("a", "n4")
    story.now += 20 * MINUTE + SECOND
    assert endless("Node", "n4") not in finish(story)  # it has no deadline: its pods may take their time


def test_a_claim_without_a_node_ends() -> None:
    story = cluster()
    story.put(going(claim("n4", providerID=""), finalizers=[FINALIZER]))
    story.put(going(claim("n3"), finalizers=[FINALIZER]))
    story.put(going({**node("n6"), "spec": {"providerID": "i-6", "taints": []}}))
    story.put(going({**node("n5"), "spec": {"providerID": "i-5", "taints": []}}))
    story.now += 21 * MINUTE
    assert finish(story) == [
        endless("NodeClaim", "n3"),
        endless("NodeClaim", "n4"),
        endless("Node", "n5"),
        endless("Node", "n6"),
    ]


WAITS = "still has no node, long after the last fault"


@pytest.mark.parametrize(
    ("edit", "told_"),
    [
        (lambda _: None, True),
        (lambda item: item["spec"].update(nodeSelector={"team": "y"}), True),
        (lambda item: item["spec"].update(nodeSelector={"karpenter.sh/nodepool": "y"}), True),
        # Labels that no user may ask for: an event of the pod says so.
        (lambda item: item["spec"].update(nodeSelector={"karpenter.sh/other": "y"}), False),
        (lambda item: item["spec"].update(affinity=_needs("karpenter.sh/other")), False),
        (lambda item: item["spec"].update(affinity=_needs("team")), True),
        (lambda item: item["spec"].update(affinity=_fields()), False),
        (lambda item: item["spec"].update(affinity={}), True),
        (lambda item: item["spec"].update(affinity={"nodeAffinity": {}}), True),
        (
            lambda item: item["metadata"].update(
                ownerReferences=[{"apiVersion": "v1", "kind": "DaemonSet", "name": "x", "uid": "x"}]
            ),
            False,
        ),
        (
            lambda item: item["spec"].update(
                volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]
            ),
            False,
        ),
        (lambda item: item["metadata"].update(creationTimestamp=to_rfc3339(START + MINUTE)), False),
        (lambda item: item["metadata"].pop("creationTimestamp"), False),
        (lambda item: item["spec"].update(schedulerName="mine"), False),
    ],
)
def test_a_pod_gets_a_node_in_the_end(edit: Edit, told_: bool) -> None:
    story = Story()
    document = pod("a")
    edit(document)
    story.put(document)
    story.now += 20 * MINUTE + SECOND
    assert finish(story) == ([("unbound pod", "d/a", WAITS)] if told_ else [])


def _needs(key: str) -> Document:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["y"]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _fields() -> Document:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["y"]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_unbound_pods_are_reported_in_order_but_not_those_without_a_place_in_plans() -> None:
    story = Story()
    for name in ("c", "b", "a"):
        story.put(pod(name))
    story.now += 21 * MINUTE
    story.watchdog.planned(["d/b", "d/c"], ["d/c"])
    assert finish(story) == [("unbound pod", name, WAITS) for name in ("d/a", "d/b")]
    story.watchdog.planned(["d/c"], [])
    assert ("unbound pod", "d/c", WAITS) in finish(story)


# ------------------------------------------------------------------ what the controllers ask for


def test_deletions_of_pods_are_judged_and_others_are_not() -> None:
    async def main(clock: VirtualClock) -> None:
        server, reports = MemoryServer(clock), []
        watchdog = Watchdog(clock.now)
        client = AuditedClient(server, "karpenter", watchdog, lambda found: reports.append(rows(found)))
        server.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"providerID": "i-n1"}}
        )
        record = server.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"},
            }
        )
        watchdog.see(Change(clock.now(), server.record(Node, "n1").view, None))
        watchdog.see(Change(clock.now(), record.view, None))
        await client.delete(Pod, "a", "default", uid=record.uid, grace_period_seconds=0)
        message = "is deleted by force though its node has no deadline"
        assert reports == [[("forced deletion", "default/a", message)]]
        await client.delete(Node, "n1")
        assert len(reports) == 1
        assert not server.list(Pod) and not server.list(Node)

    run_virtual(main)


def test_what_the_log_says_of_panics_is_a_broken_promise() -> None:
    kept: list[tuple[str, dict[str, object]]] = []
    reports: list[list[tuple[str, str, str]]] = []

    class Log:
        def record(self, kind: str, /, **fields: object) -> None:
            kept.append((kind, fields))

    log = AuditedLog(Log(), lambda found: reports.append(rows(found)))
    log.record("reconcile.panicked", controller="queue", key="", message="broke")
    log.record("input.left_out", about="Pod d/a", message="cannot be read")
    log.record("another", about="x", message="y")
    rule = "no reconcile panics"
    assert reports == [[(rule, "queue", "broke")], [(rule, "Pod d/a", "cannot be read")]]
    assert [kind for kind, _ in kept] == ["reconcile.panicked", "input.left_out", "another"]
    assert kept[0][1] == {"controller": "queue", "key": "", "message": "broke"}


def test_what_no_rule_is_about_is_passed_over() -> None:
    async def main(clock: VirtualClock) -> None:
        server, watchdog, broken = MemoryServer(clock), Watchdog(clock.now), list[object]()
        server.observe(lambda change: broken.append(watchdog.change(change)))
        meta = {"name": "a", "namespace": "default"}
        template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
        server.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec})
        assert broken == [()] and watchdog.checks == 0

    run_virtual(main, start=START)


def test_checks_are_counted() -> None:
    story = Story()
    story.put(pod("a"))
    assert story.watchdog.checks == 7  # five rules before, two after
    story.put(node("n1"))
    assert story.watchdog.checks == 10
    story.watchdog.pod_deletion("d/none")
    assert story.watchdog.checks == 11
