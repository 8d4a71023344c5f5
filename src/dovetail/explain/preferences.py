"""Which preferences a pod goes without, in words."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Pod, PodAffinityTerm
from dovetail.explain import words
from dovetail.model.selector import Selector
from dovetail.solve.instance.pod_rules import Rules, levels, rules_of


def given_up_preferences(pod: Pod, given_up: tuple[str, ...]) -> tuple[str, ...]:
    """Each of the plan's words for what was given up, with what it was about."""
    return tuple(_given_up(pod, given_up))


def _given_up(pod: Pod, given_up: tuple[str, ...]) -> Iterator[str]:
    steps = levels(rules_of(pod, respect_preferences=True), soft_taints_exist=True)
    now, _ = next(steps)
    named = 0
    for lower, gone in steps:
        if named >= len(given_up):
            return
        for number, name in enumerate(given_up[named : named + len(gone)]):
            about = _about(now, name, number)
            yield f"{name} ({about})" if about else name
        named, now = named + len(gone), lower
    yield from given_up[named:]


def _about(rules: Rules, name: str, number: int) -> str:
    """What the word is about, as the `number`th that goes in one step from these rules."""
    if name == "preferred node affinity" and rules.preferred_node:
        return ", ".join(words.demand(item) for item in rules.preferred_node[0])
    if name == "preferred pod affinity":
        return "".join(_term(item) for item in rules.preferred_affinity[number : number + 1])
    if name == "preferred pod anti-affinity":
        return "".join(_term(item) for item in rules.preferred_anti[number : number + 1])
    if name == "required node affinity term" and rules.terms:
        return ", ".join(words.demand(item) for item in rules.terms[0])
    return ""


def _term(term: PodAffinityTerm) -> str:
    return f"{words.selector(Selector.read(term.label_selector))} over {words.label(term.topology_key)}"
