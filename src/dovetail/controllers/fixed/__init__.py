"""NodePools with a number of nodes: `scale` keeps it, `replace` renews nodes, `claims` are what is bought."""
