"""The controller as a process on a real cluster.

options     flags and environment -> values, each checked
clock       the machine's own time
logs        records of the event log as JSON lines
lines       what became of claims and nodes, as log lines
election    one leader at a time, by a lease
endpoints   metrics and health over HTTP
main        all of it together, and the Node objects that kwok plays
"""
