"""Times, costs and memory of the solver, from decoded objects to the plan, case by case.

Each case is solved under several budgets ("first" is the first plan alone). Times are medians; every run gets
input made anew; plans are checked by the independent checker outside the timed part.

Examples:
  python -m benchmarks.solve --list
  python -m benchmarks.solve mix/2000 apart --repeat 1
  python -m benchmarks.solve 'trace/*/on-demand/cmr' --trace pods.csv.gz --region us-east-1
"""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.machine import facts
from benchmarks.solve import (
    crowded,
    memory,
    mix,
    ordinary,
    original,
    rules,
    scaling,
    small,
    traces,
    vectors,
)
from benchmarks.solve.case import Case, Row, Settings
from benchmarks.solve.table import HEADER, line, record
from dovetail.base.collector import collect_seldom
from dovetail.cli.main import readers_may_leave

_REGIONS = ("us-east-1", "ap-northeast-2")


@readers_may_leave()
def main() -> None:
    collect_seldom()  # as the command line does
    arguments = _arguments()
    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    chosen = _chosen(_cases(arguments.trace, arguments.region or _REGIONS, seed), arguments.cases)
    if not chosen:
        raise SystemExit("no case has such a name; --list shows them all (those of traces need --trace FILE)")
    if arguments.list:
        print("\n".join(case.name for case in chosen))
        return
    settings = Settings(
        repeat=arguments.repeat,
        check=not arguments.no_check,
        counted=arguments.counted,
        budgets=tuple(arguments.budget),
    )
    print(f"seed of crowds, mixed and services: {seed}")
    print(HEADER)
    rows: list[Row] = []
    for case in chosen:
        for row in case.run(settings):
            rows.append(row)
            print(line(row), flush=True)
        if arguments.json:
            document = {"machine": facts(), "seed": seed, "rows": [record(row) for row in rows]}
            arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.solve",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help="name, first parts of it, or pattern; default: all"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument(
        "--trace", type=Path, action="append", default=[], help="CSV file of pods; may be repeated"
    )
    parser.add_argument(
        "--region", action="append", help=f"of the traces; may be repeated (default: {', '.join(_REGIONS)})"
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="of crowds, mixed and services (default: another one each time, which is printed)",
    )
    parser.add_argument("--repeat", type=int, default=5, help="runs per budget of up to 5 s (default: 5)")
    parser.add_argument(
        "--budget",
        type=_seconds,
        default=[],
        help="seconds, 0 for the first plan, as 0,1,10; default: the cases' own",
    )
    parser.add_argument(
        "--counted",
        action="store_true",
        help="budgets are counted work, not CPU time: the same plan everywhere",
    )
    parser.add_argument("--no-check", action="store_true", help="do not check the plans")
    parser.add_argument("--json", type=Path, help="write all figures and the machine's facts to this file")
    return parser.parse_args()


def _seconds(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _cases(paths: Sequence[Path], regions: Sequence[str], seed: int) -> list[Case]:
    return [
        *original.cases(),
        *mix.cases(),
        *rules.cases(),
        *traces.cases(paths, regions),
        *scaling.cases(),
        *ordinary.cases(),
        *small.cases(),
        *crowded.cases(seed),
        *memory.cases(),
        *vectors.cases(),
    ]


def _chosen(cases: list[Case], names: Sequence[str]) -> list[Case]:
    if not names:
        return cases
    return [
        case
        for case in cases
        if any(fnmatchcase(case.name, name) or case.name.startswith(f"{name.rstrip('/')}/") for name in names)
    ]


if __name__ == "__main__":
    main()
