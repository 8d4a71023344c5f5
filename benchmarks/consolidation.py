"""Consolidation without a cluster: one decision, the same again, and commands until nothing is left to gain.

Nodes of 8 CPUs with eight pods each, all on demand and of one pool, whose types have 1 to 400 CPUs at one
price per CPU; budgets allow everything. "s" are CPU seconds. "repack" carries out each move at once, as its
plan says, and asks again.

Examples:
  python -m benchmarks.consolidation
  python -m benchmarks.consolidation --nodes 200 used/37 --json figures.json
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec.structs import replace as changed

from benchmarks.machine import facts
from benchmarks.solve import inputs
from benchmarks.solve.inputs import Document
from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.question import Finding, Move, Mover, Question
from dovetail.disrupt.consolidation.search import QUICK, search
from dovetail.disrupt.pods import unbound
from dovetail.model import labels
from dovetail.model.offering import NANO_DOLLARS
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.solve.solver import solve
from dovetail.solve.work import Work

_CPUS = 8
_EACH = 8  # pods per node
_POOL = "default"
_TURN = 3_000_000  # units of work, as in the controller
_ROUNDS = 200
_LINE = "{:24} {:>6} {:>7} {:>8} {:>9} {:>9} {:>8} {:>6} {:>7} {:>7} {:>8}  {}"


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
    asked: int  # plans that the search wanted
    again: float  # seconds of the last decision once more, nothing changed
    target: str = ""


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
        Case("used/92/equal", lambda count: cluster(count, (0.92, 0.92), most=_CPUS), target="5 s"),
        Case("used/92/mixed", lambda count: cluster(count, (0.92, 0.92), spread=0.5), target="5 s"),
        Case("repack/37", lambda count: cluster(count, (0.30, 0.45), spread=0.5), True, "1.05 x bound"),
        Case(
            "repack/37/rules",
            lambda count: cluster(count, (0.30, 0.45), spread=0.5, rules=True),
            True,
            "1.05 x bound",
        ),
    ]


def cluster(
    count: int, used: tuple[float, float], *, spread: float = 0.0, rules: bool = False, most: int = 400
) -> Question:
    """So many nodes, used so much of their CPUs; pods of one node differ in size by the spread, up or down.

    With `rules` a quarter of the pods are spread over zones, and one in ten shares no node with its like.
    """
    draw = random.Random(1)
    types = inputs.linear_types(most)
    empty = inputs.problem([], types)
    nodes, movers, number = [], [], 0
    for index in range(count):
        name = f"node-{index:05}"
        share = draw.uniform(*used) * _CPUS * 1000
        cuts = [draw.uniform(1 - spread, 1 + spread) for _ in range(_EACH)]
        pods = []
        for cut in cuts:
            pods.append(_pod(number, int(share * cut / sum(cuts)), name, rules=rules))
            number += 1
        nodes.append(_node(name, _CPUS, inputs.ZONES[index % 3], tuple(pods)))
        movers.append(_mover(nodes[-1]))
    problem = replace(empty, nodes=tuple(nodes))
    return Question(problem, tuple(movers), {_POOL: count})


def _pod(number: int, cpu: int, node: str, *, rules: bool) -> Pod:
    own = {"app": f"app-{number % 40:02}"}
    rule: Document = {}
    if rules and number % 40 < 10:
        rule = {"topologySpreadConstraints": [inputs.spread(labels.ZONE, own)]}
    elif rules and number % 40 < 14:
        rule = {"affinity": inputs.near("podAntiAffinity", labels.HOSTNAME, own)}
    document = inputs.pod(number, cpu, cpu * 3 // 2, own, **rule)
    document["spec"]["nodeName"] = node
    return decode(document, Pod)


def _node(name: str, cpus: int, zone: str, pods: tuple[Pod, ...]) -> ExistingNode:
    room = {"cpu": 1000 * cpus, "memory": 2 * cpus * 2**30, "pods": 10 * cpus}
    stamped = {
        labels.HOSTNAME: name,
        labels.ZONE: zone,
        labels.NODEPOOL: _POOL,
        labels.INSTANCE_TYPE: f"type-{cpus}",
        labels.CAPACITY_TYPE: labels.ON_DEMAND,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.INITIALIZED: "true",
        labels.REGISTERED: "true",
    }
    return ExistingNode(name, stamped, (), room, room, pods, _POOL)


def _mover(node: ExistingNode) -> Mover:
    kind = node.labels[labels.INSTANCE_TYPE]
    offer = kind, node.labels[labels.ZONE], labels.ON_DEMAND
    price = int(kind.removeprefix("type-")) * NANO_DOLLARS // 25
    return Mover(node.name, _POOL, offer, price, float(len(node.pods)), tuple(map(unbound, node.pods)))


def decided(question: Question, memory: Memory) -> tuple[Finding, int]:
    """What the search finds in as many turns as it takes, and how many plans it asked for."""
    asked = 0
    while True:
        asking = search(question, memory, Work(Budget(_TURN)), 0)
        try:
            problem = next(asking)
            while True:
                asked += 1
                problem = asking.send(solve(problem, Budget.within(QUICK)))
        except StopIteration as end:
            if end.value.complete:
                return end.value, asked


def carried_out(question: Question, move: Move, number: int) -> Question:
    """The cluster after the move, every pod where the plan has it."""
    pods = {pod.key: pod for mover in move.movers for pod in mover.pods}
    gone = {mover.name for mover in move.movers}
    nodes = [
        replace(node, pods=(*node.pods, *_on(node.name, move.places.get(node.name, ()), pods)))
        for node in question.problem.nodes
        if node.name not in gone
    ]
    for index, claim in enumerate(move.claims):
        name = f"new-{number:03}-{index:05}"
        cpus = int(claim.instance_type.removeprefix("type-"))
        nodes.append(_node(name, cpus, claim.zone, _on(name, claim.pods, pods)))
    problem: Problem = replace(question.problem, nodes=tuple(nodes))
    return replace(question, problem=problem, movers=tuple(map(_mover, nodes)))


def _on(node: str, keys: Sequence[str], pods: Mapping[str, Pod]) -> tuple[Pod, ...]:
    return tuple(changed(pods[key], spec=changed(pods[key].spec, node_name=node)) for key in keys)


def measured(case: Case, count: int) -> Row:
    """One case, its question made anew."""
    question, memory = case.make(count), Memory()
    before = sum(mover.price for mover in question.movers)
    rounds = moved = asked = 0
    seconds = 0.0
    while True:
        started = time.process_time()
        finding, plans = decided(question, memory)
        seconds += time.process_time() - started
        asked += plans
        if not rounds:
            bound = finding.bound
        if finding.move is None or rounds >= _ROUNDS:
            break
        rounds += 1
        moved += sum(len(mover.pods) for mover in finding.move.movers)
        question = carried_out(question, finding.move, rounds)
        if not case.to_the_end:
            break
    started = time.process_time()
    if finding.move is None:
        decided(question, memory)
    again = time.process_time() - started
    return Row(
        case=case.name,
        nodes=count,
        pods=count * _EACH,
        seconds=seconds,
        before=before / NANO_DOLLARS,
        after=sum(mover.price for mover in question.movers) / NANO_DOLLARS,
        bound=bound / NANO_DOLLARS,
        rounds=rounds,
        moved=moved,
        asked=asked,
        again=again,
        target=case.target,
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
        row.asked,
        f"{row.again:.3f}",
        row.target,
    )


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
    heads = ("case", "nodes", "pods", "s", "$/h", "after", "/bound", "rounds", "moved", "plans", "again s")
    print(_LINE.format(*heads, "target"))
    for case in cases():
        if arguments.cases and not any(fnmatchcase(case.name, each) for each in arguments.cases):
            continue
        rows.append(measured(case, arguments.nodes))
        print(line(rows[-1]), flush=True)
    if arguments.json:
        document = {"machine": facts(), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
