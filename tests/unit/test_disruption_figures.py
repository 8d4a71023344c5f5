"""What disruption came to, from records of the event log."""

from __future__ import annotations

from typing import Any

from dovetail.base.clock import SECOND
from dovetail.simulate.analysis.disruptions import disruption_figures, ended_nodes


def command(
    reason: str, *claims: str, savings: int = 0, replacements: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "t": SECOND,
        "kind": "disruption",
        "reason": reason,
        "claims": list(claims),
        "savings": savings,
        "replacements": list(replacements),
    }


def undone(*claims: str) -> dict[str, Any]:
    return {"t": SECOND, "kind": "disruption.failed", "claims": list(claims)}


def ended(claim: str, reason: str, pods: int) -> dict[str, Any]:
    return {
        "t": 2 * SECOND,
        "kind": "disrupted",
        "claim": claim,
        "node": f"node-{claim}",
        "pool": "general",
        "reason": reason,
        "mode": "graceful",
        "pods": pods,
    }


RECORDS = [
    command("Underutilized", "a", "b", savings=500_000_000, replacements=("n",)),
    undone("a", "b"),
    command("Underutilized", "a", "b", savings=400_000_000, replacements=("m",)),
    ended("a", "underutilized", 3),
    ended("b", "underutilized", 2),
    command("Empty", "c", savings=100_000_000),
    ended("c", "empty", 0),
    ended("d", "spot_interrupted", 4),
]


def test_commands_that_were_undone_save_nothing() -> None:
    found = disruption_figures(RECORDS, 10 * SECOND)
    assert (found.commands, found.failed) == (2, 1)
    assert (found.nodes, found.pods_moved, found.saved_hourly) == (4, 9, 0.5)


def test_each_reason_has_its_share() -> None:
    by_reason = disruption_figures(RECORDS, 10 * SECOND).by_reason
    assert list(by_reason) == ["underutilized", "empty", "spot_interrupted"]
    assert (by_reason["underutilized"].nodes, by_reason["underutilized"].saved_hourly) == (2, 0.4)
    assert (by_reason["spot_interrupted"].commands, by_reason["spot_interrupted"].pods_moved) == (0, 4)


def test_each_node_that_was_ended_has_a_row() -> None:
    rows = ended_nodes(RECORDS)
    assert [(row.node, row.saved_hourly, row.replacements) for row in rows] == [
        ("node-a", 0.4, ["m"]),
        ("node-b", 0.4, ["m"]),
        ("node-c", 0.1, []),
        ("node-d", 0.0, []),
    ]


def test_a_quiet_cluster_has_nothing_to_report() -> None:
    found = disruption_figures([], 10 * SECOND)
    assert (found.commands, found.nodes, found.by_reason) == (0, 0, {})
    assert found.budgets == {}


def test_how_far_budgets_were_used() -> None:
    def budget(seconds: int, pool: str, used: int, allowed: int) -> dict[str, Any]:
        return {"t": seconds * SECOND, "kind": "budget", "pool": pool, "used": used, "allowed": allowed}

    records = [
        budget(0, "general", 0, 0),  # no node yet: nothing is used up
        budget(10, "general", 1, 3),
        budget(20, "general", 4, 0),
        budget(30, "general", 3, 0),
        budget(40, "general", 2, 2),
        budget(40, "steady", 1, 0),
    ]
    budgets = disruption_figures(records, 100 * SECOND).budgets
    assert (budgets["general"].most_used, budgets["general"].full_seconds) == (4, 20)
    assert (budgets["steady"].most_used, budgets["steady"].full_seconds) == (1, 60)
