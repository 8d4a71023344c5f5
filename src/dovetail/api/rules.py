"""Admission rules beyond types and patterns, as named Python functions.

Rules of custom kinds carry the same rule in CEL: that is what a real API server runs, with the same message.
Recorded verdicts hold both to one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# True: the rule holds. A transition looks at the value that an update replaces as well.
Check = Callable[[Any], bool]
Transition = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a schema node. `message` is the exact text that a user reads when it is broken."""

    name: str
    message: str = ""
    check: Check | None = None
    transition: Transition | None = None  # only asked on updates
    explain: Callable[[Any], str] | None = None  # finds its own words; empty: the rule holds
    at: str = ""  # where the fault is, below the node that the rule belongs to
    cel: str = ""  # the rule over `self` and `oldSelf`; empty for kinds that a server checks by itself

    def fault(self, value: Any, old: Any | None) -> str:
        """The message if the rule is broken, else empty; `old` is None on create."""
        if self.explain is not None:
            return self.explain(value)
        if self.check is not None and not self.check(value):
            return self.message
        if self.transition is not None and old is not None and not self.transition(value, old):
            return self.message
        return ""


def rule(message: str, *, at: str = "", cel: str = "") -> Callable[[Check], Rule]:
    """Make a Rule of a predicate over the value."""
    return lambda check: Rule(check.__name__, message, check=check, at=at, cel=cel)


def on_update(message: str, *, cel: str) -> Callable[[Transition], Rule]:
    """Make a Rule of a predicate over the new and the old value."""
    return lambda transition: Rule(transition.__name__, message, transition=transition, cel=cel)


def at_least(least: int, field: str) -> Rule:
    """That a number is not below a bound, where it is given."""
    return Rule(
        f"{field}_at_least_{least}",
        f"must be greater than or equal to {least}",
        check=lambda part: part.get(field, least) >= least,
        at=field,
    )


def cel_list(texts: Iterable[str]) -> str:
    """A list of texts in CEL, sorted, so that the same texts read the same."""
    return f"[{', '.join(map(repr, sorted(texts)))}]"
