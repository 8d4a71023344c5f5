"""Consolidation: the same pods on cheaper nodes. Pure; whoever drives the search answers its what-ifs.

question   what is asked: nodes that may go, what they cost, what must be kept
saving     what a command has to save at least
deletes    nodes whose pods fit into room that others have free
price      which types a replacement may be launched as, so that it saves in the worst case
judge      a plan to a move, or why there is none
search     which nodes to try together, and in which order
"""
