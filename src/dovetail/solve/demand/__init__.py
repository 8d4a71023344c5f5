"""What pods ask for: shapes, their rules and preferences, and the topology groups that count them."""
