"""Which nodes to take away: pure functions from views of nodes to commands.

pods         what a pod means for its node: does it move, does it block, what does evicting it cost
candidates   a node at one moment, and what blocks its disruption
budgets      how many nodes a pool's budgets allow; `allowance` counts what is left per pool
command      decisions as values
emptiness    nodes without pods that would have to move
"""
