"""The life of a NodeClaim.

lifecycle   one reconcile per claim: finalizer, then the steps below, or termination
launch      buy the instance
register    match the node to the claim, wait until it can take pods
consistency nodes that have less than was bought
discover    how much memory machines turn out to have
reserved    claims whose capacity reservation ends
liveness    give up on claims that come to nothing
terminate   nodes first, then the instance, then the finalizer
expire      claims that reached their age
collect     claims without instance, instances without claim
status      writing conditions, and the events of their transitions
"""
