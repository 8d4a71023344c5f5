"""Makes the pictures of `dovetail top` in docs/images: python scripts/top_picture.py"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from zoneinfo import ZoneInfo

from dovetail.base.clock import MINUTE
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.views.top.app import Top
from dovetail.views.top.board import Board, Settings
from dovetail.views.top.feed import SimulationFeed

ROOT = Path(__file__).parents[1]
AFTER = 47 * MINUTE  # an hour of the rush, while nodes come and go
_FONTS = re.compile(r"@font-face \{[^}]*\}\s*")


class Past:
    """What a simulation has been watched to."""

    title = "evening-rush"

    def __init__(self, feed: SimulationFeed) -> None:
        self.now = feed.now

    async def run(self) -> None:
        await asyncio.Event().wait()

    def fill(self, board: Board) -> None:
        del board

    def trouble(self) -> str:
        return ""

    def pace(self, change: int) -> str:
        del change
        return ""


async def draw(board: Board, feed: Past, zone: ZoneInfo, folder: Path) -> None:
    """Writes one picture of the nodes, and one of the page about a node."""
    async with Top(board, feed, zone).run_test(size=(170, 30)) as pilot:
        await pilot.pause()
        _write(folder / "top.svg", pilot.app.export_screenshot(title="dovetail top"))
        await pilot.press("down", "down", "down", "enter")
        await pilot.pause()
        _write(folder / "top-node.svg", pilot.app.export_screenshot(title="dovetail top: a node"))


def _write(path: Path, drawn: str) -> None:
    """Without fonts from elsewhere: a picture that is looked at asks no other site."""
    path.write_text(_FONTS.sub("", drawn))


def main() -> None:
    scenario = load(ROOT / "examples" / "evening-rush").until(AFTER)
    feed = SimulationFeed(scenario.file.name, scenario.start, lambda _: None)
    simulate(scenario, spectator=feed)
    board = Board(Settings(resources=("cpu", "memory")))
    feed.fill(board)
    asyncio.run(draw(board, Past(feed), ZoneInfo(scenario.file.timezone), ROOT / "docs" / "images"))


if __name__ == "__main__":
    main()
