"""Instances: asked for, found again, ended.

request     the CreateFleet request of a launch (pure)
errors      what the errors of its answer mean (pure)
batcher     many askers, one call
fleet       CreateFleet: equal requests are merged, each claim gets its share of the answer
launcher    one claim's way to an instance
orphans     instances that an earlier process launched and did not live to write down
instances   describing and ending, many at a time
reading     EC2's instances as the provider's port has them
"""
