"""Karpenter's provider for AWS, by subject.

provider        the provider's port on AWS: all of what follows, put together
api             the AWS port: calls and answers; errors has its refusals, permissions what calls need
live, fake      behind the port: AWS over the network, and an AWS in memory
nodeclass       what an EC2NodeClass stands for: resolution, validation, dry runs, instance profile, drift
amifamily       images, user data, kubelet settings
launchtemplate  launch templates: written, made when needed, taken away
instance        CreateFleet requests and their errors, batches, the launcher, orphans, descriptions
instancetype    types and offerings, reservations, discovered memory, refreshed catalogs
pricing         the price list; subnet (free addresses), quota (vCPUs), zonalshift (zones to stay out of)
cluster, sqs    the cluster that nodes join, as EKS describes it; the interruption queue
cache, metrics  answers that are good for a while; what the provider reports of itself
preflight       whether a controller could work in an account, before it is installed
"""
