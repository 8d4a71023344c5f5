"""Many seeds of one scenario with faults, in parallel: which of them break a promise?

python -m dovetail.testing.soak [--seeds 20] [--first 1] [--jobs N] [--scenario FOLDER] [--faults FILE]

Each seed must keep every rule, leave no pod without a node for more than five minutes while nothing goes
wrong or at its end, have as many nodes as the faults file asks for, and see every kind of fault that
happens a number of times; one that has a rate has to happen in one of the seeds. A failed seed is reported
with the command that replays it; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

from dovetail.base.clock import MINUTE
from dovetail.base.collector import collect_seldom
from dovetail.base.errors import InputError
from dovetail.simulate.analysis.log import Record
from dovetail.simulate.analysis.waiting import waits
from dovetail.simulate.faults.kinds import KINDS
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.faults.tenant import NAMESPACE
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import FAULTS_NAME
from dovetail.simulate.scenario.scenario import load as load_scenario

EXAMPLE = Path("examples/faults")
PATIENCE = 5 * MINUTE
SETTLED = 10 * MINUTE  # after the last fault: from then on pods must not feel it any more
_SHOWN = 5  # complaints of one seed


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one seed; sound iff there is no complaint."""

    seed: int
    complaints: tuple[str, ...]
    faults: dict[str, int]
    checks: int
    peak: int
    cpu_seconds: float


def play(scenario: Path, faults: Path, seed: int) -> Verdict:
    """Play one seed. Whatever is raised is a complaint."""
    collect_seldom()
    begun = time.process_time()
    plan = load_scenario(scenario).seeded(seed)
    trouble = load_faults(faults, plan)
    try:
        result = simulate(plan, faults=trouble)
    except Exception as error:  # a run that breaks off is a finding like any other
        seconds = time.process_time() - begun
        return Verdict(seed, (f"it broke off: {_first(error)}",), {}, 0, 0, seconds)
    summary = result.summary
    return Verdict(
        seed,
        tuple(complaints(result, trouble)),
        summary.faults,
        summary.invariants_checked,
        summary.nodes.peak,
        time.process_time() - begun,
    )


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def complaints(result: Result, faults: Faults) -> Iterator[str]:
    """What is wrong with a run."""
    summary = result.summary
    for broken in summary.violations:
        yield f"{broken.rule}: {broken.subject} {broken.message}"
    late = kept_waiting(result.records, faults, result.end)
    if late:
        yield f"{len(late)} pods waited for a node for too long, {late[0]} for one"
    if summary.nodes.peak < faults.least_nodes:
        yield f"it never had more than {summary.nodes.peak} nodes, {faults.least_nodes} are wanted"
    for kind in missing(faults, "times", summary.faults):
        yield f"no {kind} happened"


def missing(faults: Faults, by: Literal["rate", "times"], happened: Mapping[str, int]) -> Iterator[str]:
    """The kinds named in the file, of those that fire `by` this, that did not happen."""
    for kind in dict.fromkeys(fault.kind for fault in faults.faults):
        if KINDS[kind].by == by and not happened.get(kind):
            yield kind


def kept_waiting(records: Iterable[Record], faults: Faults, end: int) -> list[str]:
    """Pods that waited for too long for a node before the first fault, long after the last, or at the end.

    Not those of a hostile tenant, most of which fit nowhere: the checker's rules alone judge them.

    What came a moment before the end waits for a node that boots: nodes expire at any time, the last minutes
    too.
    """
    first = min(fault.since for fault in faults.faults)
    calm = faults.over + SETTLED
    late = []
    for wait in waits(records, end):
        left = wait.bound is None and wait.ended == end
        trouble = first if wait.created < calm and not left else end
        hostile = wait.pod.startswith(f"{NAMESPACE}/")
        if not hostile and min(wait.created + wait.pending, trouble) - wait.created > PATIENCE:
            late.append(wait.pod)
    return late


def replay(scenario: Path, faults: Path, seed: int) -> str:
    """The command that plays one seed again."""
    return f"dovetail simulate {scenario} --faults {faults} --seed {seed}"


def soak(scenario: Path, faults: Path, seeds: Sequence[int], jobs: int) -> list[Verdict]:
    """Play all seeds, reporting each as it ends; in order of seed."""
    found = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(play, scenario, faults, seed) for seed in seeds]
        for number, done in enumerate(as_completed(running), 1):
            verdict = done.result()
            found.append(verdict)
            outcome = "sound" if not verdict.complaints else f"{len(verdict.complaints)} complaints"
            print(
                f"[{number}/{len(seeds)}] seed {verdict.seed}: {outcome}, {sum(verdict.faults.values())}"
                f" faults, {verdict.checks} checks, {verdict.cpu_seconds:.1f} s of CPU",
                flush=True,
            )
            for text in verdict.complaints[:_SHOWN]:
                print(f"    {text}", flush=True)
            if verdict.complaints:
                print(f"    replay it: {replay(scenario, faults, verdict.seed)}", flush=True)
    return sorted(found, key=lambda verdict: verdict.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 iff every seed is sound, 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m dovetail.testing.soak", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--scenario", type=Path, default=EXAMPLE)
    parser.add_argument("--faults", type=Path, help=f"{FAULTS_NAME} of the scenario by default")
    parser.add_argument("--json", type=Path, help="write every verdict to this file")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.jobs < 1:
        parser.error("--seeds and --jobs must be 1 or more")
    faults = given.faults or given.scenario / FAULTS_NAME
    try:
        trouble = load_faults(faults, load_scenario(given.scenario))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    found = soak(given.scenario, faults, range(given.first, given.first + given.seeds), given.jobs)
    fired = _summarize(found)
    never = list(missing(trouble, "rate", fired))
    if never:  # one seed may be without: of 20 calls at a rate of 0.1 none fails in one of 8
        print(f"no seed had any {' or '.join(never)}: give more --seeds, or higher rates in {faults}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(item) for item in found], indent=2) + "\n", encoding="utf-8")
    return 1 if never or any(item.complaints for item in found) else 0


def _summarize(found: Sequence[Verdict]) -> Counter[str]:
    """What happened in all seeds together."""
    failed = [item.seed for item in found if item.complaints]
    fired: Counter[str] = Counter()
    for item in found:
        fired.update(item.faults)
    print(f"{len(found) - len(failed)} of {len(found)} seeds are sound; failed: {failed or 'none'}")
    print("faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(fired.items())))
    seconds = sum(item.cpu_seconds for item in found)
    checks = sum(item.checks for item in found)
    print(f"{checks} checks, {seconds:.0f} s of CPU, {seconds / len(found):.1f} s a seed")
    return fired


if __name__ == "__main__":
    sys.exit(main())
