"""Domains before nodes: existing nodes are filled, every other pod gets its zone or other domain.

items           what has to share new nodes           topology_rules  what rules mean for a pod class
strategies      other ways to pick domains            spread_quotas   how many pods each domain takes
colocation      pods that must be near each other     assigner        all of it, class by class
"""
