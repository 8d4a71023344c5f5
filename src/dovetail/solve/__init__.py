"""Problem in, Plan out: the solver (docs/concepts/solver.md tells how it works).

problem, plan, solver   the door      assemble  plans as the outside sees them      explain  pods left over
demand    what pods ask for           supply    what there is to put them on
placing   existing nodes and domains  packing   which nodes to buy                  bounds   what it must cost
verify    an independent checker of plans: shares no code with the rest
"""
