"""Column generation and the integer programs of a solve. Nothing in here knows pods, only counts and amounts.

pricing_instance   what is sold to a list of items    patterns          greedy patterns, many nodes at once
exchange_pricing   better patterns from good ones     knapsack_pricing  the best pattern, with a proof
generation         restricted master, diving          pattern_mip       all patterns of better plans
compact_mip        nodes and pods per offering        dual_feasible     shares that whole pods take of a node
highs              linear and integer programs within counted work
"""
