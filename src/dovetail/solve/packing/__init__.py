"""Second half of a solve: which nodes to buy. Greedy patterns, column generation, improvement."""
