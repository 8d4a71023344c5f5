"""What each heuristic and each proof of the solver is worth: all of it is turned off, one after the other.

Recorded scenarios, small random problems on a region's types, traces, and problems as deadlines are
measured on, with counted work, so that the figures are the same everywhere. A part is turned off by replacing
a named function for the time of the run: the solver itself knows nothing of it. Per part: the change of the
sum of costs and of the sum of bounds, the scenarios that are over 1 % worse and better without it, CPU
seconds, and the lines that it takes.

Examples:
  python -m benchmarks.ablation --list
  python -m benchmarks.ablation --every 8 --small 12
  python -m benchmarks.ablation "move" "prover: columns" --json out.json
  python -m benchmarks.ablation --every 0 --small 0 --crowds 20 --trace openb_cpu250.csv.gz
"""

from __future__ import annotations

import argparse
import inspect
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.deadline import size
from benchmarks.machine import facts
from benchmarks.solve import small
from benchmarks.solve.crowded import question
from benchmarks.solve.traces import Market, read
from benchmarks.solve.traces import question as of_trace
from dovetail.model.problem import Budget, Problem
from dovetail.solve import neighbourhood, search, search_state, solver
from dovetail.solve.assign import strategies
from dovetail.solve.bound import provers, topology_domains, topology_mip, topology_model, topology_rules
from dovetail.solve.build import builder, from_patterns
from dovetail.solve.colgen import (
    compact_mip,
    dual_feasible,
    exchange_pricing,
    generation,
    knapsack_pricing,
)
from dovetail.solve.pack import aggregation, greedy, local_search, multistart, refine
from dovetail.testing.crowds import crowd
from dovetail.testing.scenarios import features, read_scenarios

_VECTORS = Path(__file__).parent.parent / "tests" / "conformance" / "vectors" / "scheduling"
_MOST_PODS = 2_000  # of a problem as deadlines are measured on: all parts are asked of it
_WORSE = 0.01  # of a scenario's cost or bound: that much is worth to be named


@dataclass(frozen=True, slots=True)
class Part:
    """Something that can be turned off: what replaces what, and the code that would go."""

    name: str
    replaced: tuple[tuple[Any, str, Any], ...]  # (module or class, name, what stands in for it)
    code: tuple[Any, ...]  # functions and classes


@dataclass(frozen=True, slots=True)
class Outcome:
    """One problem planned: dollars per hour, and CPU seconds."""

    cost: float
    bound: float
    left: int
    seconds: float


def _nothing(*_: Any, **__: Any) -> Iterator[Any]:
    return iter(())


def _given(position: int) -> Callable[..., Any]:
    return lambda *arguments, **_: arguments[position]


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _first_opinion(*arguments: Any) -> Iterator[Any]:
    """The first way to value items, and those that spare what is limited."""
    for number, each in enumerate(_OPINIONS(*arguments)):
        if not number or each[2]:
            yield each


_OPINIONS = multistart._opinions


def _unrefined(packer: Any, start: Any, _: Any) -> refine.Refined:
    return refine.Refined(start, np.zeros(len(packer.items)), 0.0)


def _no_nodes(*_: Any, **__: Any) -> compact_mip.Whole:
    return compact_mip.Whole(0)


def _no_shares(vectors: Any, _: Any) -> Any:
    return np.zeros((0, len(vectors)))


def _crowdless(self: Any, *_: Any) -> aggregation.NodeCountWeights:
    return aggregation.NodeCountWeights(np.zeros(self._kinds), float("inf"))


def parts() -> list[Part]:
    """All that can be turned off, provers first."""
    found = []
    for prover in provers.PROVERS:
        fewer = tuple(each for each in provers.PROVERS if each is not prover)
        quick = tuple(each for each in provers.QUICK if each is not prover)
        replaced = ((provers, "PROVERS", fewer), (provers, "QUICK", quick))
        found.append(Part(f"prover: {prover.name}", replaced, _PROVER_CODE[prover.name]))
    return [*found, *_BOUND, *_ANSWERS, *_PACKING, *_COLUMNS]


_PROVER_CODE: dict[str, tuple[Any, ...]] = {
    "dearest pod": (provers.Proofs.dearest,),
    "relaxation": (provers.Proofs.relaxation,),
    "limits": (provers.Proofs.limited,),
    "capacities": (provers.Proofs.capacities,),
    "columns": (provers.Proofs.columns, provers.highest_ratio),
    "rules between pods": (topology_mip, topology_model, topology_rules),
    "whole numbers": (provers.WholeNumbers, provers.Proofs.whole),
}
_BOUND = (
    Part(
        "topology bound: orders of pods (ways)",
        ((topology_mip, "add_ways", _nothing),),
        (topology_rules.add_ways,),
    ),
    Part(
        "topology bound: sets of pods per domain",
        ((topology_domains.Domains, "run", lambda *_: None),),
        (topology_domains,),
    ),
    Part("topology bound: few patterns, before packing", ((topology_mip, "NARROW", 0),), ()),
    Part(
        "topology bound: nodes one by one",
        ((topology_mip.TopologyBound, "deeper", _zero),),
        (topology_mip.split, topology_mip.cramped),
    ),
    Part(
        "topology bound: shares of nodes", ((topology_model, "shares", _no_shares),), (topology_model.shares,)
    ),
    Part(
        "topology bound: shares of domains",
        ((search_state, "pinned", lambda *_: None),),
        (topology_model.pinned,),
    ),
    Part("whole nodes: shares of nodes", ((compact_mip, "shares", _no_shares),), (dual_feasible,)),
    Part(
        "plan of a proof's patterns",
        ((search_state, "plan_from_patterns", lambda *_: None),),
        (from_patterns,),
    ),
)
_ANSWERS = (
    Part("strategy: spreads see nodes alone", ((solver, "matters", lambda _: False),), ()),
    Part(
        "strategy: targets of an answer",
        ((topology_mip, "_targets", lambda *_: {}),),
        (topology_mip._targets,),
    ),
    Part(
        "answers followed node by node", ((solver, "followed", lambda *_: None),), (neighbourhood.followed,)
    ),
    Part("moves", ((solver, "rearranged", _given(1)),), (neighbourhood.rearranged, neighbourhood._moves)),
    Part("strategies for pods left over", ((solver, "fuller", _nothing),), (strategies.fuller,)),
    Part(
        "insertion of pods left over",
        ((builder.PlanBuilder, "insert", lambda _, left, **__: list(left)),),
        (builder.PlanBuilder,),
    ),
    Part("pods evened out", ((search.Search, "_even_out", lambda _: []),), (search.Search._even_out,)),
)
_PACKING = (
    Part(
        "several opinions of dual values",
        ((multistart, "_opinions", _first_opinion),),
        (multistart._opinions,),
    ),
    Part(
        "local search: merge, shift",
        ((multistart, "settled", _given(1)),),
        (local_search._Steps, local_search.settled),
    ),
    Part("local search: many nodes", ((local_search.Improver, "run", _given(1)),), (local_search.Improver,)),
    Part("local search: fewer nodes", ((multistart, "joined", _given(1)),), (local_search.joined,)),
    Part("column generation", ((multistart, "refine", _unrefined),), (refine.refine, generation)),
    Part("whole nodes first", ((refine, "whole_nodes", _no_nodes),), ()),
    Part(
        "weights of node counts",
        ((aggregation.Crowds, "node_count_weights", _crowdless),),
        (aggregation.Crowds, aggregation.NodeCountWeights),
    ),
    Part(
        "substitutable classes",
        ((greedy.Packer, "_substitutes", property(lambda _: None)),),
        (aggregation.SubstitutableClasses,),
    ),
)
_COLUMNS = (
    Part("exchange pricing", ((generation.Generator, "_exchanged", _zero),), (exchange_pricing,)),
    Part("greedy pricing", ((generation.Generator, "_filled", _zero),), (generation.Generator._filled,)),
    Part("knapsack pricing", ((generation.Generator, "_searched", _zero),), (knapsack_pricing,)),
    Part("dive", ((generation.Generator, "_dive", lambda *_: []),), (generation.Generator._dive,)),
    Part(
        "all patterns of a cheaper plan",
        ((generation.Generator, "whole", lambda *_: []),),
        (generation.Generator.whole,),
    ),
)


def problems(every: int, few: int, crowds: int, traces: Sequence[Path]) -> dict[str, Problem]:
    """Each so-manieth recorded scenario, so many small problems and crowds, and each trace on two pools."""
    found: dict[str, Problem] = {}
    number = 0
    for feature in features(_VECTORS) if every else ():
        for scenario in read_scenarios(_VECTORS / f"{feature}.jsonl.gz"):
            if number % every == 0:
                found[scenario.name] = scenario.problem
            number += 1
    found |= {f"small-{seed}": small.problem(seed) for seed in range(few)}
    drawn = ((seed, *size(seed)) for seed in count(1))
    for seed, pods, shapes in islice((each for each in drawn if each[1] <= _MOST_PODS), crowds):
        found[f"crowd-{seed}"] = (crowd if seed % 2 else question)(seed, pods, shapes)
    for path, ordinary in product(traces, (False, True)):
        name = f"{path.name.partition('.')[0]}{', ordinary types' if ordinary else ''}"
        found[name] = of_trace(partial(read, path), Market("us-east-1", spot=False, ordinary=ordinary))
    return found


def planned(asked: dict[str, Problem], work: int, part: Part | None) -> dict[str, Outcome]:
    """All of them without the part; with all parts if that is None."""
    found = {}
    with ExitStack() as stack:
        for owner, name, stand_in in part.replaced if part else ():
            stack.enter_context(patch.object(owner, name, stand_in))
        for key, problem in asked.items():
            begun = time.process_time()
            plan = solver.solve(problem, Budget(work=work))
            used = time.process_time() - begun
            cost = plan.cost
            found[key] = Outcome(cost.hourly / 1e9, cost.lower_bound / 1e9, len(plan.unschedulable), used)
    return found


def compared(part: Part, whole: dict[str, Outcome], without: dict[str, Outcome]) -> dict[str, Any]:
    """The figures of one part. Problems that place other pods than before count apart."""
    alike = [key for key in whole if whole[key].left == without[key].left]
    costs = [sum(each[key].cost for key in alike) for each in (whole, without)]
    bounds = [sum(each[key].bound for key in alike) for each in (whole, without)]

    def change(now: float, before: float) -> float:
        return now / before - 1 if before else 0.0

    by_cost = {key: change(without[key].cost, whole[key].cost) for key in alike}
    by_bound = {key: change(without[key].bound, whole[key].bound) for key in alike}
    return {
        "part": part.name,
        "cost": change(costs[1], costs[0]),
        "bound": change(bounds[1], bounds[0]),
        "dearer": sorted(key for key, by in by_cost.items() if by > _WORSE),
        "cheaper": sorted(key for key, by in by_cost.items() if by < -_WORSE),
        "weaker": sorted(key for key, by in by_bound.items() if by < -_WORSE),
        "stronger": sorted(key for key, by in by_bound.items() if by > _WORSE),
        "more left": sorted(key for key in whole if without[key].left > whole[key].left),
        "fewer left": sorted(key for key in whole if without[key].left < whole[key].left),
        "seconds": sum(each.seconds for each in without.values()),
        "lines": sum(lines(each) for each in part.code),
    }


def lines(code: Any) -> int:
    """Lines of a function, a class or a module with anything on them but a comment."""
    text = inspect.getsource(code).splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text)


def row(figures: dict[str, Any]) -> str:
    """One line of the table."""
    counts = " ".join(
        f"{len(figures[key]):3}"
        for key in ("dearer", "cheaper", "weaker", "stronger", "more left", "fewer left")
    )
    return (
        f"{figures['part']:38} {figures['cost']:+9.3%} {figures['bound']:+9.3%} {counts} "
        f"{figures['seconds']:7.1f} {figures['lines']:5}"
    )


def main() -> None:
    arguments = _arguments()
    chosen = [
        part for part in parts() if not arguments.parts or any(each in part.name for each in arguments.parts)
    ]
    if arguments.list or not chosen:
        print("\n".join(part.name for part in (chosen or parts())))
        return
    asked = problems(arguments.every, arguments.small, arguments.crowds, arguments.trace)
    whole = planned(asked, arguments.work, None)
    total = [sum(getattr(each, name) for each in whole.values()) for name in ("cost", "bound", "seconds")]
    print(f"{len(asked)} problems, {arguments.work:,} units of work each, with all parts:")
    print(f"cost {total[0]:.3f} $/h, bound {total[1]:.3f} $/h, {total[2]:.1f} s of CPU")
    print(f"{'without':38} {'cost':>9} {'bound':>9} dear cheap weak strong left: more, fewer  CPU s  lines")
    found = []
    for part in chosen:
        found.append(compared(part, whole, planned(asked, arguments.work, part)))
        print(row(found[-1]), flush=True)
        if arguments.json:
            document = {"machine": facts(), "problems": len(asked), "work": arguments.work, "parts": found}
            arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="name, or a piece of it; default: all")
    parser.add_argument("--list", action="store_true", help="print the names of the parts and stop")
    parser.add_argument("--every", type=int, default=1, help="each so-manieth recorded scenario; 0 for none")
    parser.add_argument("--small", type=int, default=100, help="small random problems (default: 100)")
    parser.add_argument("--crowds", type=int, default=0, help="problems of up to 2,000 pods (default: 0)")
    parser.add_argument("--trace", type=Path, action="append", default=[], help="CSV trace; repeatable")
    parser.add_argument("--work", type=int, default=300_000, help="units of work for each (default: 300000)")
    parser.add_argument(
        "--json", type=Path, help="write all figures, with the scenarios' names, to this file"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
