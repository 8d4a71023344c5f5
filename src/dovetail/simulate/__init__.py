"""A whole cluster in virtual time, or the same on a real one.

run, cluster   playing a scenario from its start to its end; the cluster put together
scenario       what is played, as files say it
time           the event loop and clock of virtual time
environment    the cloud, node groups, interruptions, volumes
kubelet, scheduler, workloads   the parts of Kubernetes that a simulation has to have
faults         what goes wrong, as a file says and a seed decides
violations     a watchdog over what was promised
analysis       the event log, and the figures that are read from it
live           the same scenario on a real API server and scheduler
"""
