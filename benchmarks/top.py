"""How long a picture of `dovetail top` takes, and a change: 5,000 nodes, 100,000 pods.

    python -m benchmarks.top [--nodes 5000] [--pods-per-node 20] [--changes 500] [--frames 50]

The real application draws into a terminal of 200 x 50 that is not shown. `--changes` pods change between two
frames. Figures are seconds of this process' CPU, so that a busy machine does not count; ten pictures a second
leave 0.1 for each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any
from zoneinfo import ZoneInfo

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.base.collector import collect_seldom
from dovetail.views.top.app import Top
from dovetail.views.top.board import Board
from dovetail.views.top.feed import Feed

_START = 1_772_452_800 * SECOND


class Made(Feed):
    """Objects that are made here; every frame takes in so many changes of pods."""

    title = "made for this"

    def __init__(self, nodes: int, each: int, changes: int) -> None:
        self._nodes, self._each, self._changes = nodes, each, changes
        self._at = 0
        self._full = False
        self.taking: list[float] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def fill(self, board: Board) -> None:
        begun = time.process_time()
        if not self._full:
            self._full = True
            for number in range(self._nodes):
                board.take("ADDED", _node(number))
                for pod in range(self._each):
                    board.take("ADDED", _pod(number, pod, "Running"))
            return
        for _ in range(self._changes):
            self._at += 1
            number, pod = self._at * 7919 % self._nodes, self._at % self._each
            board.take("MODIFIED", _pod(number, pod, ("Running", "Pending")[self._at % 2]))
        self.taking.append(time.process_time() - begun)

    def now(self) -> int:
        return _START + self._at * SECOND

    def trouble(self) -> str:
        return ""

    def pace(self, change: int) -> str:
        del change
        return ""


class Still(Top):
    """Draws when the benchmark asks for it, and not by itself."""

    def set_interval(self, *_: Any, **__: Any) -> Any:
        """No timer."""


def _node(number: int) -> Node:
    document = {
        "metadata": {
            "name": f"ip-10-{number // 256}-{number % 256}-7.ec2.internal",
            "creationTimestamp": "2026-03-01T00:00:00Z",
            "labels": {
                "node.kubernetes.io/instance-type": "m5.2xlarge",
                "topology.kubernetes.io/zone": "us-east-1" + "abc"[number % 3],
                "karpenter.sh/capacity-type": ("spot", "on-demand")[number % 2],
                "eks-node-viewer/instance-price": f"{0.1 + number % 50 / 100}",
            },
        },
        "spec": {"providerID": f"aws:///us-east-1a/i-{number:017x}"},
        "status": {
            "allocatable": {"cpu": "7910m", "memory": "29Gi", "pods": "58"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return decode(document, Node)


def _pod(node: int, number: int, phase: str) -> Pod:
    document = {
        "metadata": {"name": f"p{node}-{number}", "namespace": "shop"},
        "spec": {
            "nodeName": f"ip-10-{node // 256}-{node % 256}-7.ec2.internal",
            "containers": [{"resources": {"requests": {"cpu": "350m", "memory": "1Gi"}}}],
        },
        "status": {"phase": phase},
    }
    return decode(document, Pod)


async def _measure(nodes: int, each: int, changes: int, frames: int) -> None:
    feed = Made(nodes, each, changes)
    board = Board()
    begun = time.process_time()
    feed.fill(board)
    board.rows(_START)
    print(f"first look at {nodes:,} nodes and {len(board.pods):,} pods: {time.process_time() - begun:.2f}")
    application = Still(board, feed, ZoneInfo("UTC"))
    making: list[float] = []
    whole: list[float] = []
    async with application.run_test(size=(200, 50)) as pilot:
        for number in range(frames):
            begun = time.process_time()
            application.frame()
            making.append(time.process_time() - begun)
            await pilot.pause()
            whole.append(time.process_time() - begun)
            if number % 5 == 0:
                await pilot.press("pagedown")
            if number == frames // 2:
                await pilot.press("s", "s")  # by price
    print(f"changes a frame: {changes}, taken in {_formatted(feed.taking)}")
    print(f"to take in and make a frame, without drawing it: {_formatted(making)}")
    print(f"until it is on the screen: {_formatted(whole)}")


def _formatted(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"median {statistics.median(ordered):.4f}, 95% {ordered[int(len(ordered) * 0.95)]:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods-per-node", type=int, default=20)
    parser.add_argument("--changes", type=int, default=500)
    parser.add_argument("--frames", type=int, default=50)
    given = parser.parse_args()
    collect_seldom()  # as the command does
    asyncio.run(_measure(given.nodes, given.pods_per_node, given.changes, given.frames))


if __name__ == "__main__":
    main()
