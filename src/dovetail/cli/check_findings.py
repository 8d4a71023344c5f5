"""Findings as lines, JSON, SARIF and annotations of GitHub Actions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dovetail import __version__
from dovetail.base.words import number_of
from dovetail.cli.messages import visible
from dovetail.lint.finding import Finding, Rule, Severity

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}

Form = Callable[[Sequence[Finding], Sequence[Rule]], str]


def _text(found: Sequence[Finding], _: Sequence[Rule]) -> str:
    return "".join(
        f"{item.source}:{max(1, item.line)}:{item.column} {item.code} {item.severity}: {visible(item.text)}\n"
        for item in found
    )


def _json(found: Sequence[Finding], _: Sequence[Rule]) -> str:
    rows = [
        {
            "code": item.code,
            "rule": item.rule,
            "severity": item.severity.value,
            "file": item.source,
            "line": item.line,
            "column": item.column,
            "kind": item.kind,
            "name": item.name,
            "path": item.path,
            "what": item.what,
            "why": item.why,
            "fix": item.fix,
            "fixable": item.mend is not None,
            "page": item.page,
        }
        for item in found
    ]
    counts = Counter(item.severity.value for item in found)
    return (
        json.dumps(
            {"findings": rows, "count": {name.value: counts[name.value] for name in Severity}}, indent=2
        )
        + "\n"
    )


def _sarif(found: Sequence[Finding], rules: Sequence[Rule]) -> str:
    places = {rule.code: place for place, rule in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "dovetail check",
                "version": __version__,
                "rules": [
                    {
                        "id": rule.code,
                        "name": "".join(part.capitalize() for part in rule.name.split("-")),
                        "shortDescription": {"text": rule.summary},
                        "help": {"text": f"docs/reference/rules/{rule.code}.md"},
                        "defaultConfiguration": {"level": _LEVELS[rule.severity], "enabled": rule.default},
                    }
                    for rule in rules
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            {
                "ruleId": item.code,
                "ruleIndex": places[item.code],
                "level": _LEVELS[item.severity],
                "message": {"text": item.text},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": quote(item.source)},
                            "region": {"startLine": max(1, item.line), "startColumn": max(1, item.column)},
                        },
                        "logicalLocations": [
                            {
                                "name": item.name,
                                "fullyQualifiedName": f"{item.kind}/{item.name}{_behind(item.path)}",
                            }
                        ],
                    }
                ],
            }
            for item in found
        ],
    }
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _behind(path: str) -> str:
    return f"/{path}" if path else ""


def _github(found: Sequence[Finding], _: Sequence[Rule]) -> str:
    """Workflow commands; what they separate by is written in per cents."""
    return "".join(
        f"::{_COMMANDS[item.severity]} file={_property(item.source)},line={max(1, item.line)},"
        f"col={max(1, item.column)},title={_property(f'{item.code} {item.rule}')}::{_data(item.text)}\n"
        for item in found
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMS: Mapping[str, Form] = {"text": _text, "json": _json, "sarif": _sarif, "github": _github}


def summary(found: Sequence[Finding], fixed: int, unseen: str = "") -> str:
    """How many of what, and what can be done by --fix; `unseen` is why nothing could be found."""
    counts = Counter(item.severity for item in found)
    fixable = sum(item.mend is not None for item in found)
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
    parts = [number_of(counts[kind], word) for kind, word in words.items() if counts[kind]]
    found_text = ", ".join(parts) or (f"nothing found: {unseen}" if unseen else "nothing found")
    mended = f"; {fixed} fixed" if fixed else ""
    return f"{found_text}{mended}" + (f"; {fixable} can be fixed by --fix" if fixable else "")


def listed(rules: Sequence[Rule]) -> str:
    """One line for each rule."""
    width = max((len(rule.name) for rule in rules), default=0)
    return "".join(
        f"{rule.code}  {rule.severity.value:7}  {rule.name:{width}}  {rule.summary}"
        f"{'' if rule.default else ' (only when asked)'}\n"
        for rule in rules
    )
