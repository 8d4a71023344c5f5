"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dovetail.api.generations.editing import Editor
from dovetail.reading import Located

if TYPE_CHECKING:
    from dovetail.lint.inventory import Inventory

Mend = Callable[[Editor], None]


class Severity(StrEnum):
    """An error keeps something from working; a warning works and costs; info is worth a look."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that a rule says: at which field of which document, what, why and what to do.

    `mend` changes the document so that the remark is no longer true, without changing what it means; `line`
    is for what has no field.
    """

    located: Located
    path: str
    what: str
    why: str
    fix: str
    mend: Mend | None = None
    severity: Severity | None = None  # where it is not the rule's
    place: tuple[int, int] | None = None  # line and column, where the path does not say


Check = Callable[["Inventory"], Iterator[Remark]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`code` never changes and is never used again; the name may be improved. `default` False: only "
    "when asked."""

    code: str
    name: str
    severity: Severity
    summary: str
    check: Check
    default: bool = True


def rule(
    code: str, name: str, severity: Severity, summary: str, *, default: bool = True
) -> Callable[[Check], Rule]:
    """Make a rule of a function."""
    return lambda check: Rule(code, name, severity, summary, check, default)


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark with its rule and place. Line and column count from 1; 0 for what is not written anywhere."""

    code: str
    rule: str
    severity: Severity
    source: str
    line: int
    column: int
    kind: str
    name: str
    path: str
    what: str
    why: str
    fix: str
    document: Located
    mend: Mend | None = None

    @property
    def text(self) -> str:
        """What, why and what to do, in one line."""
        reason = f": {self.why}" if self.why else ""
        remedy = f"; {self.fix}" if self.fix else ""
        return " ".join(f"{self.what}{reason}{remedy}".split())

    @property
    def page(self) -> str:
        return f"docs/reference/rules/{self.code}.md"
