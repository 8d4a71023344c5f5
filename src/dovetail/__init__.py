"""Dovetail, a Kubernetes node autoscaler: the floors, top to bottom (imports only go down).

cli          one file per subcommand
views        live terminal view, HTML report
simulate     a whole cluster in virtual time
runtime      composition root of the controllers
controllers  watch, decide, act: <subject>/<verb>.py
disrupt      Snapshot -> Command        solve  Problem -> Plan        cluster  State and Snapshot
kube         the API server's port      cloud  the provider's port
model        the rules as frozen values
api          Kubernetes and Karpenter objects
units        quantity, duration, cron   base   clock, event log, random streams, errors
"""

__version__ = "0.1.0"
