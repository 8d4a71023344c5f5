"""Admission rules beyond types and patterns: what CEL expresses in a CRD, as named Python functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A rule looks at a value of the document and, on updates, at the value it replaces. True: the rule holds.
Check = Callable[[Any], bool]
Transition = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a schema node. `message` is the exact text that a user reads when it is broken."""

    name: str
    message: str
    check: Check | None = None
    transition: Transition | None = None  # looks at the old value as well; only asked on updates

    def holds(self, value: Any, old: Any | None) -> bool:
        """True iff the value may be stored; `old` is None on create."""
        if self.check is not None:
            return self.check(value)
        return self.transition is None or old is None or self.transition(value, old)


def rule(message: str) -> Callable[[Check], Rule]:
    """Make a Rule of a predicate over the value."""
    return lambda check: Rule(check.__name__, message, check=check)


def on_update(message: str) -> Callable[[Transition], Rule]:
    """Make a Rule of a predicate over the new and the old value."""
    return lambda transition: Rule(transition.__name__, message, transition=transition)
