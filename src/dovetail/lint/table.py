"""All rules by their codes, and which of them are asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.lint.finding import Rule
from dovetail.lint.rules import (
    amounts,
    nodeclass,
    nodeoverlay,
    nodepool,
    nodepool_annotations,
    nodepool_budgets,
    refused,
    scaling,
    shared_limits,
    workload,
)

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *refused.RULES,
            *nodepool.RULES,
            *nodepool_budgets.RULES,
            nodeoverlay.overlay_without_effect,
            nodepool_annotations.annotation_unreadable,
            *nodeclass.RULES,
            *workload.RULES,
            *amounts.RULES,
            *scaling.RULES,
            *shared_limits.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
GROUPS = {
    "HV": "values of the Helm chart",
    "IN": "what cannot be read or is refused",
    "KE": "KEDA and other scalers",
    "NC": "node classes",
    "NP": "node pools",
    "TF": "Terraform",
    "WL": "workloads",
}
_ALL = "ALL"


def chosen(
    select: Sequence[str] = (), ignore: Sequence[str] = (), extend: Sequence[str] = ()
) -> tuple[Rule, ...]:
    """The rules that begin with what is selected, or those of every day, less what is ignored.

    Codes (NP001), beginnings of codes (NP, NP00), names (spot-with-one-type) and ALL, with commas or apart.
    The longer beginning wins, as in ruff. Raises InputError for what is no rule.
    """
    wanted, unwanted, more = (
        tuple(_codes(flag, texts))
        for flag, texts in (("--select", select), ("--ignore", ignore), ("--extend-select", extend))
    )
    return tuple(
        rule
        for rule in RULES
        if max(_fit(rule, wanted) if wanted else (0 if rule.default else -1), _fit(rule, more))
        >= max(0, _fit(rule, unwanted) + 1)
    )


def _codes(flag: str, texts: Sequence[str]) -> list[str]:
    found = []
    names = {rule.name: rule.code for rule in RULES}
    for word in (part for text in texts for part in re.split(r"[,\s]+", text) if part):
        code = names.get(word.lower(), word.upper())
        if code != _ALL and not any(rule.code.startswith(code) for rule in RULES):
            known = [*(rule.code for rule in RULES), *names, *GROUPS]
            remedy = (
                meant(word, known)
                or f"groups are {', '.join(sorted(GROUPS))}; docs/reference/rules lists all"
            )
            raise InputError(f"there is no rule {word!r}", source=flag, remedy=remedy)
        found.append("" if code == _ALL else code)
    return found


def _fit(rule: Rule, codes: Sequence[str]) -> int:
    """The length of the longest beginning that names the rule; -1 for none."""
    return max((len(code) for code in codes if rule.code.startswith(code)), default=-1)
