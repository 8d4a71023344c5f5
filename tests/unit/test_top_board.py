"""The board of `dovetail top`: what it counts as objects come and go, and what it says beside the nodes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Event, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.model.selector import Selector
from dovetail.units.duration import format_age
from dovetail.units.timestamp import parse_rfc3339
from dovetail.views.top import beyond
from dovetail.views.top.board import NAME, POD_COUNT, PRICE, USAGE, Board, Settings
from dovetail.views.top.feed import read_least
from dovetail.views.top.order import Sort, natural
from dovetail.views.top.panes import PANES, matching
from dovetail.views.top.text import screen

DAY = 24 * HOUR
NOW = parse_rfc3339("2026-03-02T12:00:00Z")
CREATED = "2026-03-02T11:00:00Z"
REFERENCE = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


def node(name: str, **given: Any) -> Node:
    ready = {
        "type": "Ready",
        "status": given.pop("ready", "True"),
        "lastTransitionTime": "2026-03-02T11:30:00Z",
    }
    document = {
        "metadata": {
            "name": name,
            "creationTimestamp": given.pop("created", CREATED),
            "labels": {"node.kubernetes.io/instance-type": "m5.large", **given.pop("labels", {})},
            **given.pop("meta", {}),
        },
        "spec": {"providerID": f"kwok://{name}", **given.pop("spec", {})},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}, "conditions": [ready]},
    }
    assert not given
    return decode(document, Node)


def pod(name: str, on: str = "", cpu: str = "500m", **given: Any) -> Pod:
    return decode(
        {
            "metadata": {
                "namespace": "a",
                "name": name,
                "creationTimestamp": CREATED,
                **given.get("meta", {}),
            },
            "spec": {
                "nodeName": on,
                "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
                **given.get("spec", {}),
            },
            "status": {
                "phase": given.get("phase", "Running" if on else "Pending"),
                **given.get("status", {}),
            },
        },
        Pod,
    )


def claim(
    name: str, provider: str = "", conditions: tuple[tuple[str, str], ...] = (), **meta: Any
) -> NodeClaim:
    found = [
        {"type": kind, "status": status, "reason": "Reported", "message": f"{kind}?"}
        for kind, status in conditions
    ]
    return decode(
        {
            "metadata": {
                "name": name,
                "creationTimestamp": CREATED,
                "labels": {
                    "karpenter.sh/nodepool": "general",
                    "node.kubernetes.io/instance-type": "c5.large",
                    "topology.kubernetes.io/zone": "z",
                    "karpenter.sh/capacity-type": "spot",
                },
                **meta,
            },
            "spec": {"nodeClassRef": REFERENCE},
            "status": {"providerID": provider, "conditions": found},
        },
        NodeClaim,
    )


def pool(budgets: list[dict[str, Any]], annotations: dict[str, str] | None = None) -> NodePool:
    template = {"spec": {"nodeClassRef": REFERENCE}}
    return decode(
        {
            "metadata": {"name": "general", "annotations": annotations or {}},
            "spec": {"template": template, "disruption": {"budgets": budgets}},
        },
        NodePool,
    )


def board_of(*objects: Object, **settings: Any) -> Board:
    board = Board(Settings(**settings))
    for obj in objects:
        board.take("ADDED", obj)
    return board


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("2", "10"),
        ("n2", "n10"),
        ("9%", "10%"),
        ("-", "a"),
        ("-", "1"),
        ("N/A", "a"),
        ("m5.2x", "m5.10x"),
        ("1", "a"),
    ],
)
def test_natural_order(text: str, before: str) -> None:
    assert natural(text) < natural(before)


@pytest.mark.parametrize(
    ("text", "key", "descending"),
    [
        ("creation", "creation", False),
        ("creation=dsc", "creation", True),
        ("team=asc", "team", False),
        ("a=b", "a=b", False),
    ],
)
def test_sorts_are_read(text: str, key: str, descending: bool) -> None:
    assert Sort.parse(text) == Sort(key, descending)


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (-SECOND, "0s"),
        (119 * SECOND, "119s"),
        (2 * MINUTE, "2m"),
        (185 * SECOND, "3m5s"),
        (10 * MINUTE + SECOND, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (24 * HOUR, "24h"),
        (55 * HOUR, "2d7h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (810 * DAY, "2y80d"),
        (8 * 365 * DAY, "8y"),
    ],
)
def test_ages_are_as_kubectl_shows_them(age: int, text: str) -> None:
    assert format_age(age) == text


@pytest.mark.parametrize(
    ("obj", "state", "readiness"),
    [
        (node("n"), "-", "Ready"),
        (node("n", ready="False"), "-", "NotReady/30m"),
        (node("n", spec={"unschedulable": True}), "Cordoned", "Ready"),
        (
            node("n", spec={"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}),
            "Cordoned",
            "Ready",
        ),
        (
            node("n", spec={"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoExecute"}]}),
            "-",
            "Ready",
        ),
        (node("n", meta={"deletionTimestamp": CREATED, "finalizers": ["x"]}), "Deleting", "Ready"),
        (claim("n", "kwok://n"), "-", "NotReady/60m"),
        (claim("n", "kwok://n", deletionTimestamp=CREATED, finalizers=["x"]), "Deleting", "NotReady/60m"),
    ],
)
def test_states(obj: Object, state: str, readiness: str) -> None:
    (row,) = board_of(obj).rows(NOW)
    assert (row.state, row.readiness(NOW)) == (state, readiness)


def test_a_node_takes_the_place_of_its_claim() -> None:
    board = board_of(claim("c", "kwok://n"))
    (row,) = board.rows(NOW)
    assert (row.name, row.type, row.kind) == ("n", "c5.large", "Spot")
    board.take("ADDED", node("n"))
    (row,) = board.rows(NOW)
    assert (row.name, row.type, row.claim is not None) == ("n", "m5.large", True)
    board.take("DELETED", node("n"))
    (row,) = board.rows(NOW)
    assert row.node is None
    board.take("DELETED", claim("c", "kwok://n"))
    assert board.rows(NOW) == ()
    board.check()


def test_a_node_takes_its_pods_along() -> None:
    board = board_of(node("n"), pod("p", "n"), pod("q", "elsewhere"))
    assert (board.bound, len(board.pods)) == (2, 2)
    board.take("MODIFIED", node("n", meta={"deletionTimestamp": CREATED}))
    assert board.rows(NOW) == ()
    assert (board.bound, len(board.pods)) == (1, 1)
    board.check()


def test_pods_that_ended_or_are_on_their_way_out_do_not_count() -> None:
    board = board_of(node("n"), pod("p", "n"), pod("q", "n", phase="Succeeded"), pod("r", "n"))
    board.take("MODIFIED", pod("r", "n", meta={"deletionTimestamp": CREATED}))
    assert (board.bound, len(board.pods)) == (1, 1)
    (row,) = board.rows(NOW)
    assert row.share("cpu") == 25


def test_a_pod_that_asks_for_more_in_place_counts_as_it_is_now() -> None:
    board = board_of(node("n"), pod("p", "n"))
    board.take("MODIFIED", pod("p", "n", cpu="1"))
    (row,) = board.rows(NOW)
    assert row.share("cpu") == 50
    board.check()


def test_what_is_known_by_random_changes_is_what_is_known_at_once() -> None:
    dice = random.Random(7)
    board, there = Board(), dict[tuple[str, str], Object]()
    for _ in range(800):
        number = dice.randrange(6)
        obj = dice.choice(
            [
                node(f"n{number}", ready=dice.choice(["True", "False"]), labels={"team": dice.choice("ab")}),
                claim(f"c{number}", f"kwok://n{number}"),
                pod(
                    f"p{dice.randrange(12)}", dice.choice(["", f"n{number}"]), cpu=dice.choice(["100m", "1"])
                ),
            ]
        )
        key = (obj.KIND, obj.key)
        if dice.random() < 0.3:
            there.pop(key, None)
            board.take("DELETED", obj)
            if isinstance(obj, Node):  # its pods go with it
                gone = [
                    key
                    for key, one in there.items()
                    if isinstance(one, Pod) and one.spec.node_name == obj.key
                ]
                for one in gone:
                    del there[one]
        else:
            there[key] = obj
            board.take("MODIFIED", obj)
        if dice.random() < 0.1:
            board.show(
                Settings(sort=Sort(dice.choice(["team", NAME, PRICE, USAGE, POD_COUNT]), dice.random() < 0.5))
            )
        if dice.random() < 0.2:
            board.check()
            fresh = board_of(*there.values(), sort=board.settings.sort)
            assert screen(board, NOW) == screen(fresh, NOW)


def test_only_selected_nodes_are_shown_and_summed() -> None:
    board = board_of(node("a", labels={"team": "x"}), node("b"), selector=Selector.parse("team=x"))
    assert [row.name for row in board.rows(NOW)] == ["a"]
    assert (board.sums.nodes, board.sums.unpriced) == (1, 1)
    board.take("MODIFIED", node("a"))
    assert board.rows(NOW) == ()


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (Sort(NAME, False), "n1 n2 n10"),
        (Sort(PRICE, True), "n10 n2 n1"),
        (Sort(POD_COUNT, True), "n2 n10 n1"),
    ],
)
def test_what_else_nodes_can_be_sorted_by(sort: Sort, order: str) -> None:
    prices = {"n1": "0.1", "n2": "0.2", "n10": "0.3"}
    nodes = [node(name, labels={"eks-node-viewer/instance-price": price}) for name, price in prices.items()]
    board = board_of(*nodes, pod("p", "n2"), sort=sort)
    assert " ".join(row.name for row in board.rows(NOW)) == order


def test_without_nodes_it_waits_for_some() -> None:
    assert screen(Board(), NOW, height=20)[-4:] == [
        "",
        "Waiting for update or no nodes found...",
        "•",
        "←/→ page • q: quit",
    ]


def test_pricing_can_be_off() -> None:
    priced = node("n", labels={"eks-node-viewer/instance-price": "0.5"})
    lines = screen(board_of(priced, pricing=False), NOW)
    assert not any("$" in line for line in lines)
    assert "$0.500/hour | $365.000/month" in screen(board_of(priced), NOW)[0]


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        (pod("p", spec={"schedulingGates": [{"name": "quota"}]}), "scheduling gates: quota"),
        (pod("p", status={"nominatedNodeName": "n"}), "has a place on n"),
        (
            pod(
                "p",
                status={"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]},
            ),
            "0/2 nodes",
        ),
        (pod("p"), "not looked at yet"),
    ],
)
def test_why_a_pod_waits(waiting: Pod, reason: str) -> None:
    board = board_of(waiting, pod("q", "n"))
    (found,) = beyond.waiting(board)
    assert beyond.why(board, found.pod) == reason


def test_the_last_event_says_why_a_pod_waits() -> None:
    about = {"kind": "Pod", "namespace": "a", "name": "p"}
    event = {
        "involvedObject": about,
        "reason": "FailedScheduling",
        "message": "no pool",
        "lastTimestamp": CREATED,
    }
    board = board_of(pod("p"), decode({"metadata": {"name": "e", "namespace": "a"}, **event}, Event))
    assert beyond.why(board, board.pods["a/p"]) == "FailedScheduling: no pool"


@pytest.mark.parametrize(
    ("conditions", "stage"),
    [
        ((), "not Launched"),
        ((("Launched", "True"),), "not Registered"),
        ((("Launched", "False"),), "not Launched"),
    ],
)
def test_claims_without_a_node(conditions: tuple[tuple[str, str], ...], stage: str) -> None:
    board = board_of(claim("c", "", conditions), claim("d", "kwok://n"), node("n"))
    (found,) = beyond.coming(board)
    assert (found.claim.metadata.name, found.stage) == ("c", stage)


def test_why_a_node_stays() -> None:
    up = {"karpenter.sh/initialized": "true"}
    kept = pod("p", "n", meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
    quiet = claim("c", "kwok://n", (("Consolidatable", "True"),))
    board = board_of(node("n", labels=up), quiet, pool([{"nodes": "10%"}]), kept)
    (row,) = board.rows(NOW)
    assert beyond.stays(board, row, NOW) == ('Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=a/p)',)
    board.take("MODIFIED", pod("p", "n"))
    (row,) = board.rows(NOW)
    assert beyond.mark(board, row, NOW) == "may go, if that saves"
    budget = {"metadata": {"namespace": "a", "name": "b"}, "spec": {"maxUnavailable": 0, "selector": {}}}
    board.take("ADDED", decode(budget, PodDisruptionBudget))
    (row,) = board.rows(NOW)
    assert beyond.stays(board, row, NOW) == ("Pdb prevents pod evictions (PodDisruptionBudget=[a/b])",)


def test_a_node_without_a_claim_is_nobodys_to_take() -> None:
    board = board_of(node("n"))
    (row,) = board.rows(NOW)
    assert beyond.mark(board, row, NOW) == "No NodeClaim: Dovetail never disrupts it"


def test_what_comes_next() -> None:
    up = {"karpenter.sh/initialized": "true", "karpenter.sh/nodepool": "general"}
    drifted = claim("c", "kwok://n", (("Drifted", "True"), ("Consolidatable", "True")))
    night = {"nodes": "0", "schedule": "0 13 * * *", "duration": "1h"}
    board = board_of(node("n", labels=up), drifted, pool([{"nodes": "2"}, night]))
    found = [(item.what, item.about, item.text) for item in beyond.upcoming(board, NOW)]
    assert found == [
        ("drift", "n", "Reported"),
        ("consolidation", "general", "1 node is quiet and looked at, 1 empty"),
        ("expiry", "n", "in 29d"),
        ("budget", "general", "may go now: Empty 2, Drifted 2, Underutilized 2, Unhealthy 2"),
        ("budget", "general", "in 60m: 0 nodes for 1h from '0 13 * * *' (UTC)"),
    ]
    later = [item.text for item in beyond.upcoming(board, NOW + HOUR + MINUTE) if item.what == "budget"]
    assert later == [
        "may go now: Empty 0, Drifted 0, Underutilized 0, Unhealthy 0",
        "holds now: 0 nodes for 1h from '0 13 * * *' (UTC)",
    ]
    seoul = pool([night], {"dovetail.dev/time-zone": "Asia/Seoul"})
    there = [item.text for item in beyond.upcoming(board_of(seoul), NOW) if item.what == "budget"]
    assert there[1] == "in 16h: 0 nodes for 1h from '0 13 * * *' (Asia/Seoul)"


def test_the_gap_is_shown_once_it_is_proven() -> None:
    board = Board()
    assert beyond.gap(board) == "least: not known"
    exposition = "# HELP x\ndovetail_cluster_cost_dollars_per_hour 2.0\n"
    assert read_least(exposition) is None
    board.least = read_least(exposition + "dovetail_cluster_lower_bound_dollars_per_hour 1.5\n")
    assert beyond.gap(board) == "least $1.500/hour proven, gap 25.0% of $2.000/hour"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", ["a", "b"]),
        ("team=x", ["a"]),
        ("SPOT", ["b"]),
        ("m5 team=x", ["a"]),
        ("notready", ["b"]),
        ("nope", []),
    ],
)
def test_filters(words: str, names: list[str]) -> None:
    spot = {"karpenter.sh/capacity-type": "spot"}
    board = board_of(
        node("a", labels={"team": "x"}), node("b", labels=spot, ready="Unknown"), sort=Sort(NAME, False)
    )
    assert [row.name for row in matching(PANES[0], board, words, NOW)] == names
