"""The pages in a real browser: figures, links, keys, accessibility, and (with --screenshots) their pictures.

At the width of a desk and of a phone, in light and in dark. Nothing else may run an event loop here: the
browser's own runs while the module does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from test_report import END, REQUESTS, START, record
from test_report import page as small_report

from dovetail.cli.main import run as dovetail
from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.simulate.experiment.comparison import Comparison, Way
from dovetail.simulate.experiment.dataset import Row, summed_up
from dovetail.simulate.experiment.measures import MEASURES
from dovetail.simulate.experiment.steps import DIRECT, WITH_GROUPS, Steps
from dovetail.testing import pages
from dovetail.views.comparison.write import write_comparison, write_sweep
from dovetail.views.live.present import Present
from dovetail.views.live.routes import past_routes
from dovetail.views.report.page import Period, render

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(pages.CHROMIUM is None, reason="no Chromium on this machine to look at pages with"),
]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
_IMAGES = Path(__file__).parents[2] / "docs" / "images"
# What docs show: (page, colours, at a desk) -> file.
_PICTURES = {
    ("live-page", "light", True): "live-page.png",
    ("live-page", "dark", False): "live-page-dark-phone.png",
}
_EXAMPLE = Path(__file__).parents[2] / "examples" / "plan"
_VIEWS = ("nodes-now", "decisions", "costs")  # of the live page, each with a picture of its own
_PATIENCE = 120_000  # milliseconds: a busy machine is no failure


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with pages.browser() as found:
        yield found


@contextmanager
def opened(chromium: Browser, url: str, *, size: Any = DESK, scheme: Any = "light") -> Iterator[Page]:
    """A page that has been drawn; whatever it says on its console is an error."""
    said: list[str] = []
    context = chromium.new_context(viewport=size, color_scheme=scheme, has_touch=size is PHONE)
    context.set_default_timeout(_PATIENCE)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    page.wait_for_selector("body[data-rendered]")
    yield page
    context.close()
    assert said == []


@contextmanager
def controllers_page(present: Present, nodes: int, each: int) -> Iterator[str]:
    record_of_costs = pages.Record(pages.facts(nodes, each))
    with pages.served(past_routes("Dovetail", record_of_costs, lambda: pages.END, "", present)) as url:
        yield url


@pytest.fixture(scope="module")
def plan_report(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """The address of what `dovetail plan --report` writes of the example."""
    file = tmp_path_factory.mktemp("plan") / "plan.html"
    work = 4_000_000 if request.config.getoption("--screenshots") else 400_000
    asked = ["plan", "-f", str(_EXAMPLE), "--region", "us-east-1", "--work", str(work)]
    assert dovetail([*asked, "--report", str(file)]) == 0
    return file.as_uri()


def _text(page: Page, selector: str) -> str:
    return page.locator(selector).inner_text()


def test_the_report_shows_its_figures(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(small_report(), encoding="utf-8")
    with opened(chromium, file.as_uri()) as page:
        assert (
            _text(page, "#period") == "2026-03-02 21:00:00 to 2026-03-02 22:00:00 (Asia/Seoul), r-1, seed 7; "
            "simulated in virtual time"
        )
        assert "$0.22" in _text(page, "#tiles")  # 1 h of $0.118 and 1,935 s of $0.19
        assert page.locator("canvas").count() == 4  # no traffic in this log, so no fifth chart
        # Ticks near zero differ, and figures have the digits that they need.
        ticks = page.evaluate("[0, 0.2, 0.4, 0.6].map((tick) => percent(tick, 0.2))")
        assert ticks == ["0.0 %", "0.2 %", "0.4 %", "0.6 %"]
        assert page.evaluate("[0, 0.034, 12.4, 100].map((value) => percent(value))") == [
            "0 %",
            "0.03 %",
            "12 %",
            "100 %",
        ]
        shown = page.evaluate("[0, 0.00004, 0.004, 12.3, 400000, -0.5].map((value) => dollars(value))")
        assert shown == ["$0.0000", "< $0.0001", "$0.0040", "$12.3000", "$400,000.00", "-$0.5000"]
        end = page.evaluate("cut('shop/fare-search-678464cd6c-xvxpq').lastChild.textContent")
        assert end == "-xvxpq"  # what tells names apart is seen where there is little room
        assert _text(page, "#event-count") == "2 of 2 events"
        assert "spot prices are estimates" in _text(page, "#assumptions")
        about = page.locator("#timeline .time-row[aria-label*='ip-1']").get_attribute("aria-label")
        assert about is not None
        assert "m5.2xlarge spot in z-c at about $0.1900/h (estimated)" in about


def test_the_report_of_a_plan(chromium: Browser, plan_report: str) -> None:
    """Each node with its pods, and each phase of the solve with what it found, by pointer and keyboard."""
    with opened(chromium, plan_report) as page:
        nodes = int(_text(page, "#title").split()[0])
        assert page.locator("#node-rows .row").count() == nodes
        page.fill("#find-nodes", "database-1")
        assert re.fullmatch(rf"1 of {nodes} nodes\.", _text(page, "#node-count"))
        page.locator("#node-rows .row").click()
        assert "default/database-1" in _text(page, "#node-rows .detail")

        first, *others = page.locator("#phases tbody tr").all()
        assert first.inner_text().startswith("first plan")
        assert others
        colours: dict[str, set[str | None]] = {}
        for row in (first, *others):
            phase, *figures = row.inner_text().split("\t")
            assert row.locator("b").count() or any(
                map(re.compile("[1-9]").search, (figures[0], *figures[-2:]))
            )
            colours.setdefault(phase.strip(), set()).add(row.locator("i").get_attribute("style"))
        assert all(len(each) == 1 for each in colours.values()), "a phase that comes again has its colour"
        dots = page.locator("#solve circle")
        assert dots.count() >= 4  # a plan and a bound at the end of two phases at least
        dots.first.focus()
        assert _text(page, "#chosen").startswith("first plan: ")
        assert "chosen" in (first.get_attribute("class") or "")
        last = others[-1].inner_text().split("\t")[0].strip()
        others[-1].click()
        assert last and _text(page, "#chosen").startswith(f"{last}: ")
        page.select_option("#over", "seconds")
        assert "seconds" in page.locator("#solve svg text.name").all_text_contents()


def _crowd() -> list[dict[str, Any]]:
    """A thousand nodes, each with a pod that waited for it and an event."""
    log = []
    for number in range(1000):
        name, at = f"ip-{number}", number
        about = {"instanceType": "m5.large", "zone": "z-a", "capacityType": "spot", "claim": f"pool-{number}"}
        log += [
            record(at, "pod.created", pod=f"shop/web-{number}", owner="ReplicaSet/web", requests=REQUESTS),
            record(at, "pod.unschedulable", pod=f"shop/web-{number}", message="no room"),
            record(at + 1, "instance.started", instance=f"i-{number}", price=10**8, **about),
            record(at + 30, "node.created", node=name, pool=f"pool-{number % 3}",
                   allocatable={"cpu": 2000, "memory": 8_000}, **about),
            record(at + 31, "node.ready", node=name),
            record(at + 32, "pod.bound", pod=f"shop/web-{number}", node=name),
            record(at + 33, "pod.running", pod=f"shop/web-{number}", node=name),
            record(at + 34, "event", type="Normal", reason="Ready", object=f"Node/{name}", message="Up"),
        ]  # fmt: skip
    return sorted(log, key=lambda one: one["t"])


def test_a_report_of_a_thousand_nodes(chromium: Browser, tmp_path: Path) -> None:
    """Only what is seen is drawn; a node, a search and a zoom count everywhere; keys do what pointers do."""
    log = _crowd()
    run = Run("crowd", 7, START, END, "ab" * 32, 1.0)
    text = render("Crowd", Period(START, END, "Asia/Seoul", 9 * 3600, "r-1"), log, summarize(log, run))
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")  # nothing is fetched
    file = tmp_path / "crowd.html"
    file.write_text(text, encoding="utf-8")
    with opened(chromium, file.as_uri(), size={"width": 600, "height": 900}) as page:
        rows = page.locator("#timeline .time-row")
        assert [one.strip() for one in rows.all_inner_texts()] == [
            f"▸ pool-{number} ({count})" for number, count in enumerate((334, 333, 333))
        ]
        page.click("#unfold")
        assert rows.count() < 60
        page.locator("#timeline .time-row:not(.group)").nth(2).click()  # named beside others only
        assert _text(page, "#event-count") == "1 of 17 events, those of ip-6"
        assert _text(page, "#pod-count") == "1 of 1000 are shown."
        assert page.url.endswith("#node=ip-6")
        assert page.locator("[aria-pressed=true]").count() == 1
        page.click(".chip button")
        page.fill("#find-pods", "web-77")
        assert _text(page, "#pod-count") == "11 of 1000 are shown."
        assert page.locator("#pod-rows .row").count() == 11
        assert page.locator("#event-rows .row").count() == 17
        page.click("[aria-label='Zoom in']")
        assert _text(page, "#zoom output") == "2026-03-02 21:15:00 to 2026-03-02 21:45:00 (Asia/Seoul)"
        assert _text(page, "#event-count") == "2 of 17 events, those of the time shown"
        chart = page.locator(".chart").first
        chart.press("ArrowRight")
        assert page.evaluate("document.querySelector('.chart').nextElementSibling.textContent").startswith(
            "2026-03-02 21:15:"
        )
        chart.press("0")
        assert _text(page, "#zoom output") == "2026-03-02 21:00:00 to 2026-03-02 22:00:00 (Asia/Seoul)"
        page.click("#theme")
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert _fits(page)
        page.emulate_media(media="print")
        printed = """(part) => [...document.querySelectorAll(part)].map(getComputedStyle).map(
          (style) => [style.breakInside, style.printColorAdjust].join())"""
        for part in (".chart", ".tile", ".row"):  # none is cut through, bars have their colours
            assert set(page.evaluate(printed, part)) == {"avoid,exact"}


def _fits(page: Page) -> bool:
    """Nothing sticks out of a narrow window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_the_controllers_page(chromium: Browser) -> None:
    """What waits and why, the least and the gap, decisions and their reasons, what keeps nodes; the links."""
    present = pages.present(40, 4, 7)
    with controllers_page(present, 40, 4) as url, opened(chromium, url) as page:
        now = page.locator("section[aria-label=Now]").inner_text()
        assert re.search(r"7\s+pods pending", now)
        assert re.search(r"an hour is the least, proven", now)
        assert re.search(r"6\.0 %\s+gap to that of \$", now)
        assert page.locator("#efficiency canvas").count() == 1
        assert _text(page, "#pending-count") == "7 in all."
        assert "no room" in page.locator("#pending-rows .row").first.inner_text()
        page.fill("#find-decisions", "held back")
        assert "--move-limit" in page.locator("#decision-rows .row").inner_text()
        page.fill("#find-decisions", "given up")
        assert "replacements did not come up in time" in page.locator("#decision-rows .row").inner_text()
        page.fill("#find-decisions", "")
        assert 'has "karpenter.sh/do-not-disrupt" annotation' in _text(page, "#kept-rows")
        assert "may go now" in _text(page, "#next-rows")

        page.locator("#nodes-now-rows .row button.link", has_text="ip-10-0-0-1").last.click()
        chosen = _text(page, ".chip:has-text('Node')")
        assert "ip-10-0-0-1" in chosen
        expect(page.locator("#pods-now-count")).to_have_text("4 pods.", timeout=_PATIENCE)
        assert "#node=ip-10-0-0-1" in page.url
        bought = page.locator("#decision-rows .row")
        assert bought.count() >= 1
        bought.first.click(position={"x": 20, "y": 10})
        assert "claims: " in _text(page, "#decision-rows .detail")

        page.locator("#cost-rows button.link", has_text="search").click()
        expect(page.locator("#pods-now-count")).to_have_text("40 pods.", timeout=_PATIENCE)
        with page.expect_download() as download:
            page.locator("#tools-pending button", has_text="CSV").click()
        assert download.value.path().read_text().startswith("Pod,Part of,since,Asks for,Why\nshop/wait-0,")


def test_it_is_brought_up_to_date_where_it_is(chromium: Browser) -> None:
    present = pages.present(5, 2, 1)
    with controllers_page(present, 5, 2) as url, opened(chromium, url) as page:
        page.clock.install()  # its timers run when we say so
        page.reload()
        page.wait_for_selector("body[data-rendered]")
        for obj in pages.waiting_pods(1, 9):
            present.changed(type(obj), "ADDED", None, obj)

        page.clock.run_for(10_000)
        expect(page.locator("#pending-count")).to_have_text("9 in all.", timeout=_PATIENCE)


def test_what_cannot_be_shown_is_said(chromium: Browser) -> None:
    with controllers_page(pages.present(2, 1, 0), 2, 1) as url:
        page = chromium.new_page()
        page.goto(f"{url}/?window=soon")
        expect(page.locator("#loading")).to_have_text(
            "Nothing can be shown: illegal window: soon", timeout=_PATIENCE
        )
        page.close()


def test_keys_alone_are_enough(chromium: Browser) -> None:
    with controllers_page(pages.present(40, 4, 7), 40, 4) as url, opened(chromium, url) as page:
        page.locator("#nodes-now-rows .rows-body").focus()
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        assert page.locator("#nodes-now-rows .row.active").count() == 1
        assert "Why it stays" in _text(page, "#nodes-now-rows .detail")
        page.keyboard.press("Tab")  # the first link of the list
        page.keyboard.press("Enter")
        assert "Node ip-" in _text(page, ".chip:has-text('Node')")
        page.locator("#timeline .time-row").first.focus()
        assert page.locator(".tip").count() == 1
        page.keyboard.press("ArrowDown")
        page.keyboard.press("+")
        assert page.locator("#zoom button", has_text="Whole span").is_enabled()


def _accessible(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    assert pages.violations(found, "serious", "critical") == []


def _experiments(folder: Path) -> list[tuple[str, str]]:
    """The pages of a comparison and of a sweep."""

    def figures(number: int) -> dict[str, float]:
        return {one.key: 1000.0 + number * number for one in MEASURES}

    rows = [
        Row("x", (("settings.nodeSurcharge", str(i)),), 1, 0, figures(i) | {"waitP99": 5 - i / 100})
        for i in range(5)
    ]
    write_sweep(summed_up(rows, ("costPerDay", "waitP99")), ("costPerDay", "waitP99"), folder / "sweep.html")
    ways = (
        Way("dovetail", {1: figures(1)}, {}, steps=Steps(DIRECT, (0.0, 38.4, 38.5), 9, 1.6, 3.8)),
        Way(
            "cluster-autoscaler",
            {1: figures(2)},
            {},
            steps=Steps(WITH_GROUPS, (0.0, 54.0, 98.0, 140.9, 141.0), 9),
        ),
    )
    write_comparison(Comparison(ways, (1,)), folder / "comparison.html")
    return [(name, (folder / f"{name}.html").as_uri()) for name in ("sweep", "comparison")]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_use_them(
    chromium: Browser,
    tmp_path: Path,
    plan_report: str,
    size: Any,
    scheme: str,
    request: pytest.FixtureRequest,
) -> None:
    """No serious or critical violation that axe finds, and nothing wider than the window."""
    file = tmp_path / "report.html"
    file.write_text(small_report(), encoding="utf-8")
    experiments = _experiments(tmp_path)
    asked = request.config.getoption("--screenshots")
    with controllers_page(pages.present(60, 4, 7), 60, 4) as url:
        reports = (("live-page", url), ("report", file.as_uri()), ("plan", plan_report))
        for name, address in (*reports, *experiments):
            with opened(chromium, address, size=size, scheme=scheme) as page:
                _accessible(page)
                assert _fits(page)
                picture = _PICTURES.get((name, scheme, page.viewport_size == DESK))
                if picture and asked:
                    page.screenshot(path=_IMAGES / picture)
                    for view in _VIEWS if size is DESK else ():
                        page.locator(f"#{view}").screenshot(path=_IMAGES / f"live-page-{view}.png")
                if asked and name == "plan" and scheme == "light" and size is DESK:
                    page.set_viewport_size({"width": 1280, "height": 1400})  # else it is cut off
                    page.locator("#how").screenshot(path=_IMAGES / "plan-solve.png")
