"""A plan as it grows, and as it is written down.

plan_state      planned nodes, counters once pods stand   builder         puts pods into it: insertion, moves
opened_domains  domains that nodes for others open        from_patterns   a plan from the patterns of a proof
reasons         why a pod is left over                    write           claims and the plan
"""
