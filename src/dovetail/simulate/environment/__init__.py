"""What a cluster stands in: the cloud, and what Kubernetes does not make itself.

port            what a simulation needs of a cloud besides the provider's port
cloud           the cloud of a scenario: its account, shortages, latencies
aws             the provider for AWS over an AWS in memory
nodegroup       managed node groups, which are there from the start
interruptions   what happens to instances when the scenario says so
volumes         disks that come when they are claimed
"""
