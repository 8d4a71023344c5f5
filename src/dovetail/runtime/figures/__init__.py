"""Gauges about the cluster as it is, made when somebody asks for them.

text         Prometheus' text format
pods         pods and how long they wait
nodes        nodes, what they have and what is asked of it
pools        NodePools and the cluster as a whole
conditions   status conditions of all kinds
queues       work queues and who works through them
scheduling   plans that are being made, and the zones of pods that wait for one
offers       what the provider sells, and what is left of what launches share
figures      all of them together, a little at a time
"""
