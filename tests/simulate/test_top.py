"""`dovetail top` on a simulation: while it plays, from its log, on a terminal, and as plain text."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dovetail.base.clock import SECOND
from dovetail.cli.main import run
from dovetail.simulate.analysis.log import Meter
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.views.top.app import Page, Top
from dovetail.views.top.board import Board
from dovetail.views.top.feed import LogFeed, SimulationFeed
from dovetail.views.top.grid import Grid
from dovetail.views.top.order import natural
from dovetail.views.top.text import screen

SCENARIO = load(Path(__file__).parents[2] / "examples" / "burst").until(70 * SECOND)
UTC = ZoneInfo("UTC")
SIZE = (160, 30)


class Played:
    """The example, watched to its end without a picture."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.feed = SimulationFeed("burst", SCENARIO.start, lambda _: None)
        self.result = simulate(SCENARIO, events=log, spectator=self.feed)
        self.board = Board()
        self.feed.fill(self.board)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("top") / "events.jsonl")


class Still:
    """A feed of what is there already."""

    title, paced = "as it was", True

    def __init__(self, feed: SimulationFeed | LogFeed) -> None:
        self._feed = feed
        self.now = feed.now

    async def run(self) -> None:
        await asyncio.Event().wait()

    def fill(self, board: Board) -> None:
        del board

    def trouble(self) -> str:
        return ""

    def pace(self, change: int) -> str:
        return f"pace {change}"


def test_watching_changes_nothing(played: Played) -> None:
    assert simulate(SCENARIO).sha256 == played.result.sha256


def test_the_board_agrees_with_the_log(played: Played) -> None:
    board, result = played.board, played.result
    board.check()
    counted = Meter(result.start, result.end).read(result.records, result.end)
    assert sum(row.node is not None for row in board.rows(result.end)) == counted.nodes
    assert (len(board.pods), len(board.unbound)) == (counted.pods, counted.pending)
    assert board.sums.price == counted.hourly


def test_a_log_shows_what_was_seen_live(played: Played) -> None:
    board, feed = Board(), LogFeed(played.log)
    feed.read(board)
    board.check()
    live = screen(played.board, played.feed.now())
    assert [line.replace("Cordoned/", "") for line in screen(board, feed.now())] == live


def test_a_log_as_it_was(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--log", str(played.log), "--at", "2026-03-02T10:00:05Z"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("5 nodes")
    assert "pending pods (" in shown
    assert "claims without node (4)" in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--log", "nowhere.jsonl"], "cannot read the log"),
        (["--log", "LOG", "--at", "noon"], "--at"),
        (["--log", "LOG", "--kubeconfig", "x"], "only one of --log and --kubeconfig"),
        (["--log", "LOG", "--timezone", "Mars/Base"], "is no time zone"),
        (["--log", "LOG", "--node-selector", "a=(b"], "--node-selector"),
        (["--at", "2026-03-02T10:00:05Z"], "only a log knows the past"),
        (["--node-sort", "foo=up"], "give KEY=asc or KEY=dsc"),
        (["--node-sort", "=dsc"], "is nothing to sort nodes by"),
        (["--resources", "cpu,bogus"], "give cpu, memory, pods, ephemeral-storage"),
        (["--extra-labels", "a_/b"], "is no label"),
        (["--metrics", "localhost:8080"], "is no address"),
        (["--kubeconfig", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_wrong_words(
    played: Played, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(played.log) if one == "LOG" else one for one in arguments]
    assert run(["top", *given]) == 2
    assert complaint in capsys.readouterr().err


def test_the_file_of_eks_node_viewer(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts where a flag does not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".eks-node-viewer"
    path.write_text(
        "# mine\nresources = cpu,memory\nstyle=#1,#2,#3\ndisable-pricing=true\nnode-sort=creation\n"
    )
    assert run(["top", "--log", str(played.log), "--node-sort", "creation=dsc"]) == 0
    shown = capsys.readouterr()
    assert "~/.eks-node-viewer says resources=cpu,memory, disable-pricing=True" in " ".join(shown.err.split())
    assert " memory " in shown.out
    assert "$" not in shown.out.partition("least:")[0]
    for line, complaint in (
        ("colour=red", "is no option"),
        ("disable-pricing=maybe", "neither true nor false"),
    ):
        path.write_text(f"\n{line}\n")
        assert run(["top", "--log", str(played.log)]) == 2
        assert f"{path}:2: " in (error := capsys.readouterr().err)
        assert complaint in error


def test_a_file_that_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x"
    path.write_text("kind: Pod\n")
    assert run(["top", "--log", str(path)]) == 2
    assert f"{path}:1: is no JSON object" in capsys.readouterr().err


def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "a", "user": {}}]}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "a", **config}))
    assert run(["top", "--kubeconfig", str(path)]) == 2
    assert "the API server does not answer as it should" in capsys.readouterr().err


def test_live_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(Path(__file__).parents[2] / "examples" / "burst"), "--live"]) == 2
    assert "standard output is no terminal" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["simulate", "{folder}", "--live"], ["top", "--log", "{log}"]])
def test_what_is_drawn_on_standard_error_needs_a_terminal_there(command: list[str], played: Played) -> None:
    """With 2>FILE all that is drawn would come to the file."""
    places = {"folder": Path(__file__).parents[2] / "examples" / "burst", "log": played.log}
    terminal, end = pty.openpty()
    try:
        told = subprocess.run(
            [sys.executable, "-m", "dovetail", *(word.format(**places) for word in command)],
            stdin=end,
            stdout=end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(end)
    assert told.returncode == 2
    assert "standard error is no terminal" in told.stderr


def _seen(application: Top) -> str:
    grid = application.query_one(Grid)
    return "\n".join(grid.render_line(line).text for line in range(grid.size.height))


def test_keys(played: Played) -> None:
    async def drive() -> None:
        application = Top(played.board, Still(played.feed), UTC)
        async with application.run_test(size=SIZE) as pilot:
            first = played.board.rows(played.feed.now())[0].name
            assert first in _seen(application)
            assert "WHY IT STAYS" in _seen(application)

            await pilot.press("slash", *"spot", "enter")
            assert first not in _seen(application)
            await pilot.press("escape")
            assert first in _seen(application)

            await pilot.press("s")
            assert str(played.board.settings.sort) == "@name=asc"
            await pilot.press("r")
            names = [row.name for row in played.board.rows(played.feed.now())]
            assert names == sorted(names, key=natural, reverse=True)

            await pilot.press("4")
            assert "may go now: Empty" in _seen(application)
            await pilot.press("3")
            assert "WAITS" in _seen(application)
            await pilot.press("2")
            assert "CLAIM" in _seen(application)
            await pilot.press("1", "down", "enter")
            await pilot.pause()
            page = application.screen
            assert isinstance(page, Page)
            shown = str(page.query_one("#page").render())
            for heading in ("USED", "WHY IT STAYS", "PODS (", "HISTORY", "LABELS"):
                assert heading in shown
            await pilot.press("escape", "space")
            await pilot.pause()
            assert "pace 0" in str(application.query_one("#head").render())

    asyncio.run(drive())


def test_a_narrow_terminal(played: Played) -> None:
    """All of the head is there, names are cut, the columns to the right are reached."""

    async def drive() -> None:
        application = Top(played.board, Still(played.feed), UTC)
        async with application.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            head = str(application.query_one("#head").render()).splitlines()
            assert max(map(len, head)) <= 78
            assert "/month" in head[0]
            assert application.query_one("#head").size.height == len(head)
            assert "…" in _seen(application)
            assert "/$" in _seen(application)  # types and prices have room, usage has less
            assert "WHY IT STAYS" not in _seen(application)
            await pilot.press(*[">"] * 8)
            assert "WHY IT STAYS" in _seen(application)
            assert application.query_one(Grid)._fitted("shop/fare-search-678464cd6c-xvxpq").endswith("-xvxpq")
            await pilot.press(*["<"] * 8, "slash", *"nowhere", "enter")
            assert "none with all of: nowhere" in _seen(application)

    asyncio.run(drive())


def test_lines_beyond_the_screen_are_not_made(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    shown = Grid.show

    def show(grid: Grid, headings: tuple[str, ...], count: int, cells: Any, nothing: str) -> None:
        shown(grid, headings, count * 1_000, lambda line: made.append(line) or cells(line % count), nothing)

    monkeypatch.setattr(Grid, "show", show)

    async def drive() -> None:
        async with Top(played.board, Still(played.feed), UTC).run_test(size=SIZE) as pilot:
            await pilot.pause()
            assert max(made) < SIZE[1]
            await pilot.press("end")
            await pilot.pause()
            assert len(set(made)) < 3 * SIZE[1]
            assert max(made) > SIZE[1]
            await pilot.press("home", "l", "l", "h")
            grid = pilot.app.query_one(Grid)
            assert grid.cursor == grid.size.height - 2

    asyncio.run(drive())


def test_a_simulation_is_watched_and_left(tmp_path: Path) -> None:
    """It plays in its thread until the user leaves; its log is closed then."""
    log = tmp_path / "events.jsonl"

    def play(feed: SimulationFeed) -> None:
        simulate(SCENARIO, events=log, spectator=feed)

    async def drive() -> None:
        feed = SimulationFeed("burst", SCENARIO.start, play)
        application = Top(Board(), feed, UTC)
        async with application.run_test(size=SIZE) as pilot:
            while not application.board.sums.nodes:
                await pilot.pause(0.01)
                application.frame()
            await pilot.press("minus")
            await pilot.press("q")
        assert application.failure is None
        # The timer may tick once more while the screens are taken down.
        application.board.revision += 1
        application.frame()

    asyncio.run(drive())
    assert log.read_bytes().endswith(b"\n")


def test_a_feed_that_fails_ends_the_application() -> None:
    def play(_: SimulationFeed) -> None:
        raise ValueError("no such day")

    async def drive() -> BaseException | None:
        application = Top(Board(), SimulationFeed("x", 0, play), UTC)
        async with application.run_test(size=SIZE) as pilot:
            while application.failure is None:
                await pilot.pause(0.01)
        return application.failure

    assert str(asyncio.run(drive())) == "no such day"
