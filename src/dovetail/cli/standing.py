"""What stands against disrupting a node of the manifests, as `dovetail explain node` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dovetail.cli.tables import add_row, new_table
from dovetail.disrupt.standing import Standing


def standing_document(found: Standing | None) -> dict[str, Any]:
    """For programs."""
    if found is None:
        return {"managed": False}
    return {
        "managed": True,
        "blockers": list(found.blockers),
        "consolidation": list(found.consolidation),
        "budgets": dict(found.allowed),
        "unreadable": list(found.faults),
    }


def standing_lines(found: Standing | None) -> Iterator[RenderableType]:
    """For people."""
    if found is None:
        yield Text("No NodeClaim among the manifests is this node's, so Dovetail would never disrupt it.")
        return
    if found.blockers:
        table = new_table("What keeps it from being disrupted", "Reason")
        for text in found.blockers:
            add_row(table, text)
        yield table
    else:
        yield Text("Nothing on the node or its pods keeps it from being disrupted.")
    for title, texts in (
        ("What keeps consolidation from looking at it", found.consolidation),
        ("What cannot be read", found.faults),
    ):
        if texts:
            table = new_table(title, "Reason")
            for text in texts:
                add_row(table, text)
            yield table
    shown = ", ".join(f"{reason} {count}" for reason, count in found.allowed)
    yield Text(f"Nodes of its pool that budgets allow to be disrupted now: {shown}.")
