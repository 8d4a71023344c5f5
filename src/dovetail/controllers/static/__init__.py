"""Static NodePools: `scale` keeps their number, `replace` renews nodes, `claims` are what is bought."""
