"""Gauges about the cluster as it is, made when they are asked for.

text         Prometheus' text format
pods         pods and how long they wait
nodes        nodes, what they have and what is asked of it
pools        NodePools and the cluster as a whole, what the provider sells, what is left of shared quotas
conditions   status conditions of all kinds
scheduling   plans that are being made, the zones of pods that wait for one, work queues
figures      all of them together, a little at a time
"""
