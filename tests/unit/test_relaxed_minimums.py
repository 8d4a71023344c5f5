"""minValues under the BestEffort policy: claims ask for as many values as their types have."""

from __future__ import annotations

from dovetail.model import labels
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, pod, pool, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify


def test_a_claim_asks_for_no_more_values_than_it_has() -> None:
    wanted = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 4}
    general = pool("general")
    general["spec"]["template"]["spec"]["requirements"] = [wanted]
    # Only one type holds the first pod, all types hold the second.
    pods = [pod("large", "web", (6_000, 1_024), {}), pod("small", "api", (250, 512), {})]
    document = scenario(pods, [general], instance_types())
    document["options"] = {"minValuesPolicy": "BestEffort"}
    problem = to_problem(document)
    plan = solve(problem)
    assert verify(problem, plan) == ()
    asked = {
        claim.pods: (claim.min_values_relaxed, claim.requirements.get(labels.INSTANCE_TYPE).min_values)
        for claim in plan.claims
    }
    # The second pod rides along: a node of its own would cost more.
    assert asked == {("default/large", "default/small"): (True, 1)}
    document["options"] = {"minValuesPolicy": "Strict"}
    strict = solve(to_problem(document))
    assert [item.pod for item in strict.unschedulable] == ["default/large"]
    assert [claim.requirements.get(labels.INSTANCE_TYPE).min_values for claim in strict.claims] == [4]
