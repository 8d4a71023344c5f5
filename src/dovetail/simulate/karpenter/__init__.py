"""Karpenter's policy as a rival: its packing and its consolidation, behind the ports of Dovetail's own.

planner        the Planner: problems answered the way the original answers them, with the time that it takes
scheduling     first fit decreasing: nodes that exist, nodes about to be bought, then pools by weight
nodes          the two kinds of node that a pod may be put on, and the types that are left for a new one
topology       spread, affinity and anti-affinity as counts per domain
pods           what one pod asks for, and the preferences that it gives up one at a time
consolidation  which nodes go: a binary search over the first hundred, then one node after the other

What it does is kept as it is, its faults included: that is what it is compared for.
"""
