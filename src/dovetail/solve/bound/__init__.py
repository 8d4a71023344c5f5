"""What any plan must cost at least, each proof by weak duality or by an integer program.

scope           what a bound is about, rules that are about a single node
relaxation      dual values by resources              provers         a table of the proofs, cheapest first
topology_model, topology_rules, topology_colgen, topology_domains, topology_mip   the bound that knows rules
between pods
"""
