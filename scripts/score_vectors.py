"""The recorded scheduling scenarios in one table: our cost, the recorded one, our bound, the exact optimum.

usage: python scripts/score_vectors.py [--work N] [--plans] [NAME ...]

NAME is a scenario (`basic-000`) or a feature (`basic`); all of them without one. The optimum is found by
trying everything, for scenarios of ten pods or fewer. `--plans` shows our plan and a better one if there is.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from dovetail.cli.main import readers_may_leave
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.scenarios import Scenario, features, read_scenarios
from dovetail.units.money import NANO_DOLLARS
from dovetail.verify import verify

FOLDER = Path(__file__).parent.parent / "tests" / "conformance" / "vectors" / "scheduling"
SMALL = 10


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--work", type=int, default=Budget().work)
    parser.add_argument("--plans", action="store_true")
    asked = parser.parse_args()
    print(f"{'scenario':44} pods placed  ours     recorded          bound    optimum  notes")
    for scenario in chosen(asked.names):
        plan = solve(scenario.problem, Budget(work=asked.work))
        better, optimum, notes = exact(scenario, plan)
        recorded = scenario.expected
        prices = [run["totalPrice"] for run in recorded["runs"]]
        shown = [plan.cost.hourly, min(prices) * NANO_DOLLARS, max(prices) * NANO_DOLLARS]
        amounts = " ".join(f"{price / NANO_DOLLARS:.4f}".ljust(8) for price in shown)
        bound = f"{plan.cost.lower_bound / NANO_DOLLARS:.4f}"
        count = len(scenario.problem.pods) - len(plan.unschedulable)
        theirs = len(recorded["summary"]["scheduled"])
        notes += ["recorded answer is faulty"] if recorded["upstreamViolations"] else []
        pods = f"{len(scenario.problem.pods):4} {count:3}/{theirs:<3}"
        print(f"{scenario.name:44} {pods} {amounts} {bound:8} {optimum:8} {', '.join(notes)}")
        if asked.plans:
            for title, some in (("ours", plan), *better):
                show(title, some)


def chosen(names: list[str]) -> Iterator[Scenario]:
    for feature in features(FOLDER):
        for scenario in read_scenarios(FOLDER / f"{feature}.jsonl.gz"):
            if not names or scenario.name in names or feature in names:
                yield scenario


def exact(scenario: Scenario, plan: Plan) -> tuple[list[tuple[str, Plan]], str, list[str]]:
    """Better plans if there are any, the least cost of placing our pods as text, and what is to be said."""
    notes = [f"{len(found)} faults" for found in [verify(scenario.problem, plan)] if found]
    if len(scenario.problem.pods) > SMALL:
        return [], "", notes
    try:
        fuller = exhaustive.fuller(scenario.problem, plan)
        cheaper = exhaustive.cheaper(scenario.problem, plan)
    except (exhaustive.TooLarge, exhaustive.Unsupported) as error:
        return [], "?", [*notes, type(error).__name__]
    better = [(title, some) for title, some in (("fuller", fuller), ("cheaper", cheaper)) if some]
    notes += ["more pods could be placed"] if fuller else []
    notes += ["could be cheaper"] if cheaper else []
    least = (cheaper or plan).cost.hourly
    return better, f"{least / NANO_DOLLARS:.4f}", notes


def show(title: str, plan: Plan) -> None:
    print(f"    {title}: {plan.cost.hourly / NANO_DOLLARS:.5f}")
    for claim in plan.claims:
        where = f"{claim.instance_type} {claim.zone} {claim.capacity_type} {claim.price / NANO_DOLLARS}"
        print(f"      {claim.name} {where}: {' '.join(claim.pods)}")
    for node, pods in plan.existing.items():
        print(f"      {node}: {' '.join(pods)}")
    for item in plan.unschedulable:
        print(f"      left over: {item.pod}")
    for pod, given_up in plan.relaxed.items():
        print(f"      {pod} gives up: {', '.join(given_up)}")


if __name__ == "__main__":
    main()
