"""The simulated kube-scheduler with the default profile: binds pods to nodes that exist, never makes any.

`queue` says which pod is next, `cluster` is what it knows, `sampling` at which nodes an attempt looks,
`feasible` where a pod may go (asked of `model/filters.py`) and which pods room is kept for, `preemption`
which pods go for one that fits nowhere, `scores` where it had best go, `scheduler` runs the cycle. Not
simulated: image locality, volumes' own scores, second-best nodes of the pod before, and the random choice
among equals (a draw seeded by the pod takes its place).
"""
