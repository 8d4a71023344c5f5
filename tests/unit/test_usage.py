"""What pods use: asked of a metrics server and of Prometheus, and kept in the record of costs."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, Unavailable
from dovetail.cli.main import BAD_INPUT, run
from dovetail.cost.facts import Facts, Instance, PodRun, Rate, Workload
from dovetail.cost.store import Store, StoreFile
from dovetail.model.resources import CPU, MEMORY
from dovetail.runtime.usage import Prometheus, read_pod_metrics

_Text = pytest.CaptureFixture[str]


def _pod(name: str, *containers: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "timestamp": "2026-03-02T12:00:00Z",
        "window": "15.1s",
        "containers": [{"name": f"c{number}", "usage": usage} for number, usage in enumerate(containers)],
    }


def test_pods_of_a_metrics_server() -> None:
    items = [
        _pod("web", {"cpu": "2157196n", "memory": "17644Ki"}, {"cpu": "1m", "memory": "1Mi"}),
        _pod("idle", {"cpu": "0", "memory": "0"}),
        _pod("starting"),
    ]
    found = read_pod_metrics(json.dumps({"kind": "PodMetricsList", "items": items}).encode())
    assert found == {
        ("shop", "web"): (3, 17644 * 1024 + 2**20),
        ("shop", "idle"): (0, 0),
        ("shop", "starting"): (0, 0),
    }


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items": 3}', b'{"items": null}', b"<html>"])
def test_answers_that_are_none(body: bytes) -> None:
    with pytest.raises(ApiError, match="has no list items"):
        read_pod_metrics(body)


def test_amounts_that_are_none() -> None:
    body = json.dumps({"items": [_pod("web", {"cpu": "much"})]}).encode()
    with pytest.raises(ApiError, match="cannot be read"):
        read_pod_metrics(body)


def _asked(handler: Callable[[web.Request], Awaitable[web.Response]]) -> Any:
    """What a Prometheus that answers so says."""

    async def ask() -> Any:
        application = web.Application()
        application.router.add_get("/prom/api/v1/query", handler)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            return await Prometheus(f"http://127.0.0.1:{port}/prom/").read()
        finally:
            await runner.cleanup()

    return asyncio.run(ask())


def test_a_series_without_a_number_is_left_out() -> None:
    async def handler(request: web.Request) -> web.Response:
        cpu = "cpu_usage" in request.query["query"]
        series = [("web", "0.0123" if cpu else "1048576"), ("new", "NaN")]
        result = [{"metric": {"namespace": "shop", "pod": pod}, "value": [1, text]} for pod, text in series]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    assert _asked(handler) == {("shop", "web"): (12, 1048576)}


def test_a_prometheus_that_does_not_answer() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=503)

    with pytest.raises(Unavailable, match="503"):
        _asked(handler)
    with pytest.raises(Unavailable, match="does not answer"):
        asyncio.run(Prometheus("http://127.0.0.1:1").read())


_SCRAPED = """# TYPE container_cpu_usage_seconds counter
# TYPE container_memory_working_set_bytes gauge
"""


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_a_real_prometheus(tmp_path: Path) -> None:
    """It evaluates the queries: 150m and 64 MiB, without the pause container and the pod's sum."""
    start = int(time.time()) - 600
    cpu, memory = [], []
    for at in range(-600, 601, 15):  # where series begin, rates are extrapolated
        for container, speed, size in (("app", 0.1, 48), ("side", 0.05, 16), ("POD", 9, 900), ("", 9, 900)):
            about = f'{{namespace="shop",pod="web",container="{container}"}}'
            cpu.append(f"container_cpu_usage_seconds_total{about} {(600 + at) * speed} {start + at}")
            memory.append(f"container_memory_working_set_bytes{about} {size * 2**20} {start + at}")
    scraped = tmp_path / "scraped"
    head = _SCRAPED.splitlines()
    scraped.write_text("\n".join((head[0], *cpu, head[1], *memory, "# EOF", "")))
    data = tmp_path / "data"
    create = ("promtool", "tsdb", "create-blocks-from", "openmetrics", str(scraped), str(data))
    subprocess.run(create, check=True, capture_output=True, timeout=60)
    (tmp_path / "none.yml").write_text("{}\n")
    command = ("prometheus", f"--config.file={tmp_path}/none.yml", f"--storage.tsdb.path={data}")
    command = (*command, "--web.listen-address=127.0.0.1:0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        port, ready = "", False
        try:
            for line in server.stderr:  # the two lines come in either order
                port = port or "".join(re.findall(r'Listening on" address=127.0.0.1:(\d+)', line))
                ready = ready or "ready to receive web requests" in line
                if port and ready:
                    break
            asked = Prometheus(f"http://127.0.0.1:{port}")
            found = asyncio.run(asked.read())
            end = (start + 600) * SECOND
            past = asyncio.run(asked.past(end, 600 * SECOND, 60 * SECOND, 95, lambda _: None))
            with pytest.raises(ApiError, match="answers an error: "):
                asyncio.run(asked.past(end, 600 * SECOND, 0, 95, lambda _: None))
        finally:
            server.terminate()
            server.communicate(timeout=30)
    assert found == {("shop", "web"): (150, 64 * 2**20)}
    assert past.keys() == {("shop", "web", name, kind) for name in ("app", "side") for kind in (CPU, MEMORY)}
    memory = past["shop", "web", "side", MEMORY]
    assert (memory.median, memory.high, memory.most, memory.source) == (*(16 * 2**20,) * 3, "prometheus")
    cpu = past["shop", "web", "app", CPU]
    assert 99 <= cpu.median <= cpu.high <= cpu.most <= 101
    assert min(cpu.samples, memory.samples) >= 9


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    """Of pods that go on as of those that end, and after a restart it is added to."""
    machine = Instance("i-1", 0, [Rate(0, 10**9)], node="n1", capacity={"cpu": 8_000})
    pods = [PodRun(name, Workload("shop"), "i-1", 0) for name in ("stays", "ends")]
    facts = Facts("c1", 0, 10**9, {"i-1": machine}, pods)
    path = tmp_path / "cost.db"
    with Store.open(path, write=True) as store:
        store.write(facts)
        for one in pods:
            one.measured(5, 100, 200)
        store.write_usage(pods)
        pods[1].measured(6, 300, 400)
        pods[1].end = 10**9
        store.write(facts)
    with Store.open(path, write=True) as store:
        again = store.resume()
        (open_run,) = again.pods
        open_run.measured(7, 500, 600)
        store.write_usage(again.pods)
    means = {run.name: run.mean_use(0, 10**9) for run in StoreFile(path).read(0, 10**9).pods}
    assert means == {"stays": {"cpu": 300, "memory": 400}, "ends": {"cpu": 200, "memory": 300}}


@pytest.mark.parametrize("given", ["prometheus", "ftp://x", "http://", "http://a b"])
def test_who_cannot_be_asked(given: str, capsys: _Text) -> None:
    assert run(["run", "--cost-usage", given]) == BAD_INPUT
    assert "--cost-usage" in capsys.readouterr().err
