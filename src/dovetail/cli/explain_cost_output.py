"""How the prices of rules are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.cli.tables import add_row, new_table
from dovetail.explain.cost import CostStory, RulePrice
from dovetail.model.offering import HOURS_A_MONTH, NANO_DOLLARS


def monthly(nanos: int) -> float:
    """Nano-dollars per hour as dollars per month of 730 hours."""
    return nanos * HOURS_A_MONTH / NANO_DOLLARS


def cost_document(story: CostStory) -> dict[str, Any]:
    """Prices of rules for programs; dollars per month of 730 hours."""
    return {
        "monthly": round(monthly(story.base.plan.cost.hourly), 2),
        "lowerBound": round(monthly(story.base.plan.cost.lower_bound), 2),
        "rules": [
            {
                "rule": item.rule.what,
                "who": item.rule.who,
                "saved": round(monthly(item.saved), 2),
                "atLeast": round(monthly(item.least), 2),
                "atMost": round(monthly(item.most), 2),
                "nodesFewer": item.nodes,
            }
            for item in story.prices
        ],
        "notComparable": [{"rule": rule.what, "who": rule.who} for rule in story.unclear],
        "notTried": [{"rule": rule.what, "who": rule.who} for rule in story.untried],
    }


def cost_tables(story: CostStory) -> RenderableType:
    """Prices of rules for people."""
    cost = story.base.plan.cost
    if not cost.hourly:
        return Text("The plan buys nothing, so no rule costs anything.")
    parts: list[RenderableType] = [
        Text(
            f"The plan costs ${monthly(cost.hourly):,.2f} a month ({HOURS_A_MONTH} h); no plan under these "
            f"rules costs less than ${monthly(cost.lower_bound):,.2f}."
        )
    ]
    dear = [item for item in story.prices if item.saved > 0 and round(monthly(item.saved), 2) > 0]
    if dear:
        parts.append(_table(dear))
        parts.append(
            Text(
                "Saved: the plan found without that one rule, against this plan. Surely and At most are "
                "proven of the cheapest plans that keep the same preferences and weights; where Surely is "
                "0, a saving may be luck of the search. Rules are lifted one at a time: what they save "
                "does not add up."
            )
        )
    free = len(story.prices) - len(dear)
    parts += [Text(line) for line in _rest(story, free)]
    return Group(*parts)


def _table(prices: Sequence[RulePrice]) -> RenderableType:
    table = new_table("What each rule costs, in dollars a month")
    table.add_column("Without this rule")
    table.add_column("Of")
    for heading in ("Saved", "Surely", "At most", "Nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in prices:
        figures = (f"{monthly(each):,.2f}" for each in (item.saved, item.least, item.most))
        add_row(table, item.rule.what, item.rule.who, *figures, f"{-item.nodes:+d}" if item.nodes else "")
    return table


def _rest(story: CostStory, free: int) -> list[str]:
    lines = []
    if free:
        lines.append(f"{_rules(free)} that {'was' if free == 1 else 'were'} tried would save nothing.")
    if story.unclear:
        names = "; ".join(f"{rule.what} of {rule.who}" for rule in story.unclear)
        lines.append(f"Could not be compared, because the plan without it leaves pods over: {names}.")
    if story.untried:
        count = len(story.untried)
        lines.append(f"{_rules(count)} {'was' if count == 1 else 'were'} not tried (see --tries).")
    return lines


def _rules(count: int) -> str:
    return f"{count} rule{'s' if count != 1 else ''}"
