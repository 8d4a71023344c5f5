"""A scenario on a real API server and scheduler, in the machine's own time.

Real: API server, scheduler, workload controllers, and the Dovetail that runs in production. Played: the
cloud, which launches after the scenario's latencies, and the machines, whose Node objects kwok plays.

machines  instances of the simulated cloud as Node objects
objects   the scenario's manifests: applied, changed, and taken away again
play      all of it together; what cannot be played there is refused first
compare   the figures of both runs, side by side

Also what a cluster with a controller of its own is watched with:

history   changes of all kinds, in the order in which they were stored
judge     a history, held against the promises that simulations are held against
"""
