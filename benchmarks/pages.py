"""How heavy the pages are, and how smoothly they scroll: 5,000 nodes, 100,000 pods, in Chromium.

    python -m benchmarks.pages [--nodes 5000] [--pods-per-node 20] [--waiting 300]

For the controller's page and for a report of as many nodes: bytes, the time until something is painted and
until all is drawn, and for lists that scroll how long frames take (60 a second are 16.7 ms each) and how much
CPU of the browser's main thread each of them. For the controller: the CPU of this process for each answer.
All but CPU are wall times: look at them on a machine that is idle.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page

from dovetail.base.clock import SECOND
from dovetail.cost.window import Window
from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.testing import pages
from dovetail.views.live.routes import past_routes
from dovetail.views.report.facts import facts_report
from dovetail.views.report.page import Period, render

_STEPS = 120
_FRAMES = """async ([selector, frames]) => {
  const box = selector ? document.querySelector(selector) : document.scrollingElement, taken = [];
  box.scrollIntoView?.();
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < frames; frame++) {
    box.scrollTop += 97;
    const now = await new Promise(requestAnimationFrame);
    taken.push(now - last);
    last = now;
  }
  return taken;
}"""
_SCROLLED = {"the page itself": "", "nodes": "#nodes-now-rows .rows-body", "timeline": "#timeline .time-body"}
_SCROLLED |= {"decisions": "#decision-rows .rows-body", "pods that waited": "#pod-rows .rows-body"}


def _browsed(browser: Browser, name: str, url: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(300_000)
    begun = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("body[data-rendered]")
    drawn = time.perf_counter() - begun
    load: dict[str, Any] = page.evaluate(
        """() => { const one = performance.getEntriesByType("navigation")[0];
        return { bytes: one.decodedBodySize, answered: one.responseStart, loaded: one.responseEnd,
                 first: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
                 elements: document.querySelectorAll("*").length }; }"""
    )
    print(
        f"{name}: {load['bytes'] / 1e6:.2f} MB; answered after {load['answered'] / 1000:.2f} s, all received "
        f"{load['loaded'] / 1000:.2f}, first paint {load['first'] / 1000:.2f}, drawn {drawn:.2f}; "
        f"{load['elements']:,} elements"
    )
    for what, selector in _SCROLLED.items():
        if not selector or page.locator(selector).is_visible():
            _scrolled(page, what, selector)
    page.close()


def _scrolled(page: Page, what: str, selector: str) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _busy(session)
    taken = sorted(page.evaluate(_FRAMES, [selector, _STEPS]))
    busy = 1000 * (_busy(session) - before) / _STEPS
    session.detach()
    most = taken[int(len(taken) * 0.95)]
    print(f"  {what}: frames of {statistics.median(taken):.1f} ms, 95 % within {most:.1f}; {busy:.1f} of CPU")


def _busy(session: CDPSession) -> float:
    """Seconds that the main thread has worked."""
    found = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in found if one["name"] == "TaskDuration")


def _timed(what: str, does: Callable[[], Any]) -> Any:
    begun = time.process_time()
    found = does()
    print(f"  {what}: {time.process_time() - begun:.2f} s of CPU")
    return found


def _log(nodes: int) -> list[dict[str, Any]]:
    """What a simulation would log of nodes that come one after the other, each for a pod that waited."""
    log: list[dict[str, Any]] = []
    for number in range(nodes):
        at, name, claim = number * 3600 // nodes, f"ip-{number}", f"pool-{number}"
        about = {"instanceType": "m5.large", "zone": "z-a", "capacityType": "spot", "claim": claim}
        pod = f"shop/web-{number}"
        more: list[tuple[int, str, dict[str, Any]]] = [
            (0, "pod.created", {"pod": pod, "owner": "ReplicaSet/web", "requests": {"cpu": 1000}}),
            (0, "pod.unschedulable", {"pod": pod, "message": "no room"}),
            (1, "instance.started", {"instance": f"i-{number}", "price": 10**8, **about}),
            (30, "node.created", {"node": name, "pool": "pool", "allocatable": {"cpu": 2000}, **about}),
            (31, "node.ready", {"node": name}),
            (32, "pod.bound", {"pod": pod, "node": name}),
            (33, "pod.running", {"pod": pod, "node": name}),
            (
                34,
                "event",
                {"type": "Normal", "reason": f"R{number % 50}", "object": f"Node/{name}", "message": ""},
            ),
        ]
        log += [
            {"t": pages.START + (at + later) * SECOND, "kind": kind, **fields} for later, kind, fields in more
        ]
    return sorted(log, key=lambda one: one["t"])


def _report(nodes: int) -> str:
    log = _log(nodes)
    run = Run("crowd", 7, pages.START, pages.END, "ab" * 32, 1.0)
    return render("Crowd", Period(pages.START, pages.END, "UTC", 0, "r-1"), log, summarize(log, run))


def _measure(nodes: int, each: int, waiting: int) -> None:
    print(f"{nodes:,} nodes, {nodes * each:,} pods, {waiting:,} that wait")
    shown, record = pages.present(nodes, each, waiting), pages.Record(pages.facts(nodes, each))
    window = Window(pages.START, pages.END)
    _timed("what is so now, the first time", shown.data)
    _timed("again", shown.data)
    _timed("the record of costs", lambda: facts_report("x", record.read(*record.span), window))
    text = _timed("a report of as many nodes", lambda: _report(nodes))
    with tempfile.TemporaryDirectory() as folder, pages.browser() as browser:
        with pages.served(past_routes("Dovetail", record, lambda: pages.END, "", shown)) as url:
            _browsed(browser, "live page", url)
        file = Path(folder) / "report.html"
        file.write_text(text, "utf-8")
        _browsed(browser, "report", file.as_uri())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods-per-node", type=int, default=20)
    parser.add_argument("--waiting", type=int, default=300)
    given = parser.parse_args()
    _measure(given.nodes, given.pods_per_node, given.waiting)
