"""A controller's memory over days or a month in virtual time: bytes of its own structures, by owner.

python -m benchmarks.life [--course NAME] [--steps N] [--hours N] [--json FILE]
python -m benchmarks.life --picture FILE.svg --json FILE

The census counts the controller's own objects alone (dovetail.testing.census); the API server, the AWS, the
kubelets and the scheduler that play the world are in the same process and count for its resident memory only.
A line of JSON is written with each census, so that a run that is broken off has shown what it saw. Ends with
exit code 1 if the memory is not flat from the third day on, if what is remembered exceeds the bounds that
docs/guides/operate.md names, or if it is more than 300 MiB at any time.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import facts, peak_mib
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR
from dovetail.base.collector import collect_seldom
from dovetail.cli.main import readers_may_leave
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.census import census, leftovers
from dovetail.testing.life import DAY, START, Course, Life

COURSES = {
    # 500 nodes and 10,000 pods a day; nodes that stand cost the simulation most, so pods are done in 1 h.
    "month": Course(waves=60, wave=120, lasts=HOUR, deployments=2, replicas=30, rollouts=40),
    # A thousand nodes at once.
    "large": Course(waves=1_440, wave=500, lasts=HOUR // 2, deployments=2, replicas=20, rollouts=6),
}
_MIB = 2**20
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d")
_SHOWN = 40  # places of names of what is gone, in a line
_FILLED = 3  # days until there is as much of everything as there ever is, what is remembered excepted
_GROWTH = 1.1  # later days over the largest of these: the cluster is not equally large each day
# What is remembered comes up to its bounds over weeks: those of docs/guides/operate.md together.
_BOUNDS = {"remembered answers": 53 * _MIB, "provider": 4 * _MIB}
_MOST = 300 * _MIB


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.life", description=__doc__)
    parser.add_argument("--course", choices=COURSES, default="month")
    parser.add_argument("--steps", type=int, default=30, help="how often to measure (default: 30)")
    parser.add_argument("--hours", type=float, default=24, help="between two measurements (default: 24)")
    parser.add_argument("--json", type=Path, help="a line per measurement")
    parser.add_argument("--picture", type=Path, help="draw the file --json wrote before, as SVG")
    arguments = parser.parse_args()
    if arguments.picture:
        rows = _read(arguments.json)
        arguments.picture.write_text(picture(rows), encoding="utf-8")
        sys.exit(fault(rows))
    collect_seldom()
    course = COURSES[arguments.course]
    every = round(arguments.hours * HOUR)

    async def play(clock: VirtualClock) -> list[dict[str, Any]]:
        life, rows = Life(clock, course), []
        await life.start()
        for _ in range(arguments.steps):
            begun = time.process_time()
            await clock.sleep(every)
            await life.scrape()  # as Prometheus does every minute: the text of all figures is kept
            row = _measured(life, time.process_time() - begun)
            rows.append(row)
            _print(row)
            if arguments.json:
                with arguments.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        return rows

    rows = run_virtual(play, start=START)
    print(json.dumps(facts()))
    sys.exit(fault(rows))


def fault(rows: Sequence[dict[str, Any]]) -> str | None:
    """What is wrong with the memory over these days, in words."""
    most = max(row["bytes"] for row in rows)
    if most > _MOST:
        return f"{most / _MIB:.1f} MiB are more than {_MOST // _MIB}"
    for owner, bound in _BOUNDS.items():
        if (held := max(row["owners"].get(owner, 0) for row in rows)) > bound:
            return f"{owner} hold {held / _MIB:.1f} MiB, more than {bound / _MIB:.0f}"
    before = max((_unbounded(row) for row in rows if row["day"] <= _FILLED), default=most)
    later = max((_unbounded(row) for row in rows if row["day"] > _FILLED), default=0)
    if later > before * _GROWTH:
        return f"it grows: {before / _MIB:.1f} MiB within {_FILLED} days, {later / _MIB:.1f} MiB later"
    return None


def _unbounded(row: dict[str, Any]) -> int:
    """Bytes of all that has no bound of its own."""
    return sum(held for owner, held in row["owners"].items() if owner not in _BOUNDS)


def _measured(life: Life, seconds: float) -> dict[str, Any]:
    gc.collect()
    owners = life.owners()
    found = census(owners)
    left = leftovers(owners, life.gone)
    return {
        "day": (life.clock.now() - START) / DAY,
        "cpuSeconds": round(seconds, 1),
        "pods": life.count(Pod),
        "nodes": life.count(Node),
        "podsGone": life.deleted[Pod],
        "nodesGone": life.deleted[Node],
        "claimsGone": life.deleted[NodeClaim],
        "bytes": sum(found.values()),
        "owners": found,
        "leftovers": {f"{item.place} ({item.kind})": item.count for item in left[:_SHOWN]},
        "residentMiB": round(_resident_mib(), 1),
        "peakMiB": round(peak_mib(), 1),
    }


def _resident_mib() -> float:
    """MiB of the whole process now, on Linux; else the most it ever had."""
    status = Path("/proc/self/status")
    if not status.exists():
        return peak_mib()
    lines = status.read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024


def _print(row: dict[str, Any]) -> None:
    owners = ", ".join(f"{name} {size / _MIB:.1f}" for name, size in row["owners"].items())
    print(
        f"day {row['day']:5.2f} {row['nodes']:5} nodes {row['pods']:6} pods {row['nodesGone']:6} and "
        f"{row['podsGone']:7} gone {row['bytes'] / _MIB:6.1f} MiB ({owners}), "
        f"process {row['residentMiB']:.0f} MiB, {row['cpuSeconds']:.1f} s CPU",
        flush=True,
    )


def picture(rows: Sequence[dict[str, Any]]) -> str:
    """The census as an SVG: MiB over days, stacked by owner."""
    width, height, left, top = 640, 260, 60, 40
    owners = sorted(rows[0]["owners"], key=lambda name: -max(row["owners"][name] for row in rows))
    most = max(row["bytes"] for row in rows) / _MIB
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200) if most / size <= 6)
    high = step * (int(most / step) + 1)
    days = rows[-1]["day"]
    xs = [left + width * row["day"] / days for row in rows]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 250} {height + 100}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">The controller\'s own structures, MiB by '
        f"day ({rows[-1]['nodesGone']:,} nodes and {rows[-1]['podsGone']:,} pods came and went)</text>",
    ]
    for mark in range(0, high + 1, step):
        y = top + height * (1 - mark / high)
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{mark}</text>')
    below = [0.0] * len(rows)
    for number, owner in enumerate(owners):
        above = [size + row["owners"][owner] / _MIB for size, row in zip(below, rows, strict=True)]
        points = [*zip(xs, above, strict=True), *reversed([*zip(xs, below, strict=True)])]
        shape = " ".join(f"{x:.1f},{top + height * (1 - size / high):.1f}" for x, size in points)
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<polygon points="{shape}" fill="{colour}"/>')
        y = top + 20 * number
        parts.append(f'<rect x="{left + width + 20}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + width + 38}" y="{y + 11}">{owner}</text>')
        below = above
    labelled = {-(-len(rows) * number // 10) - 1 for number in range(1, 11)}  # ten have room side by side
    for number, (row, x) in enumerate(zip(rows, xs, strict=True)):
        if number in labelled:
            parts.append(
                f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{row["day"]:g}</text>'
            )
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">day</text></svg>'
    )
    return "\n".join(parts) + "\n"


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
