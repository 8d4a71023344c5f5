"""Which nodes to buy for items whose domains are decided: seconds count, then the price.

aggregation    items alike as one class               node_candidate  a node checked against its own rules
greedy         the best value first, first fit at the end
local_search   shift, merge, empty, pack a few anew   refine          the whole packing by column generation
choose         several opinions of dual values, then the best of it all
"""
