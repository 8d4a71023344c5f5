"""What is known of the cluster.

state     typed objects fed by watches; nominations, marks for deletion, change notification
watched   the kinds of these objects
index     what the state keeps by the event: pods by node, machines by provider ID
nodes     a node joined with its claim, as the solver sees it
usage     what the nodes of a pool add up to, and limits
problem   cluster objects to a solver's Problem
default_spreads   the spread constraints that the scheduler gives to pods without any
"""
