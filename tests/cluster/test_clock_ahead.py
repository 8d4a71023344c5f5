"""The controller's machine has a clock that is an hour off: nodes come up all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller
from tests.cluster.test_run_inflate import INFLATE, POOL, kubectl, scaled

FAKE = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@pytest.mark.skipif(FAKE is None, reason="without libfaketime a process has the machine's clock")
@pytest.mark.parametrize("off", ["+1h", "-1h"])
def test_one_two_one(tmp_path: Path, off: str) -> None:
    with ControlPlane(build()) as plane:
        define(plane)
        kubectl(plane, "apply", "-f", "-", stdin=POOL)
        environment = {"LD_PRELOAD": str(FAKE), "FAKETIME": off, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with Controller(plane, tmp_path, "--batch-idle-duration", "500ms", **environment) as controller:
            kubectl(plane, "apply", "-f", "-", stdin=INFLATE)
            for count in (1, 2, 1):
                scaled(plane, count)
            (line,) = controller.lines("the API server's clock differs from this machine's: its time counts")
            assert line["server-ahead"] in ({"+1h": ("-3600s", "-3601s"), "-1h": ("3600s", "3599s")}[off])
            assert controller.lines("could not schedule pod") == []
            assert controller.stop() == 0
