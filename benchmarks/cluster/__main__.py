"""On a real control plane: lists and changes taken in, many nodes at once, simulated against real."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster import hold, intake, scale
from benchmarks.machine import facts
from dovetail.base.clock import SECOND
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.simulate.analysis.waiting import PARTS, waits
from dovetail.simulate.live.compare import Row, compare
from dovetail.simulate.live.play import play_live
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane

_EXAMPLES = Path(__file__).parents[2] / "examples"
_SCENARIOS = ("burst", "shrink", "zones")


def main() -> int:
    """Run one case; 1 where a comparison differs by more than it may."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    cases = parser.add_subparsers(dest="case", required=True)
    taken = cases.add_parser("intake", help="first lists, memory, and changes per second")
    taken.add_argument("--pods", type=int, default=20_000)
    taken.add_argument("--nodes", type=int, default=1_000)
    grown = cases.add_parser("scale", help="from nothing to one node for every ten pods")
    grown.add_argument("--pods", type=int, default=5_000)
    grown.add_argument("--tuned", action="store_true", help="a control plane with settings for many nodes")
    grown.add_argument("--qps", type=int, default=0, help="requests per second (the controller's default)")
    grown.add_argument("--idle", type=float, default=60, help="seconds in which nothing happens then (60)")
    grown.add_argument("--limit", type=float, default=1_200, help="seconds after which it ends (1200)")
    held = cases.add_parser("hold", help="memory of a controller while pods come and go, CPU while none does")
    held.add_argument("--pods", type=int, default=100_000)
    held.add_argument("--nodes", type=int, default=5_000)
    held.add_argument("--churn", type=float, default=3_600, help="seconds in which pods are replaced (3600)")
    held.add_argument("--rate", type=float, default=30, help="of them per second (30)")
    held.add_argument("--idle", type=float, default=120, help="seconds in which nothing happens (120)")
    both = cases.add_parser("compare", help="scenarios in virtual time and on a cluster")
    both.add_argument("scenarios", nargs="*", default=list(_SCENARIOS))
    both.add_argument(
        "--plays", type=int, default=1, help="of each on the cluster, with other seeds: medians"
    )
    arguments = parser.parse_args()
    rows, fine = _run(arguments)
    if arguments.json is not None:
        document = {"machine": facts(), "case": arguments.case, "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0 if fine else 1


def _run(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    if arguments.case == "intake":
        return [_intake(intake.measure(arguments.pods, arguments.nodes))], True
    if arguments.case == "scale":
        found = scale.measure(
            arguments.pods,
            tuned=arguments.tuned,
            limit=arguments.limit,
            idle=arguments.idle,
            qps=arguments.qps,
        )
        return [_scale(found)], found.bound == found.pods
    if arguments.case == "hold":
        held = hold.measure(
            arguments.pods, arguments.nodes, churn=arguments.churn, rate=arguments.rate, idle=arguments.idle
        )
        return [_hold(held)], True
    return _compare(arguments.scenarios, arguments.plays)


def _intake(found: intake.Intake) -> dict[str, Any]:
    print(f"{found.pods} pods on {found.nodes} nodes, loaded in {found.load_seconds:.1f} s")
    print(f"first sync   {found.sync_seconds:8.1f} s   {found.sync_cpu:8.1f} s of CPU")
    print(f"held in      {found.resident_mib:8.0f} MiB")
    print(f"changes      {found.per_second:8.0f} /s  {found.per_cpu_second:8.0f} per second of CPU")
    return {**asdict(found), "per_second": found.per_second, "per_cpu_second": found.per_cpu_second}


def _scale(found: scale.Scale) -> dict[str, Any]:
    print(f"{found.bound} of {found.pods} pods bound on {found.nodes} nodes after {found.seconds:.1f} s")
    print(f"created to bound   p50 {found.p50:.1f} s   p90 {found.p90:.1f} s   longest {found.longest:.1f} s")
    print(f"controller         {found.cpu:.1f} s of CPU   at most {found.peak_mib:.0f} MiB, solver included")
    print(f"idle then          {found.idle_cpu:.1%} of a core")
    return asdict(found)


def _hold(found: hold.Hold) -> dict[str, Any]:
    print(f"{found.pods} pods on {found.nodes} nodes, ready after {found.sync_seconds:.1f} s")
    print(f"held in      {found.synced_mib:8.0f} MiB")
    print(f"churn        {found.replaced:8} pods replaced in {found.churn_seconds:.0f} s")
    print(
        f"             {found.churn_cpu:8.1%} of a core   at most {found.peak_mib:.0f} MiB, solver included"
    )
    print(f"idle         {found.idle_cpu:8.1%} of a core   {found.idle_mib:.0f} MiB")
    return asdict(found)


def _compare(scenarios: list[str], plays: int) -> tuple[list[dict[str, Any]], bool]:
    rows = []
    print(f"{'scenario':10} {'figure':29} {'simulated':>12} {'cluster':>12} {'difference':>11}")
    with ControlPlane(build()) as plane:
        define(plane)
        access = Kubeconfig([plane.kubeconfig]).access()
        for name in scenarios:
            found: dict[str, list[Row]] = {}
            for seed in range(1, plays + 1):
                scenario = load(_EXAMPLES / name).seeded(seed)
                real = asyncio.run(play_live(scenario, access))
                played = simulate(scenario)
                for row in (*compare(played, real), *_waits(played, real)):
                    found.setdefault(row.name, []).append(row)
            for row in map(_median, found.values()):
                print(
                    f"{name:10} {row.name:29} {row.simulated:12g} {row.cluster:12g} {row.difference:10.1%}"
                    f"{'' if row.close else '  TOO FAR'}",
                    flush=True,
                )
                rows.append({"scenario": name, "plays": plays, **asdict(row), "close": row.close})
    return rows, all(row["close"] for row in rows)


# kwok's nodes are Ready at once and open to pods later: where joining ends is not the same in both worlds.
_SPLIT = (*((part,) for part in PARTS if part not in ("join", "scheduling")), ("join", "scheduling"))


def _waits(played: Result, real: Result) -> Iterator[Row]:
    """The mean time of pods that a node was bought for, and the parts of it that take a second or more."""
    both = [[one for one in waits(item.records, item.end) if one.attempts] for item in (played, real)]
    if not all(both):
        return
    for parts in (PARTS, *_SPLIT):
        ours, theirs = (
            sum(one.parts[part] for one in found for part in parts) / len(found) / SECOND for found in both
        )
        if max(ours, theirs) >= 1:
            name = "in all" if parts is PARTS else " and ".join(parts)
            yield Row(f"waiting, {name}", round(ours, 3), round(theirs, 3))


def _median(rows: Sequence[Row]) -> Row:
    ours, theirs = (median(getattr(row, world) for row in rows) for world in ("simulated", "cluster"))
    return Row(rows[0].name, ours, theirs)


if __name__ == "__main__":
    sys.exit(main())
