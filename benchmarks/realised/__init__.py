"""What plans promise beside what the cluster makes of them."""
