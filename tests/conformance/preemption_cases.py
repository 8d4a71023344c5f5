"""What kube-scheduler evicts for pods that fit nowhere: cases, and what came of each.

`tests/cluster/test_preemption_on_a_server.py` plays them on the real one, `test_preemption.py` here on
the simulated one.
All are played together, each with nodes and pods of its own. Pods that have to go stay for ever, as a
finalizer holds them: so what was decided can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.nomination_cases import HOST, WAITS, apart, classes, near, spread

__all__ = ["CASES", "classes"]

Document = dict[str, Any]
HELD = "tests/held"
CASE = "case"


@dataclass(frozen=True)
class Pod:
    """`running` names the node of one that runs, since that many minutes ago."""

    name: str
    cpu: int
    priority: str = ""
    running: str = ""
    minutes: int = 10
    app: str = ""
    port: int = 0  # of the host
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Then:
    """Where the pods that wait are nominated to, or WAITS; which others have to go."""

    places: Mapping[str, str]
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Case:
    """`budgets`: by app how many of its pods must stay. `waves`: pods that come, one wave once what came of
    the one before shows.
    """

    nodes: Mapping[str, int]
    pods: Sequence[Pod]
    waves: Sequence[tuple[Sequence[Pod], Then]]
    budgets: Mapping[str, int] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()


def goes(node: str, *gone: str) -> Then:
    """The pod `new` is nominated there."""
    return Then({"new": node}, frozenset(gone))


def low(name: str, cpu: int, node: str = "n1", **more: Any) -> Pod:
    return Pod(name, cpu, "low", node, **more)


def mid(name: str, cpu: int, node: str = "n1", **more: Any) -> Pod:
    return Pod(name, cpu, "", node, **more)


def new(cpu: int, priority: str = "high", **more: Any) -> Pod:
    return Pod("new", cpu, priority, **more)


STAYS = Then({"new": WAITS})
TAINT = {"key": "tests/closed", "effect": "NoSchedule"}

CASES: dict[str, Case] = {
    "the only pod of a lower priority goes": Case({"n1": 2}, [low("a", 2)], [([new(2)], goes("n1", "a"))]),
    "a pod of equal priority stays": Case({"n1": 2}, [mid("a", 2)], [([new(2, "")], STAYS)]),
    "a pod of a higher priority stays": Case({"n1": 2}, [Pod("a", 2, "high", "n1")], [([new(2, "")], STAYS)]),
    "a pod that preempts nothing waits": Case({"n1": 2}, [low("a", 2)], [([new(2, "patient")], STAYS)]),
    "room enough is not there even without all others": Case({"n1": 2}, [low("a", 2)], [([new(3)], STAYS)]),
    "pods of a higher priority leave too little": Case(
        {"n1": 4}, [low("a", 2), Pod("b", 2, "high", "n1")], [([new(3)], STAYS)]
    ),
    "of equals the one that started last goes": Case(
        {"n1": 4},
        [low("a", 1, minutes=30), low("b", 2, minutes=5), low("c", 1, minutes=20)],
        [([new(2)], goes("n1", "b"))],
    ),
    "the small ones that started early go where the late one is too small": Case(
        {"n1": 4},
        [low("a", 2, minutes=30), low("b", 1, minutes=5), low("c", 1, minutes=20)],
        [([new(3)], goes("n1", "a", "b"))],
    ),
    "the least of lower priorities go": Case(
        {"n1": 4}, [low("a", 2, minutes=30), mid("b", 2, minutes=5)], [([new(2)], goes("n1", "a"))]
    ),
    "the node whose dearest victim is least": Case(
        {"n1": 2, "n2": 2},
        [mid("a", 2), low("b", 1, "n2"), low("c", 1, "n2")],
        [([new(2)], goes("n2", "b", "c"))],
    ),
    "of equal dearest victims the least sum": Case(
        {"n1": 2, "n2": 2},
        [mid("a", 1), mid("b", 1), mid("c", 1, "n2"), low("d", 1, "n2")],
        [([new(2)], goes("n2", "c", "d"))],
    ),
    "one victim rather than two": Case(
        {"n1": 2, "n2": 2},
        [low("a", 1), low("b", 1), low("c", 2, "n2", minutes=60)],
        [([new(2)], goes("n2", "c"))],
    ),
    "the node whose victims started last": Case(
        {"n1": 2, "n2": 2, "n3": 2},
        [low("a", 2, minutes=30), low("b", 2, "n2", minutes=3), low("c", 2, "n3", minutes=20)],
        [([new(2)], goes("n2", "b"))],
    ),
    "a budget is spared although a dearer pod goes": Case(
        {"n1": 2, "n2": 2},
        [low("a", 2, app="kept"), mid("b", 2, "n2")],
        [([new(2)], goes("n2", "b"))],
        budgets={"kept": 1},
    ),
    "a budget is broken where there is no other way": Case(
        {"n1": 2}, [low("a", 2, app="kept")], [([new(2)], goes("n1", "a"))], budgets={"kept": 1}
    ),
    "a budget protects on one node, whatever started last": Case(
        {"n1": 4},
        [low("a", 2, app="kept", minutes=3), low("b", 2, minutes=30)],
        [([new(2)], goes("n1", "b"))],
        budgets={"kept": 1},
    ),
    "a budget protects a pod of a lower priority than its neighbour": Case(
        {"n1": 4},
        [low("a", 2, app="kept"), mid("b", 2)],
        [([new(2)], goes("n1", "b"))],
        budgets={"kept": 1},
    ),
    # The first in line uses up what there is to spare; the second is what would break the budget.
    "a budget with one to spare lets the first one go": Case(
        {"n1": 2, "n2": 2},
        [low("a", 1, app="kept", minutes=30), low("b", 1, app="kept", minutes=5), mid("c", 2, "n2")],
        [([new(1)], goes("n1", "a"))],
        budgets={"kept": 1},
    ),
    "two of a budget with one to spare break it once": Case(
        {"n1": 2, "n2": 2},
        [low("a", 1, app="kept"), low("b", 1, app="kept"), mid("c", 2, "n2")],
        [([new(2)], goes("n2", "c"))],
        budgets={"kept": 1},
    ),
    "the neighbour that must not be there goes": Case(
        {"n1": 8},
        [low("a", 1, app="foe"), low("b", 1)],
        [([new(1, spec=apart("foe"))], goes("n1", "a"))],
    ),
    "whoever does not want the pod goes": Case(
        {"n1": 8},
        [low("a", 1, spec=apart("guest")), low("b", 1)],
        [([new(1, app="guest")], goes("n1", "a"))],
    ),
    "a pod that the new one must be near does not go for it": Case(
        {"n1": 4},
        [low("a", 2, app="friend"), low("b", 2)],
        [([new(2, spec=near("friend"))], STAYS)],
    ),
    "the one who stands in the way of a spread goes": Case(
        {"n1": 4, "n2": 1},
        [low("a", 1, app="even"), low("b", 1)],
        [([new(2, app="even", spec=spread("even"))], goes("n1", "a"))],
    ),
    "the one with the port goes": Case(
        {"n1": 8},
        [low("a", 1, port=8080), low("b", 1)],
        [([new(1, port=8080)], goes("n1", "a"))],
    ),
    "a node that is closed to the pod does not help": Case(
        {"n1": 2},
        [low("a", 2, spec={"tolerations": [{"operator": "Exists"}]})],
        [([new(2)], STAYS)],
        taints=[TAINT],
    ),
    "two pods take two victims": Case(
        {"n1": 4},
        [low("a", 2, minutes=5), low("b", 2, minutes=20)],
        [([new(2), Pod("other", 2, "high")], Then({"new": "n1", "other": "n1"}, frozenset({"a", "b"})))],
    ),
    "the second of two pods waits where there is but one victim": Case(
        {"n1": 4},
        [low("a", 2), Pod("b", 2, "high", "n1")],
        [
            ([new(2)], goes("n1", "a")),
            ([Pod("other", 2, "high")], Then({"new": "n1", "other": WAITS}, frozenset("a"))),
        ],
    ),
    # Nothing more has to go, so that the first one keeps its nomination.
    "a pod of a still higher priority shares the victims": Case(
        {"n1": 2},
        [low("a", 2)],
        [
            ([new(2, "")], goes("n1", "a")),
            ([Pod("vip", 2, "high")], Then({"new": "n1", "vip": "n1"}, frozenset("a"))),
        ],
    ),
    "a pod of a still higher priority takes the nomination away": Case(
        {"n1": 4},
        [low("a", 2, minutes=5), low("b", 2, minutes=20)],
        [
            ([new(2, "")], goes("n1", "a")),
            ([Pod("vip", 4, "high")], Then({"new": WAITS, "vip": "n1"}, frozenset({"a", "b"}))),
        ],
    ),
}


def label(number: int, name: str) -> str:
    """What a node or pod of a case is called where all are."""
    return f"c{number:02d}-{name}"


def node_documents() -> Iterator[Document]:
    """The nodes of all cases."""
    for number, case in enumerate(CASES.values()):
        for name, cpu in case.nodes.items():
            room = {"cpu": str(cpu), "memory": "64Gi", "pods": "30"}
            whole = label(number, name)
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": whole, "labels": {HOST: whole, CASE: label(number, "case")}},
                "spec": {"taints": list(case.taints)},
                "status": {"capacity": room, "allocatable": room},
            }


def pod_document(number: int, pod: Pod) -> Document:
    main: Document = {"name": "main", "image": "registry.k8s.io/pause:3.7"}
    main["resources"] = {"requests": {"cpu": str(pod.cpu)}}
    if pod.port:
        main["ports"] = [{"containerPort": pod.port, "hostPort": pod.port}]
    spec: Document = {"containers": [main], "nodeSelector": {CASE: label(number, "case")}, **pod.spec}
    if pod.running:
        spec["nodeName"] = label(number, pod.running)
    if pod.priority:
        spec["priorityClassName"] = pod.priority
    meta: Document = {"name": label(number, pod.name), "labels": {CASE: label(number, "case")}}
    if pod.app:
        meta["labels"]["app"] = pod.app
    if pod.running:
        meta["finalizers"] = [HELD]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def running_pods() -> Iterator[tuple[Document, int]]:
    """Those that run at first, with the minutes for which they do."""
    for number, case in enumerate(CASES.values()):
        for pod in case.pods:
            yield pod_document(number, pod), pod.minutes


def budget_documents() -> Iterator[tuple[Document, int]]:
    """The budgets, with the pods that each lets go."""
    for number, case in enumerate(CASES.values()):
        for app, kept in case.budgets.items():
            selector = {"matchLabels": {"app": app, CASE: label(number, "case")}}
            document = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": label(number, app)},
                "spec": {"minAvailable": kept, "selector": selector},
            }
            yield document, sum(pod.app == app for pod in case.pods) - kept


def waves() -> Iterator[tuple[list[Document], dict[str, str]]]:
    """The pods that come together, and what is to come of all pods of all cases by then."""
    for wave in range(max(len(case.waves) for case in CASES.values())):
        coming, state = [], {}
        for number, case in enumerate(CASES.values()):
            if wave < len(case.waves):
                coming += [pod_document(number, pod) for pod in case.waves[wave][0]]
            then = case.waves[min(wave, len(case.waves) - 1)][1]
            for name, place in then.places.items():
                outcome = WAITS if place == WAITS else f"{WAITS} for {label(number, place)}"
                state[label(number, name)] = outcome
            for pod in case.pods:
                state[label(number, pod.name)] = GOES if pod.name in then.gone else STAYS_THERE
        yield coming, state


GOES, STAYS_THERE = "goes", "stays"


def state_of(pod: Mapping[str, Any]) -> str:
    """As `waves` answers it, of a pod's document."""
    if pod["spec"].get("nodeName"):
        target = [one["reason"] for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        if "deletionTimestamp" not in pod["metadata"]:
            return STAYS_THERE
        return GOES if target == ["PreemptionByScheduler"] else "goes for another reason"
    nominated = pod["status"].get("nominatedNodeName")
    return f"{WAITS} for {nominated}" if nominated else WAITS


def messages(pods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the scheduler says of the pods that wait for nothing in particular."""
    return {
        pod["metadata"]["name"]: one["message"]
        for pod in pods
        if state_of(pod) == WAITS
        for one in pod["status"].get("conditions", ())
        if one["type"] == "PodScheduled"
    }
