"""The page that is served: what it shows of a record of costs, over real HTTP and in a real browser."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dovetail.base.clock import HOUR, SECOND
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, Workload
from dovetail.cost.store import Store, StoreFile, write_facts
from dovetail.cost.window import Window
from dovetail.runtime.process.costapi import cost_routes
from dovetail.views.live.routes import past_routes
from dovetail.views.report.facts import facts_report

_START = 1_772_452_800 * SECOND
_END = _START + 4 * HOUR
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _facts() -> Facts:
    """Two nodes, one of them for an hour whose price then falls; a pod on each."""
    capacity = {"cpu": 4_000, "memory": 16 << 30}
    stays = Instance("i-1", _START, [Rate(_START, 2 * 10**8)], node="base", capacity=capacity, ready=_START)
    comes = Instance(
        "i-2",
        _START + HOUR,
        [Rate(_START + HOUR, 10**8), Rate(_START + HOUR + HOUR // 2, 5 * 10**7)],
        _START + 2 * HOUR,
        claim="pool-a",
        node="ip-2",
        pool="pool",
        instance_type="m5.xlarge",
        zone="z-a",
        capacity_type="spot",
        capacity=capacity,
        ready=_START + HOUR + 40 * SECOND,
    )
    work = Workload("shop", labels=(("team", "</script>"),), containers=(("app", (("cpu", 1_000),)),))
    pods = [
        PodRun("web-1", work, "i-1", _START),
        PodRun("web-2", work, "i-2", _START + HOUR + 60 * SECOND, _START + 2 * HOUR),
    ]
    return Facts("c1", _START, _END, {"i-1": stays, "i-2": comes}, pods)


@contextmanager
def _served(path: Path) -> Iterator[str]:
    """The routes of the controller's port, in a thread of their own."""
    past = StoreFile(path)
    loop = asyncio.new_event_loop()
    application = web.Application()
    application.add_routes(
        [*cost_routes(past, lambda: _END), *past_routes("Shop", past, lambda: _END, "24h")]
    )
    runner = web.AppRunner(application, access_log=None)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _get(url: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def test_what_a_record_shows() -> None:
    told = facts_report("Shop", _facts(), Window(_START, _END))
    lines, instants = told["series"]["lines"], told["series"]["t"]
    at = {minutes: instants.index(_START // SECOND + minutes * 60) for minutes in (30, 76, 106, 200)}
    assert [lines["cost"][at[minutes]] for minutes in (30, 76, 106, 200)] == [0.2, 0.3, 0.25, 0.2]
    assert [lines["nodes.spot"][at[minutes]] for minutes in (30, 76, 200)] == [0, 1, 0]
    assert [lines["pods.running"][at[minutes]] for minutes in (30, 76, 200)] == [1, 2, 1]
    assert lines["use.cpu"][at[30]] == 25.0
    assert told["costs"]["bill"] == pytest.approx(0.2 * 4 + 0.05 + 0.025)
    assert [row["kind"] for row in told["nodes"]] == ["managed", "spot"]


def test_the_routes(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    write_facts(_facts(), path)
    with _served(path) as url:
        status, text, headers = _get(f"{url}/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert "<style" not in text
        assert "label:team" in text
        assert text.count("</script>") == 4  # the data and three files: no label ends the data early
        status, text, _ = _get(f"{url}/data.json?window=2h")
        shown: dict[str, Any] = json.loads(text)
        assert (status, shown["period"]["start"]) == (200, _START // SECOND + 3 * 3600)
        assert _get(f"{url}/parts.js")[0] == 200
        assert _get(f"{url}/?window=soon")[:2] == (400, "illegal window: soon\n")
        assert _get(f"{url}/", "POST")[0] == 405
        assert _get(f"{url}/../../etc/passwd")[0] == 404
        assert json.loads(_get(f"{url}/allocation?window=4h&aggregate=cluster")[1])["code"] == 200
        before = _get(f"{url}/revision")[1]
        with Store.open(path, write=True) as store:
            more = store.resume()
            more.end = _END + HOUR
            store.write(more)
        assert _get(f"{url}/revision")[1] != before


def test_a_record_with_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    Store.open(path, write=True).close()
    with _served(path) as url:
        assert _get(f"{url}/")[:2] == (503, "the record has nothing in it yet\n")


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine to look at the page with")
def test_a_browser_shows_it_under_its_policy(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    write_facts(_facts(), path)
    with _served(path) as url:
        shown = subprocess.run(
            [
                str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=4000",
                "--enable-logging=stderr", "--dump-dom", f"{url}/",
            ],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
    assert 'data-rendered="true"' in shown.stdout
    assert "$0.88 in 4.0 h" in shown.stdout
    assert shown.stdout.count("<canvas") == 4
    assert "ip-2" in shown.stdout
    assert "Content Security Policy" not in shown.stderr
    assert "CONSOLE" not in shown.stderr
