"""Recorded scenarios where the solver falls short of the measure, each with its reason. May only shrink."""

from __future__ import annotations


def _each(reasons: dict[str, str]) -> dict[str, str]:
    """Scenario -> why, from why -> scenarios."""
    return {name: why for why, names in reasons.items() for name in names.split()}


# Pods that all recorded runs scheduled are left over: the recorded answers break a rule. That these pods
# have no place is proven by trying everything (test_scheduling_vectors).
LEFT_OUT = _each(
    {
        """every node of the pool gets a label that two of the pods want to be absent; the recorded answer
        puts them on one node with pods that want it to be there, and a real scheduler leaves two pending
        """: """
            label-exists-conflict-001
        """,
        "the recorded answer takes the pool to four nodes, its limit is two": """
            nodes-limit-001
        """,
        """a spread with minDomains 5 over three zones allows one of its pods per zone, and only as the first
        there; the recorded answer judges by another constraint's minDomains, and a real scheduler leaves
        all four of these pods pending on its nodes
        """: """
            spread-min-domains-shared-001
        """,
    }
)

# Of such a scenario, the pods that cannot all be placed, with others or without; all pods where not named.
CORE = {"spread-min-domains-shared-001": r"web-\d-2"}

# Trying everything places more pods.
COULD_PLACE_MORE: dict[str, str] = {}

# Preferences are given up by pods that have no place otherwise, never to save money. The recorded answers
# give up more; without any preference our plans are no dearer, which is asserted (test_scheduling_vectors).
PREFERENCES = "a preference is kept on nodes that cost more"

# The recorded answer places the same pods for less.
DEARER = _each(
    {
        PREFERENCES: """
            pod-anti-affinity-preferred-006
        """,
    }
)

# The cost is not within 3 % of what is proven necessary.
FAR = _each(
    {
        "a spread counts an empty domain or host that only a new node opens; the cheapest buys none": """
            existing-spread-000 existing-spread-001 existing-spread-007 mixed-003
        """,
        "spreads over hosts that count each other's pods: no bound knows in which order pods come": """
            spread-cross-selector-003
        """,
        "several rules, taints, weights and limits at once: too many sets of pods for whole loads": """
            mixed-000 mixed-001 mixed-004 mixed-009 mixed-010 mixed-012 mixed-019 mixed-022 mixed-024
            mixed-025 mixed-027 mixed-031 mixed-033 mixed-036 mixed-037
        """,
        "the program with rules between pods is too large to be solved in the time": """
            pod-affinity-mixed-004 pod-anti-affinity-preferred-007 spread-capacity-type-003
            spread-cross-selector-004 spread-min-domains-004 spread-min-domains-shared-001 spread-multi-006
            spread-zone-000 spread-zone-001 spread-zone-006
        """,
        "worths know nothing of limits, and there are too many loads to choose from": """
            nodepool-limits-009
        """,
        "few nodes are bought, of which the bound counts fractions": """
            basic-007 basic-010 basic-large-001 basic-large-003 node-affinity-operators-001
            node-affinity-required-004 node-selector-006 nodepool-requirements-000
            nodepool-requirements-001 packing-mixed-003 packing-mixed-006
        """,
    }
)
