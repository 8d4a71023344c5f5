"""Inventory -> findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.lint.comments import Silenced
from dovetail.lint.finding import Finding, Remark, Rule
from dovetail.lint.inventory import Inventory
from dovetail.reading.refusals import subject


def check(
    inventory: Inventory, rules: Iterable[Rule], silenced: Mapping[str, Silenced] | None = None
) -> tuple[Finding, ...]:
    """What the rules find, by file, line and column; `silenced` holds the comments of each file."""
    found = {finding_key(item): item for rule in rules for item in _findings(rule, inventory)}
    kept = (
        item
        for item in found.values()
        if item.source not in (silenced or {})
        or not (silenced or {})[item.source].covers(item.code, item.line)
    )
    return tuple(sorted(kept, key=lambda item: (item.source, item.line, item.column, item.code, item.what)))


def finding_key(item: Finding) -> tuple[str, str, int, int, str]:
    """Two findings with the same are one."""
    return item.code, item.source, item.line, item.column, item.what


def _findings(rule: Rule, inventory: Inventory) -> Iterable[Finding]:
    return (_finding(rule, remark) for remark in rule.check(inventory))


def _finding(rule: Rule, remark: Remark) -> Finding:
    located = remark.located
    line, column = remark.place or located.place_of(remark.path)
    named = subject(located.value) if isinstance(located.value, dict) else {"kind": "", "name": ""}
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity=remark.severity or rule.severity,
        source=located.source,
        line=line,
        column=column,
        kind=named["kind"],
        name=named["name"],
        path=remark.path,
        what=remark.what,
        why=remark.why,
        fix=remark.fix,
        document=located,
        mend=remark.mend,
    )
