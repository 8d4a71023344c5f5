"""Pages in a real browser: this machine's Chromium, a server of routes, and a cluster of any size to show."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from playwright.sync_api import Browser, sync_playwright

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, Workload
from dovetail.units.timestamp import to_rfc3339
from dovetail.views.live.present import Present

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
START = 1_772_452_800 * SECOND  # 2026-03-02T12:00:00Z
END = START + 4 * HOUR
_TYPES = (
    ("m5.2xlarge", 8, 32, 472_000_000),
    ("c5.4xlarge", 16, 32, 768_000_000),
    ("r5.large", 2, 16, 152_000_000),
)
_TEAMS = ("shop", "search", "payments", "data")
_HELD = "no room: no instance type of NodePool general has so much memory"


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a screen, until the block ends."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield made
        made.close()


@contextmanager
def served(routes: Iterable[web.RouteDef]) -> Iterator[str]:
    """The address of a server of these, which has a thread and a loop of its own."""
    address: Future[str] = Future()
    ends: Future[None] = Future()

    async def serve() -> None:
        application = web.Application()
        application.add_routes(routes)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            address.set_result(f"http://127.0.0.1:{runner.addresses[0][1]}")
            await asyncio.wrap_future(ends)
        finally:
            await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield address.result()
    finally:
        ends.set_result(None)
        thread.join()


def present(nodes: int, each: int, waiting: int) -> Present:
    """What a controller would show of a cluster with `each` pods on every node and others that wait."""
    at = START
    current = Present(lambda: at, lambda _: None, patience=0)
    for obj in objects(nodes, each, waiting):
        current.changed(type(obj), "ADDED", None, obj)
    cost = sum(_TYPES[number % 3][3] for number in range(nodes))
    for ago in range(180, -1, -5):
        at = END - ago * MINUTE
        current.logged("efficiency", {"cost": cost, "lowerBound": cost * (940 + ago % 50) // 1000})
    for number in range(min(nodes, 200)):
        current.logged("decision", _launch(number))
    current.logged("disruption", _moved(0, 1))
    current.logged(
        "disruption.failed",
        {"reason": "Underutilized", "claims": [_name(2)], "message": "replacements did not come up in time"},
    )
    current.logged(
        "disruption.held",
        {"reason": "Drifted", "message": "12 of 10 pods were moved within 1h: 2 too many (--move-limit)"},
    )
    for number in range(min(waiting, 3)):
        current.logged("pod.unplaced", {"pod": f"shop/wait-{number}", "message": _HELD})
    return current


def facts(nodes: int, each: int) -> Facts:
    """The record of the same cluster: nodes come within the first hour, a tenth of them goes later."""
    found = Facts("made", START, END)
    works = {
        team: Workload(
            team, "deployment", "web", (("team", team),), (("app", (("cpu", 350), ("memory", 1 << 30))),)
        )
        for team in _TEAMS
    }
    for number in range(nodes):
        kind, cores, memory, price = _TYPES[number % 3]
        since = START + number * HOUR // max(1, nodes)
        until = END - HOUR if number % 10 == 9 else None
        capacity = {"cpu": cores * 1000, "memory": memory << 30}
        found.instances[f"i-{number}"] = Instance(
            f"i-{number}",
            since,
            [Rate(since, price)],
            until,
            claim=_name(number),
            node=_node_name(number),
            pool=_pool(number),
            instance_type=kind,
            zone=_zone(number),
            capacity_type=_capacity(number),
            capacity=capacity,
            allocatable=capacity,
            ready=since + 40 * SECOND,
        )
        found.pods += [
            PodRun(f"web-{number}-{pod}", works[_TEAMS[pod % 4]], f"i-{number}", since + MINUTE, until)
            for pod in range(each)
        ]
    return found


def objects(nodes: int, each: int, waiting: int) -> Iterator[Object]:
    """Pools, claims, nodes and pods."""
    for name in ("general", "spot"):
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        yield decode(
            {
                "metadata": {"name": name},
                "spec": {
                    "template": {"spec": {"nodeClassRef": reference, "requirements": []}},
                    "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "10%"}]},
                },
            },
            NodePool,
        )
    for number in range(nodes):
        yield _claim(number)
        yield _node(number)
        for pod in range(each):
            yield _pod(
                f"web-{number}-{pod}",
                _TEAMS[pod % 4],
                node=_node_name(number),
                kept=number % 7 == 0 and pod == 0,
            )
    yield from waiting_pods(0, waiting)


def waiting_pods(first: int, end: int) -> Iterator[Object]:
    """Pods without a node, by number."""
    for number in range(first, end):
        yield _pod(f"wait-{number}", _TEAMS[0])


def _name(number: int) -> str:
    return f"{_pool(number)}-{number:05}"


def _node_name(number: int) -> str:
    return f"ip-10-0-{number // 256}-{number % 256}.ec2.internal"


def _pool(number: int) -> str:
    return ("general", "spot")[number % 2]


def _zone(number: int) -> str:
    return "us-east-1" + "abc"[number % 3]


def _capacity(number: int) -> str:
    return ("on-demand", "spot")[number % 2]


def _stamped(number: int) -> dict[str, str]:
    kind, _, _, price = _TYPES[number % 3]
    return {
        "karpenter.sh/nodepool": _pool(number),
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": _zone(number),
        "karpenter.sh/capacity-type": _capacity(number),
        "karpenter.sh/initialized": "true",
        "eks-node-viewer/instance-price": f"{price / 1e9}",
    }


def _conditions(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True", "lastTransitionTime": to_rfc3339(START)} for kind in kinds]


def _claim(number: int) -> NodeClaim:
    joined = number % 100 != 99
    reached = ("Launched", "Registered", "Initialized") if joined else ("Launched",)
    more = ("Consolidatable",) if number % 3 == 0 else ()
    document: dict[str, Any] = {
        "metadata": {
            "name": _name(number),
            "uid": f"c{number}",
            "creationTimestamp": to_rfc3339(START),
            "labels": _stamped(number),
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
            "expireAfter": "720h",
        },
        "status": {
            "nodeName": _node_name(number) if joined else "",
            "providerID": f"aws:///z/i-{number:017x}",
            "conditions": _conditions(*reached, *more),
        },
    }
    return decode(document, NodeClaim)


def _node(number: int) -> Object:
    _, cores, memory, _ = _TYPES[number % 3]
    document = {
        "metadata": {
            "name": _node_name(number),
            "uid": f"n{number}",
            "creationTimestamp": to_rfc3339(START),
            "labels": _stamped(number),
        },
        "spec": {"providerID": f"aws:///z/i-{number:017x}"},
        "status": {
            "allocatable": {"cpu": f"{cores * 1000 - 90}m", "memory": f"{memory - 2}Gi", "pods": "58"},
            "conditions": _conditions("Ready"),
        },
    }
    return decode(document, Node)


def _pod(name: str, team: str, *, node: str = "", kept: bool = False) -> Pod:
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": team,
            "uid": f"{team}/{name}",
            "creationTimestamp": to_rfc3339(START + 3 * HOUR),
            "labels": {"team": team, "pod-template-hash": "abc"},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"} if kept else {},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-abc",
                    "uid": "r",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "350m", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }
    return decode(document, Pod)


def _launch(number: int) -> dict[str, Any]:
    kind, _, _, price = _TYPES[number % 3]
    bought = {
        "claim": _name(number),
        "pool": _pool(number),
        "pods": [f"shop/web-{number}-0", f"shop/web-{number}-4"],
        "instanceType": kind,
        "zone": _zone(number),
        "capacityType": _capacity(number),
        "price": price,
        "alternatives": [{"instanceType": "m5a.2xlarge", "price": price + 10**7}],
    }
    return {
        "what": "launch",
        "reason": "pending pods",
        "snapshot": "s",
        "pods": 2,
        "hourly": price,
        "lowerBound": price * 97 // 100,
        "claims": [bought],
    }


def _moved(*numbers: int) -> dict[str, Any]:
    return {
        "reason": "Underutilized",
        "decision": "replace",
        "nodes": [_node_name(number) for number in numbers],
        "claims": [_name(number) for number in numbers],
        "replacements": [_name(3)],
        "savings": 120_000_000,
        "snapshot": "s",
        "pods": 9,
        "bought": [
            {"claim": _name(3), "instanceType": "m5.2xlarge", "zone": "us-east-1a", "price": 472_000_000}
        ],
    }


class Record:
    """Facts as a Past."""

    def __init__(self, known: Facts) -> None:
        self._facts = known

    @property
    def span(self) -> tuple[int, int]:
        """See Past."""
        return self._facts.start, self._facts.end

    def read(self, start: int, end: int) -> Facts:
        """See Past."""
        del start, end
        return self._facts


def violations(found: Sequence[dict[str, Any]], *impacts: str) -> list[str]:
    """Of what axe found: those of these impacts, each with where it is."""
    return [
        f"{one['id']}: {node['target']}" for one in found if one["impact"] in impacts for node in one["nodes"]
    ]
