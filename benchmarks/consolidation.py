"""Consolidation without a cluster: one decision, the same again, and commands until nothing is left to gain.

Nodes of 8 CPUs with eight pods each, all on demand and of one pool, whose types have 1 to 400 CPUs at one
price per CPU; budgets allow everything. "s" are CPU seconds. "repack" carries out each move at once, as its
plan says, and asks again. "played/37" is the example `repack` in virtual time, with all controllers: "hours"
are those from the end of the batch until the last node is gone, "s" what the whole simulation takes.

Examples:
  python -m benchmarks.consolidation
  python -m benchmarks.consolidation --nodes 200 used/37 --json figures.json
  python -m benchmarks.consolidation played/37
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from msgspec.structs import replace as changed

from benchmarks.machine import facts
from benchmarks.used_nodes import CPUS, EACH, candidate, cluster, node
from dovetail.api.core import Pod
from dovetail.base.clock import HOUR
from dovetail.cli.main import readers_may_leave
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.question import Finding, Move, Question
from dovetail.disrupt.consolidation.search import QUICK, search
from dovetail.model.problem import Budget, Problem
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.solve.budget import SolveBudget
from dovetail.solve.solver import solve
from dovetail.units.money import NANO_DOLLARS

_TURN = 3_000_000  # units of work, as in the controller
_ROUNDS = 200
_LINE = "{:24} {:>6} {:>7} {:>8} {:>9} {:>9} {:>8} {:>6} {:>7} {:>7} {:>6} {:>8}  {}"
_PLAYED = "played/37"
_EXAMPLE = Path(__file__).parent.parent / "examples" / "repack"


@dataclass(frozen=True, slots=True)
class Row:
    """What one case gave. Money in dollars per hour; `moved` counts pods, `rounds` commands."""

    case: str
    nodes: int
    pods: int
    seconds: float
    before: float
    after: float
    bound: float
    rounds: int
    moved: int
    asked: int  # plans that the search wanted; 0 where that is not known
    again: float  # seconds of the last decision once more, nothing changed but the objects around the pods
    target: str = ""
    hours: float = 0.0  # from the moment that nodes were too many until the last of them was gone


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster, and whether it is consolidated to the end or for one decision."""

    name: str
    make: Callable[[int], Question]
    to_the_end: bool = False
    target: str = ""


def cases() -> list[Case]:
    """All of them."""
    return [
        Case("used/37", lambda count: cluster(count, (0.30, 0.45)), target="5 s, again 0.05 s"),
        Case("used/37/rules", lambda count: cluster(count, (0.30, 0.45), rules=True), target="5 s"),
        Case("used/92/equal", lambda count: cluster(count, (0.92, 0.92), most=CPUS), target="5 s"),
        Case("used/92/mixed", lambda count: cluster(count, (0.92, 0.92), spread=0.5), target="5 s"),
        Case(
            "used/92/equal/rules",
            lambda count: cluster(count, (0.92, 0.92), most=CPUS, rules=True),
            target="5 s",
        ),
        Case(
            "used/92/mixed/rules",
            lambda count: cluster(count, (0.92, 0.92), spread=0.5, rules=True),
            target="5 s",
        ),
        Case("repack/37", lambda count: cluster(count, (0.30, 0.45), spread=0.5), True, "1.05 x bound"),
        Case(
            "repack/37/rules",
            lambda count: cluster(count, (0.30, 0.45), spread=0.5, rules=True),
            True,
            "1.05 x bound",
        ),
    ]


def decided(question: Question, memory: Memory) -> tuple[Finding, int]:
    """What the search finds in as many turns as it takes, and how many plans it asked for."""
    asked = 0
    while True:
        asking = search(question, memory, SolveBudget(Budget(_TURN)), 0)
        try:
            problem = next(asking)
            while True:
                asked += 1
                problem = asking.send(solve(problem, Budget.within(QUICK)))
        except StopIteration as end:
            if end.value.complete:
                return end.value, asked


def built_again(question: Question) -> Question:
    """The same once more, of the same pods."""
    nodes = tuple(map(replace, question.problem.nodes))
    return replace(
        question, problem=replace(question.problem, nodes=nodes), candidates=tuple(map(candidate, nodes))
    )


def carried_out(question: Question, move: Move, number: int) -> Question:
    """The cluster after the move, every pod where the plan has it."""
    pods = {pod.key: pod for candidate in move.candidates for pod in candidate.pods}
    gone = {candidate.name for candidate in move.candidates}
    nodes = [
        replace(node, pods=(*node.pods, *_on(node.name, move.places.get(node.name, ()), pods)))
        for node in question.problem.nodes
        if node.name not in gone
    ]
    for index, claim in enumerate(move.claims):
        name = f"new-{number:03}-{index:05}"
        cpus = int(claim.instance_type.removeprefix("type-"))
        nodes.append(node(name, cpus, claim.zone, _on(name, claim.pods, pods)))
    problem: Problem = replace(question.problem, nodes=tuple(nodes))
    return replace(question, problem=problem, candidates=tuple(map(candidate, nodes)))


def _on(node: str, keys: Sequence[str], pods: Mapping[str, Pod]) -> tuple[Pod, ...]:
    return tuple(changed(pods[key], spec=changed(pods[key].spec, node_name=node)) for key in keys)


def measured(case: Case, count: int) -> Row:
    """One case, its question made anew."""
    question, memory = case.make(count), Memory()
    before = sum(candidate.price for candidate in question.candidates)
    rounds = moved = asked = 0
    seconds = 0.0
    while True:
        started = time.process_time()
        finding, plans = decided(question, memory)
        seconds += time.process_time() - started
        asked += plans
        if not rounds:
            bound = finding.bound
        same = built_again(question)
        started = time.process_time()
        decided(same, memory)
        again = time.process_time() - started
        if finding.move is None or rounds >= _ROUNDS:
            break
        rounds += 1
        moved += sum(len(candidate.pods) for candidate in finding.move.candidates)
        question = carried_out(question, finding.move, rounds)
        if not case.to_the_end:
            break
    return Row(
        case=case.name,
        nodes=count,
        pods=count * EACH,
        seconds=seconds,
        before=before / NANO_DOLLARS,
        after=sum(candidate.price for candidate in question.candidates) / NANO_DOLLARS,
        bound=bound / NANO_DOLLARS,
        rounds=rounds,
        moved=moved,
        asked=asked,
        again=again,
        target=case.target,
    )


def played(folder: Path) -> Row:
    """The example in virtual time, from its last change on; the bound is that of the last look."""
    started = time.process_time()
    records = simulate(load(folder)).records
    seconds = time.process_time() - started
    begun = max(record["t"] for record in records if record["kind"] == "change")
    after = [record for record in records if record["t"] >= begun]
    commands = [record for record in after if record["kind"] == "disruption"]
    looks = [record for record in after if record["kind"] == "efficiency"]
    gone = [record["t"] for record in after if record["kind"] == "node.deleted"]
    kinds = Counter(record["kind"] for record in records if record["t"] < begun)
    return Row(
        case=_PLAYED,
        nodes=kinds["node.created"] - kinds["node.deleted"],
        pods=kinds["pod.created"] - kinds["pod.deleted"],
        seconds=seconds,
        before=looks[0]["cost"] / NANO_DOLLARS,
        after=looks[-1]["cost"] / NANO_DOLLARS,
        bound=looks[-1]["lowerBound"] / NANO_DOLLARS,
        rounds=len(commands),
        moved=sum(record["pods"] for record in commands),
        asked=0,
        again=0.0,
        target="1.05 x bound",
        hours=(max(gone, default=begun) - begun) / HOUR,
    )


def line(row: Row) -> str:
    """One line of the table."""
    return _LINE.format(
        row.case,
        row.nodes,
        row.pods,
        f"{row.seconds:.2f}",
        f"{row.before:.2f}",
        f"{row.after:.2f}",
        f"{row.after / row.bound:.4f}",
        row.rounds,
        row.moved,
        row.asked or "-",
        f"{row.hours:.2f}" if row.hours else "-",
        f"{row.again:.3f}",
        row.target,
    )


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.consolidation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="name or pattern; default: all")
    parser.add_argument("--nodes", type=int, default=2_000, help="of each cluster (default: 2000)")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    arguments = parser.parse_args()
    rows = []
    heads = (
        "case",
        "nodes",
        "pods",
        "s",
        "$/h",
        "after",
        "/bound",
        "rounds",
        "moved",
        "plans",
        "hours",
        "again s",
    )
    print(_LINE.format(*heads, "target"))
    runs: dict[str, Callable[[], Row]] = {
        case.name: partial(measured, case, arguments.nodes) for case in cases()
    }
    runs[_PLAYED] = partial(played, _EXAMPLE)
    for name, run in runs.items():
        if not arguments.cases or any(fnmatchcase(name, each) for each in arguments.cases):
            rows.append(run())
            print(line(rows[-1]), flush=True)
    if arguments.json:
        document = {"machine": facts(), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
