"""The problem as arrays, encoded once for a whole solve; a pipeline, each stage from those before it.

arrays          their types, the axis of resources      topology   counters of spreads and affinities
pod_classes     pods that no rule can tell apart        interning  pods to classes
pool_table      one NodePool's types and offerings
existing_nodes  nodes that are there, with their pods   shared_quotas  what all pools draw on together
instance        all of these, and what a new node could be
offerings       the offerings of all pools side by side, dominance among them
limits          what limits, reservations, quotas and spot diversity still allow
"""
