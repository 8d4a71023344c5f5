"""What there is to put pods on: existing nodes, offerings as columns, daemonset overhead, limits."""
