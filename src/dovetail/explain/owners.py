"""Whose a pod is: rules are written in templates, so a change is made for all of a template's pods."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dovetail.api.core import Pod


def template_of(pod: Pod) -> tuple[str, bytes]:
    """Equal for pods of one controller, and for pods without one that have the same labels and rules."""
    reference = pod.metadata.controller()
    if reference is not None:
        return f"{reference.kind} {pod.metadata.namespace}/{reference.name}", b""
    spec = pod.spec
    parts = (
        sorted(pod.metadata.labels.items()),
        sorted(spec.node_selector.items()),
        spec.affinity,
        spec.topology_spread_constraints,
        spec.tolerations,
    )
    return f"Pod in {pod.metadata.namespace}", msgspec.json.encode(parts)


def by_template(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by what they come from, such as `Deployment shop/web` or `Pod shop/a and 3 like it`."""
    found: dict[tuple[str, bytes], list[Pod]] = {}
    for pod in pods:
        found.setdefault(template_of(pod), []).append(pod)
    named: dict[str, list[Pod]] = {}
    for (name, rules), members in sorted(found.items()):
        if rules:
            others = len(members) - 1
            name = f"Pod {members[0].key}" + (f" and {others} like it" if others else "")
        named[name] = members
    return named
