"""A real cluster played again: a snapshot of it becomes a scenario, and its history the load.

snapshot  objects of a cluster as a scenario's manifests, and what had to be assumed
nodes     its nodes: those of NodePools with the pods that run on them, the others as node groups
nodeclass the account's node classes, rewritten for the simulated one
history   Prometheus range queries, audit logs and pod traces as steps of a history
folder    both, written as a scenario folder
"""
