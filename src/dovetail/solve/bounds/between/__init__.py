"""A bound that knows the rules between pods: whole nodes by domain, and whole pods on them."""
