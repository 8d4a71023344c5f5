"""Consolidation: the same pods on cheaper nodes. Pure; whoever drives the search answers its what-ifs.

question   what is asked: nodes that may go, what they cost, what must be kept
saving     what a command has to save at least
balanced   the policy of that name
churn      how often pods are moved
deletes    nodes whose pods fit into room that others have free
rescheduling  where the scheduler puts the pods of nodes that go
reserves   likewise where CapacityBuffers keep room
spread_room  pods spread over zones that find no room in those that lack some
price      which types a replacement may be launched as, so that it saves in the worst case
judge      a plan to a move, or why there is none
memory     what earlier searches found out
candidates views of nodes to nodes that may go
prospects  what could be saved at each node at most
search     which nodes to try together, and in which order
"""
