"""What plans promise beside what the cluster makes of it: sixty bursts in virtual time, on three seeds each.

python -m benchmarks.realised [--family NAME] [--most PODS] [--seeds 3] [--jobs N] [--alone] [--json FILE]
python -m benchmarks.realised --cluster [--alone | --drift] [--workload NAME] [--minutes 4] [--json FILE]
python -m benchmarks.realised --drift [--workload NAME] [--seeds 3] [--jobs N] [--json FILE]
python -m benchmarks.realised --loss [--drift] [--workload NAME] [--seeds 3] [--jobs N] [--json FILE]
python -m benchmarks.realised --week [--seeds 3] [--jobs N] [--json FILE]
python -m benchmarks.realised --beside [--workload NAME] [--seeds 3] [--jobs N] [--json FILE]

The first and the last play an hour, or `--minutes` of it: five are enough to see where pods go.
The second form plays ten of them, or those that are named, on a real control plane as well, in the machine's
own time, and prints each beside its simulation. The third lets all nodes drift after the burst, and takes
half of the pods away an hour later. The fourth takes half of the pods away after the burst, and with --drift
lets all nodes drift a quarter of an hour later. The fifth plays a week of a service that breathes, with a
drift: what was paid over what 10 ms prove to be needed and over what ten seconds prove ("anew"), the share
paid for nodes that commands had taken ("twofold"), and what it could have cost, had the load been known. The
sixth plays each burst with Karpenter's heuristics too ("astray" are pods that are not where their rules,
required or wished, would have them after 15 minutes).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from benchmarks.realised import cluster
from benchmarks.realised.beside import KARPENTERS, OURS, play_beside
from benchmarks.realised.drift import play_drift
from benchmarks.realised.loss import play_loss
from benchmarks.realised.run import Realised, play
from benchmarks.realised.week import play_week
from benchmarks.realised.workloads import FAMILIES, FIVE_HUNDRED, workloads
from dovetail.cli.main import readers_may_leave

Row = dict[str, Any]

HEAD = (
    f"{'workload':20} {'seed':>4} {'unbound':>7} {'$/h':>8} {'/bound':>6} {'first':>6} {'node':>6}"
    f" {'bound':>6} {'15 min':>6} {'end':>6} {'waves':>5} {'p50':>6} {'p99':>6} {'ready':>6} {'moved':>5}"
)

BESIDE_HEAD = f"{'workload':20} {'seed':>4}" + "".join(
    f" {name:>8} {'karpenter':>9}" for name in ("$ spent", "$/h then", "$/h end", "astray", "p99")
)

DRIFT_HEAD = (
    f"{'workload':20} {'seed':>4} {'pods':>5} {'$/h':>8} {'before':>6} {'most':>6} {'after':>6} {'end':>6}"
    f" {'reach':>6} {'moved':>5} {'shed':>5} {'a $/h':>6} {'twice':>5} {'undone':>6} {'failed':>6}  nodes"
)

LOSS_HEAD = (
    f"{'workload':20} {'seed':>4} {'$ spent':>8} {'$/h':>8} {'end':>6} {'moved':>5} {'twice':>5}"
    f" {'undone':>6} {'failed':>6} {'renewed':>7}"
)

WEEK_HEAD = (
    f"{'workload':20} {'seed':>4} {'cost':>6} {'anew':>6} {'twofold':>7} {'nodes':>5} {'moved':>5}"
    f" {'twice':>5} {'undone':>6} {'failed':>6}  commands"
)


@readers_may_leave()
def main() -> int:
    """Play what is asked for, print each run as it ends, then the medians; 0 always: it judges nothing."""
    names = [*(one.name for one in workloads()), FIVE_HUNDRED]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.realised", description=__doc__)
    parser.add_argument("--family", action="append", choices=tuple(FAMILIES), help="may be repeated; all")
    parser.add_argument("--most", type=int, default=10_000, help="leave out workloads of more pods")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each (3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    parser.add_argument("--cluster", action="store_true", help="on a real control plane as well; needs Go")
    parser.add_argument("--alone", action="store_true", help="no node is nominated to the scheduler")
    parser.add_argument("--drift", action="store_true", help="let nodes drift, and pods go, after the burst")
    parser.add_argument("--loss", action="store_true", help="let half of the pods go after the burst")
    parser.add_argument("--week", action="store_true", help="a week of a service that breathes, and a drift")
    parser.add_argument("--beside", action="store_true", help="with Karpenter's heuristics too")
    parser.add_argument("--workload", action="append", choices=names, metavar="NAME", help="may be repeated")
    parser.add_argument("--minutes", type=int, help="from the burst on: 60, and 4 with --cluster")
    parser.add_argument("--patches", default="", metavar="TIME", help="that writes take, such as 20ms")
    arguments = parser.parse_args()
    if arguments.cluster:
        names = arguments.workload or cluster.TEN
        if arguments.drift:
            print(DRIFT_HEAD)
            rows = list(_side_by_side(names, cluster.both_drifting, _drift_line))
        else:
            print(HEAD)
            both = partial(cluster.both, minutes=arguments.minutes or 4, nominate=not arguments.alone)
            rows = list(_side_by_side(names, both, _line))
            _compare(rows)
        _write(arguments.json, rows, {})
        return 0
    if arguments.week:
        print(WEEK_HEAD)
        rows = list(_played(play_week, _week_line, ["week"], arguments.seeds, arguments.jobs))
        _write(arguments.json, rows, {})
        return 0
    families = arguments.family or list(FAMILIES)
    chosen = [one.name for one in workloads() if one.pods <= arguments.most and _family(one.name) in families]
    chosen = arguments.workload or chosen
    if arguments.loss:
        print(LOSS_HEAD)
        run = partial(play_loss, drift=arguments.drift)
        rows = list(_played(run, _loss_line, chosen, arguments.seeds, arguments.jobs))
        _write(arguments.json, rows, {})
        return 0
    if arguments.drift:
        print(DRIFT_HEAD)
        rows = list(_played(play_drift, _drift_line, chosen, arguments.seeds, arguments.jobs))
        for name in ("end", "reach"):
            print(f"{name}: {statistics.mean(row[name] for row in rows):.3f} in the mean")
        _write(arguments.json, rows, {})
        return 0
    if arguments.beside:
        print(BESIDE_HEAD)
        run = partial(play_beside, minutes=arguments.minutes or 60)
        rows = list(_played(run, _beside_line, chosen, arguments.seeds, arguments.jobs))
        _print_dearer(rows)
        _write(arguments.json, rows, {})
        return 0
    print(HEAD)
    rows = list(
        _played(
            partial(
                play,
                nominate=not arguments.alone,
                minutes=arguments.minutes or 60,
                patches=arguments.patches,
            ),
            _line,
            chosen,
            arguments.seeds,
            arguments.jobs,
        )
    )
    _print_medians(rows)
    _write(arguments.json, rows, _medians(rows))
    return 0


def _write(path: Path | None, rows: Sequence[Row], medians: dict[str, float]) -> None:
    if path is not None:
        document = {"machine": facts(), "rows": rows, "medians": medians}
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _side_by_side(
    names: Sequence[str], both: Callable[[str], Iterable[tuple[str, Row]]], line: Callable[[Row], str]
) -> Iterable[Row]:
    for name in names:
        for world, row in both(name):
            print(line(row), world, flush=True)
            yield {"world": world, **row}


def _compare(rows: Sequence[Row]) -> None:
    print()
    for name in ("on_first", "on_node", "at_bound", "early", "waves", "p50", "p99"):
        simulated, real = (
            statistics.median(row[name] for row in rows if row["world"] == world) for world in cluster.WORLDS
        )
        print(f"median {name:9} {simulated:8.3f} simulated {real:8.3f} on the cluster")


def _played(
    run: Callable[[tuple[str, int]], Row],
    line: Callable[[Row], str],
    names: Sequence[str],
    seeds: int,
    jobs: int,
) -> Iterable[Row]:
    runs = [(name, seed) for name in names for seed in range(1, seeds + 1)]
    # A process is replaced after eight runs, so that none holds the caches of all. (A ProcessPoolExecutor may
    # stand still at that, python/cpython#115634.)
    with get_context("spawn").Pool(jobs, maxtasksperchild=8) as pool:
        for row in pool.imap_unordered(run, runs):
            print(line(row), flush=True)
            yield row


def _line(row: Row) -> str:
    return (
        f"{row['workload']:20} {row['seed']:4} {row['unbound']:7} {row['planned']:8.2f}"
        f" {row['planned'] / row['bound'] if row['bound'] else 1:6.3f} {row['on_first']:6.1%}"
        f" {row['on_node']:6.1%} {row['at_bound']:6.3f} {row['early']:6.3f} {row['at_end']:6.3f}"
        f" {row['waves']:5} {row['p50']:6.1f} {row['p99']:6.1f} {row['slowest']:6.1f} {row['moved']:5}"
    )


def _drift_line(row: Row) -> str:
    return (
        f"{row['workload']:20} {row['seed']:4} {row['pods']:5} {row['planned']:8.2f} {row['before']:6.3f}"
        f" {row['most']:6.3f} {row['after']:6.3f} {row['end']:6.3f} {row['reach']:6.3f} {row['moved']:5}"
        f" {row['shed']:5} {row['shed'] / row['saved'] if row['saved'] else 0:6.1f} {row['twice']:5}"
        f" {row['undone']:6} {row['failed']:6}  {row['nodes']}"
    )


def _loss_line(row: Row) -> str:
    return (
        f"{row['workload']:20} {row['seed']:4} {row['spent']:8.3f} {row['last']:8.3f} {row['end']:6.3f}"
        f" {row['evicted']:5} {row['twice']:5} {row['undone']:6} {row['failed']:6} {row['renewed']:7}"
    )


def _week_line(row: Row) -> str:
    commands = ", ".join(f"{count} {reason}" for reason, count in sorted(row["commands"].items()))
    return (
        f"{row['workload']:20} {row['seed']:4} {row['cost']:6.3f} {row['anew']:6.3f} {row['overlap']:7.2%}"
        f" {row['launched']:5} {row['moved']:5} {row['twice']:5} {row['undone']:6} {row['failed']:6}"
        f"  {commands}\n  in hindsight: "
        + ", ".join(f"{ratio:.3f} with {moves} moves" for moves, ratio in row["hindsight"])
        + f"; {row['once_a_day']:.3f} with a move a day for each pod"
    )


def _beside_line(row: Row) -> str:
    names = ("spent", "after", "end", "astray", "p99")
    figures = "".join(f" {row[OURS][name]:8.3f} {row[KARPENTERS][name]:9.3f}" for name in names)
    return f"{row['workload']:20} {row['seed']:4}{figures}"


def _print_dearer(rows: Sequence[Row]) -> None:
    for name, text in (
        ("spent", "spent in 15 minutes"),
        ("after", "$/h after them"),
        ("end", "$/h in the end"),
    ):
        ratios = [row[OURS][name] / row[KARPENTERS][name] for row in rows]
        # Plans that are made some milliseconds later are not dearer for it.
        dearer = [row for row, ratio in zip(rows, ratios, strict=True) if round(ratio, 3) > 1]
        alike = sum(row[OURS]["astray"] >= row[KARPENTERS]["astray"] for row in dearer)
        print(
            f"{text}: {statistics.mean(ratios):.3f} of Karpenter's in the mean, {max(ratios):.3f} at worst,"
            f" more in {len(dearer)} of {len(rows)}, of these {alike} with no fewer pods astray"
        )


def _medians(rows: Sequence[Row]) -> dict[str, float]:
    """Of each figure over all runs, the shares of runs that the targets are about, and of pods in all."""
    names = [name for name in Realised.__dataclass_fields__ if name != "pods"]
    found = {name: statistics.median(row[name] for row in rows) for name in names}
    pods = sum(row["pods"] for row in rows)
    return found | {
        "pods_on_first": sum(row["on_first"] * row["pods"] for row in rows) / pods,
        "one_wave": sum(row["waves"] <= 1 for row in rows) / len(rows),
        "in_time": sum(row["p99"] <= 1.15 * row["slowest"] + 10 for row in rows) / len(rows),
        "moved": sum(row["moved"] for row in rows) / pods,
    }


def _print_medians(rows: Sequence[Row]) -> None:
    print()
    for family in (*FAMILIES, ""):
        ours = [row for row in rows if not family or _family(row["workload"]) == family]
        if not ours:
            continue
        mid = _medians(ours)
        print(
            f"{family or 'all':14} {len(ours):3} runs: {mid['pods_on_first']:.1%} on the first plan's nodes;"
            f" realised / planned {mid['at_bound']:.3f} when all are bound, {mid['early']:.3f} over 15 min,"
            f" {mid['at_end']:.3f} at the end; one wave {mid['one_wave']:.0%}, p99 in time"
            f" {mid['in_time']:.0%}, moves per pod {mid['moved']:.2f}"
        )


def _family(name: str) -> str:
    return name.rpartition("-")[0]


if __name__ == "__main__":
    sys.exit(main())
