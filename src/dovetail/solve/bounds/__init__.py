"""Lower bounds on cost, by weak duality."""
