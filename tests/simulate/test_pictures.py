"""The pictures of reports and of `dovetail top` in docs/images: taken by `make pictures` alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dovetail.base.clock import HOUR
from dovetail.cli.main import run
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.testing import pages
from dovetail.views.top.app import Top
from dovetail.views.top.board import Board
from dovetail.views.top.feed import SimulationFeed

ROOT = Path(__file__).parents[2]
EVENING, IMAGES = ROOT / "examples" / "evening-rush", ROOT / "docs" / "images"
SEOUL = ZoneInfo("Asia/Seoul")


@pytest.fixture(autouse=True)
def _asked(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--screenshots"):
        pytest.skip("pictures are taken with --screenshots")


def test_pictures_of_top() -> None:
    scenario = load(EVENING).until(2 * HOUR)
    feed, board = SimulationFeed("evening-rush", scenario.start, lambda _: None), Board()
    simulate(scenario, spectator=feed)
    feed.fill(board)

    async def drive() -> None:
        application = Top(board, feed, SEOUL)
        async with application.run_test(size=(200, 30)) as pilot:
            await pilot.pause()
            (IMAGES / "top.svg").write_text(application.export_screenshot(), "utf-8")
            await pilot.press("down", "down", "down", "enter")
            await pilot.pause()
            (IMAGES / "top-node.svg").write_text(application.export_screenshot(), "utf-8")

    asyncio.run(drive())


@pytest.mark.browser
@pytest.mark.skipif(pages.CHROMIUM is None, reason="no Chromium on this machine to look at pages with")
def test_picture_of_the_report(tmp_path: Path) -> None:
    file = tmp_path / "evening.html"
    assert run(["simulate", str(EVENING), "--report", str(file)]) == 0
    with pages.browser() as browser:
        page = browser.new_page(viewport={"width": 1180, "height": 1500})
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-rendered]")
        page.screenshot(path=IMAGES / "report.png")
        page = browser.new_page(viewport={"width": 1180, "height": 1100}, color_scheme="dark")
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-rendered]")
        page.locator("#pods").scroll_into_view_if_needed()
        page.screenshot(path=IMAGES / "report-dark.png")


@pytest.mark.browser
@pytest.mark.skipif(pages.CHROMIUM is None, reason="no Chromium on this machine to look at pages with")
def test_picture_of_the_evening_three_ways(tmp_path: Path) -> None:
    file = tmp_path / "evening.html"
    policies = [
        word for name in ("dovetail", "karpenter", "cluster-autoscaler") for word in ("--policy", name)
    ]
    assert run(["compare", str(EVENING), *policies, "--seeds", "1-3", "--report", str(file)]) == 0
    with pages.browser() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 1390})
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-rendered]")
        page.screenshot(path=IMAGES / "evening-three-ways.png")
