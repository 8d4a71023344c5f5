"""`dovetail top` on a real cluster that Dovetail operates: one look, and the terminal application."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from zoneinfo import ZoneInfo

from dovetail.kube.http.client import connect
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.kube.readonly import ReadOnlyClient
from dovetail.views.top.app import Top
from dovetail.views.top.board import Board
from dovetail.views.top.feed import ClusterFeed
from dovetail.views.top.grid import Grid
from tests.cluster.running import eventually
from tests.cluster.world import World, apart, budget, deployment, node_pool


def look(world: World, *flags: str) -> str:
    """What it prints without a terminal."""
    command = (sys.executable, "-m", "dovetail", "top", "--kubeconfig", str(world.plane.kubeconfig))
    done = subprocess.run((*command, *flags), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def watched(world: World, name: str) -> tuple[str, str]:
    """The nodes of the application once a node is on it, and the page about that node."""
    async with connect(Kubeconfig([world.plane.kubeconfig]).access("")) as http:
        feed = ClusterFeed(ReadOnlyClient(http), "here", time.time_ns)
        application = Top(Board(), feed, ZoneInfo("UTC"))
        async with application.run_test(size=(200, 30)) as pilot:
            grid = application.query_one(Grid)
            async with asyncio.timeout(60):
                while name not in (seen := _seen(grid)):
                    await pilot.pause(0.05)
            await pilot.press("enter")
            await pilot.pause()
            async with asyncio.timeout(60):  # claims and events may be listed after the nodes
                while "Initialized" not in (page := str(application.screen.query_one("#page").render())):
                    await pilot.pause(0.05)
            return seen, page


def _seen(grid: Grid) -> str:
    return "\n".join(grid.render_line(line).text for line in range(grid.size.height))


def test_top(world: World) -> None:
    refused = deployment(world, "large", 1, cpu="5000")
    world.apply(node_pool(world), deployment(world, "web", 2, affinity=apart("web")), refused)
    world.apply(budget("web", maxUnavailable=0))
    with world.controller() as controller:
        eventually(lambda: world.running("web"), lambda found: len(found) == 2)
        nodes = [node["metadata"]["name"] for node in world.nodes()]
        metrics = ("--metrics", f"http://127.0.0.1:{controller.metrics_port}/metrics")
        text_shown = eventually(
            lambda: look(world, "--node-selector", f"world={world.name}", *metrics),
            lambda text: "Pdb prevents pod evictions" in text and "FailedScheduling" in text,
        )
    assert text_shown.startswith("2 nodes (         2/")
    assert "3 pods (1 pending 2 running 2 bound)" in text_shown
    assert "$0.000/hour" not in text_shown
    assert f"{world.name}/large-" in text_shown
    seen, page = asyncio.run(watched(world, nodes[0]))
    assert all(name in seen for name in nodes)
    for heading in ("USED", "WHY IT STAYS", f"{world.name}/web-", "Initialized"):
        assert heading in page
    logged = subprocess.run(
        (sys.executable, "-m", "dovetail", "top", "--log", str(controller.log)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert logged.stdout.startswith("2 nodes"), logged.stderr
    unknown = look(world, "--node-selector", "world=none")
    assert unknown.startswith("0 nodes")
    assert "No nodes." in unknown
