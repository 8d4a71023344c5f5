"""Dovetail, a Kubernetes node autoscaler: the floors, top to bottom (imports only go down).

cli          one file per subcommand
views        live terminal view, HTML report
simulate     a whole cluster in virtual time
runtime      composition root of the controllers
cost         what was paid and for what: records, allocation, idle
controllers  watch, decide, act: <subject>/<verb>.py    lint  what is wrong with manifests
disrupt      Snapshot -> Command
explain      why a plan is what it is: reasons, nearest misses, prices of rules
solve        Problem -> Plan            verify a checker of plans that shares no code with solve
cluster      State and Snapshot
kube         the API server's port      cloud  the provider's port
devices      claims for devices: selectors, allocation (Dynamic Resource Allocation)
gangs        nodes for enough pods of a group, or for none
model        the rules as frozen values
reading      files, folders and pipes as kubectl takes them, with the place of every field
api          Kubernetes and Karpenter objects
units        quantity, duration, money, cron   base   clock, event log, random streams, errors
"""

import os

# Before numpy is loaded: its matrices are small here, and its threads would wait for each other on a busy
# machine, or on one that has more cores than the container may use. A solve takes one core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
