"""The solver on random small problems, beside trying everything: pods left out, dearer plans, wrong bounds.

usage: python scripts/try_random_problems.py FIRST [LAST] [--work N] [--unlimited] [--more] [--varied]
           [--plans]

Each seed is a problem. One that shows a fault is printed; the last line counts them. `--plans` prints the
pods of such a problem, our plan and the better one.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

from dovetail.cli.main import readers_may_leave
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.problems import Document, enriched, random_scenario
from dovetail.testing.scenarios import to_problem
from dovetail.testing.variety import varied
from dovetail.verify import verify
from score_vectors import show


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    parser.add_argument("--work", type=int, default=Budget().work)
    parser.add_argument("--unlimited", action="store_true", help="no pool has limits")
    parser.add_argument(
        "--more", action="store_true", help="two rules per app, daemons, minValues, reservations"
    )
    parser.add_argument(
        "--varied", action="store_true", help="volumes, ports, taints, namespaces, open labels and the like"
    )
    parser.add_argument("--plans", action="store_true")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    seeds = range(asked.first, (asked.last or asked.first) + 1)
    for seed in seeds:
        document = random_scenario(seed, limited=not asked.unlimited)
        if asked.more:
            document = enriched(document, seed)
        if asked.varied:
            document = varied(document, seed)
        problem = to_problem(document)
        plan = solve(problem, Budget(work=asked.work))
        found = list(faults(problem, plan))
        counts.update(what for what, _ in found)
        shown = [(what, better) for what, better in found if what not in ("too large", "unsupported")]
        for what, better in shown:
            left = f"{len(plan.unschedulable)} and {len(better.unschedulable)} left out"
            print(f"{seed}: {what}: {plan.cost.hourly / 1e9:.4f} and {better.cost.hourly / 1e9:.4f}, {left}")
        if shown and asked.plans:
            describe(document)
            show("ours", plan)
            for what, better in shown:
                show(what, better)
    print(f"{len(seeds)} problems:", dict(sorted(counts.items())))


def faults(problem: Problem, plan: Plan) -> Iterator[tuple[str, Plan]]:
    """What is wrong or could be better, each with a plan that shows it."""
    for fault in verify(problem, plan):
        print(f"    {fault.rule}: {fault.subject} {fault.message}")
        yield "rule broken", plan
    try:
        fuller = exhaustive.fuller(problem, plan)
        cheaper = exhaustive.cheaper(problem, plan)
    except (exhaustive.TooLarge, exhaustive.Unsupported) as error:
        yield ("too large" if isinstance(error, exhaustive.TooLarge) else "unsupported"), plan
        return
    if fuller is not None:
        yield "pods left out", fuller
    if cheaper is not None:
        yield "not the cheapest", cheaper
    best = cheaper or plan
    if plan.cost.lower_bound > best.cost.hourly:
        yield "bound above the optimum", best


def describe(document: Document) -> None:
    for pool in document["nodePools"]:
        spec = pool["spec"]
        print(
            f"    pool {pool['metadata']['name']}: weight {spec.get('weight')}, limits {spec.get('limits')}"
        )
    for node in document["nodes"]:
        marks = node["metadata"]["labels"]
        print(
            f"    {node['metadata']['name']}: {marks['topology.kubernetes.io/zone']}",
            node["status"]["capacity"],
        )
    for pod in (*document["boundPods"], *document["pods"]):
        spec = {key: value for key, value in pod["spec"].items() if key != "containers"}
        print(f"    {pod['metadata']['name']}", pod["spec"]["containers"][0]["resources"]["requests"], spec)


if __name__ == "__main__":
    main()
