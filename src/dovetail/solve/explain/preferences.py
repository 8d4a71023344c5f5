"""Which preferences a pod goes without, in words."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Pod, PodAffinityTerm
from dovetail.model.selector import Selector
from dovetail.solve.demand.relax_preferences import relax_one
from dovetail.solve.demand.rules import Rules, rules_of
from dovetail.solve.explain import words


def told(pod: Pod, given_up: tuple[str, ...]) -> tuple[str, ...]:
    """Each of the plan's words for what was given up, with what it was about."""
    return tuple(_told(pod, given_up))


def _told(pod: Pod, given_up: tuple[str, ...]) -> Iterator[str]:
    current: Rules | None = rules_of(pod, respect_preferences=True)
    for name in given_up:
        about = "" if current is None else _about(current, name)
        yield f"{name} ({about})" if about else name
        if current is not None:
            current, _ = relax_one(current, soft_taints_exist=True)


def _about(rules: Rules, name: str) -> str:
    if name == "preferred node affinity" and rules.preferred_node:
        return ", ".join(words.demand(item) for item in rules.preferred_node[0])
    if name == "preferred pod affinity" and rules.preferred_affinity:
        return _term(rules.preferred_affinity[0])
    if name == "preferred pod anti-affinity" and rules.preferred_anti:
        return _term(rules.preferred_anti[0])
    if name == "required node affinity term" and rules.terms:
        return ", ".join(words.demand(item) for item in rules.terms[0])
    return ""


def _term(term: PodAffinityTerm) -> str:
    return f"{words.selector(Selector.read(term.label_selector))} over {words.label(term.topology_key)}"
