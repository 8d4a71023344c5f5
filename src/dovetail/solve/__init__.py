"""Problem in, Plan out: the solver. docs/concepts/solver.md tells how it works, with a picture and figures.

The rooms, bottom first; imports only go down:

budget      how much may still be done: counted work, and a clock in production
tolerances  when near is near enough, and what is few
instance    the problem as arrays: pod classes, offerings, existing nodes, topology counters
assign      domains before nodes: existing nodes filled, spreads turned into quotas, colocation
colgen      pricing, restricted master, column generation, integer programs over patterns
pack        which nodes to buy: aggregation, greedy, local search
bound       what it must cost: relaxation, provers, the bound that knows rules between pods
build       a plan as it grows: insertion, guided construction, opened domains, reasons, writing
search_state   the encoded problem that all phases share, answers with their proofs
search, neighbourhood   one pass, moves between answers
solver      the door, and the phases in their order
"""
