"""How long ordinary pods wait beside a tenant that means harm, and without it: a day in virtual time.

python -m benchmarks.fairness [--hours 24] [--seed 1] [--json FILE]

The shop of examples/hostile, and beside it a namespace whose pods come every seven minutes, must stay in one
zone and go where the first of them is. A hostile tenant creates pods at every extreme, eight batches in 23
minutes, all day but for the last hour. Exit code 1 if the ordinary pods' p99 is over 1.1 times that of a day
without the tenant, if a pod of theirs waits more than ten minutes, or if a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.collector import collect_seldom
from dovetail.simulate.analysis.log import Progress
from dovetail.simulate.analysis.waiting import Wait, waits
from dovetail.simulate.faults.kinds import HOSTILE_TENANT
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import Scenario, load

_EXAMPLE = Path(__file__).parents[1] / "examples" / "hostile"
_ORDINARY = ("default", "reports")
_EVERY = 23 * MINUTE / 8  # between two batches of the tenant, as in the example
_LONGEST = 10 * MINUTE
_FOLLOWERS = """\
apiVersion: v1
kind: Namespace
metadata: { name: reports }
---
apiVersion: batch/v1
kind: CronJob
metadata: { name: reports, namespace: reports }
spec:
  schedule: "*/7 * * * *"
  jobTemplate:
    spec:
      parallelism: 8
      completions: 8
      template:
        metadata:
          labels: { app: reports }
          annotations: { simulation.dovetail.dev/duration: 120s }
        spec:
          restartPolicy: Never
          affinity:
            podAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                - topologyKey: topology.kubernetes.io/zone
                  labelSelector: { matchLabels: { app: reports } }
          containers:
            - name: reports
              image: reports:1
              resources: { requests: { cpu: 900m, memory: 1Gi } }
"""


def main() -> int:
    """Play the day without and with the tenant, and print how long pods waited."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--hours", type=int, default=24, help="how long the day is, 2 at least (24)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    arguments = parser.parse_args()
    collect_seldom()
    with tempfile.TemporaryDirectory() as folder:
        scenario = _scenario(Path(folder) / "day", arguments.hours).seeded(arguments.seed)
        tenant = _tenant(scenario)
        print(f"{'':20} {'pods':>6} {'p50':>7} {'p99':>7} {'longest':>8} {'unbound':>8}")
        alone = _row("without", simulate(scenario, listener=_hourly(scenario)), "")
        result = simulate(scenario, faults=tenant, listener=_hourly(scenario))
        beside = _row("beside the tenant", result, "tenant")
    faults = _faults(alone, beside)
    if arguments.json is not None:
        document = {"machine": facts(), "hours": arguments.hours, "rows": [alone, beside], "faults": faults}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def _scenario(folder: Path, hours: int) -> Scenario:
    shutil.copytree(_EXAMPLE, folder)
    (folder / "faults.yaml").unlink()
    file = folder / "scenario.yaml"
    text = file.read_text(encoding="utf-8").replace("\nduration: 1h\n", f"\nduration: {hours}h\n")
    # How much of the bill is proven changes no wait, and took a quarter of the processor time.
    text = text.replace("\nsettings:\n", "\nsettings:\n  efficiencyPeriod: 1h\n")
    file.write_text(text, encoding="utf-8")
    (folder / "03-followers.yaml").write_text(_FOLLOWERS, encoding="utf-8")
    return load(folder)


def _hourly(scenario: Scenario) -> Callable[[Progress], None]:
    """Says each hour how far it is: a day takes long."""
    shown = 0

    def listen(progress: Progress) -> None:
        nonlocal shown
        hours = (progress.now - scenario.start) // HOUR
        if hours > shown:
            shown = hours
            seconds = time.process_time()
            print(f"{hours} h played, {seconds:.0f} s of CPU so far", file=sys.stderr, flush=True)

    return listen


def _tenant(scenario: Scenario) -> Faults:
    found = load_faults(_EXAMPLE / "faults.yaml", load(_EXAMPLE))
    (one,) = found.of(HOSTILE_TENANT)
    since, until = scenario.start + 5 * MINUTE, scenario.start + scenario.duration - HOUR
    times = round((until - since) / _EVERY)
    return Faults(found.source, (replace(one, since=since, until=until, times=times),))


def _row(name: str, result: Result, tenant: str) -> dict[str, Any]:
    """Pods that came early enough to be bound before the end."""
    found = [one for one in waits(result.records, result.end) if one.created < result.end - _LONGEST]
    ours = [one for one in found if one.pod.split("/")[0] in _ORDINARY]
    row = {"run": name, **_figures(ours), "violations": len(result.summary.violations)}
    row["namespaces"] = {
        space: _figures([one for one in ours if one.pod.startswith(f"{space}/")]) for space in _ORDINARY
    }
    if tenant:
        theirs = [one for one in found if one.pod.startswith(f"{tenant}/")]
        row["tenant"] = {"pods": len(theirs), "bound": sum(one.bound is not None for one in theirs)}
    _print(name, row)
    for space, figures in row["namespaces"].items():
        _print(f"  {space}", figures)
    if tenant:
        print(f"  {tenant}: {row['tenant']['bound']} of {row['tenant']['pods']} pods bound")
    return row


def _print(name: str, row: dict[str, Any]) -> None:
    times = f"{row['p50']:7.1f} {row['p99']:7.1f} {row['longest']:8.1f}"
    print(f"{name:20} {row['pods']:6} {times} {row['unbound']:8}", flush=True)


def _figures(found: Sequence[Wait]) -> dict[str, Any]:
    """Seconds from the creation of pods until they had a node."""
    pending = sorted(one.pending for one in found)
    return {
        "pods": len(found),
        "p50": pending[len(pending) // 2] / SECOND,
        "p99": pending[min(len(pending) - 1, len(pending) * 99 // 100)] / SECOND,
        "longest": pending[-1] / SECOND,
        "unbound": sum(one.bound is None for one in found),
    }


def _faults(alone: dict[str, Any], beside: dict[str, Any]) -> list[str]:
    found = []
    if beside["p99"] > 1.1 * alone["p99"]:
        found.append(f"p99 is {beside['p99'] / alone['p99']:.2f} times that without the tenant")
    if beside["longest"] * SECOND > _LONGEST:
        found.append(f"a pod waited {beside['longest']:.0f} s")
    if beside["violations"]:
        found.append(f"{beside['violations']} promises were broken")
    return found


if __name__ == "__main__":
    sys.exit(main())
