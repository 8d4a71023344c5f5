"""Problem in, Plan out: the solver (docs/concepts/solver.md tells how it works).

solver    the door; what is asked stands in model/problem, the answer in model/plan
demand    what pods ask for           supply    what there is to put them on
placing   existing nodes and domains  packing   which nodes to buy
bounds    what it must cost           assemble  plans as the outside sees them
diversity what many types for spot cost
reasons   why pods are left over
"""
