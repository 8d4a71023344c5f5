"""What acts: small controllers that watch, decide by pure functions, and write to the server or the cloud.

provisioning   pods that fit nowhere: batch, plan, buy
nodeclaim      the life of a claim, from its launch to its end
node           the end of a node: drain, volumes, instance
disruption     nodes that are not worth keeping
static         pools with a fixed number of nodes
interruption   what the cloud announces about machines
brakes         limits on how much may go wrong
nodepool       status of pools: conditions, counts, hash
nodeclass      status of node classes: what their selectors resolve to
context        the ports and tools that all share (`reconciler`: the work queue, `conditions`: status)
"""
